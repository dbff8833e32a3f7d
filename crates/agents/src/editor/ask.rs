//! Asks and questions as an editor gets them. All text in them is safe to show.

/// An ask that waits for a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditorAsk {
    pub id: String,
    /// Its id as commands take it.
    pub short_id: String,
    /// The agent's id of the tool call it is about.
    pub tool_call: Option<String>,
    /// The tool, by the name rules have for it.
    pub tool: Option<String>,
    /// One line.
    pub title: String,
    /// What will run, and what the rules say about it.
    pub explanation: String,
    pub diffs: Vec<EditorDiff>,
    /// The exact input, as JSON.
    pub input: Option<String>,
    /// The rules that would allow it from now on; none if no rule can.
    pub rules: Vec<String>,
    pub guard: AskGuard,
    /// What it wants to know, where it is not a yes or no.
    pub fields: Vec<FormField>,
}

/// How an ask can be allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskGuard {
    /// With one act.
    #[default]
    Open,
    /// Not with one act in an editor: the floor guards it.
    Guarded,
    /// Not at all: it has no option that allows it.
    Closed,
}

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditorDiff {
    pub path: String,
    /// Absent for a new file.
    pub old_text: Option<String>,
    pub new_text: String,
}

/// One thing that a form asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormField {
    pub question: String,
    /// What can be chosen; none for an answer in words.
    pub choices: Vec<String>,
    pub form: FieldForm,
    pub optional: bool,
}

/// What an answer can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldForm {
    /// Any words; the choices are only proposed.
    #[default]
    Words,
    Number,
    OneChoice,
    SeveralChoices,
}

/// A question that is answered with text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditorQuestion {
    pub id: String,
    pub short_id: String,
    pub question: String,
}

/// What the editor's user says to an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskAnswer {
    AllowOnce,
    /// And save these rules until the agent ends.
    AllowForSession {
        rules: Vec<String>,
    },
    /// And save these rules for the project.
    AllowAndRemember {
        rules: Vec<String>,
    },
    Deny,
    /// The answers to the fields of the form, in their order.
    Form {
        answers: Vec<Vec<String>>,
    },
}

/// How an ask ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskOutcome {
    pub id: String,
    pub tool_call: Option<String>,
    pub tool: Option<String>,
    pub title: String,
    /// How and by whom, in one line: `allowed by rule Bash(git status:*)`.
    pub note: String,
}

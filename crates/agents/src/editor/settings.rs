//! What the editor's user configured.

/// How a connection to an editor behaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EditorSettings {
    pub automatic: AutomaticAllows,
    pub answers: EditorAnswers,
    /// What shows terminals of agents in the editor; none are shown without it.
    pub viewer: Option<TerminalViewer>,
    pub terminals: EditorTerminals,
}

/// Where commands of new sessions run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EditorTerminals {
    /// With the agent; the editor shows them.
    #[default]
    Window,
    /// In the editor, outside any sandbox.
    Editor,
    /// Nowhere.
    None,
}

/// A program that shows the output of a terminal, named as `AGENT/TERMINAL` after its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalViewer {
    pub command: String,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
}

/// What an allow means that came sooner than a person can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutomaticAllows {
    /// It is recorded and not taken.
    #[default]
    Refuse,
    /// It counts like any other.
    Take,
}

/// Which answers of the editor count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EditorAnswers {
    #[default]
    All,
    /// Only denials: allows are given elsewhere.
    Deny,
    /// None: the editor shows what waits and where it is answered.
    None,
}

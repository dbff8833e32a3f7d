//! What an ask means: one picture of it for every screen.
//!
//! Invariants: what will run comes from the input, never from what the agent says about it. With a
//! repeated key nothing is picked from the input. `command`, `edits` and `rest_text` together show every
//! member of the input. All text is safe to show ([`visible`]).

mod edits;
mod json_text;

use crate::choice_question::ChoiceQuestion;
use crate::decide::SPAWN_TOOL;
use crate::event::Ask;
use crate::json::Json;
use crate::limits::SUMMARY_BYTES_MAX;
use crate::text::truncate_with_ellipsis;
use crate::visible::{TextLayout, hidden_count, visible};

pub use edits::{EditNote, FileEdit};
pub use json_text::{JsonMembers, pretty_json};

use edits::{RequestedEdit, show_edits};

/// An ask as people see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskView {
    /// One line.
    pub summary: String,
    /// The command that will run, whole, if the input has exactly one.
    pub command: Option<String>,
    /// The files that it would change, if that is known.
    pub edits: Vec<FileEdit>,
    /// The exact input laid out, unless `rest_text` is that already.
    pub input_text: Option<String>,
    /// The members of the input that neither `command` nor `edits` shows.
    pub rest_text: Option<String>,
    /// The agent's own words, unless they only repeat the input.
    pub title: Option<String>,
    /// What else the agent sent, without a second copy of the input.
    pub details_text: Option<String>,
    /// Sentences about what is unusual.
    pub warnings: Vec<String>,
    /// Whether another input could be given with an answer.
    pub editable: bool,
    /// In one line, what runs instead where a person changed the input.
    pub edited_summary: Option<String>,
    /// That input laid out.
    pub edited_text: Option<String>,
}

impl AskView {
    /// All that there is to see of an ask, and of the input that was given instead of its own.
    pub fn new(ask: &Ask, questions: &[ChoiceQuestion], edited: Option<&Json>) -> Self {
        let Some(raw) = ask.input.as_ref().map(Json::text) else {
            return Self {
                title: Some(block(&ask.action)),
                details_text: details_text(ask, None),
                ..Self::short(ask, questions, edited)
            };
        };
        let input = AskInput::parse(raw);
        let command = input.command();
        let own_edit = RequestedEdit::from_input(&input);
        let shown_edits = RequestedEdit::from_details(ask.details.text());
        let edit_fields = own_edit.as_ref().map(|(_, fields)| fields);
        let own_edit = own_edit.as_ref().map(|(edit, _)| edit);
        let mut hidden_fields = edit_fields.map_or(Vec::new(), |fields| fields.to_vec());
        hidden_fields.extend(command.as_ref().map(|_| "command"));
        let rest_text = input.text_without(&hidden_fields);
        let input_text = Some(pretty_json(raw)).filter(|whole| rest_text.as_ref() != Some(whole));
        Self {
            edits: show_edits(own_edit, &shown_edits),
            input_text,
            rest_text,
            title: Some(block(&ask.action)).filter(|_| !repeats_input(ask, &input)),
            details_text: details_text(ask, Some(raw)),
            edited_text: edited.map(|edited| pretty_json(edited.text())),
            command: command.map(|command| block(&command)),
            ..Self::short(ask, questions, edited)
        }
    }

    /// What a list shows of an ask: nothing that grows with its input.
    pub fn short(ask: &Ask, questions: &[ChoiceQuestion], edited: Option<&Json>) -> Self {
        Self {
            summary: summary(ask, ask.input.as_ref(), questions),
            warnings: warnings(ask),
            editable: ask.takes_edited_input() && questions.is_empty(),
            edited_summary: edited.map(|edited| summary(ask, Some(edited), &[])),
            ..Self::default()
        }
    }
}

/// The input of an ask, read once.
struct AskInput<'a> {
    raw: &'a str,
    /// `None` if it is not an object.
    members: Option<JsonMembers<'a>>,
    repeated: Option<String>,
}

impl<'a> AskInput<'a> {
    fn parse(raw: &'a str) -> Self {
        let members = JsonMembers::parse(raw);
        let repeated = members.as_ref().and_then(JsonMembers::repeated);
        let repeated = repeated.map(str::to_owned);
        Self {
            raw,
            members,
            repeated,
        }
    }

    /// The members, unless a key is repeated: then nobody knows which value the tool takes.
    fn unique_members(&self) -> Option<&JsonMembers<'a>> {
        self.members.as_ref().filter(|_| self.repeated.is_none())
    }

    fn command(&self) -> Option<String> {
        self.members.as_ref()?.only_text("command")
    }

    fn hidden_count(&self) -> usize {
        // Decoded as well: what JSON spells as an escape in the input is a hidden character in what
        // will run.
        let command = self.command();
        let edit = RequestedEdit::from_input(self);
        hidden_count(self.raw)
            + command.as_deref().map_or(0, hidden_count)
            + edit.map_or(0, |(edit, _)| edit.hidden_count())
    }

    /// What the input is about: the one member of it that says most, else all of it.
    fn subject(&self) -> String {
        const TELLING: [&str; 5] = ["command", "file_path", "path", "url", "query"];
        let telling = self
            .unique_members()
            .and_then(|members| TELLING.iter().find_map(|key| members.only_text(key)));
        telling.unwrap_or_else(|| self.raw.to_owned())
    }

    /// The input without members that are shown elsewhere; `None` if that leaves nothing.
    fn text_without(&self, shown: &[&str]) -> Option<String> {
        match self.unique_members() {
            Some(members)
                if members
                    .0
                    .iter()
                    .any(|(name, _)| shown.contains(&name.as_str())) =>
            {
                members.lines(|name| !shown.contains(&name))
            }
            _ => Some(pretty_json(self.raw)),
        }
    }
}

/// What would happen, in one line: from the input where there is one. A tool without one is known by
/// its agent's words alone, which must not look like a command.
fn summary(ask: &Ask, input: Option<&Json>, questions: &[ChoiceQuestion]) -> String {
    let text = if let Some(first) = questions.first() {
        questions_summary(first, questions.len())
    } else {
        let input = input.map(|input| AskInput::parse(input.text()));
        match (&ask.tool, input) {
            (Some(tool), Some(input)) => {
                let started = (tool == SPAWN_TOOL)
                    .then(|| spawn_summary(&input))
                    .flatten();
                format!("{tool}: {}", started.unwrap_or_else(|| input.subject()))
            }
            (Some(tool), None) => format!("{tool} (unparsed): {}", ask.action),
            (None, Some(input)) => input.subject(),
            (None, None) => ask.action.clone(),
        }
    };
    short_line(&text)
}

fn questions_summary(first: &ChoiceQuestion, count: usize) -> String {
    let more = match count - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    format!("asks you: {}{more}", first.question)
}

/// The agent that an orchestrator would start. Where it would get more than is usual, the input itself
/// is shown instead.
fn spawn_summary(input: &AskInput<'_>) -> Option<String> {
    const USUAL: [&str; 3] = ["agent", "name", "prompt"];
    let members = input.unique_members()?;
    if !members.0.iter().all(|(name, _)| USUAL.contains(&&**name)) {
        return None;
    }
    let name = members.only_text("name");
    let name = name.map_or(String::new(), |name| format!(", as {name}"));
    let prompt = members.only_text("prompt").unwrap_or_default();
    Some(format!("{}{name}: {prompt}", members.only_text("agent")?))
}

/// Whether the agent's words for the ask are in what will run anyway.
fn repeats_input(ask: &Ask, input: &AskInput<'_>) -> bool {
    let tool = ask.tool.as_deref().unwrap_or_default();
    format!("{tool} {}", input.subject()).contains(ask.action.trim())
}

/// What else was sent, without a second copy of the input.
fn details_text(ask: &Ask, input: Option<&str>) -> Option<String> {
    const COPY: &str = "rawInput";
    if ask.details.is_null() {
        return None;
    }
    let text = ask.details.text();
    let members = JsonMembers::parse(text).filter(|members| members.repeated().is_none());
    let copy = members.as_ref().and_then(|members| {
        let mut members = members.0.iter();
        members.find(|(name, _)| name == COPY)
    });
    // Compared as laid out: other blanks between tokens do not make a copy something else.
    let is_copy = copy
        .zip(input)
        .is_some_and(|((_, copy), input)| pretty_json(copy.get()) == pretty_json(input));
    match members {
        Some(members) if is_copy => members.lines(|name| name != COPY),
        _ => Some(pretty_json(text)),
    }
}

fn warnings(ask: &Ask) -> Vec<String> {
    let input = ask.input.as_ref();
    let input = input.map(|input| AskInput::parse(input.text()));
    let again = ask.repeats.as_ref().map(|earlier| {
        format!(
            "this may already have run: {} allowed exactly the same, and its result is unknown",
            short_line(earlier.as_str())
        )
    });
    let repeated = input
        .as_ref()
        .and_then(|input| input.repeated.as_deref())
        .map(|key| {
            format!(
                "the input repeats the key `{}`: what runs may differ from what is shown",
                short_line(key)
            )
        });
    // The highest of the three and not their sum: the title and the details mostly repeat the input.
    let hidden = input
        .as_ref()
        .map_or(0, AskInput::hidden_count)
        .max(hidden_count(&ask.action))
        .max(hidden_count(ask.details.text()));
    let hidden = hidden_warning(hidden);
    // Why what an agent says of its ask cannot be relied upon, where the host found a reason.
    let doubt = JsonMembers::parse(ask.details.text())
        .and_then(|details| details.only_text("doubt"))
        .map(|doubt| short_line(&doubt));
    let warnings = [again, repeated, hidden, doubt].into_iter();
    warnings.flatten().collect()
}

/// The sentence about characters that would not have been seen; nothing if there are none.
pub fn hidden_warning(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("1 invisible character is shown as an escape".to_owned()),
        count => Some(format!("{count} invisible characters are shown as escapes")),
    }
}

fn block(text: &str) -> String {
    visible(text, TextLayout::Block).into_owned()
}

fn short_line(text: &str) -> String {
    // Cut twice: escaping all of a long text would be for nothing.
    let start = truncate_with_ellipsis(text, SUMMARY_BYTES_MAX);
    truncate_with_ellipsis(&visible(&start, TextLayout::Line), SUMMARY_BYTES_MAX)
}

#[cfg(test)]
mod tests;

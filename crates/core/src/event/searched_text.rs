//! What of a transcript people search: what was said, and what tools were called for.

use std::borrow::Cow;

use crate::ask_view::JsonMembers;

use super::TranscriptEntry;

/// Where a text that was searched comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchedKind {
    /// A message to the agent.
    User,
    Assistant,
    Thinking,
    /// What a tool is used for.
    ToolUse,
    /// Steps of a plan.
    Plan,
    Notice,
}

/// Fields of a tool's input that say what it is used for, as lists and transcripts show it.
const TELLING_FIELDS: [&str; 5] = ["command", "file_path", "path", "url", "query"];

impl TranscriptEntry {
    /// The text in which people search. Nothing for results of tools, which are mostly files of the agent, and for
    /// updates that say nothing new.
    pub fn searched_text(&self) -> Option<(SearchedKind, Cow<'_, str>)> {
        match self {
            Self::User { text, .. } => Some((SearchedKind::User, text.into())),
            Self::Assistant { text } => Some((SearchedKind::Assistant, text.into())),
            Self::Thinking { text } => Some((SearchedKind::Thinking, text.into())),
            Self::Notice { text } => Some((SearchedKind::Notice, text.into())),
            Self::ToolUse {
                title, tool, input, ..
            } => {
                let input = input
                    .as_ref()
                    .and_then(|input| JsonMembers::parse(input.text()));
                let told = input
                    .and_then(|input| TELLING_FIELDS.iter().find_map(|name| input.only_text(name)));
                let parts = [tool.clone(), title.clone(), told];
                tool_text(parts).map(|text| (SearchedKind::ToolUse, Cow::Owned(text)))
            }
            Self::Plan { plan } => {
                let steps: Vec<&str> = plan.steps.iter().map(|step| step.text.as_str()).collect();
                Some((SearchedKind::Plan, Cow::Owned(steps.join("\n"))))
            }
            Self::ToolResult { .. } | Self::Other { .. } => None,
        }
    }
}

/// The tool, what it says it does, and what it is given, each once.
fn tool_text([tool, title, told]: [Option<String>; 3]) -> Option<String> {
    let title = title.filter(|title| Some(title) != told.as_ref());
    // The tool alone is an update of a call that was shown before.
    if title.is_none() && told.is_none() {
        return None;
    }
    let parts: Vec<String> = [tool, title, told].into_iter().flatten().collect();
    Some(parts.join(": "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool_use(tool: Option<&str>, title: Option<&str>, input: Option<&str>) -> TranscriptEntry {
        TranscriptEntry::ToolUse {
            id: "c1".to_owned(),
            title: title.map(str::to_owned),
            tool: tool.map(str::to_owned),
            input: input.map(|input| serde_json::from_str(input).unwrap()),
            status: None,
        }
    }

    #[test]
    fn a_tool_is_found_by_its_name_its_title_and_what_it_was_given() {
        let input = r#"{"command": "ls -l", "timeout": 5}"#;
        let cases = [
            (
                tool_use(Some("Bash"), Some("List"), Some(input)),
                Some("Bash: List: ls -l"),
            ),
            (tool_use(None, Some("ls -l"), Some(input)), Some("ls -l")),
            (
                tool_use(Some("Bash"), Some("List"), None),
                Some("Bash: List"),
            ),
            (tool_use(Some("Bash"), None, Some("[1]")), None),
            (tool_use(None, None, None), None),
        ];
        for (entry, expected) in cases {
            let text = entry.searched_text().map(|(_, text)| text.into_owned());
            assert_eq!(text.as_deref(), expected, "{entry:?}");
        }
    }
}

//! What an agent said and did, with a mark in front of each line.
//!
//! Invariant: every line begins with a mark of ours, so that nothing an agent writes can look like a line that it
//! did not write. The texts here are as they came: whoever prints them escapes them.

use countersign_core::JsonMembers;
use countersign_protocol::{Raw, TranscriptRow};

/// The texts of an entry, each with its mark.
pub fn marked_texts(row: &TranscriptRow) -> Vec<(char, String)> {
    match row {
        TranscriptRow::User { from: None, text } => one_text('>', text),
        TranscriptRow::User { text, .. } => one_text('^', text),
        TranscriptRow::Assistant { text } => one_text('|', text),
        TranscriptRow::Thinking { text } => one_text('~', text),
        TranscriptRow::Notice { text } => one_text('!', text),
        TranscriptRow::ToolResult { status, text, .. } => one_text('=', &result_text(status, text)),
        TranscriptRow::Plan { steps } => {
            let steps = steps.iter();
            let steps = steps.map(|step| ('-', format!("[{}] {}", step.status, step.text)));
            steps.collect()
        }
        TranscriptRow::Other { update } => one_text('?', update.text()),
        TranscriptRow::ToolUse {
            id,
            input,
            status,
            title,
            tool,
        } => {
            let input = input.as_ref().map(Raw::text);
            let text = tool_text(id, tool.as_deref(), title.as_deref(), input);
            let status = status.as_deref().unwrap_or("");
            one_text('*', format!("{text} {status}").trim_end())
        }
        _ => one_text('?', "an entry that this version cannot show"),
    }
}

fn one_text(mark: char, text: &str) -> Vec<(char, String)> {
    vec![(mark, text.to_owned())]
}

fn result_text(status: &str, text: &str) -> String {
    if text.is_empty() {
        return status.to_owned();
    }
    let end = if text.contains('\n') { "\n" } else { " " };
    format!("{status}:{end}{text}")
}

/// What a tool does, from its input where that says it.
fn tool_text(id: &str, tool: Option<&str>, title: Option<&str>, input: Option<&str>) -> String {
    const TELLING: [&str; 5] = ["command", "file_path", "path", "url", "query"];
    let members = input.and_then(JsonMembers::parse);
    let told = members.and_then(|members| TELLING.iter().find_map(|key| members.only_text(key)));
    let what = told.as_deref().or(title);
    match (tool, what) {
        (Some(tool), Some(what)) => format!("{tool}: {what}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => id.to_owned(),
    }
}

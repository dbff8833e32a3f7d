//! What an edit would change, line by line, from what the agent asked for.
//!
//! Invariants: every line of the old and the new text that differs is shown; nothing here reads a
//! file, so what is shown is what was asked and not what the disk says.

use std::fmt::Write as _;

use countersign_protocol::HostApproval;
use serde::Deserialize;
use similar::{Algorithm, DiffOp};

use crate::render::escape;
use crate::render::json::JsonMembers;

/// Blanks before a line that are shown as they are: as deep as code goes, and far from a screen's edge.
const INDENT_MAX: usize = 48;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// Longer texts are shown as one block: all lines that go, all that come. A bound on lines and not on
/// time, so that one ask always looks the same, whatever an agent puts into it.
const LINES_MAX: usize = 20_000;

/// Beside a path, where the text that is there now is not from the input.
const BY_ITS_WORD: &str = " (compared with the agent's copy)";

/// One file's change.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileEdit {
    path: String,
    #[serde(default)]
    old_text: Option<String>,
    new_text: String,
}

/// The change an ask would make, if it would make one that is known: from the input where it says
/// so, else from what the agent shows beside it. What the input cannot know, the text that is there
/// now, is marked as the agent's word.
pub(crate) fn diff(row: &HostApproval) -> Option<String> {
    let shown = from_details(row);
    let text: String = match from_input(row) {
        Some(edit) if edit.old_text.is_some() => show(&edit, ""),
        Some(edit) => {
            let same =
                |other: &&FileEdit| other.path == edit.path && other.new_text == edit.new_text;
            match shown.iter().find(same) {
                Some(other) => show(other, BY_ITS_WORD),
                None => show(&edit, " (the whole file)"),
            }
        }
        None => shown.iter().map(|edit| show(edit, BY_ITS_WORD)).collect(),
    };
    (!text.is_empty()).then(|| text.trim_end_matches('\n').to_owned())
}

/// The members of the input that the change shows in full.
pub(crate) fn members_shown(row: &HostApproval) -> Vec<&'static str> {
    let Some(edit) = from_input(row) else {
        return Vec::new();
    };
    let members = row.input.as_ref();
    let members = members.and_then(|input| JsonMembers::parse(input.text()));
    let has_file_path = members.is_some_and(|members| members.only_text("file_path").is_some());
    let path = if has_file_path { "file_path" } else { "path" };
    match edit.old_text {
        Some(_) => vec![path, "old_string", "new_string"],
        None => vec![path, "content"],
    }
}

fn from_input(row: &HostApproval) -> Option<FileEdit> {
    let members = JsonMembers::parse(row.input.as_ref()?.text())?;
    // Which of two values would be written is not known, so neither is shown as the change.
    if members.repeated().is_some() {
        return None;
    }
    let path = members
        .only_text("file_path")
        .or_else(|| members.only_text("path"))?;
    let old_text = members.only_text("old_string");
    let new_text = match &old_text {
        Some(_) => members.only_text("new_string")?,
        None => members.only_text("content")?,
    };
    Some(FileEdit {
        path,
        old_text,
        new_text,
    })
}

fn from_details(row: &HostApproval) -> Vec<FileEdit> {
    #[derive(Deserialize)]
    struct Details {
        diffs: Vec<FileEdit>,
    }
    let details = serde_json::from_str::<Details>(row.details.text());
    details.map(|details| details.diffs).unwrap_or_default()
}

/// What becomes of a file, line by line.
pub(crate) fn between(path: &str, old: &str, new: &str) -> String {
    let edit = FileEdit {
        path: path.to_owned(),
        old_text: Some(old.to_owned()),
        new_text: new.to_owned(),
    };
    show(&edit, "")
}

fn show(edit: &FileEdit, note: &str) -> String {
    let old = edit.old_text.as_deref().unwrap_or("");
    // At line feeds only: a lone carriage return is a character that an agent may hide text with, so it
    // is shown as one and does not begin a line.
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = edit.new_text.split_inclusive('\n').collect();
    let mut text = format!("{}{note}\n", escape::line(&edit.path));
    for hunk in similar::group_diff_ops(compare(&old, &new), CONTEXT) {
        if hunk.first().is_some_and(|op| op.old_range().start > 0) {
            text.push_str("@@\n");
        }
        for (mark, lines) in hunk.iter().flat_map(|op| op.iter_slices(&*old, &*new)) {
            for line in lines {
                let bare = line.strip_suffix('\n').unwrap_or(line);
                let (indent, rest) = bare.split_at(indentation(bare));
                let _ = writeln!(text, "{mark}{indent}{}", escape::line(rest));
            }
        }
    }
    text
}

fn compare(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    if old.len().max(new.len()) > LINES_MAX {
        return vec![DiffOp::Replace {
            old_index: 0,
            old_len: old.len(),
            new_index: 0,
            new_len: new.len(),
        }];
    }
    similar::capture_diff_slices(Algorithm::Myers, old, new)
}

/// How many blanks a line begins with, if they are few enough that what follows them is still seen.
fn indentation(line: &str) -> usize {
    let blanks = line.len() - line.trim_start_matches(' ').len();
    if blanks > INDENT_MAX { 0 } else { blanks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;

    fn ask(input: &str, details: &str) -> HostApproval {
        HostApproval {
            tool: Some("Edit".into()),
            input: Some(test_rows::raw(input)),
            details: test_rows::raw(details),
            ..test_rows::approval()
        }
    }

    #[test]
    fn an_edit_is_shown_from_the_input_and_not_from_the_story() {
        let row = ask(
            r#"{"file_path":"/p/a","old_string":"x\ny\nz","new_string":"x\nY\u202e\nz"}"#,
            r#"{"diffs":[{"path":"/p/other","newText":"harmless"}]}"#,
        );
        assert_eq!(diff(&row).unwrap(), "/p/a\n x\n-y\n+Y\\u{202e}\n z");
        let row = ask(r#"{"file_path":"/p/new","content":"1\n2\n"}"#, "null");
        assert_eq!(diff(&row).unwrap(), "/p/new (the whole file)\n+1\n+2");
    }

    #[test]
    fn what_an_agent_shows_is_used_where_the_input_says_nothing() {
        let old: Vec<String> = (0..20).map(|n| format!("l{n}\\n")).collect();
        let old = old.concat();
        let new = old.replace("l15", "fifteen").replace("l2\\n", "");
        let details = format!(
            r#"{{"kind":"edit","diffs":[{{"path":"/p/a","oldText":"{old}","newText":"{new}"}}]}}"#
        );
        let expected = "/p/a (compared with the agent's copy)\n l0\n l1\n-l2\n l3\n l4\n l5\n@@\n l12\n l13\n l14\n-l15\n+fifteen\n \
                        l16\n l17\n l18";
        let row = ask(r#"{"file_path":"/p/a"}"#, &details);
        assert_eq!(diff(&row).unwrap(), expected);
        assert_eq!(diff(&ask(r#"{"command":"ls"}"#, "null")), None);
        let twice = r#"{"file_path":"/a","content":"x","content":"y"}"#;
        assert_eq!(diff(&ask(twice, "null")), None);
    }

    #[test]
    fn code_is_shown_with_its_indentation_and_what_is_far_away_is_not_hidden() {
        let deep = format!("{}x", " ".repeat(INDENT_MAX));
        let far = format!("{}x", " ".repeat(INDENT_MAX + 1));
        assert_eq!(
            between("f", "", &format!("{deep}\n{far}\na{far}\n")),
            format!("f\n+{deep}\n+\u{27e8}49 spaces\u{27e9}x\n+a\u{27e8}49 spaces\u{27e9}x\n")
        );
    }

    #[test]
    fn many_lines_are_still_all_shown() {
        let (old, new) = ("old\n".repeat(LINES_MAX), "new\n".repeat(LINES_MAX));
        let expected = format!(
            "f\n{}{}",
            "-old\n".repeat(LINES_MAX),
            "+new\n".repeat(LINES_MAX)
        );
        assert_eq!(between("f", &old, &new), expected);
        let longer = format!("{old}same\n");
        let all = format!("f\n{}-same\n+same\n", "-old\n".repeat(LINES_MAX));
        assert_eq!(between("f", &longer, "same\n"), all);
    }

    #[test]
    fn a_carriage_return_does_not_begin_a_line() {
        assert_eq!(between("f", "a\rb\n", "a\rc\n"), "f\n-a\\rb\n+a\\rc\n");
    }
}

//! What an edit would change, line by line, from what the agent asked for.
//!
//! Invariants: every line of the old and the new text that differs is shown; nothing here reads a
//! file, so what is shown is what was asked and not what the disk says.

use std::fmt::Write as _;

use countersign_protocol::HostApproval;
use serde::Deserialize;

use crate::render::escape;
use crate::render::json::JsonMembers;

/// Blanks before a line that are shown as they are: as deep as code goes, and far from a screen's edge.
const INDENT_MAX: usize = 48;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// Above this many comparisons a change is shown as one block: all lines that go, all that come.
const COMPARISONS_MAX: usize = 1_000_000;

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

fn from_input(row: &HostApproval) -> Option<FileEdit> {
    let members = JsonMembers::parse(row.input.as_ref()?.text())?;
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
    let old: Vec<&str> = edit
        .old_text
        .as_deref()
        .unwrap_or("")
        .split_inclusive('\n')
        .collect();
    let new: Vec<&str> = edit.new_text.split_inclusive('\n').collect();
    let mut text = String::new();
    let _ = writeln!(text, "{}{note}", escape::line(&edit.path));
    let lines = compare(&old, &new);
    let mut skipped = false;
    for (index, (mark, line)) in lines.iter().enumerate() {
        if !near_change(&lines, index) {
            skipped = true;
            continue;
        }
        if skipped {
            text.push_str("@@\n");
            skipped = false;
        }
        let bare = line.strip_suffix('\n').unwrap_or(line);
        let (indent, rest) = bare.split_at(indentation(bare));
        let _ = writeln!(text, "{mark}{indent}{}", escape::line(rest));
    }
    text
}

/// How many blanks a line begins with, if they are few enough that what follows them is still seen.
fn indentation(line: &str) -> usize {
    let blanks = line.len() - line.trim_start_matches(' ').len();
    if blanks > INDENT_MAX { 0 } else { blanks }
}

/// A line with `-`, `+` or a blank before it.
type DiffLine<'a> = (char, &'a str);

fn near_change(lines: &[DiffLine<'_>], index: usize) -> bool {
    let from = index.saturating_sub(CONTEXT);
    let to = (index + CONTEXT + 1).min(lines.len());
    lines[from..to].iter().any(|(mark, _)| *mark != ' ')
}

/// Old and new lines in one list.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffLine<'a>> {
    let same = |(a, b): &(&&str, &&str)| a == b;
    let start = old.iter().zip(new).take_while(same).count();
    let end = old[start..]
        .iter()
        .rev()
        .zip(new[start..].iter().rev())
        .take_while(same)
        .count();
    let (head, old) = old.split_at(start);
    let (old, tail) = old.split_at(old.len() - end);
    let new = &new[start..new.len() - end];
    let mut lines: Vec<DiffLine<'a>> = head.iter().map(|line| (' ', *line)).collect();
    if old.len().saturating_mul(new.len()) <= COMPARISONS_MAX {
        lines.extend(longest_common(old, new));
    } else {
        lines.extend(old.iter().map(|line| ('-', *line)));
        lines.extend(new.iter().map(|line| ('+', *line)));
    }
    lines.extend(tail.iter().map(|line| (' ', *line)));
    lines
}

/// Keeps as many lines as both have in the same order.
fn longest_common<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffLine<'a>> {
    let width = new.len() + 1;
    let mut length = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            length[i * width + j] = if old[i] == new[j] {
                length[(i + 1) * width + j + 1] + 1
            } else {
                length[(i + 1) * width + j].max(length[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::with_capacity(old.len() + new.len());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (i < old.len() && length[(i + 1) * width + j] >= length[i * width + j + 1])
        {
            lines.push(('-', old[i]));
            i += 1;
        } else {
            lines.push(('+', new[j]));
            j += 1;
        }
    }
    lines
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
        let lines = compare(&vec!["old"; 2_000], &vec!["new"; 2_000]);
        assert_eq!(lines.iter().filter(|(mark, _)| *mark == '-').count(), 2_000);
        assert_eq!(lines.len(), 4_000);
    }
}

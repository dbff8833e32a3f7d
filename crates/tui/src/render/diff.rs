//! Changes of files, line by line.

use countersign_core::{DiffBudget, diff_lines};
use countersign_protocol::{HostDiffLine, HostDiffLineKind, HostFileEdit, HostFileEditNote};

use crate::render::escape;

/// The changes that an ask would make.
pub fn edits(edits: &[HostFileEdit]) -> Option<String> {
    let mut text = String::new();
    for edit in edits {
        let note = match edit.note {
            Some(HostFileEditNote::AgentCopy) => " (compared with the agent's copy)",
            Some(HostFileEditNote::WholeFile) => " (the whole file)",
            None => "",
        };
        push_line(&mut text, &edit.path, note);
        for hunk in &edit.hunks {
            push_hunk_start(&mut text, hunk.old_start);
            for line in &hunk.lines {
                push_line(&mut text, mark(line), &line.text);
            }
        }
    }
    (!text.is_empty()).then(|| text.trim_end_matches('\n').to_owned())
}

/// What becomes of a file.
pub fn between(path: &str, old: &str, new: &str) -> String {
    let mut text = String::new();
    push_line(&mut text, &escape::line(path), "");
    for hunk in diff_lines(old, new, &mut DiffBudget::default()) {
        push_hunk_start(&mut text, hunk.old_start);
        for line in &hunk.lines {
            push_line(
                &mut text,
                line.kind.mark().encode_utf8(&mut [0; 4]),
                &line.text,
            );
        }
    }
    text
}

fn mark(line: &HostDiffLine) -> &'static str {
    match line.kind {
        HostDiffLineKind::Context => " ",
        HostDiffLineKind::Added => "+",
        HostDiffLineKind::Removed => "-",
    }
}

/// Says that lines were left out before it.
fn push_hunk_start(text: &mut String, old_start: usize) {
    if old_start > 1 {
        push_line(text, "@@", "");
    }
}

fn push_line(text: &mut String, start: &str, rest: &str) {
    text.extend([start, rest, "\n"]);
}

#[cfg(test)]
mod tests {
    use countersign_protocol::HostDiffHunk;

    use super::*;

    fn edit(path: &str, note: Option<HostFileEditNote>, hunks: Vec<HostDiffHunk>) -> HostFileEdit {
        HostFileEdit {
            added: 0,
            hunks,
            note,
            path: path.to_owned(),
            removed: 0,
        }
    }

    fn hunk(old_start: usize, lines: &[(HostDiffLineKind, &str)]) -> HostDiffHunk {
        let lines = lines.iter().map(|&(kind, text)| HostDiffLine {
            kind,
            segments: Vec::new(),
            text: text.to_owned(),
        });
        HostDiffHunk {
            digest: None,
            header: None,
            lines: lines.collect(),
            new_start: old_start,
            old_start,
        }
    }

    #[test]
    fn edits_are_drawn_with_what_they_are_compared_with() {
        use HostDiffLineKind::{Added, Context, Removed};
        let first = hunk(1, &[(Context, "x"), (Removed, "y"), (Added, "Y")]);
        let second = hunk(9, &[(Added, "z")]);
        let shown = edits(&[
            edit("/p/a", None, vec![first.clone(), second.clone()]),
            edit("/p/b", Some(HostFileEditNote::AgentCopy), vec![first]),
            edit("/p/c", Some(HostFileEditNote::WholeFile), vec![second]),
        ]);
        assert_eq!(
            shown.unwrap(),
            "/p/a\n x\n-y\n+Y\n@@\n+z\n/p/b (compared with the agent's copy)\n x\n-y\n+Y\n\
             /p/c (the whole file)\n@@\n+z"
        );
        assert_eq!(edits(&[]), None);
    }

    #[test]
    fn the_change_of_a_file_begins_with_its_name() {
        assert_eq!(
            between("f\u{200b}", "a\rb\n", "a\rc\n"),
            "f\\u{200b}\n-a\\rb\n+a\\rc\n"
        );
    }
}

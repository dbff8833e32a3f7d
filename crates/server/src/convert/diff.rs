//! Changes in a worktree, on the wire.

use countersign_core::limits::{DIFF_FILE_LINES_SHOWN, DIFF_LINES_SHOWN};
use countersign_core::{DiffBudget, FilePatch, parse_unified_diff};
use countersign_daemon::{DiffFile, FileStatus};
use countersign_protocol as wire;
use countersign_protocol::{DiffForm, HostDiffHunk};

use super::ask_view::hunk;
use crate::ops::managed::AgentChanges;

pub(super) fn changes(changes: &AgentChanges) -> wire::AgentDiff {
    let diff = &changes.diff;
    let mut rows: Vec<wire::DiffFileRow> = diff.files.iter().map(file_row).collect();
    let text = match changes.form {
        DiffForm::Text => diff.text.clone(),
        DiffForm::Hunks => {
            add_hunks(&mut rows, changes);
            String::new()
        }
    };
    wire::AgentDiff {
        files: rows,
        text,
        truncated: diff.truncated,
    }
}

fn file_row(file: &DiffFile) -> wire::DiffFileRow {
    wire::DiffFileRow {
        added: file.added,
        binary: file.binary,
        from: file.from.clone(),
        hunks: None,
        path: file.path.clone(),
        removed: file.removed,
        status: file_status_name(file.status).to_owned(),
        too_large: false,
    }
}

/// Gives each file its hunks, which git prints in the order of the files.
fn add_hunks(rows: &mut [wire::DiffFileRow], changes: &AgentChanges) {
    let mut patches = parse_unified_diff(&changes.diff.text).into_iter();
    let mut lines_left = DIFF_LINES_SHOWN;
    let mut budget = DiffBudget::default();
    for (row, file) in rows.iter_mut().zip(&changes.diff.files) {
        let parts: Vec<FilePatch<'_>> = patches.by_ref().take(patch_count(file)).collect();
        let lines: usize = parts.iter().map(FilePatch::line_count).sum();
        let is_shown = lines <= DIFF_FILE_LINES_SHOWN.min(lines_left) || changes.is_one_file;
        // The text is bounded: what does not stand there was cut off.
        let is_missing = parts.is_empty() && file.added + file.removed > 0;
        if is_missing || !is_shown {
            row.too_large = true;
            continue;
        }
        lines_left = lines_left.saturating_sub(lines);
        let hunks = parts.iter().flat_map(|part| &part.hunks);
        let hunks: Vec<HostDiffHunk> = hunks.map(|part| hunk(part.show(&mut budget))).collect();
        row.hunks = Some(hunks);
    }
}

/// How many times git prints a file: what became another type of file is deleted and added.
fn patch_count(file: &DiffFile) -> usize {
    match file.status {
        FileStatus::Repository => 0,
        FileStatus::TypeChanged => 2,
        _ => 1,
    }
}

fn file_status_name(status: FileStatus) -> &'static str {
    match status {
        FileStatus::Added => "added",
        FileStatus::Deleted => "deleted",
        FileStatus::Renamed => "renamed",
        FileStatus::TypeChanged => "type_changed",
        FileStatus::Repository => "repository",
        // Git may have more kinds of change; in each of them the file is different.
        _ => "modified",
    }
}

#[cfg(test)]
mod tests {
    use countersign_daemon::WorktreeDiff;

    use super::*;

    fn file(path: &str, status: FileStatus, added: u64) -> DiffFile {
        DiffFile {
            path: path.to_owned(),
            from: None,
            status,
            added,
            removed: 0,
            binary: false,
        }
    }

    /// Files with their number of added lines, as git compares them.
    fn diff_of(files: &[(&str, FileStatus, usize)]) -> WorktreeDiff {
        let mut diff = WorktreeDiff::default();
        for &(path, status, lines) in files {
            diff.files.push(file(path, status, lines as u64));
            for part in 0..patch_count(&file(path, status, 0)) {
                let added = format!("+{path} {part}\n").repeat(lines);
                let head = format!("diff --git a/{path} b/{path}\n@@ -0,0 +1,{lines} @@\n");
                diff.text.push_str(&head);
                diff.text.push_str(&added);
            }
        }
        diff
    }

    fn shown(changes: &AgentChanges) -> Vec<(String, Option<Vec<String>>, bool)> {
        let rows = super::changes(changes).files.into_iter();
        rows.map(|row| {
            let first_lines = row.hunks.map(|hunks| {
                let hunks = hunks.into_iter();
                hunks.map(|hunk| hunk.lines[0].text.clone()).collect()
            });
            (row.path, first_lines, row.too_large)
        })
        .collect()
    }

    #[test]
    fn each_file_has_its_own_hunks_and_one_that_is_too_long_is_asked_for_by_its_path() {
        let long = DIFF_FILE_LINES_SHOWN + 1;
        let diff = diff_of(&[
            ("a", FileStatus::Modified, 1),
            ("long", FileStatus::Added, long),
            ("link", FileStatus::TypeChanged, 1),
            ("sub", FileStatus::Repository, 0),
            ("z", FileStatus::Modified, 1),
        ]);
        let hunks = |lines: &[&str]| Some(lines.iter().map(|&line| line.to_owned()).collect());
        let all = AgentChanges {
            diff,
            form: DiffForm::Hunks,
            is_one_file: false,
        };
        assert_eq!(
            shown(&all),
            [
                ("a".to_owned(), hunks(&["a 0"]), false),
                ("long".to_owned(), None, true),
                ("link".to_owned(), hunks(&["link 0", "link 1"]), false),
                ("sub".to_owned(), hunks(&[]), false),
                ("z".to_owned(), hunks(&["z 0"]), false),
            ]
        );
        assert_eq!(changes(&all).text, "");
        let alone = AgentChanges {
            diff: diff_of(&[("long", FileStatus::Added, long)]),
            is_one_file: true,
            ..all
        };
        assert_eq!(
            shown(&alone),
            [("long".to_owned(), hunks(&["long 0"]), false)]
        );
    }

    #[test]
    fn a_file_behind_the_end_of_the_text_is_too_large_and_text_stays_as_it_is() {
        let mut diff = diff_of(&[("a", FileStatus::Modified, 1)]);
        diff.files.push(file("b", FileStatus::Modified, 1));
        let text = diff.text.clone();
        let hunks = AgentChanges {
            diff,
            form: DiffForm::Hunks,
            is_one_file: false,
        };
        let b = ("b".to_owned(), None, true);
        assert_eq!(shown(&hunks)[1], b);
        let plain = AgentChanges {
            form: DiffForm::Text,
            ..hunks
        };
        assert_eq!(changes(&plain).text, text);
        assert_eq!(shown(&plain)[0], ("a".to_owned(), None, false));
    }
}

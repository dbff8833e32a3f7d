//! What becomes of a text, line by line, for every screen that shows a change.
//!
//! Invariants: every line of the old and the new text that differs is shown, with hidden characters
//! made visible. The work is bounded by a number of comparisons and not by time, so that one change
//! always looks the same, whatever an agent puts into it.

mod compare;
mod segments;
mod unified_diff;

use std::collections::HashMap;

use similar::DiffOp;

use crate::limits::{LINES_COMPARED_MAX, WORDS_COMPARED_MAX};
use crate::visible::{TextLayout, visible};

pub use segments::DiffSegment;
pub use unified_diff::{FilePatch, parse_unified_diff};

/// Blanks before a line that are shown as they are: as deep as code goes, and far from a screen's edge.
const INDENT_MAX: usize = 48;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Lines that stand together, with the unchanged ones around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffHunk {
    /// The number of its first line in the old text, from one.
    pub old_start: usize,
    /// The same in the new text.
    pub new_start: usize,
    /// What stands above it in the file, such as the name of a function.
    pub header: Option<String>,
    /// By which it is known again, wherever it stands.
    pub digest: Option<String>,
    pub lines: Vec<DiffLine>,
}

/// One line of a hunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    pub kind: DiffLineKind,
    /// Safe to show.
    pub text: String,
    /// What changed within the line, where it has a counterpart; their texts together are `text`.
    pub segments: Vec<DiffSegment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffLineKind {
    Context,
    Added,
    Removed,
}

impl DiffLineKind {
    /// What stands before such a line in a unified diff.
    pub fn mark(self) -> char {
        match self {
            Self::Context => ' ',
            Self::Added => '+',
            Self::Removed => '-',
        }
    }
}

/// How much may still be compared. Shared by all files of one change.
#[derive(Clone, Copy, Debug)]
pub struct DiffBudget {
    /// Pairs of lines.
    lines: usize,
    /// Pairs of words.
    words: usize,
}

impl Default for DiffBudget {
    fn default() -> Self {
        Self {
            lines: LINES_COMPARED_MAX,
            words: WORDS_COMPARED_MAX,
        }
    }
}

/// The hunks between two texts. Where the budget does not suffice, all lines that go come before all
/// that come.
pub fn diff_lines(old: &str, new: &str, budget: &mut DiffBudget) -> Vec<DiffHunk> {
    // At line feeds only: a lone carriage return is a character that an agent may hide text with, so it
    // is shown as one and does not begin a line.
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let mut ids = HashMap::new();
    let old_ids = number_lines(&old, &mut ids);
    let new_ids = number_lines(&new, &mut ids);
    let ops = compare::compare(&old_ids, &new_ids, &mut budget.lines);
    similar::group_diff_ops(ops, CONTEXT)
        .into_iter()
        .filter(|ops| ops.iter().any(|op| !matches!(op, DiffOp::Equal { .. })))
        .map(|ops| hunk(&ops, &old, &new, budget))
        .collect()
}

/// The same number for equal lines: each is compared by its text once.
fn number_lines<'a>(lines: &[&'a str], ids: &mut HashMap<&'a str, usize>) -> Vec<usize> {
    let lines = lines.iter();
    lines
        .map(|line| {
            let next = ids.len();
            *ids.entry(line).or_insert(next)
        })
        .collect()
}

fn hunk(ops: &[DiffOp], old: &[&str], new: &[&str], budget: &mut DiffBudget) -> DiffHunk {
    let first = ops.first();
    let mut lines = Vec::new();
    for op in ops {
        let (kind_of_old, added) = match op {
            DiffOp::Equal { .. } => (DiffLineKind::Context, &[][..]),
            DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => {
                (DiffLineKind::Removed, &new[op.new_range()])
            }
        };
        let mut removed = show_lines(kind_of_old, &old[op.old_range()]);
        let mut added = show_lines(DiffLineKind::Added, added);
        for (before, after) in removed.iter_mut().zip(&mut added) {
            segments::mark_changes(before, after, &mut budget.words);
        }
        lines.append(&mut removed);
        lines.append(&mut added);
    }
    DiffHunk {
        old_start: first.map_or(0, |op| op.old_range().start) + 1,
        new_start: first.map_or(0, |op| op.new_range().start) + 1,
        header: None,
        digest: None,
        lines,
    }
}

fn show_lines(kind: DiffLineKind, lines: &[&str]) -> Vec<DiffLine> {
    let lines = lines.iter().map(|line| DiffLine {
        kind,
        text: show_line(line.strip_suffix('\n').unwrap_or(line)),
        segments: Vec::new(),
    });
    lines.collect()
}

/// A line of code with its indentation, if that is so small that what follows it is still seen.
fn show_line(line: &str) -> String {
    let blanks = line.len() - line.trim_start_matches(' ').len();
    let indent = if blanks > INDENT_MAX { 0 } else { blanks };
    let (indent, rest) = line.split_at(indent);
    format!("{indent}{}", visible(rest, TextLayout::Line))
}

#[cfg(test)]
mod tests;

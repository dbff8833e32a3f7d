//! What changed within a line.
//!
//! Invariant: the texts of a line's segments together are its text. They are cut from what is shown,
//! so that no cut changes how a hidden character is shown.

use similar::{Algorithm, DiffOp};

use super::DiffLine;

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffSegment {
    pub text: String,
    /// Whether its counterpart lacks it.
    pub changed: bool,
}

/// If less than a third of the shorter line is in the other, marks would be all over both.
const SAME_SHARE_MIN: usize = 3;

/// Sets the segments of a line and of the one that takes its place, if they are alike.
pub(super) fn mark_changes(before: &mut DiffLine, after: &mut DiffLine, budget: &mut usize) {
    let (old, new) = (words(&before.text), words(&after.text));
    let cost = old.len().saturating_mul(new.len());
    if cost == 0 || cost > *budget {
        return;
    }
    *budget -= cost;
    let ops = similar::capture_diff_slices(Algorithm::Myers, &old, &new);
    let same: usize = ops
        .iter()
        .filter(|op| matches!(op, DiffOp::Equal { .. }))
        .flat_map(|op| &old[op.old_range()])
        .map(|word| word.trim().len())
        .sum();
    let shorter = before.text.trim().len().min(after.text.trim().len());
    if same == 0 || same * SAME_SHARE_MIN < shorter {
        return;
    }
    let (mut before_segments, mut after_segments) = (Vec::new(), Vec::new());
    for op in &ops {
        let changed = !matches!(op, DiffOp::Equal { .. });
        push_segment(&mut before_segments, &old[op.old_range()], changed);
        push_segment(&mut after_segments, &new[op.new_range()], changed);
    }
    before.segments = before_segments;
    after.segments = after_segments;
}

fn push_segment(segments: &mut Vec<DiffSegment>, words: &[&str], changed: bool) {
    if words.is_empty() {
        return;
    }
    match segments.last_mut() {
        Some(last) if last.changed == changed => last.text.extend(words.iter().copied()),
        _ => segments.push(DiffSegment {
            text: words.concat(),
            changed,
        }),
    }
}

/// Runs of letters and digits, runs of blanks, and every other character by itself.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let kind = word_kind(first);
        let end = match kind {
            Some(kind) => rest.find(|c| word_kind(c) != Some(kind)),
            None => Some(first.len_utf8()),
        };
        let (word, tail) = rest.split_at(end.unwrap_or(rest.len()));
        words.push(word);
        rest = tail;
    }
    words
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WordKind {
    Letters,
    Blanks,
}

fn word_kind(c: char) -> Option<WordKind> {
    if c.is_alphanumeric() || c == '_' {
        Some(WordKind::Letters)
    } else if c == ' ' {
        Some(WordKind::Blanks)
    } else {
        None
    }
}

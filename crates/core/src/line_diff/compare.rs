//! Which lines of two texts are the same, with a bound on the work.

use std::collections::HashMap;
use std::ops::Range;

use similar::{Algorithm, DiffOp};

/// Compares two lists of numbered lines. Each comparison of a part takes the product of its lengths
/// from the budget; parts that are too long are split at lines that stand once in both, and what is
/// still too long is replaced as a whole.
pub(super) fn compare(old: &[usize], new: &[usize], budget: &mut usize) -> Vec<DiffOp> {
    let mut comparison = Comparison {
        old,
        new,
        budget,
        ops: Vec::new(),
    };
    comparison.compare_part(0..old.len(), 0..new.len(), true);
    comparison.ops
}

struct Comparison<'a> {
    old: &'a [usize],
    new: &'a [usize],
    budget: &'a mut usize,
    ops: Vec<DiffOp>,
}

impl Comparison<'_> {
    fn compare_part(&mut self, old: Range<usize>, new: Range<usize>, may_split: bool) {
        let (before, after) = self.common_ends(&old, &new);
        self.push_equal(old.start, new.start, before);
        let old_middle = old.start + before..old.end - after;
        let new_middle = new.start + before..new.end - after;
        let cost = old_middle.len().saturating_mul(new_middle.len());
        if cost == 0 {
            self.push_replace(&old_middle, &new_middle);
        } else if cost <= *self.budget {
            *self.budget -= cost;
            self.compare_all(&old_middle, &new_middle);
        } else if may_split {
            self.compare_between_anchors(old_middle, new_middle);
        } else {
            self.push_replace(&old_middle, &new_middle);
        }
        self.push_equal(old.end - after, new.end - after, after);
    }

    /// How many lines are the same at the beginning, and after that at the end.
    fn common_ends(&self, old: &Range<usize>, new: &Range<usize>) -> (usize, usize) {
        let (old, new) = (&self.old[old.clone()], &self.new[new.clone()]);
        let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
        let ends = old[before..].iter().rev().zip(new[before..].iter().rev());
        (before, ends.take_while(|(a, b)| a == b).count())
    }

    fn compare_all(&mut self, old: &Range<usize>, new: &Range<usize>) {
        let (old_part, new_part) = (&self.old[old.clone()], &self.new[new.clone()]);
        for op in similar::capture_diff_slices(Algorithm::Myers, old_part, new_part) {
            let (from_old, from_new) = (op.old_range(), op.new_range());
            match op {
                DiffOp::Equal { len, .. } => {
                    self.push_equal(old.start + from_old.start, new.start + from_new.start, len);
                }
                DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => self
                    .push_replace(
                        &(old.start + from_old.start..old.start + from_old.end),
                        &(new.start + from_new.start..new.start + from_new.end),
                    ),
            }
        }
    }

    fn compare_between_anchors(&mut self, old: Range<usize>, new: Range<usize>) {
        let (mut next_old, mut next_new) = (old.start, new.start);
        for (at_old, at_new) in self.anchors(&old, &new) {
            self.compare_part(next_old..at_old, next_new..at_new, false);
            self.push_equal(at_old, at_new, 1);
            (next_old, next_new) = (at_old + 1, at_new + 1);
        }
        self.compare_part(next_old..old.end, next_new..new.end, false);
    }

    /// Lines that stand once in each part, as many as are in the same order in both.
    fn anchors(&self, old: &Range<usize>, new: &Range<usize>) -> Vec<(usize, usize)> {
        let in_old = positions_of_unique(&self.old[old.clone()], old.start);
        let in_new = positions_of_unique(&self.new[new.clone()], new.start);
        let mut pairs: Vec<(usize, usize)> = in_old
            .iter()
            .filter_map(|(line, &at_old)| Some((at_old, *in_new.get(line)?)))
            .collect();
        pairs.sort_unstable();
        longest_increasing(&pairs)
    }

    fn push_equal(&mut self, old_index: usize, new_index: usize, len: usize) {
        if len == 0 {
            return;
        }
        // Neighbours are joined, because context is counted within one piece.
        if let Some(DiffOp::Equal { len: before, .. }) = self.ops.last_mut() {
            *before += len;
            return;
        }
        self.ops.push(DiffOp::Equal {
            old_index,
            new_index,
            len,
        });
    }

    fn push_replace(&mut self, old: &Range<usize>, new: &Range<usize>) {
        if old.is_empty() && new.is_empty() {
            return;
        }
        self.ops.push(DiffOp::Replace {
            old_index: old.start,
            old_len: old.len(),
            new_index: new.start,
            new_len: new.len(),
        });
    }
}

/// Where the lines stand that are there once.
fn positions_of_unique(lines: &[usize], start: usize) -> HashMap<usize, usize> {
    let mut positions: HashMap<usize, Option<usize>> = HashMap::new();
    for (index, &line) in lines.iter().enumerate() {
        let position = positions.entry(line).or_insert(Some(start + index));
        if *position != Some(start + index) {
            *position = None;
        }
    }
    let once = positions.into_iter();
    once.filter_map(|(line, position)| Some((line, position?)))
        .collect()
}

/// The longest run of pairs, sorted by the first number, in which the second grows too.
fn longest_increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // The pair that ends the best run of each length, and which pair comes before each.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, &(_, at)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| pairs[end].1 < at);
        previous.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        if length == ends.len() {
            ends.push(index);
        } else {
            ends[length] = index;
        }
    }
    let last = ends.last().copied();
    let mut run: Vec<(usize, usize)> = std::iter::successors(last, |&index| previous[index])
        .map(|index| pairs[index])
        .collect();
    run.reverse();
    run
}

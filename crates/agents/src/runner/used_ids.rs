//! The ids under which something was written to the agent or claimed.
//!
//! Invariants: an id is used once. Its kind may be forgotten, and it still counts as used: a line that
//! is committed and no longer open is never answered again, and the numbers of a series only rise.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::adapter::{WriteId, WriteKind};

/// Used ids, each with the kind of what was written.
#[derive(Debug, Default)]
pub(super) struct UsedIds {
    lines: BTreeMap<u64, WriteKind>,
    own: HashMap<String, (u64, WriteKind)>,
    through: u64,
    open: BTreeSet<u64>,
}

impl UsedIds {
    /// The kind of what was written under an id; `None` if the id is free.
    pub(super) fn find_kind(&self, id: &WriteId) -> Option<WriteKind> {
        match id {
            WriteId::Line(line) => match self.lines.get(line) {
                Some(kind) => Some(*kind),
                None => self.is_over(*line).then_some(WriteKind::Unspecified),
            },
            WriteId::Own(series, number) => {
                let (newest, kind) = self.own.get(series)?;
                match number.cmp(newest) {
                    std::cmp::Ordering::Less => Some(WriteKind::Unspecified),
                    std::cmp::Ordering::Equal => Some(*kind),
                    std::cmp::Ordering::Greater => None,
                }
            }
        }
    }

    /// Uses an id that is free.
    pub(super) fn insert(&mut self, id: WriteId, kind: WriteKind) {
        match id {
            WriteId::Line(line) => drop(self.lines.insert(line, kind)),
            WriteId::Own(series, number) => drop(self.own.insert(series, (number, kind))),
        }
    }

    /// Forgets lines that are committed, save those that are open.
    pub(super) fn forget(&mut self, through: u64, open: &[u64]) {
        // Never back: an id that was forgotten would be free again, and its write repeated.
        self.through = self.through.max(through);
        self.open = open.iter().copied().collect();
        let (through, open) = (self.through, &self.open);
        self.lines
            .retain(|line, _| *line > through || open.contains(line));
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len() + self.own.len()
    }

    /// Every id whose kind is still known, sorted.
    pub(super) fn list(&self) -> Vec<(WriteId, WriteKind)> {
        let mut all: Vec<_> = self
            .lines
            .iter()
            .map(|(line, kind)| (WriteId::Line(*line), *kind))
            .chain(
                self.own
                    .iter()
                    .map(|(series, (number, kind))| (WriteId::Own(series.clone(), *number), *kind)),
            )
            .collect();
        all.sort();
        all
    }

    fn is_over(&self, line: u64) -> bool {
        line <= self.through && !self.open.contains(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(kind: &str, number: u64) -> WriteId {
        WriteId::Own(kind.to_owned(), number)
    }

    fn used_ids() -> UsedIds {
        let mut used = UsedIds::default();
        used.insert(WriteId::Line(10), WriteKind::Allow);
        used.insert(WriteId::Line(20), WriteKind::Deny);
        used.insert(own("prompt", 1), WriteKind::Served);
        used.insert(own("prompt", 2), WriteKind::Refused);
        used
    }

    #[test]
    fn an_id_is_used_with_its_kind() {
        let used = used_ids();
        assert_eq!(used.find_kind(&WriteId::Line(10)), Some(WriteKind::Allow));
        assert_eq!(used.find_kind(&WriteId::Line(11)), None);
        assert_eq!(
            used.find_kind(&own("prompt", 1)),
            Some(WriteKind::Unspecified)
        );
        assert_eq!(used.find_kind(&own("prompt", 2)), Some(WriteKind::Refused));
        assert_eq!(used.find_kind(&own("prompt", 3)), None);
        assert_eq!(used.find_kind(&own("mode", 0)), None);
    }

    #[test]
    fn what_is_over_is_forgotten_and_stays_used() {
        let mut used = used_ids();
        used.forget(25, &[20, 24]);
        assert_eq!(
            used.find_kind(&WriteId::Line(10)),
            Some(WriteKind::Unspecified)
        );
        assert_eq!(used.find_kind(&WriteId::Line(20)), Some(WriteKind::Deny));
        assert_eq!(used.find_kind(&WriteId::Line(24)), None);
        assert_eq!(used.find_kind(&WriteId::Line(26)), None);
        let kept = [
            (WriteId::Line(20), WriteKind::Deny),
            (own("prompt", 2), WriteKind::Refused),
        ];
        assert_eq!(used.list(), kept);
    }
}

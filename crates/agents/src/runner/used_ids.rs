//! What was said to the agent, by name, and what was claimed.
//!
//! Invariants: a name is taken once. One that was forgotten counts as taken: a line that is
//! committed and no longer open is not written about again, and numbers of a kind only rise.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::adapter::WriteId;

/// Names that are taken, each with what it meant.
#[derive(Debug, Default)]
pub(super) struct UsedIds {
    lines: BTreeMap<u64, String>,
    own: HashMap<String, (u64, String)>,
    through: u64,
    open: BTreeSet<u64>,
}

impl UsedIds {
    /// What was meant, if the name is taken; empty if that was forgotten.
    pub(super) fn find_kind(&self, name: &WriteId) -> Option<&str> {
        match name {
            WriteId::Line(line) => match self.lines.get(line) {
                Some(meaning) => Some(meaning),
                None => self.is_over(*line).then_some(""),
            },
            WriteId::Own(kind, number) => {
                let (newest, meaning) = self.own.get(kind)?;
                match number.cmp(newest) {
                    std::cmp::Ordering::Less => Some(""),
                    std::cmp::Ordering::Equal => Some(meaning),
                    std::cmp::Ordering::Greater => None,
                }
            }
        }
    }

    /// Takes a name that is free.
    pub(super) fn insert(&mut self, name: WriteId, meaning: String) {
        match name {
            WriteId::Line(line) => drop(self.lines.insert(line, meaning)),
            WriteId::Own(kind, number) => drop(self.own.insert(kind, (number, meaning))),
        }
    }

    /// Forgets lines that are committed, save those that are open.
    pub(super) fn forget(&mut self, through: u64, open: &[u64]) {
        self.through = self.through.max(through);
        self.open = open.iter().copied().collect();
        let (through, open) = (self.through, &self.open);
        self.lines
            .retain(|line, _| *line > through || open.contains(line));
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len() + self.own.len()
    }

    /// Everything that is known, in order.
    pub(super) fn list(&self) -> Vec<(WriteId, String)> {
        let lines = self.lines.iter();
        let lines = lines.map(|(line, meaning)| (WriteId::Line(*line), meaning.clone()));
        let own = self.own.iter().map(|(kind, (number, meaning))| {
            let name = WriteId::Own(kind.clone(), *number);
            (name, meaning.clone())
        });
        let mut all: Vec<_> = lines.chain(own).collect();
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

    fn names() -> UsedIds {
        let mut names = UsedIds::default();
        names.insert(WriteId::Line(10), "allow".to_owned());
        names.insert(WriteId::Line(20), "deny".to_owned());
        names.insert(own("prompt", 1), "one".to_owned());
        names.insert(own("prompt", 2), "two".to_owned());
        names
    }

    #[test]
    fn a_name_is_taken_with_its_meaning() {
        let names = names();
        assert_eq!(names.find_kind(&WriteId::Line(10)), Some("allow"));
        assert_eq!(names.find_kind(&WriteId::Line(11)), None);
        assert_eq!(names.find_kind(&own("prompt", 1)), Some(""));
        assert_eq!(names.find_kind(&own("prompt", 2)), Some("two"));
        assert_eq!(names.find_kind(&own("prompt", 3)), None);
        assert_eq!(names.find_kind(&own("mode", 0)), None);
    }

    #[test]
    fn what_is_over_is_forgotten_and_stays_taken() {
        let mut names = names();
        names.forget(25, &[20, 24]);
        assert_eq!(names.find_kind(&WriteId::Line(10)), Some(""));
        assert_eq!(names.find_kind(&WriteId::Line(20)), Some("deny"));
        assert_eq!(names.find_kind(&WriteId::Line(24)), None);
        assert_eq!(names.find_kind(&WriteId::Line(26)), None);
        let kept = [
            (WriteId::Line(20), "deny".to_owned()),
            (own("prompt", 2), "two".to_owned()),
        ];
        assert_eq!(names.list(), kept);
    }
}

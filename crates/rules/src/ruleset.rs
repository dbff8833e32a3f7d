//! Sets of rules, arranged so that a verdict looks only at those that could matter.

use std::sync::Arc;

use countersign_core::GrantId;
use countersign_core::event::{Effect, RuleRef};

use crate::assess::{Assessment, Part};
use crate::language::{Rule, RuleError};

/// Where a rule stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file, or `grant`.
    pub source: Arc<str>,
    /// The line in it.
    pub line: Option<u32>,
    /// The grant it is.
    pub grant: Option<GrantId>,
}

impl Origin {
    /// A line of a file.
    pub fn file(source: impl Into<Arc<str>>, line: u32) -> Self {
        Self {
            source: source.into(),
            line: Some(line),
            grant: None,
        }
    }

    /// A grant.
    pub fn grant(id: GrantId) -> Self {
        Self {
            source: "grant".into(),
            line: None,
            grant: Some(id),
        }
    }
}

/// A rule in a set.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The rule.
    pub rule: Rule,
    /// What it says.
    pub effect: Effect,
    /// Among the rules of one set that match, only those of the highest rank count; between equal
    /// ranks the strictest wins. Ours all have rank zero.
    pub rank: i64,
    /// Where it stands.
    pub origin: Origin,
    /// The only agents it is for: those an operator gave this name. Whoever judges leaves the
    /// others out, see [`Entry::is_for`].
    pub agent: Option<Arc<str>>,
    /// Its author's words, shown with a verdict.
    pub reason: Option<Arc<str>>,
}

impl Entry {
    /// Reads a rule of rank zero.
    pub fn parse(effect: Effect, text: &str, origin: Origin) -> Result<Self, RuleError> {
        Ok(Self {
            rule: Rule::parse(effect, text)?,
            effect,
            rank: 0,
            origin,
            agent: None,
            reason: None,
        })
    }

    /// Whether it is for an agent to which an operator gave this name, or no name.
    pub fn is_for(&self, operator_name: Option<&str>) -> bool {
        self.agent.is_none() || self.agent.as_deref() == operator_name
    }

    /// How a verdict names it.
    pub fn to_ref(&self) -> RuleRef {
        RuleRef {
            rule: self.rule.text().to_owned(),
            effect: self.effect,
            source: self.origin.source.to_string(),
            line: self.origin.line,
            grant: self.origin.grant.clone(),
        }
    }
}

/// A place in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey(usize);

/// Rules that are judged together.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    entries: Vec<Option<Entry>>,
}

impl RuleSet {
    /// Adds a rule.
    pub fn insert(&mut self, entry: Entry) -> EntryKey {
        self.entries.push(Some(entry));
        EntryKey(self.entries.len() - 1)
    }

    /// Takes a rule out.
    pub fn remove(&mut self, key: EntryKey) -> Option<Entry> {
        self.entries.get_mut(key.0)?.take()
    }

    /// Hands every rule that could speak of a part to `take`.
    pub(crate) fn for_candidates<'s>(
        &'s self,
        _: &Assessment,
        _: &Part,
        mut take: impl FnMut(&'s Entry),
    ) {
        self.entries().for_each(&mut take);
    }

    /// All rules, oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().flatten()
    }
}

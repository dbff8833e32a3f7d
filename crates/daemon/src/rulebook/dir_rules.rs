//! The rules of one working directory.

use std::sync::Arc;

use countersign_rules::{
    Effect, Floor, LayerAllows, LayerView, RequestPlace, RuleArea, RuleEntry, RuleRef, RuleSet,
};

/// Everything that rule files say about one working directory.
#[derive(Clone, Debug)]
pub struct DirRules {
    pub place: RequestPlace,
    /// The identity of the project: one path for all worktrees of a repository.
    pub project: Option<String>,
    /// Its rules, one layer for each source.
    pub layers: Vec<RuleLayer>,
    /// What nothing lifts.
    pub floor: Arc<Floor>,
    /// Why nothing is allowed by rule here, if so.
    pub suspended: Option<String>,
    /// Files whose allows do not count until a person trusts them: path and digest.
    pub untrusted: Vec<(String, String)>,
}

/// A rule file whose allows do not count until a person trusts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UntrustedRuleFile {
    pub file: String,
    /// SHA-256 of its content, in hexadecimal.
    pub digest: String,
    pub text: Arc<str>,
}

/// The rules of one source.
#[derive(Clone, Debug)]
pub struct RuleLayer {
    /// Includes rules for one agent alone, which must be left out for others; see
    /// [`countersign_rules::RuleEntry::is_for`].
    pub rules: Arc<RuleSet>,
    /// Whether its allows count.
    pub allows: LayerAllows,
}

impl DirRules {
    /// Its rules one by one, each with whether it counts now.
    pub fn list_rules(&self) -> Vec<ListedRule> {
        let mut listed = Vec::new();
        for layer in &self.layers {
            let loosens = self.suspended.is_none() && layer.allows == LayerAllows::Count;
            listed.extend(layer.rules.entries().map(|entry| ListedRule {
                rule: entry.to_ref(),
                counts: loosens || entry.effect != Effect::Allow,
                area: entry.area,
            }));
        }
        listed
    }

    /// Hands the layers, as far as they are for an agent of this name, to whoever judges. The name
    /// is one that an operator gave.
    pub fn with_layers<T>(
        &self,
        operator_name: Option<&str>,
        judge: impl FnOnce(&[LayerView<'_>]) -> T,
    ) -> T {
        // Handed over and not returned: the views borrow the closure that filters by name.
        let admits = |entry: &RuleEntry| entry.is_for(operator_name);
        let layers: Vec<_> = self
            .layers
            .iter()
            .map(|layer| LayerView {
                rules: &layer.rules,
                admits: &admits,
                allows: &layer.allows,
            })
            .collect();
        judge(&layers)
    }
}

/// A rule as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRule {
    /// The rule and where it stands.
    pub rule: RuleRef,
    /// Whether it counts now.
    pub counts: bool,
    /// Where it counts.
    pub area: RuleArea,
}

/// Something a person should know about a rule file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleFileProblem {
    pub file: String,
    pub line: Option<u32>,
    pub message: String,
    /// Whether nothing is allowed by rule, where the file counts, until it is fixed.
    pub suspends: bool,
}

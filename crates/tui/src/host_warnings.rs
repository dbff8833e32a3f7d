//! What a person must know whatever is selected.

use countersign_protocol::{BypassRow, RuleProblem, Time};

use crate::render::rules;

/// Rule files that are broken, and agents whose asks are not held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostWarnings {
    pub problems: Vec<RuleProblem>,
    pub bypassed: Vec<BypassRow>,
    /// Why nothing can be recorded, if nothing can.
    pub store_error: Option<String>,
}

impl HostWarnings {
    /// In words, one line each. A warning that changes nothing is not worth a line here.
    pub fn lines(&self, now: Time) -> Vec<String> {
        let lasting = self.lasting_bypasses(now);
        let store = self.store_error.as_deref().map(rules::store_warning);
        let others = rules::warnings(&self.grave_problems(), &lasting, now);
        store.into_iter().chain(others).collect()
    }

    /// The same without bypasses, for a screen that has a place of its own for them.
    pub fn lines_without_bypasses(&self, now: Time) -> Vec<String> {
        let store = self.store_error.as_deref().map(rules::store_warning);
        let others = rules::warnings(&self.grave_problems(), &[], now);
        store.into_iter().chain(others).collect()
    }

    /// Bypasses that have not ended.
    pub fn lasting_bypasses(&self, now: Time) -> Vec<BypassRow> {
        let lasting = self.bypassed.iter().filter(|row| row.until > now);
        lasting.cloned().collect()
    }

    fn grave_problems(&self) -> Vec<RuleProblem> {
        let grave = self.problems.iter().filter(|problem| problem.suspends);
        grave.cloned().collect()
    }
}

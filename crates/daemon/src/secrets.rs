//! Secrets: values of agents' variables that are never recorded. They live as long as the host.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_core::AgentId;

/// Variables by agent.
#[derive(Default)]
pub(crate) struct AgentSecrets(Mutex<HashMap<AgentId, Vec<(String, String)>>>);

impl AgentSecrets {
    pub(crate) fn insert(&self, agent: &AgentId, secrets: Vec<(String, String)>) {
        if !secrets.is_empty() {
            self.lock_variables().insert(agent.clone(), secrets);
        }
    }

    pub(crate) fn remove(&self, agent: &AgentId) {
        self.lock_variables().remove(agent);
    }

    pub(crate) fn variables_of(&self, agent: &AgentId) -> Vec<(String, String)> {
        self.lock_variables()
            .get(agent)
            .cloned()
            .unwrap_or_default()
    }

    fn lock_variables(&self) -> MutexGuard<'_, HashMap<AgentId, Vec<(String, String)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

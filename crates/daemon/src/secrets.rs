//! Secrets: values of agents' variables that are never recorded. They live as long as the host.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_core::AgentId;

/// Variables by agent.
#[derive(Default)]
pub(crate) struct Secrets(Mutex<HashMap<AgentId, Vec<(String, String)>>>);

impl Secrets {
    pub(crate) fn keep(&self, agent: &AgentId, secrets: Vec<(String, String)>) {
        if !secrets.is_empty() {
            self.all().insert(agent.clone(), secrets);
        }
    }

    pub(crate) fn forget(&self, agent: &AgentId) {
        self.all().remove(agent);
    }

    pub(crate) fn of(&self, agent: &AgentId) -> Vec<(String, String)> {
        self.all().get(agent).cloned().unwrap_or_default()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<AgentId, Vec<(String, String)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

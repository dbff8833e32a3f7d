//! The terminals of agents that run, for people to read.
//!
//! Invariant: what is listed here belongs to a runner that this host is connected to; with the
//! connection it leaves. What ended runs left is in `ended_terminals.rs`.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use countersign_agents::{KeptTerminals, ShellBackend};
use countersign_core::AgentId;
use countersign_core::limits::TERMINAL_READERS_MAX;
use tokio::sync::Semaphore;

/// The terminals of every agent that runs.
#[derive(Clone)]
pub(crate) struct TerminalDirectory {
    runs: Arc<RwLock<HashMap<AgentId, RunTerminals>>>,
    /// Permits of those who read what ended runs left, all together.
    ended_readers: Arc<Semaphore>,
}

impl Default for TerminalDirectory {
    fn default() -> Self {
        Self {
            runs: Arc::default(),
            ended_readers: Arc::new(Semaphore::new(TERMINAL_READERS_MAX)),
        }
    }
}

/// The terminals of one run.
#[derive(Clone)]
pub(crate) struct RunTerminals {
    pub(crate) shells: Arc<dyn ShellBackend>,
    /// Permits of readers.
    pub(crate) readers: Arc<Semaphore>,
}

impl TerminalDirectory {
    /// Lists the terminals of a run for as long as the returned value lives.
    pub(crate) fn add(&self, agent: AgentId, shells: Arc<dyn ShellBackend>) -> ListedTerminals {
        let run = RunTerminals {
            shells,
            readers: Arc::new(Semaphore::new(TERMINAL_READERS_MAX)),
        };
        let readers = run.readers.clone();
        let mut all = self.runs.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(agent.clone(), run);
        ListedTerminals {
            all: self.clone(),
            agent,
            readers,
        }
    }

    pub(crate) fn find(&self, agent: &AgentId) -> Option<RunTerminals> {
        let all = self.runs.read().unwrap_or_else(PoisonError::into_inner);
        all.get(agent).cloned()
    }

    /// What an ended run left, to be read like the terminals of one that runs.
    pub(crate) fn ended_run(&self, kept: KeptTerminals) -> RunTerminals {
        RunTerminals {
            shells: Arc::new(kept),
            readers: self.ended_readers.clone(),
        }
    }
}

/// Takes the terminals of a run off the list when it is dropped.
pub(crate) struct ListedTerminals {
    all: TerminalDirectory,
    agent: AgentId,
    readers: Arc<Semaphore>,
}

impl Drop for ListedTerminals {
    fn drop(&mut self) {
        let mut all = self
            .all
            .runs
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // The agent's next run may have been listed before this one left.
        let is_own = all
            .get(&self.agent)
            .is_some_and(|run| Arc::ptr_eq(&run.readers, &self.readers));
        if is_own {
            all.remove(&self.agent);
        }
    }
}

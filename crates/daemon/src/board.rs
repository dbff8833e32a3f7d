//! The board: what is owed to managed agents, posted by the loop after each commit.
//!
//! Invariants: what is posted was committed; posting never waits; only the newest word about an
//! agent counts, since duties follow from state and not from what was posted before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_core::{AgentId, Duty};
use tokio::sync::{Notify, watch};

/// What is owed for one agent now.
pub(crate) type Owed = watch::Receiver<Arc<[Duty]>>;

/// See the module.
#[derive(Default)]
pub(crate) struct Board {
    columns: Mutex<Columns>,
    arrived: Notify,
}

#[derive(Default)]
struct Columns {
    agents: HashMap<AgentId, watch::Sender<Arc<[Duty]>>>,
    arrivals: Vec<(AgentId, Owed)>,
}

impl Board {
    /// Says what is owed for an agent from now on.
    pub(crate) fn post(&self, agent: &AgentId, duties: Vec<Duty>) {
        let mut columns = self.columns();
        if let Some(column) = columns.agents.get(agent) {
            column.send_replace(duties.into());
        } else if !duties.is_empty() {
            let (column, owed) = watch::channel(duties.into());
            columns.agents.insert(agent.clone(), column);
            columns.arrivals.push((agent.clone(), owed));
            self.arrived.notify_one();
        }
    }

    /// A column for an agent that somebody attends to already.
    pub(crate) fn column(&self, agent: &AgentId, duties: Vec<Duty>) -> Owed {
        let (column, owed) = watch::channel(duties.into());
        let mut columns = self.columns();
        columns.agents.insert(agent.clone(), column);
        columns.arrivals.retain(|(arrived, _)| arrived != agent);
        owed
    }

    /// Agents that nobody attends to yet.
    pub(crate) async fn arrivals(&self) -> Vec<(AgentId, Owed)> {
        loop {
            let arrivals = std::mem::take(&mut self.columns().arrivals);
            if !arrivals.is_empty() {
                return arrivals;
            }
            self.arrived.notified().await;
        }
    }

    fn columns(&self) -> MutexGuard<'_, Columns> {
        self.columns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

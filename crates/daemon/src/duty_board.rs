//! The duty board: the duties of managed agents, posted by the loop after each commit.
//!
//! Invariants: what is posted was committed; posting never waits; only the newest list for an
//! agent counts, since duties follow from state and not from what was posted before.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_core::{AgentId, Duty};
use tokio::sync::{Notify, watch};

/// The duties of one agent, as of the newest commit.
pub(crate) type DutyReceiver = watch::Receiver<Arc<[Duty]>>;

/// One channel of duties for each managed agent.
#[derive(Default)]
pub(crate) struct DutyBoard {
    channels: Mutex<DutyChannels>,
    agent_added: Notify,
}

#[derive(Default)]
struct DutyChannels {
    agents: HashMap<AgentId, watch::Sender<Arc<[Duty]>>>,
    new_agents: Vec<(AgentId, DutyReceiver)>,
}

impl DutyBoard {
    /// Replaces the duties of an agent.
    pub(crate) fn post(&self, agent: &AgentId, duties: Vec<Duty>) {
        let mut channels = self.lock_channels();
        if let Some(channel) = channels.agents.get(agent) {
            channel.send_replace(duties.into());
        } else if !duties.is_empty() {
            let (channel, receiver) = watch::channel(duties.into());
            channels.agents.insert(agent.clone(), channel);
            channels.new_agents.push((agent.clone(), receiver));
            self.agent_added.notify_one();
        }
    }

    /// A channel for an agent that already has a driver.
    pub(crate) fn open_channel(&self, agent: &AgentId, duties: Vec<Duty>) -> DutyReceiver {
        let (channel, receiver) = watch::channel(duties.into());
        let mut channels = self.lock_channels();
        channels.agents.insert(agent.clone(), channel);
        // The agent may have been posted before its driver was adopted: it must not get a second
        // one.
        channels.new_agents.retain(|(waiting, _)| waiting != agent);
        receiver
    }

    /// Waits for agents that have duties and no driver yet.
    pub(crate) async fn new_agents(&self) -> Vec<(AgentId, DutyReceiver)> {
        loop {
            let new_agents = std::mem::take(&mut self.lock_channels().new_agents);
            if !new_agents.is_empty() {
                return new_agents;
            }
            // A notification that came after the list was taken is kept, so this cannot wait for
            // ever.
            self.agent_added.notified().await;
        }
    }

    fn lock_channels(&self) -> MutexGuard<'_, DutyChannels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

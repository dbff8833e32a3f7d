//! What is known of the host. Pure: a snapshot and events give it.
//!
//! Invariant: the state after a snapshot and its events is the state of a later snapshot, as far as both tell. Agents
//! are an exception: most events carry no whole row, so `stale_agents` names those to be read.

use std::collections::{BTreeMap, BTreeSet};

use countersign_protocol::{
    BypassRow, DecideConfirm, HostAgent, HostEvent, HostFigures, HostRole, HostSnapshot,
    HostStatus, Time, Who,
};

use crate::host_warnings::HostWarnings;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLink {
    /// No host has answered yet.
    Starting,
    Up,
    /// Since this time of the monotonic clock.
    Lost {
        since: u64,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct HostState {
    pub link: HostLink,
    /// The newest event that is included.
    pub cursor: u64,
    pub agents: BTreeMap<String, HostAgent>,
    /// Agents whose row is older than an event about them.
    pub stale_agents: BTreeSet<String>,
    pub warnings: HostWarnings,
    /// Which allows need a second key.
    pub confirm: DecideConfirm,
    pub you: Option<Who>,
    pub version: Option<String>,
    /// What the host itself uses, as of its last two answers: time of the wall, and figures.
    pub figures: Vec<(Time, HostFigures)>,
    pub connections: usize,
}

impl Default for HostState {
    fn default() -> Self {
        Self {
            link: HostLink::Starting,
            cursor: 0,
            agents: BTreeMap::new(),
            stale_agents: BTreeSet::new(),
            warnings: HostWarnings::default(),
            confirm: DecideConfirm::Always,
            you: None,
            version: None,
            figures: Vec::new(),
            connections: 0,
        }
    }
}

impl HostState {
    pub fn is_up(&self) -> bool {
        self.link == HostLink::Up
    }

    /// Whether this person may answer at all.
    pub fn can_decide(&self) -> bool {
        self.you
            .as_ref()
            .is_none_or(|you| you.role != HostRole::Observer)
    }

    /// Takes in everything but what is in the inbox.
    pub fn replace(&mut self, snapshot: &HostSnapshot) {
        let bypassed = snapshot.agents.iter().filter_map(|agent| {
            Some(BypassRow {
                agent_id: agent.id.clone(),
                name: agent.name.clone(),
                until: agent.bypass_until?,
            })
        });
        self.link = HostLink::Up;
        self.cursor = snapshot.event_sequence;
        self.warnings = HostWarnings {
            bypassed: bypassed.collect(),
            problems: snapshot.rule_problems.clone(),
            store_error: snapshot.store_error.clone(),
        };
        let agents = snapshot.agents.iter();
        self.agents = agents
            .map(|agent| (agent.id.clone(), agent.clone()))
            .collect();
        self.stale_agents.clear();
        self.version = snapshot
            .identity
            .as_ref()
            .map(|identity| identity.version.clone());
    }

    /// Takes in an event, unless it is included already. Whether it was new.
    pub fn apply(&mut self, event: &HostEvent) -> bool {
        if event.sequence != 0 && event.sequence <= self.cursor {
            return false;
        }
        self.cursor = self.cursor.max(event.sequence);
        let Some(agent) = &event.agent_id else {
            return true;
        };
        if event.kind == "agent.unregistered" {
            self.agents.remove(agent);
            self.stale_agents.remove(agent);
        } else if is_about_agent(&event.kind) {
            self.stale_agents.insert(agent.clone());
        }
        true
    }

    /// Takes in a row that was read.
    pub fn update_agent(&mut self, agent: HostAgent) {
        self.stale_agents.remove(&agent.id);
        self.agents.insert(agent.id.clone(), agent);
    }

    pub fn update_status(&mut self, status: HostStatus, now: Time) {
        self.connections = status.connections;
        if let Some(figures) = status.figures {
            self.figures.push((now, figures));
            let excess = self.figures.len().saturating_sub(2);
            self.figures.drain(..excess);
        }
        self.warnings = HostWarnings {
            problems: status.rule_problems,
            bypassed: status.bypassed,
            store_error: status.store_error,
        };
        // A word that is not known here counts as the safe one.
        self.confirm = match status.decide_confirm {
            DecideConfirm::Unknown => DecideConfirm::Always,
            known => known,
        };
        self.you = Some(status.you);
    }

    pub fn agent_name<'a>(&'a self, id: &'a str) -> &'a str {
        self.agents.get(id).map_or(id, |agent| agent.name.as_str())
    }
}

fn is_about_agent(kind: &str) -> bool {
    ["agent.", "turn.", "approval.", "question."]
        .iter()
        .any(|start| kind.starts_with(start))
}

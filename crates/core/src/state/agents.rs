//! Agents and devices, put on the list and taken off.

use std::sync::Arc;

use crate::agent::Agent;
use crate::event::{AgentRegistered, AgentStatusChanged, BaseState, Device};
use crate::ids::{AgentId, ClientId, Timestamp};

use super::State;
use super::connections::{hold, release};
use super::hierarchy::ceiling_end;
use super::managed::turn_deadline;

impl State {
    pub(super) fn apply_agent_registered(&mut self, at: Timestamp, event: &AgentRegistered) {
        let earlier = self.agents.get(&event.agent.id).cloned();
        if let Some(earlier) = &earlier {
            self.release_agent(earlier);
        }
        self.put_agent(Agent {
            profile: event.agent.clone(),
            base: BaseState::Idle,
            current_task: None,
            owner: event.owner.clone(),
            client: event.client.clone(),
            lapses_at: None,
            // Registering again does not make a new agent: what people set for it stays.
            bypass_until: earlier.as_ref().and_then(|agent| agent.bypass_until),
            managed: earlier.as_ref().and_then(|agent| agent.managed.clone()),
            registered_at: earlier.as_ref().map_or(at, |agent| agent.registered_at),
            updated_at: at,
        });
        // After the agent itself moved, because its asks follow it to its new connection.
        if let Some(from) = earlier.and_then(|agent| agent.client) {
            self.move_asks(event, &from);
        }
    }

    /// The owner of an agent came back elsewhere: its open asks come along, to its new connection
    /// or, where it has none, to nobody's.
    pub(super) fn move_asks(&mut self, event: &AgentRegistered, from: &ClientId) {
        let Some(held) = self.held.get(from) else {
            return;
        };
        let moved: Vec<_> = held
            .approvals
            .iter()
            .filter(|id| {
                self.approvals.get(*id).is_some_and(|approval| {
                    let ask = &approval.ask;
                    // What another principal asked in the name of the agent stays with that one's
                    // connection.
                    ask.agent.as_ref() == Some(&event.agent.id) && ask.by.key == event.owner
                })
            })
            .cloned()
            .collect();
        for id in moved {
            self.attach(&id, event.client.as_ref());
        }
    }

    pub(super) fn apply_agent_status(&mut self, at: Timestamp, event: &AgentStatusChanged) {
        let Some(mut agent) = self.agents.get(&event.agent.id).cloned() else {
            return;
        };
        // Released first, because the event may name another connection than the one that holds it.
        self.release_agent(&agent);
        agent.base = event.base;
        agent.current_task.clone_from(&event.current_task);
        if agent.client != event.client {
            agent.client.clone_from(&event.client);
            agent.lapses_at = None;
        }
        agent.updated_at = at;
        self.put_agent(agent);
    }

    pub(super) fn put_agent(&mut self, agent: Agent) {
        if let Some(client) = &agent.client {
            let held = hold(&mut self.held, &mut self.lapses, client, agent.lapses_at);
            held.agents.insert(agent.id().clone());
        }
        self.changed.agents.insert(agent.id().clone());
        // Setting a deadline that is already in the index changes nothing. Whoever changes or
        // removes one takes the old entry out.
        self.move_bypass(agent.id(), None, agent.bypass_until);
        let deadline = agent.managed.as_deref().and_then(turn_deadline);
        self.move_turn_deadline(agent.id(), None, deadline);
        let ceiling = agent.managed.as_deref().and_then(ceiling_end);
        self.move_ceiling(agent.id(), None, ceiling);
        self.agents.insert(agent.id().clone(), agent);
    }

    pub(super) fn release_agent(&mut self, agent: &Agent) {
        if let Some(client) = &agent.client {
            release(&mut self.held, &mut self.lapses, client, |held| {
                held.agents.remove(agent.id());
            });
        }
    }

    pub(super) fn remove_agent(&mut self, id: &AgentId) {
        if let Some(agent) = self.agents.remove(id) {
            self.release_agent(&agent);
            self.move_bypass(id, agent.bypass_until, None);
            let deadline = agent.managed.as_deref().and_then(turn_deadline);
            self.move_turn_deadline(id, deadline, None);
            let ceiling = agent.managed.as_deref().and_then(ceiling_end);
            self.move_ceiling(id, ceiling, None);
            self.changed.agents.insert(id.clone());
        }
    }

    pub(super) fn put_device(&mut self, device: &Arc<Device>) {
        self.changed.rest.devices.push(device.clone());
        self.devices.insert(device.id.clone(), device.clone());
    }
}

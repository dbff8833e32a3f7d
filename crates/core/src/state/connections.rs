//! What connections hold, and what becomes of it when they end.

use std::collections::{BTreeSet, HashMap};

use crate::event::{ConnectionLapsed, ConnectionLost, HostStarted};
use crate::ids::{ClientId, Timestamp};

use super::{ConnectionHoldings, State};

impl State {
    pub(super) fn apply_host_started(&mut self, event: &HostStarted) {
        // No connection outlives its host, so all that held something get the same time to come
        // back.
        let clients: Vec<_> = self.held.keys().cloned().collect();
        for client in clients {
            self.start_lapse(&client, event.lapses_at);
        }
    }

    pub(super) fn apply_connection_lost(&mut self, event: &ConnectionLost) {
        self.start_lapse(&event.client, event.lapses_at);
    }

    pub(super) fn start_lapse(&mut self, client: &ClientId, lapses_at: Timestamp) {
        if !self.held.contains_key(client) {
            return;
        }
        let held = hold(&mut self.held, &mut self.lapses, client, Some(lapses_at));
        // Written with each thing that is held: a restart has no other record of the instant.
        for id in &held.agents {
            if let Some(agent) = self.agents.get_mut(id) {
                agent.lapses_at = Some(lapses_at);
                self.changed.agents.insert(id.clone());
            }
        }
        for id in &held.approvals {
            if let Some(approval) = self.approvals.get_mut(id) {
                approval.lapses_at = Some(lapses_at);
                self.changed.approvals.insert(id.clone());
            }
        }
    }

    pub(super) fn apply_connection_lapsed(&mut self, event: &ConnectionLapsed) {
        let Some(held) = self.held.remove(&event.client) else {
            return;
        };
        drop_lapse(&mut self.lapses, &event.client, &held);
        for id in held.agents {
            if let Some(agent) = self.agents.get_mut(&id) {
                agent.client = None;
                agent.lapses_at = None;
                self.changed.agents.insert(id);
            }
        }
        for id in held.approvals {
            if let Some(approval) = self.approvals.get_mut(&id) {
                approval.client = None;
                approval.lapses_at = None;
                self.changed.approvals.insert(id);
            }
        }
    }
}

/// What a connection holds, to add to; with when it lapses, if it is gone.
pub(super) fn hold<'a>(
    held: &'a mut HashMap<ClientId, ConnectionHoldings>,
    lapses: &mut BTreeSet<(Timestamp, ClientId)>,
    client: &ClientId,
    lapses_at: Option<Timestamp>,
) -> &'a mut ConnectionHoldings {
    let holding = held.entry(client.clone()).or_default();
    if let Some(at) = lapses_at {
        // A connection lapses once, at the newest instant.
        drop_lapse(lapses, client, holding);
        holding.lapses_at = Some(at);
        lapses.insert((at, client.clone()));
    }
    holding
}

/// Takes something out of what a connection holds; with the last thing goes its deadline.
pub(super) fn release(
    held: &mut HashMap<ClientId, ConnectionHoldings>,
    lapses: &mut BTreeSet<(Timestamp, ClientId)>,
    client: &ClientId,
    take: impl FnOnce(&mut ConnectionHoldings),
) {
    let Some(holding) = held.get_mut(client) else {
        return;
    };
    take(holding);
    if holding.agents.is_empty() && holding.approvals.is_empty() {
        drop_lapse(lapses, client, holding);
        held.remove(client);
    }
}

pub(super) fn drop_lapse(
    lapses: &mut BTreeSet<(Timestamp, ClientId)>,
    client: &ClientId,
    held: &ConnectionHoldings,
) {
    if let Some(at) = held.lapses_at {
        lapses.remove(&(at, client.clone()));
    }
}

//! Connections: who is there, what a fresh one is shown, and where it reads on.

use std::sync::Arc;

use countersign_core::event::Device;
use countersign_core::limits::RECENT_ENDED_SHOWN;
use countersign_core::{Agent, Approval, Caller, ClientId, OpenCounts, Question, Seq, State};

use crate::ids::new_client_id;
use crate::subscription::{EventFilter, Subscription};
use crate::supervisor::{StateView, SupervisorCommand};

use super::{HostOverview, Service, ServiceResult};

/// Connections.
impl Service {
    /// A connection opened; gives it its name.
    pub async fn connected(&self) -> ServiceResult<ClientId> {
        let client = new_client_id();
        self.send(SupervisorCommand::Connected(client.clone()))
            .await?;
        Ok(client)
    }

    /// A connection ended; what it held has its time of grace from here.
    pub async fn disconnected(&self, client: ClientId) {
        self.forget_screen(&client);
        drop(self.send(SupervisorCommand::Disconnected(client)).await);
    }

    /// What a fresh subscriber is shown, and a subscription that goes on exactly from there, or
    /// from `after` if that is given.
    pub async fn subscribe(
        &self,
        caller: &Caller,
        after: Option<Seq>,
        filter: EventFilter,
    ) -> ServiceResult<(HostOverview, Subscription)> {
        caller.refuse_agents()?;
        if let Some(client) = caller.client.clone() {
            // Before the overview: from here on an owner's answers are passed to it as events.
            self.send(SupervisorCommand::Subscribed(client)).await?;
        }
        let overview = self.overview(caller).await?;
        let cursor = after.unwrap_or(overview.head);
        Ok((overview, self.read_events_after(cursor, filter)))
    }

    /// A subscription from a cursor, without an overview. A cursor beyond the log, as from a record
    /// that was since replaced by an older one, goes on from its end.
    pub fn subscription(
        &self,
        caller: &Caller,
        after: Seq,
        filter: EventFilter,
    ) -> ServiceResult<Subscription> {
        caller.refuse_agents()?;
        Ok(self.read_events_after(after, filter))
    }

    pub(crate) fn read_events_after(&self, after: Seq, filter: EventFilter) -> Subscription {
        let after = after.min(self.head());
        Subscription::new(
            self.shared.feed.clone(),
            self.shared.history.clone(),
            after,
            filter,
        )
    }

    /// The host at a glance.
    pub async fn overview(&self, caller: &Caller) -> ServiceResult<HostOverview> {
        caller.refuse_agents()?;
        self.read(overview).await
    }
}

fn overview(view: StateView<'_>) -> HostOverview {
    let state = view.state;
    let mut approvals: Vec<Approval> = state.open_approvals().cloned().collect();
    approvals.extend(state.recent_approvals().take(RECENT_ENDED_SHOWN).cloned());
    approvals.sort_by_key(|approval| std::cmp::Reverse(approval.opened));
    let mut questions: Vec<Question> = state.open_questions().cloned().collect();
    questions.sort_by_key(|question| std::cmp::Reverse(question.opened));
    HostOverview {
        head: state.head(),
        agents: sorted_agents(state),
        approvals,
        questions,
        devices: sorted_devices(state),
        connections: view.presence.len(),
    }
}

pub(super) fn sorted_agents(state: &State) -> Vec<(Agent, OpenCounts)> {
    let mut agents: Vec<_> = state
        .agents()
        .map(|agent| (agent.clone(), state.open_of(agent.id())))
        .collect();
    agents.sort_by(|(a, _), (b, _)| (&a.profile.name, a.id()).cmp(&(&b.profile.name, b.id())));
    agents
}

pub(super) fn sorted_devices(state: &State) -> Vec<Arc<Device>> {
    let mut devices: Vec<_> = state.devices().cloned().collect();
    devices.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
    devices
}

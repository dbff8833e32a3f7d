//! Agents: what they are, who owns them, and the state people see.
//!
//! Invariant: the visible state is derived from the base state and what is open. Nothing is
//! saved and restored around a wait, and what ended is never revived by an ask.

use std::sync::Arc;

use crate::event::{AgentProfile, AgentState, AgentStatusChanged, BaseState};
use crate::ids::{AgentId, ClientId, PrincipalKey, Timestamp};
use crate::managed::ManagedAgent;

/// An agent under the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    /// What it said of itself.
    pub profile: Arc<AgentProfile>,
    /// What it would be if nothing waited for anybody.
    pub base: BaseState,
    /// What it works on.
    pub current_task: Option<String>,
    /// Who registered it.
    pub owner: PrincipalKey,
    /// The connection that owns it; the last one, while it has time to come back.
    pub client: Option<ClientId>,
    /// Set while its connection is gone: when it is given up.
    pub lapses_at: Option<Timestamp>,
    /// Until when its asks are let through without a person.
    pub bypass_until: Option<Timestamp>,
    /// What the host knows of it, if the host runs it.
    pub managed: Option<Arc<ManagedAgent>>,
    /// When it was registered first.
    pub registered_at: Timestamp,
    /// When anything about it changed.
    pub updated_at: Timestamp,
}

/// What an agent has open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenCounts {
    /// Asks for permission.
    pub approvals: usize,
    pub questions: usize,
}

impl BaseState {
    /// Whether the agent has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Done | Self::Error | Self::Stopped)
    }
}

impl Agent {
    /// The id its profile carries.
    pub fn id(&self) -> &AgentId {
        &self.profile.id
    }

    /// The state people see.
    pub fn state(&self, open: OpenCounts) -> AgentState {
        visible_state(self.base, open)
    }

    /// The fact that its state is now `base` with `open`.
    pub(crate) fn changed_to(&self, base: BaseState, open: OpenCounts) -> AgentStatusChanged {
        AgentStatusChanged {
            agent: self.profile.clone(),
            base,
            state: visible_state(base, open),
            current_task: self.current_task.clone(),
            client: self.client.clone(),
            message: None,
            payload: None,
        }
    }
}

/// The state people see of a base state with so much open.
pub(crate) fn visible_state(base: BaseState, open: OpenCounts) -> AgentState {
    match base {
        // Ends come first: an agent that has ended waits for nobody, whatever is still open.
        BaseState::Done => AgentState::Done,
        BaseState::Error => AgentState::Error,
        BaseState::Stopped => AgentState::Stopped,
        _ if open.approvals > 0 => AgentState::AwaitingPermission,
        _ if open.questions > 0 => AgentState::Waiting,
        BaseState::Starting => AgentState::Starting,
        BaseState::Running => AgentState::Running,
        BaseState::Idle => AgentState::Idle,
        BaseState::Paused => AgentState::Paused,
    }
}

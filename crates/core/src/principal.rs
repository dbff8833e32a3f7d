//! Principals: who is calling, and what that lets them do at all.
//!
//! Invariant: an agent's principal can ask, notify and report. It never answers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, ClientId, PrincipalKey};
use crate::rejection::Rejection;

/// What kind of caller this is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A person, or a tool in a person's hands.
    Operator,
    /// May read everything and change nothing.
    Observer,
    /// An agent, or anything that descends from one.
    Agent(AgentId),
    /// The host itself.
    Host,
}

impl Role {
    /// The agent that a caller with this role is.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Operator | Self::Observer | Self::Host => None,
        }
    }
}

/// Who is calling: established by a door, never by the caller's own word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// What they may do.
    pub role: Role,
    /// The name the record shows: the login on the socket, the token's name on TCP.
    pub name: Arc<str>,
    /// Who they are across connections.
    pub key: PrincipalKey,
}

impl Principal {
    /// The host acting on its own account.
    pub fn host() -> Self {
        Self {
            role: Role::Host,
            name: "host".into(),
            key: PrincipalKey::new("host"),
        }
    }

    /// The agent this principal is bound to, if it is one.
    pub fn agent(&self) -> Option<&AgentId> {
        self.role.agent()
    }

    /// Whether this principal may answer asks and change what others own.
    pub fn is_operator(&self) -> bool {
        matches!(self.role, Role::Operator | Role::Host)
    }
}

/// A principal and the connection it speaks through; requests without one have no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Who is calling.
    pub principal: Arc<Principal>,
    /// The connection, where the door has lasting ones.
    pub client: Option<ClientId>,
    /// How it came in; `None` for the host itself.
    pub door: Option<Door>,
}

/// A way into the host. Recorded with each answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Door {
    /// The host's page in a browser.
    Web,
    /// Another client's WebSocket, over TCP.
    Websocket,
    Rest,
    /// The Unix socket, which the command line uses.
    Socket,
    Mcp,
    Hook,
}

impl Caller {
    /// The host acting on its own account.
    pub fn host() -> Self {
        Self {
            principal: Arc::new(Principal::host()),
            client: None,
            door: None,
        }
    }

    /// Refuses agents: they ask, notify and report, and what others say and do is not theirs to read.
    pub fn refuse_agents(&self) -> Result<(), Rejection> {
        match self.principal.agent() {
            Some(agent) => Err(Rejection::AgentNotAllowed(agent.clone())),
            None => Ok(()),
        }
    }

    /// Refuses observers, who may read everything and change nothing.
    pub fn refuse_observers(&self) -> Result<(), Rejection> {
        match self.principal.role {
            Role::Observer => Err(Rejection::ObserverCannotChange),
            Role::Operator | Role::Agent(_) | Role::Host => Ok(()),
        }
    }

    /// Refuses everybody but operators and the host.
    pub fn require_operator(&self) -> Result<(), Rejection> {
        self.refuse_agents()?;
        self.refuse_observers()
    }
}

/// Who did something, as the record keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedActor {
    /// What they were.
    pub role: Role,
    /// What they are called.
    pub name: Arc<str>,
    /// Who they are across connections.
    pub key: PrincipalKey,
}

impl RecordedActor {
    /// The host, under the name of what it did this by.
    pub(crate) fn host_by(name: &str) -> Self {
        Self {
            name: name.into(),
            ..Self::from(&Caller::host())
        }
    }
}

impl From<&Caller> for RecordedActor {
    fn from(caller: &Caller) -> Self {
        let principal = &caller.principal;
        Self {
            role: principal.role.clone(),
            name: principal.name.clone(),
            key: principal.key.clone(),
        }
    }
}

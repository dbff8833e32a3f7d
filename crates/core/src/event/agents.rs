//! Agents and devices as they describe themselves, and the states people see.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, ClientId, DeviceId, PrincipalKey, Timestamp};
use crate::json::Json;
use crate::principal::RecordedActor;

/// How an agent wants to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentDisplay {
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// A picture's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// A colour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accent: Option<String>,
}

/// The base state of an agent: what it would be if nothing waited for anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaseState {
    /// Being started.
    Starting,
    /// A turn runs.
    Running,
    /// Waits for the next message.
    Idle,
    /// Held by a person.
    Paused,
    /// Ended well.
    Done,
    /// Ended badly.
    Error,
    /// Ended by somebody, or its owner is gone.
    Stopped,
}

/// An agent as its own connection described it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentProfile {
    /// Its id, chosen by it or by us.
    pub id: AgentId,
    pub name: String,
    /// What kind of agent it is.
    pub kind: String,
    /// What it says it can do.
    pub capabilities: Vec<String>,
    /// The project it works in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its process, by its own word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How it wants to be shown.
    pub display: AgentDisplay,
    /// Anything else it said.
    pub metadata: Json,
}

impl AgentProfile {
    /// A profile that says nothing but the agent's id and name.
    pub fn new(id: AgentId, name: impl Into<String>) -> Self {
        Self {
            id,
            name: name.into(),
            kind: String::new(),
            capabilities: Vec::new(),
            project: None,
            pid: None,
            display: AgentDisplay::default(),
            metadata: Json::null(),
        }
    }
}

/// See `Event::AgentRegistered`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentRegistered {
    pub agent: Arc<AgentProfile>,
    /// Who registered it.
    pub owner: PrincipalKey,
    /// The connection that owns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
}

/// See `Event::AgentStatusChanged`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentStatusChanged {
    pub agent: Arc<AgentProfile>,
    /// Its base state from now on.
    pub base: BaseState,
    /// The state people see, with what is open counted in.
    pub state: AgentState,
    /// What it works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_task: Option<String>,
    /// The connection that owns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// What its owner said about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What its owner attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
}

/// The state of an agent as people see it: the base state and what is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// Being started.
    Starting,
    /// A turn runs.
    Running,
    /// Waits for the next message.
    Idle,
    /// At least one ask is open.
    AwaitingPermission,
    /// At least one question is open, and no ask.
    Waiting,
    /// Held by a person.
    Paused,
    /// Ended well.
    Done,
    /// Ended badly.
    Error,
    /// Ended by somebody, or its owner is gone.
    Stopped,
}

/// See `Event::AgentUnregistered`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentUnregistered {
    pub agent: AgentId,
}

/// See `Event::AgentInterruptRequested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentInterruptRequested {
    pub agent: AgentId,
    /// Its name at the time.
    pub name: String,
    /// Who asked.
    pub by: RecordedActor,
}

/// A device as it described itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    pub id: DeviceId,
    pub name: String,
    /// What it runs on.
    pub platform: String,
    /// What it says it can do.
    pub capabilities: Vec<String>,
    /// What it says of itself.
    pub status: String,
    /// The connection that owns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// Who registered it.
    pub owner: PrincipalKey,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Anything else it said.
    pub metadata: Json,
}

/// See `Event::DeviceRegistered`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceRegistered {
    pub device: Arc<Device>,
}

/// See `Event::DeviceUpdated`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceUpdated {
    pub device: Arc<Device>,
}

//! The protocols that agents speak. Everything outside this crate that depends on a protocol asks here.
//!
//! A new protocol is a folder in this crate with an [`ProtocolSupport`], a line in [`find`] and its name
//! in [`Protocol`].

use countersign_core::event::{Protocol, SpawnOptions};
use countersign_core::{Json, ManagedAgent};

use crate::acp::AcpProtocol;
use crate::adapter::{Adapter, RestoreError, SessionSpec};
use crate::catalog;
use crate::claude::ClaudeProtocol;

/// What the host has to know of a protocol besides its adapter. The defaults are those of a protocol
/// that says everything in its handshake.
pub(crate) trait ProtocolSupport {
    /// An adapter on which nothing was said yet.
    fn new_adapter(&self) -> Box<dyn Adapter>;

    /// An adapter that continues from what [`Adapter::state`] gave.
    fn restore_adapter(&self, state: &Json) -> Result<Box<dyn Adapter>, RestoreError>;

    /// Arguments of the agent's command line that say how its session is opened.
    fn arguments(&self, _start: &SessionSpec) -> Vec<String> {
        Vec::new()
    }

    /// The id of a new session, where the host chooses it. `unique` belongs to this run alone.
    fn new_session_id(&self, _unique: &str) -> Option<String> {
        None
    }

    /// The session that the next run of an agent opens.
    fn session_to_open(&self, managed: &ManagedAgent) -> SessionToOpen {
        SessionToOpen {
            session: managed.session.clone().filter(|_| managed.resumable),
            fork: false,
        }
    }

    /// The session from which another agent can begin, or why there is none.
    fn session_to_fork(&self, _managed: &ManagedAgent) -> Result<String, &'static str> {
        Err("only agents that run as Claude Code natively can be forked")
    }
}

/// Which session a run opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionToOpen {
    /// The agent's own id of it; absent for a new session.
    pub session: Option<String>,
    /// Whether that session stays as it is, and a new one begins from it.
    pub fork: bool,
}

fn find(protocol: Protocol) -> &'static dyn ProtocolSupport {
    match protocol {
        Protocol::Acp => &AcpProtocol,
        Protocol::Claude => &ClaudeProtocol,
    }
}

/// The protocol of an agent that is started with these options.
pub fn find_protocol(options: &SpawnOptions) -> Protocol {
    let entry = options.agent.as_deref().and_then(catalog::find);
    entry
        .filter(|_| options.command.is_empty())
        .map_or(options.protocol, |entry| entry.protocol)
}

/// An adapter that continues from what [`Adapter::state`] gave, or begins if that is null.
pub fn restore_adapter(protocol: Protocol, state: &Json) -> Result<Box<dyn Adapter>, RestoreError> {
    if state.is_null() {
        Ok(find(protocol).new_adapter())
    } else {
        find(protocol).restore_adapter(state)
    }
}

/// Arguments that are added to an agent's command line because of how its session is opened.
pub fn arguments(protocol: Protocol, start: &SessionSpec) -> Vec<String> {
    find(protocol).arguments(start)
}

/// The id that a new session gets, where the host chooses it. The same text gives the same id.
pub fn new_session_id(protocol: Protocol, unique: &str) -> Option<String> {
    find(protocol).new_session_id(unique)
}

/// The session that the next run of an agent opens.
pub fn session_to_open(protocol: Protocol, managed: &ManagedAgent) -> SessionToOpen {
    find(protocol).session_to_open(managed)
}

/// The session from which another agent can begin, or why there is none.
pub fn session_to_fork(managed: &ManagedAgent) -> Result<String, &'static str> {
    find(find_protocol(&managed.options)).session_to_fork(managed)
}

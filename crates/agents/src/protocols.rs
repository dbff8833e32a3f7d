//! Which adapter speaks which protocol, and what its agents are started with.

use countersign_core::Json;
use countersign_core::event::{Protocol, SpawnOptions};

use crate::acp::AcpAdapter;
use crate::adapter::{Adapter, RestoreError, SessionSpec};
use crate::catalog;
use crate::claude::{self, ClaudeAdapter};

/// What an agent speaks that is started with these options.
pub fn find_protocol(options: &SpawnOptions) -> Protocol {
    let known = options.agent.as_deref().and_then(catalog::find);
    let known = known.filter(|_| options.command.is_empty());
    known.map_or(options.protocol, |entry| entry.protocol)
}

/// A machine that speaks a protocol: from the beginning for a state that is nothing, and otherwise
/// on from what [`Adapter::state`] gave.
pub fn restore_adapter(protocol: Protocol, state: &Json) -> Result<Box<dyn Adapter>, RestoreError> {
    let begins = state.is_null();
    Ok(match protocol {
        Protocol::Acp if begins => Box::new(AcpAdapter::new()),
        Protocol::Acp => Box::new(AcpAdapter::restore(state)?),
        Protocol::Claude if begins => Box::new(ClaudeAdapter::new()),
        Protocol::Claude => Box::new(ClaudeAdapter::restore(state)?),
    })
}

/// What an agent's command line says of its session. Others are told in the handshake.
pub fn arguments(protocol: Protocol, start: &SessionSpec) -> Vec<String> {
    match protocol {
        Protocol::Acp => Vec::new(),
        Protocol::Claude => claude::arguments(start),
    }
}

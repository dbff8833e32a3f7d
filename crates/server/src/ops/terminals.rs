//! Terminals of agents, for people to read.
//!
//! Invariant: an agent may call none of them; an observer may call all.

use countersign_core::Caller;
use countersign_core::limits::TERMINAL_WAIT_MS;
use countersign_daemon::{Service, TerminalPiece, TerminalSummary};
use countersign_protocol as wire;

use super::Result;
use super::agents::find_id;

/// Which output is to be read.
pub(crate) struct TerminalPlace {
    pub(crate) agent: String,
    pub(crate) terminal: String,
    pub(crate) after: u64,
    pub(crate) wait_ms: u64,
}

impl From<wire::TerminalOutputParams> for TerminalPlace {
    fn from(params: wire::TerminalOutputParams) -> Self {
        Self {
            agent: params.agent_id,
            terminal: params.terminal_id,
            after: params.after.unwrap_or_default(),
            wait_ms: if params.wait { TERMINAL_WAIT_MS } else { 0 },
        }
    }
}

/// Output from where its reader wanted it.
pub(crate) struct ReadOutput {
    pub(crate) after: u64,
    pub(crate) piece: TerminalPiece,
}

pub(crate) async fn list(
    service: &Service,
    caller: &Caller,
    agent: &str,
) -> Result<Vec<TerminalSummary>> {
    caller.refuse_agents()?;
    let agent = find_id(service, caller, agent)?;
    Ok(service.terminals(caller, &agent).await?)
}

pub(crate) async fn read(
    service: &Service,
    caller: &Caller,
    place: TerminalPlace,
) -> Result<ReadOutput> {
    caller.refuse_agents()?;
    let agent = find_id(service, caller, &place.agent)?;
    let piece = service
        .read_terminal(caller, &agent, &place.terminal, place.after, place.wait_ms)
        .await?;
    Ok(ReadOutput {
        after: place.after,
        piece,
    })
}

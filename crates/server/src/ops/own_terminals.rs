//! Terminals of people, which the host runs for them.
//!
//! Invariant: an operator may call all of them, and nobody else may call any.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::limits::TERMINAL_WAIT_MS;
use countersign_core::{Caller, Rejection};
use countersign_daemon::{OwnTerminalRequest, OwnTerminalStatus, Service, TerminalSize};
use countersign_protocol as wire;
use countersign_protocol::{Reason, WrittenTerminal};

use super::Result;
use super::agents::find_id;
use super::terminals::ReadOutput;
use crate::api_error::ApiError;

const COLUMNS: u16 = 80;
const ROWS: u16 = 24;

pub(crate) async fn list(service: &Service, caller: &Caller) -> Result<Vec<OwnTerminalStatus>> {
    Ok(service.own_terminals(caller).await?)
}

pub(crate) async fn open(
    service: &Service,
    caller: &Caller,
    params: wire::OpenTerminalParams,
) -> Result<OwnTerminalStatus> {
    // Before the agent is looked up: who may not open one learns nothing.
    caller.require_operator()?;
    let agent_folder = match &params.agent_id {
        Some(agent) if params.cwd.is_none() => Some(folder_of(service, caller, agent)?),
        _ => None,
    };
    let request = OwnTerminalRequest {
        command: params.command,
        cwd: params.cwd.or(agent_folder).map(Into::into),
        size: TerminalSize {
            columns: params.columns.unwrap_or(COLUMNS),
            rows: params.rows.unwrap_or(ROWS),
        },
    };
    Ok(service.open_own_terminal(caller, request).await?)
}

fn folder_of(service: &Service, caller: &Caller, agent: &str) -> Result<String> {
    let id = find_id(service, caller, agent)?;
    let found = service
        .find_agent(&id)
        .ok_or_else(|| Rejection::UnknownAgent(id.clone()))?;
    let managed = found.managed.ok_or(Rejection::NotManaged(id))?;
    Ok(managed.folder().to_owned())
}

pub(crate) async fn write(
    service: &Service,
    caller: &Caller,
    params: wire::WriteTerminalParams,
) -> Result<WrittenTerminal> {
    caller.require_operator()?;
    let bytes = STANDARD.decode(&params.data).map_err(|error| {
        ApiError::plain(
            Reason::InvalidParams,
            format!("`data` is not base 64: {error}"),
        )
    })?;
    let written = service
        .write_own_terminal(caller, &params.terminal_id, &bytes)
        .await?;
    Ok(WrittenTerminal {
        written: u64::try_from(written).unwrap_or(u64::MAX),
    })
}

pub(crate) async fn resize(
    service: &Service,
    caller: &Caller,
    params: wire::ResizeTerminalParams,
) -> Result<()> {
    let size = TerminalSize {
        columns: params.columns,
        rows: params.rows,
    };
    Ok(service
        .resize_own_terminal(caller, &params.terminal_id, size)
        .await?)
}

pub(crate) async fn close(service: &Service, caller: &Caller, terminal: &str) -> Result<()> {
    Ok(service.close_own_terminal(caller, terminal).await?)
}

/// Which output is to be read.
pub(crate) struct OwnTerminalPlace {
    pub(crate) terminal: String,
    pub(crate) after: u64,
    pub(crate) wait_ms: u64,
}

impl From<wire::OwnTerminalOutputParams> for OwnTerminalPlace {
    fn from(params: wire::OwnTerminalOutputParams) -> Self {
        Self {
            terminal: params.terminal_id,
            after: params.after.unwrap_or_default(),
            wait_ms: if params.wait { TERMINAL_WAIT_MS } else { 0 },
        }
    }
}

pub(crate) async fn read(
    service: &Service,
    caller: &Caller,
    place: OwnTerminalPlace,
) -> Result<ReadOutput> {
    let after = place.after;
    let piece = service
        .read_own_terminal(caller, &place.terminal, after, place.wait_ms)
        .await?;
    Ok(ReadOutput { after, piece })
}

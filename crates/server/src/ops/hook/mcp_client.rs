//! Agents that the host did not start and that start `countersign mcp` themselves. The process that
//! starts it is the root of the agent, exactly as for hooks.

use std::path::PathBuf;
use std::sync::Arc;

use countersign_core::event::{AgentProfile, ProcessKey};
use countersign_core::limits::PATH_BYTES_MAX;
use countersign_core::{AgentId, Caller, Json, RegisterAgent};
use countersign_daemon::new_mcp_agent_id;
use countersign_protocol::Reason;
use serde_json::json;

use super::super::Result;
use super::sessions::{OUTSIDE, caller_of};
use super::watch;
use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::CallerConnection;

/// The kind of these agents, and the name of one whose directory is not known.
const KIND: &str = "mcp-client";

/// The agent at the other end: one known by descent, or a new one whose root is marked first.
pub(crate) async fn register_mcp_client(
    state: &ServerState,
    connection: &Arc<CallerConnection>,
) -> Result<Caller> {
    if let Some(known) = known(state, connection).await? {
        return Ok(known);
    }
    // The lock of the hooks: a session may call a hook and this server at the same time, and must
    // become one agent.
    let _alone = state.hook_waiters.registering.lock().await;
    if let Some(known) = known(state, connection).await? {
        return Ok(known);
    }
    let root = state.authenticator.find_agent_root(connection).await?;
    let root = root.map_err(|why| {
        let message = format!("this MCP server was not started by an agent: {why}");
        ApiError::refused(Reason::AgentNotAllowed, message)
    })?;
    watch::sweep(state).await;
    let id = new_mcp_agent_id();
    // Marked before it is registered: if registering fails, the process is still not a person.
    state.authenticator.mark_process(&id, root).await?;
    register(state, &id, root).await?;
    Ok(caller_of(&state.service, &id))
}

async fn known(state: &ServerState, connection: &Arc<CallerConnection>) -> Result<Option<Caller>> {
    let identity = state.authenticator.identify(connection, None).await?;
    let agent = identity.principal.agent();
    Ok(agent.map(|agent| caller_of(&state.service, agent)))
}

async fn register(state: &ServerState, id: &AgentId, root: ProcessKey) -> Result<()> {
    let folder = folder_of(root);
    let name = folder.as_ref().and_then(|folder| folder.file_name());
    let name = name.map_or_else(|| KIND.into(), |name| name.to_string_lossy());
    let metadata = json!({ OUTSIDE: "mcp", "start_time": root.start_time });
    let profile = AgentProfile {
        kind: KIND.to_owned(),
        project: folder.as_ref().map(|folder| folder.display().to_string()),
        pid: Some(root.pid),
        metadata: Json::from_value(&metadata).map_err(|error| ApiError::invalid(&error))?,
        ..AgentProfile::new(id.clone(), name.chars().take(64).collect::<String>())
    };
    let caller = caller_of(&state.service, id);
    let registered = state
        .service
        .register_agent(RegisterAgent { caller, profile });
    registered.await?;
    Ok(())
}

/// The working directory of a process, if it can be shown.
fn folder_of(root: ProcessKey) -> Option<PathBuf> {
    let folder = std::fs::read_link(format!("/proc/{}/cwd", root.pid)).ok()?;
    let is_text = folder
        .to_str()
        .is_some_and(|text| text.len() <= PATH_BYTES_MAX);
    is_text.then_some(folder)
}

//! Which agent a hook speaks for: one known by descent, or a new one whose root is marked first.
//!
//! Invariant: an id belongs to one living root at a time. What a session calls itself only chooses
//! among ids that are free.

use std::path::Path;
use std::sync::Arc;

use countersign_core::event::{AgentProfile, ProcessKey};
use countersign_core::limits::{HOOK_TWINS_MAX, PATH_BYTES_MAX};
use countersign_core::{Agent, AgentId, Caller, Json, RegisterAgent};
use countersign_daemon::procfs;
use countersign_protocol::{HookParams, Reason};
use serde_json::{Value, json};

use super::super::Result;
use super::{Tool, by_the_socket_alone, watch};
use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::{CallerConnection, agent_principal};

/// Characters of a session's id that its agent's id carries.
const ID_CHARS: usize = 8;

/// A session's id: a UUID, and some room.
const SESSION_BYTES_MAX: usize = 100;

/// Under which an agent's metadata says how it was found, if no hook found it.
pub(super) const OUTSIDE: &str = "found_by";

/// Who a hook turned out to speak for.
pub(super) enum Known {
    /// An agent that the host runs.
    Managed(AgentId),
    /// Any other.
    External(Box<Session>),
}

/// A session that the host did not start.
pub(super) struct Session {
    pub(super) caller: Caller,
    pub(super) agent: Agent,
    /// Whether the agent is this session, and not one that started it.
    pub(super) is_own: bool,
}

pub(super) async fn find(
    state: &ServerState,
    connection: &Arc<CallerConnection>,
    tool: Tool,
    params: &HookParams,
) -> Result<Known> {
    if !connection.is_unix() {
        return Err(by_the_socket_alone());
    }
    if params.session_id.is_empty() || params.session_id.len() > SESSION_BYTES_MAX {
        let words = "a session's id has between 1 and 100 bytes";
        return Err(ApiError::plain(Reason::InvalidParams, words));
    }
    if let Some(known) = find_known(state, connection, tool, params).await? {
        return Ok(known);
    }
    let _alone = state.hook_waiters.registering.lock().await;
    // Another hook of the same session may have been first.
    if let Some(known) = find_known(state, connection, tool, params).await? {
        return Ok(known);
    }
    let root = state.authenticator.find_agent_root(connection).await?;
    let root = root.map_err(|why| {
        let words = format!("no agent runs this hook: {why}");
        ApiError::refused(Reason::AgentNotAllowed, words)
    })?;
    watch::sweep(state).await;
    let id = free_id(state, tool, params, root)?;
    state.authenticator.mark_process(&id, root).await?;
    let session = register(state, tool, params, id, root).await?;
    Ok(Known::External(Box::new(session)))
}

/// The agent by descent, if there is one.
async fn find_known(
    state: &ServerState,
    connection: &Arc<CallerConnection>,
    tool: Tool,
    params: &HookParams,
) -> Result<Option<Known>> {
    let identity = state.authenticator.identify(connection, None).await?;
    let Some(id) = identity.principal.agent().cloned() else {
        return Ok(None);
    };
    let root = state.authenticator.find_agent_root(connection).await?;
    let Some(agent) = state.service.find_agent(&id) else {
        // It used a token and never said what it is.
        let Ok(root) = root else { return Ok(None) };
        let session = register(state, tool, params, id, root).await?;
        return Ok(Some(Known::External(Box::new(session))));
    };
    if agent.managed.is_some() {
        return Ok(Some(Known::Managed(id)));
    }
    let own_root = root.ok().filter(|root| is_root_of(&agent, *root));
    if let Some(root) = own_root
        && session_of(&agent).as_deref() != Some(params.session_id.as_str())
    {
        let session = register(state, tool, params, id, root).await?;
        return Ok(Some(Known::External(Box::new(session))));
    }
    Ok(Some(Known::External(Box::new(Session {
        caller: caller_of(&id),
        agent,
        is_own: own_root.is_some(),
    }))))
}

pub(super) fn caller_of(agent: &AgentId) -> Caller {
    Caller {
        principal: agent_principal(agent.clone()),
        client: None,
    }
}

fn metadata(agent: &Agent) -> Value {
    serde_json::from_str(agent.profile.metadata.text()).unwrap_or_default()
}

/// The session that a hook registered the agent for.
pub(super) fn session_of(agent: &Agent) -> Option<String> {
    let metadata = metadata(agent);
    let session = metadata.get("hook").and(metadata.get("session_id"))?;
    session.as_str().map(str::to_owned)
}

/// Whether the host itself found out about the agent, by its process.
pub(super) fn was_found(agent: &Agent) -> bool {
    session_of(agent).is_some() || metadata(agent).get(OUTSIDE).is_some()
}

fn is_root_of(agent: &Agent, root: ProcessKey) -> bool {
    let metadata = metadata(agent);
    was_found(agent)
        && agent.profile.pid == Some(root.pid)
        && metadata["start_time"].as_u64() == Some(root.start_time)
}

async fn register(
    state: &ServerState,
    tool: Tool,
    params: &HookParams,
    id: AgentId,
    root: ProcessKey,
) -> Result<Session> {
    let cwd = params.cwd.as_deref();
    let folder = cwd.filter(|cwd| cwd.starts_with('/') && cwd.len() <= PATH_BYTES_MAX);
    let name = folder.and_then(|folder| Path::new(folder).file_name());
    let name = name.map_or_else(|| tool.name.into(), |name| name.to_string_lossy());
    let metadata = json!({
        "hook": tool.name,
        "session_id": params.session_id,
        "start_time": root.start_time,
    });
    let profile = AgentProfile {
        kind: tool.kind.to_owned(),
        project: folder.map(str::to_owned),
        pid: Some(root.pid),
        metadata: Json::from_value(&metadata).map_err(|error| ApiError::invalid(&error))?,
        ..AgentProfile::new(id.clone(), name.chars().take(64).collect::<String>())
    };
    let caller = caller_of(&id);
    let registered = state.service.register_agent(RegisterAgent {
        caller: caller.clone(),
        profile,
    });
    let (agent, _) = registered.await?;
    Ok(Session {
        caller,
        agent,
        is_own: true,
    })
}

/// An id made from the session's, that no other living root has.
fn free_id(
    state: &ServerState,
    tool: Tool,
    params: &HookParams,
    root: ProcessKey,
) -> Result<AgentId> {
    let session = params.session_id.chars();
    let short: String = session
        .filter(char::is_ascii_alphanumeric)
        .take(ID_CHARS)
        .collect();
    let first = format!("{}-{}", tool.name, short.to_ascii_lowercase());
    for number in 1..=HOOK_TWINS_MAX {
        let id = match number {
            1 => AgentId::new(first.as_str()),
            number => AgentId::new(format!("{first}-{number}")),
        };
        if is_free(state, &id, params, root) {
            return Ok(id);
        }
    }
    let words = "too many sessions whose ids begin alike";
    Err(ApiError::refused(Reason::TooMany, words))
}

fn is_free(state: &ServerState, id: &AgentId, params: &HookParams, root: ProcessKey) -> bool {
    let found = state.service.find_agent(id);
    // The same session in another process is the same agent; anything else under the name is not.
    let session = Some(params.session_id.as_str());
    if found.is_some_and(|agent| session_of(&agent).as_deref() != session) {
        return false;
    }
    let mut processes = state.service.processes_of(id);
    processes.retain(|process| *process != root && lives(*process));
    processes.is_empty()
}

pub(super) fn lives(process: ProcessKey) -> bool {
    procfs::exists(process)
}

//! Which agent a hook speaks for: one known by descent, or a new one whose root is marked first.
//!
//! Invariant: an id belongs to one living root at a time. The id of a session only chooses among
//! agent ids that are free.

use std::path::Path;
use std::sync::Arc;

use countersign_core::event::{AgentProfile, ProcessKey};
use countersign_core::limits::{HOOK_TWINS_MAX, PATH_BYTES_MAX};
use countersign_core::{Agent, AgentId, Caller, Door, Json, RegisterAgent};
use countersign_daemon::{Service, procfs};
use countersign_protocol::{HookParams, Reason};
use serde_json::{Value, json};

use super::super::Result;
use super::{HookedTool, by_the_socket_alone, watch};
use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::{CallerConnection, agent_principal};

/// Characters of a session's id that its agent's id carries.
const ID_CHARS: usize = 8;

/// A session's id: a UUID, and some room.
const SESSION_BYTES_MAX: usize = 100;

/// The field of an agent's metadata that says how it was found, if not by a hook.
pub(super) const OUTSIDE: &str = "found_by";

/// The agent that a hook speaks for.
pub(super) enum HookCaller {
    /// An agent that the host runs.
    Managed(AgentId),
    /// An agent that the host did not start.
    External(Box<HookSession>),
}

/// A session that the host did not start.
pub(super) struct HookSession {
    pub(super) caller: Caller,
    pub(super) agent: Agent,
    /// Whether the agent is this session, and not one that started it.
    pub(super) is_own: bool,
}

pub(super) async fn find(
    state: &ServerState,
    connection: &Arc<CallerConnection>,
    tool: HookedTool,
    params: &HookParams,
) -> Result<HookCaller> {
    if !connection.is_unix() {
        return Err(by_the_socket_alone());
    }
    if params.session_id.is_empty() || params.session_id.len() > SESSION_BYTES_MAX {
        let message = "a session's id has between 1 and 100 bytes";
        return Err(ApiError::plain(Reason::InvalidParams, message));
    }
    if let Some(known) = find_known(state, connection, tool, params).await? {
        return Ok(known);
    }
    let _alone = state.hook_waiters.registering.lock().await;
    // Another hook of the same session may have registered it while this one waited for the lock.
    if let Some(known) = find_known(state, connection, tool, params).await? {
        return Ok(known);
    }
    let root = state.authenticator.find_agent_root(connection).await?;
    let root = root.map_err(|why| {
        let message = format!("this hook was not run by an agent: {why}");
        ApiError::refused(Reason::AgentNotAllowed, message)
    })?;
    // Frees ids and places in the list that sessions which ended still have.
    watch::sweep(state).await;
    let id = free_id(state, tool, params, root)?;
    // Marked before anything else is done for it: from here on no process of this session can
    // answer, also if registering fails.
    state.authenticator.mark_process(&id, root).await?;
    let session = register(state, tool, params, id, root).await?;
    Ok(HookCaller::External(Box::new(session)))
}

/// The agent by descent, if there is one.
async fn find_known(
    state: &ServerState,
    connection: &Arc<CallerConnection>,
    tool: HookedTool,
    params: &HookParams,
) -> Result<Option<HookCaller>> {
    let identity = state.authenticator.identify(connection, None).await?;
    let Some(id) = identity.principal.agent().cloned() else {
        return Ok(None);
    };
    let root = state.authenticator.find_agent_root(connection).await?;
    let Some(agent) = state.service.find_agent(&id) else {
        // A process with an agent's token that has not registered itself.
        let Ok(root) = root else { return Ok(None) };
        let session = register(state, tool, params, id, root).await?;
        return Ok(Some(HookCaller::External(Box::new(session))));
    };
    if agent.managed.is_some() {
        return Ok(Some(HookCaller::Managed(id)));
    }
    let own_root = root.ok().filter(|root| is_root_of(&agent, *root));
    // One process can have several sessions one after the other, as after `/clear`. The agent stays
    // the same and takes over the new session's id.
    if let Some(root) = own_root
        && session_of(&agent).as_deref() != Some(params.session_id.as_str())
    {
        let session = register(state, tool, params, id, root).await?;
        return Ok(Some(HookCaller::External(Box::new(session))));
    }
    Ok(Some(HookCaller::External(Box::new(HookSession {
        caller: caller_of(&state.service, &id),
        agent,
        is_own: own_root.is_some(),
    }))))
}

pub(super) fn caller_of(service: &Service, agent: &AgentId) -> Caller {
    Caller {
        principal: agent_principal(service, agent.clone()),
        client: None,
        door: Some(Door::Hook),
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
    tool: HookedTool,
    params: &HookParams,
    id: AgentId,
    root: ProcessKey,
) -> Result<HookSession> {
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
    let registering = RegisterAgent {
        caller: caller_of(&state.service, &id),
        profile,
    };
    let (agent, _) = state.service.register_agent(registering).await?;
    Ok(HookSession {
        // Anew: only now the agent has a name.
        caller: caller_of(&state.service, &id),
        agent,
        is_own: true,
    })
}

/// An id made from the session's, that no other living root has.
fn free_id(
    state: &ServerState,
    tool: HookedTool,
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
    let message = "too many sessions with ids that begin with the same characters";
    Err(ApiError::refused(Reason::TooMany, message))
}

fn is_free(state: &ServerState, id: &AgentId, params: &HookParams, root: ProcessKey) -> bool {
    let found = state.service.find_agent(id);
    // A resumed session is the same agent in another process. Any other session with the same
    // beginning of its id is not.
    let session = Some(params.session_id.as_str());
    if found.is_some_and(|agent| session_of(&agent).as_deref() != session) {
        return false;
    }
    // A session that claims the id of a living one gets another id, and not that one's grants.
    let mut processes = state.service.processes_of(id);
    processes.retain(|process| *process != root && procfs::exists(*process));
    processes.is_empty()
}

//! Operations on agents that the host runs: started, told, ended, read.
//!
//! Invariant: agents reach none of them but orchestrators those that are about agents below them, and
//! observers only those that change nothing.

use std::time::Duration;

use countersign_core::event::{EnvVar, SpawnOptions, WorktreeRequest};
use countersign_core::limits::WAIT_AGENTS_MAX;
use countersign_core::{AgentId, Caller, ChildrenPolicy, Rejection, Seq};
use countersign_daemon::{DiscardWork, Service, SpawnRequest};
use countersign_protocol as wire;
use countersign_protocol::{HostAgent, Reason};

use super::{Result, page};
use crate::api_error::ApiError;
use crate::convert;
use crate::convert::managed as words;

/// Default number of transcript parts in one page.
const PARTS: usize = 100;

/// Starts an agent.
pub(crate) async fn spawn(
    service: &Service,
    caller: &Caller,
    params: wire::SpawnAgentParams,
) -> Result<HostAgent> {
    caller.require_operator()?;
    let request = request(params)?;
    Ok(convert::agent(&service.spawn_agent(caller, request).await?))
}

/// Secret values are taken out of what is recorded here, before anything else sees them.
pub(super) fn request(params: wire::SpawnAgentParams) -> Result<SpawnRequest> {
    if params.agent.is_some() != params.command.is_empty() {
        return Err(ApiError::plain(
            Reason::InvalidParams,
            "give one of agent and command",
        ));
    }
    if !params.cwd.starts_with('/') {
        return Err(ApiError::plain(
            Reason::InvalidParams,
            "cwd must be an absolute path",
        ));
    }
    let mut secrets = Vec::new();
    let mut env = Vec::new();
    for variable in params.env {
        let value = match (variable.secret, variable.value) {
            (true, Some(value)) => {
                secrets.push((variable.name.clone(), value));
                None
            }
            (_, value) => value,
        };
        env.push(EnvVar {
            name: variable.name,
            value,
        });
    }
    let options = SpawnOptions {
        agent: params.agent,
        command: params.command,
        protocol: convert::managed::protocol(params.protocol),
        fork: None,
        cwd: params.cwd,
        model: params.model,
        mode: params.mode,
        system_prompt: params.system_prompt,
        allowed_tools: params.allowed_tools,
        disallowed_tools: params.disallowed_tools,
        env,
        worktree: params.worktree.map(|wish| WorktreeRequest {
            branch: wish.branch,
        }),
        turn_timeout_ms: params.turn_timeout_ms,
        ask_timeout_ms: params.ask_timeout_ms,
        role: params.role.and_then(convert::managed::agent_role),
        parent: None,
        allowed_by: None,
    };
    Ok(SpawnRequest {
        name: params.name,
        options,
        secrets,
        prompt: params.prompt,
    })
}

/// Tells an agent something.
pub(crate) async fn prompt(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::PromptBody,
) -> Result<HostAgent> {
    let told = service.prompt_agent(caller, AgentId::new(id), body.message);
    Ok(convert::agent(&told.await?))
}

/// Ends an agent's turn.
pub(crate) async fn interrupt(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::InterruptBody,
) -> Result<HostAgent> {
    let told = service.interrupt_agent(caller, AgentId::new(id), body.reason);
    Ok(convert::agent(&told.await?))
}

/// Ends an agent.
pub(crate) async fn kill(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::KillBody,
) -> Result<HostAgent> {
    let children = body.children.map(|children| match children {
        wire::ChildrenFate::End => ChildrenPolicy::End,
        wire::ChildrenFate::Keep => ChildrenPolicy::Keep,
    });
    let ended = service.kill_agent(caller, AgentId::new(id), children);
    Ok(convert::agent(&ended.await?))
}

/// Starts an agent again.
pub(crate) async fn resume(service: &Service, caller: &Caller, id: String) -> Result<HostAgent> {
    let started = service.resume_agent(caller, AgentId::new(id));
    Ok(convert::agent(&started.await?))
}

/// Starts an agent that goes on from where another stands.
pub(crate) async fn fork(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::ForkBody,
) -> Result<HostAgent> {
    caller.require_operator()?;
    let forked = service.fork_agent(caller, AgentId::new(id), body.name, body.prompt);
    Ok(convert::agent(&forked.await?))
}

/// Puts an agent away, or takes it out again.
pub(crate) async fn archive(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::ArchiveBody,
) -> Result<HostAgent> {
    let put = service.archive_agent(caller, AgentId::new(id), body.archived);
    Ok(convert::agent(&put.await?))
}

/// Says what an orchestrator may settle for those below it.
pub(crate) async fn set_ceiling(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::CeilingBody,
) -> Result<HostAgent> {
    caller.require_operator()?;
    let lasts = body.expires_in_ms.map(Duration::from_millis);
    let set = service.set_ceiling(caller.clone(), AgentId::new(id), body.rules, lasts);
    Ok(convert::agent(&set.await?))
}

/// Gives an agent another name.
pub(crate) async fn rename(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::RenameBody,
) -> Result<HostAgent> {
    caller.require_operator()?;
    let named = service.rename_agent(caller, AgentId::new(id), body.name);
    Ok(convert::agent(&named.await?))
}

/// Gives an agent another mode or model.
pub(crate) async fn configure(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::ConfigureBody,
) -> Result<HostAgent> {
    caller.require_operator()?;
    let told = service.configure_agent(caller, AgentId::new(id), body.mode, body.model);
    Ok(convert::agent(&told.await?))
}

/// Waits until agents have nothing to do; when time runs out, gives them as they are.
pub(crate) async fn wait_idle(
    service: &Service,
    caller: &Caller,
    params: wire::WaitIdleParams,
) -> Result<wire::WaitIdleResult> {
    let ids = params.agent_ids.unwrap_or_default().into_iter();
    let ids: Vec<_> = ids.chain(params.agent_id).map(AgentId::new).collect();
    if ids.is_empty() {
        return Err(ApiError::plain(
            Reason::InvalidParams,
            "missing agent_id or agent_ids",
        ));
    }
    if ids.len() > WAIT_AGENTS_MAX {
        let limit = WAIT_AGENTS_MAX;
        return Err(Rejection::TooMany {
            what: "agents to wait for",
            limit,
        }
        .into());
    }
    let limit = params.timeout_ms.map(Duration::from_millis);
    let found = service.wait_idle(caller, ids.clone(), limit).await?;
    let idle = found.is_some();
    let agents = match found {
        Some(agents) => agents,
        None => load(service, caller, ids).await?,
    };
    Ok(wire::WaitIdleResult {
        agents: agents.iter().map(convert::agent).collect(),
        idle,
    })
}

async fn load(
    service: &Service,
    caller: &Caller,
    ids: Vec<AgentId>,
) -> Result<Vec<(countersign_core::Agent, countersign_core::OpenCounts)>> {
    let mut agents = Vec::with_capacity(ids.len());
    for id in ids {
        agents.push(service.load_agent(caller, id).await?);
    }
    Ok(agents)
}

/// What an agent said and did.
pub(crate) async fn transcript(
    service: &Service,
    caller: &Caller,
    id: String,
    query: wire::TranscriptQuery,
) -> Result<wire::TranscriptResult> {
    let id = AgentId::new(id);
    let limit = page(query.limit, PARTS).max(1);
    let found = service.transcript(caller, id, query.after.map(Seq), limit);
    Ok(words::transcript(&found.await?))
}

/// What an agent changed in its worktree.
pub(crate) async fn diff(
    service: &Service,
    caller: &Caller,
    id: String,
) -> Result<wire::AgentDiff> {
    caller.refuse_agents()?;
    Ok(words::diff(
        service.agent_diff(caller, AgentId::new(id)).await?,
    ))
}

/// Clears an agent's worktree away.
pub(crate) async fn remove_worktree(
    service: &Service,
    caller: &Caller,
    id: String,
    query: &wire::RemoveWorktreeQuery,
) -> Result<wire::RemovedWorktree> {
    caller.require_operator()?;
    let discard = if query.discard {
        DiscardWork::Yes
    } else {
        DiscardWork::No
    };
    let removed = service.remove_worktree(caller, AgentId::new(id), discard);
    Ok(words::removed(removed.await?))
}

/// The agents that are known, and which of them can be started here.
pub(crate) fn catalog(service: &Service, caller: &Caller) -> Result<Vec<wire::CatalogRow>> {
    caller.refuse_agents()?;
    let entries = service.catalog(caller)?;
    Ok(entries.into_iter().map(words::catalog_row).collect())
}

//! Operations on agents that the host runs: start, message, end, read.
//!
//! Invariant: an agent may call none of them, except that an orchestrator may call those about
//! agents below it; an observer may call those that change nothing.

use std::time::Duration;

use countersign_core::event::{
    EnvVar, PromptMessage, SpawnOptions, TerminalBackend, WorktreeRequest,
};
use countersign_core::limits::WAIT_AGENTS_MAX;
use countersign_core::{
    Agent, AgentId, ApprovalId, Caller, ChildrenPolicy, OpenCounts, Rejection, Seq,
};
use countersign_daemon::{
    AgentGoal, CatalogEntry, DiscardWork, MergeOutcome, Service, SpawnRequest, TranscriptPage,
    TranscriptRange, WorktreeDiff, WorktreeOutcome,
};
use countersign_protocol as wire;
use countersign_protocol::Reason;

use super::agents::find_id;
use super::{Result, page_rows};
use crate::api_error::ApiError;
use crate::convert;

/// Default number of transcript parts in one page.
const PARTS: usize = 100;

pub(crate) async fn spawn(
    service: &Service,
    caller: &Caller,
    params: wire::SpawnAgentParams,
) -> Result<(Agent, OpenCounts)> {
    caller.require_operator()?;
    let request = spawn_request(params)?;
    Ok(service.spawn_agent(caller, request).await?)
}

/// The request to start an agent. Secret values are separated here from what is recorded.
pub(super) fn spawn_request(params: wire::SpawnAgentParams) -> Result<SpawnRequest> {
    // The two sides differ if both are given, and also if neither is.
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
            // `SpawnOptions` becomes an event, and events hold no secrets. The name stays, so that
            // people see what the agent was given.
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
    let terminals = convert::managed::terminal_backend(params.terminals.as_deref())?;
    // What allowed an orchestrator's child is not said on the wire either.
    let allowed_by = params
        .allowed_by
        .filter(|_| terminals == TerminalBackend::Editor);
    let allowed_by = allowed_by.map(ApprovalId::new);
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
        mcp_servers: params.mcp_servers.map(convert::json),
        labels: params.labels,
        env,
        worktree: params.worktree.map(|params| WorktreeRequest {
            branch: params.branch,
        }),
        turn_timeout_ms: params.turn_timeout_ms,
        ask_timeout_ms: params.ask_timeout_ms,
        sandbox: params.sandbox,
        terminals,
        role: params.role.and_then(convert::managed::agent_role),
        // Never from the wire: it says who made the agent, and the host sets it itself.
        parent: None,
        allowed_by,
    };
    Ok(SpawnRequest {
        name: params.name,
        options,
        secrets,
        prompt: params.prompt,
        attachments: params.attachments,
    })
}

/// Sends a message to an agent.
pub(crate) async fn prompt(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::PromptBody,
) -> Result<(Agent, OpenCounts)> {
    let id = find_id(service, caller, &id)?;
    let prompted = service.prompt_agent(caller, id, body.message, body.attachments);
    Ok(prompted.await?)
}

/// A message that waits, and whether its reader may take it back.
pub(crate) struct WaitingMessage {
    pub(crate) message: PromptMessage,
    pub(crate) withdrawable: bool,
}

/// Messages that wait for an agent.
pub(crate) async fn queued_messages(
    service: &Service,
    caller: &Caller,
    id: &str,
) -> Result<Vec<WaitingMessage>> {
    let id = find_id(service, caller, id)?;
    let waiting = service.queued_messages(caller, id).await?;
    let may_withdraw = caller.refuse_observers().is_ok();
    let rows = waiting.into_iter().map(|message| WaitingMessage {
        // What another agent said is not for anybody else to take back.
        withdrawable: may_withdraw && message.parent_message.is_none(),
        message,
    });
    Ok(rows.collect())
}

/// Takes a message back that waits for an agent.
pub(crate) async fn withdraw_message(
    service: &Service,
    caller: &Caller,
    id: &str,
    number: u64,
) -> Result<wire::WithdrawnMessage> {
    let id = find_id(service, caller, id)?;
    let text = service.withdraw_message(caller, id, number).await?;
    Ok(wire::WithdrawnMessage { number, text })
}

/// Ends an agent's turn.
pub(crate) async fn interrupt(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::InterruptBody,
) -> Result<(Agent, OpenCounts)> {
    let interrupted = service.interrupt_agent(caller, find_id(service, caller, &id)?, body.reason);
    Ok(interrupted.await?)
}

/// Ends an agent.
pub(crate) async fn kill(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::KillBody,
) -> Result<(Agent, OpenCounts)> {
    let children = body.children.map(|children| match children {
        wire::ChildrenFate::End => ChildrenPolicy::End,
        wire::ChildrenFate::Keep => ChildrenPolicy::Keep,
    });
    let ended = service.kill_agent(caller, find_id(service, caller, &id)?, children);
    Ok(ended.await?)
}

/// Restarts an agent on its session.
pub(crate) async fn resume(
    service: &Service,
    caller: &Caller,
    id: String,
) -> Result<(Agent, OpenCounts)> {
    let started = service.resume_agent(caller, find_id(service, caller, &id)?);
    Ok(started.await?)
}

/// Starts an agent that continues from another's session.
pub(crate) async fn fork(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::ForkBody,
) -> Result<(Agent, OpenCounts)> {
    caller.require_operator()?;
    let forked = service.fork_agent(
        caller,
        find_id(service, caller, &id)?,
        body.name,
        body.prompt,
    );
    Ok(forked.await?)
}

/// Archives an agent, or restores it.
pub(crate) async fn archive(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::ArchiveBody,
) -> Result<(Agent, OpenCounts)> {
    let archived = service.archive_agent(caller, find_id(service, caller, &id)?, body.archived);
    Ok(archived.await?)
}

/// Sets what an orchestrator may approve for its descendants.
pub(crate) async fn set_ceiling(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::CeilingBody,
) -> Result<(Agent, OpenCounts)> {
    caller.require_operator()?;
    let lasts = body.expires_in_ms.map(Duration::from_millis);
    let set = service.set_ceiling(
        caller.clone(),
        find_id(service, caller, &id)?,
        body.rules,
        lasts,
    );
    Ok(set.await?)
}

pub(crate) async fn rename(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::RenameBody,
) -> Result<(Agent, OpenCounts)> {
    caller.require_operator()?;
    let named = service.rename_agent(caller, find_id(service, caller, &id)?, body.name);
    Ok(named.await?)
}

/// Changes an agent's mode or model.
pub(crate) async fn configure(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::ConfigureBody,
) -> Result<(Agent, OpenCounts)> {
    caller.require_operator()?;
    let configured = service.configure_agent(
        caller,
        find_id(service, caller, &id)?,
        body.mode,
        body.model,
    );
    Ok(configured.await?)
}

/// Agents after a wait, and whether all of them got there.
pub(crate) struct AwaitedAgents {
    pub(crate) agents: Vec<(Agent, OpenCounts)>,
    pub(crate) reached: bool,
}

/// Waits for agents; when time runs out, gives them as they are.
pub(crate) async fn wait(
    service: &Service,
    caller: &Caller,
    params: wire::WaitAgentsParams,
) -> Result<AwaitedAgents> {
    let ids = params.agent_ids.unwrap_or_default().into_iter();
    let ids: Result<Vec<_>> = ids
        .chain(params.agent_id)
        .map(|id| find_id(service, caller, &id))
        .collect();
    let ids = ids?;
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
    let goal = goal(params.until, params.turn, params.run)?;
    let limit = params.timeout_ms.map(Duration::from_millis);
    let found = service
        .wait_agents(caller, ids.clone(), goal, limit)
        .await?;
    let reached = found.is_some();
    let agents = match found {
        Some(agents) => agents,
        None => load(service, caller, ids).await?,
    };
    Ok(AwaitedAgents { agents, reached })
}

fn goal(until: wire::WaitUntil, turn: Option<u32>, run: Option<u32>) -> Result<AgentGoal> {
    match (until, turn) {
        (wire::WaitUntil::Idle, _) => Ok(AgentGoal::Idle),
        (wire::WaitUntil::Started, _) => Ok(AgentGoal::Started),
        (wire::WaitUntil::Ended, _) => Ok(AgentGoal::Ended { run }),
        (wire::WaitUntil::TurnEnded, Some(turn)) => Ok(AgentGoal::TurnEnded(turn)),
        (wire::WaitUntil::TurnEnded, None) => Err(ApiError::plain(
            Reason::InvalidParams,
            "`turn_ended` needs the number of the turn",
        )),
    }
}

async fn load(
    service: &Service,
    caller: &Caller,
    ids: Vec<AgentId>,
) -> Result<Vec<(Agent, OpenCounts)>> {
    let mut agents = Vec::with_capacity(ids.len());
    for id in ids {
        agents.push(service.load_agent(caller, id).await?);
    }
    Ok(agents)
}

pub(crate) async fn transcript(
    service: &Service,
    caller: &Caller,
    id: String,
    query: wire::TranscriptQuery,
) -> Result<TranscriptPage> {
    let id = find_id(service, caller, &id)?;
    // At least one, or `next` would never move and a reader would ask for ever.
    let limit = page_rows(query.limit, PARTS).max(1);
    let range = match (query.after, query.before) {
        (Some(_), Some(_)) => {
            let message = "give one of after and before";
            return Err(ApiError::plain(Reason::InvalidParams, message));
        }
        (None, Some(before)) if before > 0 => TranscriptRange::Before(Some(Seq(before))),
        (None, _) if query.from_end => TranscriptRange::Before(None),
        (after, _) => TranscriptRange::After(after.map(Seq)),
    };
    Ok(service.transcript(caller, id, range, limit).await?)
}

/// What an agent changed in its worktree.
pub(crate) async fn diff(
    service: &Service,
    caller: &Caller,
    id: String,
    query: wire::DiffQuery,
) -> Result<AgentChanges> {
    caller.refuse_agents()?;
    let id = find_id(service, caller, &id)?;
    let path = query.path.as_deref();
    Ok(AgentChanges {
        diff: service.agent_diff(caller, id, path).await?,
        form: query.form.unwrap_or_default(),
        is_one_file: path.is_some(),
    })
}

/// What an agent changed, and how it is to be shown.
pub(crate) struct AgentChanges {
    pub(crate) diff: WorktreeDiff,
    pub(crate) form: wire::DiffForm,
    /// Then its hunks are shown however many there are.
    pub(crate) is_one_file: bool,
}

pub(crate) async fn remove_worktree(
    service: &Service,
    caller: &Caller,
    id: String,
    query: &wire::RemoveWorktreeQuery,
) -> Result<WorktreeOutcome> {
    caller.require_operator()?;
    let discard = if query.discard {
        DiscardWork::Yes
    } else {
        DiscardWork::No
    };
    let id = find_id(service, caller, &id)?;
    Ok(service.remove_worktree(caller, id, discard).await?)
}

/// Merges an agent's branch.
pub(crate) async fn merge_worktree(
    service: &Service,
    caller: &Caller,
    id: String,
    body: wire::MergeWorktreeBody,
) -> Result<MergeOutcome> {
    caller.require_operator()?;
    let id = find_id(service, caller, &id)?;
    let merged = service.merge_worktree(caller, id, body.into.as_deref());
    Ok(merged.await?)
}

/// The agents that are known, and which of them can be started here.
pub(crate) fn catalog(service: &Service, caller: &Caller) -> Result<Vec<CatalogEntry>> {
    caller.refuse_agents()?;
    Ok(service.catalog(caller)?)
}

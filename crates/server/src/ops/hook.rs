//! Hooks: what sessions that the host did not start tell it, and what they are told.
//!
//! Invariants: who is calling is found out from the kernel and never from what the hook says; a
//! managed agent's hook grants nothing, because the host asks for it by itself; a no, a failure and
//! silence never read as allow.

mod asking;
mod mcp_client;
mod sessions;
mod waiters;
mod watch;

use std::sync::Arc;

use countersign_core::event::BaseState;
use countersign_core::{Agent, Caller, SendNotification, SetStatus};
use countersign_protocol::{HookDecision, HookEvent, HookParams, HookResult, Reason};

use super::Result;
use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::CallerConnection;
use crate::convert;

pub(crate) use mcp_client::register_mcp_client;
pub(crate) use waiters::HookWaiters;
pub(crate) use watch::watch;

use sessions::{Known, Session};

/// A tool whose hooks we know.
#[derive(Clone, Copy, Debug)]
struct Tool {
    /// Its name in the route, and the beginning of its agents' ids.
    name: &'static str,
    /// The kind of its agents.
    kind: &'static str,
}

/// The tool of hooks that name none.
const USUAL_TOOL: &str = "claude";

const TOOLS: [Tool; 1] = [Tool {
    name: USUAL_TOOL,
    kind: "claude-code",
}];

/// Serves one event of one session.
pub(crate) async fn hook(
    state: &Arc<ServerState>,
    connection: &Arc<CallerConnection>,
    params: HookParams,
) -> Result<HookResult> {
    let name = params.hook.as_deref().unwrap_or(USUAL_TOOL);
    let tool = TOOLS.into_iter().find(|tool| tool.name == name);
    let tool = tool.ok_or_else(|| {
        let message = format!("unknown hook `{name}`, expected `claude`");
        ApiError::plain(Reason::InvalidParams, message)
    })?;
    match sessions::find(state, connection, tool, &params).await? {
        Known::Managed(agent) => Ok(leave_to_the_host(agent.to_string(), params.event)),
        Known::External(session) => Box::pin(serve(state, *session, params)).await,
    }
}

/// What a hook is told by any other door.
pub(crate) fn by_the_socket_alone() -> ApiError {
    let words = "hooks come by the Unix socket, where the host sees which process calls";
    ApiError::refused(Reason::AuthFailed, words)
}

/// The host that runs an agent is asked by it directly. A hook that granted would answer in the
/// person's place, and one that asked as well would ask twice.
fn leave_to_the_host(agent_id: String, event: HookEvent) -> HookResult {
    let asks = event == HookEvent::Ask;
    let words = "countersign runs this agent and is asked by it directly";
    HookResult {
        reason: asks.then(|| words.to_owned()),
        decision: if asks {
            HookDecision::Ask
        } else {
            HookDecision::None
        },
        ..nothing(agent_id)
    }
}

fn nothing(agent_id: String) -> HookResult {
    HookResult {
        agent_id,
        decision: HookDecision::None,
        reason: None,
        edited_input: None,
        approval_id: None,
        told_before: false,
    }
}

async fn serve(
    state: &Arc<ServerState>,
    session: Session,
    params: HookParams,
) -> Result<HookResult> {
    let agent_id = session.agent.id().to_string();
    match params.event {
        HookEvent::Ask | HookEvent::Prompt => {
            turn_to(state, &session, BaseState::Running, None).await?;
            return asking::ask(state, session, params).await;
        }
        HookEvent::SessionEnded => {
            if session.is_own {
                asking::withdraw_all(state, &session.agent, "the session ended").await;
            }
            let words = params
                .message
                .map(|why| format!("the session ended: {why}"));
            turn_to(state, &session, BaseState::Done, words).await?;
        }
        HookEvent::Idle => turn_to(state, &session, BaseState::Idle, None).await?,
        HookEvent::Notice => notice(state, &session, params).await?,
        // Finding out who it is has registered it; later events that are not known need no more.
        _ => {}
    }
    Ok(nothing(agent_id))
}

/// Says what the agent does, where that is new. A session inside another's process says nothing of
/// that other one.
async fn turn_to(
    state: &ServerState,
    session: &Session,
    base: BaseState,
    message: Option<String>,
) -> Result<()> {
    if session.is_own && session.agent.base != base {
        set_base(state, &session.caller, &session.agent, base, message).await?;
    }
    Ok(())
}

async fn set_base(
    state: &ServerState,
    caller: &Caller,
    agent: &Agent,
    base: BaseState,
    message: Option<String>,
) -> Result<()> {
    let status = SetStatus {
        caller: caller.clone(),
        agent: agent.id().clone(),
        base,
        current_task: None,
        message,
        payload: None,
    };
    state.service.set_status(status).await?;
    Ok(())
}

async fn notice(state: &ServerState, session: &Session, params: HookParams) -> Result<()> {
    let notice = SendNotification {
        caller: session.caller.clone(),
        kind: "hook.notification".to_owned(),
        agent: None,
        message: params.message.unwrap_or_default(),
        payload: convert::json(params.details),
    };
    state.service.notify(notice).await?;
    Ok(())
}

//! Hooks of sessions that the host did not start: their events, and the decisions they get.
//!
//! Invariants: the caller is identified by the kernel and never by what the hook says; a managed
//! agent's hook grants nothing, because that agent asks the host directly; a denial, a failure and
//! silence never become an allow.

mod asking;
mod mcp_client;
mod sessions;
mod waiters;
mod watch;

use std::sync::Arc;

use countersign_core::event::BaseState;
use countersign_core::{ASK_PERSON_TOOL, Agent, Caller, SendNotification, SetStatus};
use countersign_protocol::{HookDecision, HookEvent, HookParams, HookResult, Reason};

use super::Result;
use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::CallerConnection;
use crate::convert;

pub(crate) use mcp_client::register_mcp_client;
pub(crate) use waiters::HookWaiters;
pub(crate) use watch::watch;

use sessions::{HookCaller, HookSession};

/// A tool whose hooks we know.
#[derive(Clone, Copy, Debug)]
struct HookedTool {
    /// Its name in the route, and the beginning of its agents' ids.
    name: &'static str,
    /// The kind of its agents.
    kind: &'static str,
}

/// The tool of a hook that names none.
const USUAL_TOOL: &str = "claude";

const TOOLS: [HookedTool; 1] = [HookedTool {
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
        HookCaller::Managed(agent) => Ok(leave_to_the_host(agent.to_string(), params.event)),
        HookCaller::External(session) => Box::pin(serve(state, *session, params)).await,
    }
}

/// The refusal of a hook on TCP.
pub(crate) fn by_the_socket_alone() -> ApiError {
    // On TCP a process is found by a search that an agent can race. On the Unix socket the kernel
    // names it, and a root that is wrong would mark the wrong program as an agent.
    let message = "hooks must use the Unix socket, where the host sees which process calls";
    ApiError::refused(Reason::AuthFailed, message)
}

/// The result for a hook of an agent that the host runs.
fn leave_to_the_host(agent_id: String, event: HookEvent) -> HookResult {
    // The agent asks the host directly. A hook that allowed would answer instead of the person, and
    // one that opened an ask would have the person asked twice.
    let asks = event == HookEvent::Ask;
    let message = "countersign runs this agent, so it asks without a hook";
    HookResult {
        reason: asks.then(|| message.to_owned()),
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
    session: HookSession,
    params: HookParams,
) -> Result<HookResult> {
    let agent_id = session.agent.id().to_string();
    match params.event {
        HookEvent::Ask | HookEvent::Prompt if is_question(&params) => {
            return asking::leave_question(state, session, params).await;
        }
        HookEvent::Ask | HookEvent::Prompt => {
            turn_to(state, &session, BaseState::Running, None).await?;
            return asking::ask(state, session, params).await;
        }
        HookEvent::SessionEnded => {
            // A session inside of an agent's process ends without ending that agent.
            if session.is_own {
                asking::withdraw_all(state, &session.agent, "the session ended").await;
            }
            let message = params
                .message
                .map(|why| format!("the session ended: {why}"));
            turn_to(state, &session, BaseState::Done, message).await?;
        }
        HookEvent::Idle => turn_to(state, &session, BaseState::Idle, None).await?,
        HookEvent::Notice => notice(state, &session, params).await?,
        // `SessionStarted`, and events of newer tools: the session is registered by now, and that
        // is all they need.
        _ => {}
    }
    Ok(nothing(agent_id))
}

/// Whether the tool only asks the person at the terminal something.
fn is_question(params: &HookParams) -> bool {
    params.tool.as_deref() == Some(ASK_PERSON_TOOL)
}

/// Sets the agent's base state, if it is another one. A session inside of another agent's process
/// says nothing about that agent.
async fn turn_to(
    state: &ServerState,
    session: &HookSession,
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

async fn notice(state: &ServerState, session: &HookSession, params: HookParams) -> Result<()> {
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

//! The ask of a hook: one approval for one tool call, whichever of its two hooks comes first, waited
//! for as long as the hook has time.
//!
//! Invariants: an answer counts for the call it was given for and for no other; an ask that nobody
//! waits for any more is taken back.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::ApprovalOutcome;
use countersign_core::limits::{HOOK_JOIN_MS, HOOK_WAIT_MS_MAX};
use countersign_core::{Agent, Approval, ApprovalId, Caller, Json};
use countersign_daemon::{ApprovalQuery, Service};
use countersign_protocol as wire;
use countersign_protocol::{
    HookDecision, HookEnd, HookEvent, HookParams, HookResult, HostApproval, HostApprovalState,
    HostRole, Raw, Reason,
};

use super::super::{Result, ask_request, settle_told, wait_approval};
use super::sessions::{Session, caller_of};
use super::waiters::{Waiter, withdraw};
use super::{HookWaiters, nothing};
use crate::ServerState;
use crate::api_error::ApiError;
use crate::convert;
use crate::request_log;

/// Newest asks of a session among which a prompt finds its own.
const CANDIDATES: usize = 32;

/// How much longer the host waits than the ask lasts, so that an ask ends by its own time first.
const SLACK_MS: u64 = 250;

/// Characters of what a tool call is about that its title shows.
const TITLE_CHARS: usize = 500;

pub(super) async fn ask(
    state: &Arc<ServerState>,
    session: Session,
    params: HookParams,
) -> Result<HookResult> {
    let agent_id = session.agent.id().to_string();
    let (wait_ms, end) = (params.wait_ms.min(HOOK_WAIT_MS_MAX), params.after_wait);
    let prompted = match params.event {
        HookEvent::Prompt => find_prompted(state, &session, &params).await?,
        _ => None,
    };
    let row = match prompted {
        Some(id) => wait(state, &session, &id, wait_ms).await?,
        None => ask_anew(state, &session, &params, wait_ms).await?,
    };
    if row.state == HostApprovalState::Pending {
        return leave(state, session, row, end).await;
    }
    Ok(answer(agent_id, row))
}

/// A second hook for the same event, from another settings file, waits for the same answer: it is given
/// the ask that is open. One that was answered is not given: what comes after it is another call.
async fn ask_anew(
    state: &Arc<ServerState>,
    session: &Session,
    params: &HookParams,
    wait_ms: u64,
) -> Result<HostApproval> {
    let ask = ask_request(session.caller.clone(), request(params, wait_ms)?);
    let approval = state.service.request_call_approval(ask).await?;
    request_log::note_ask(&approval);
    let row = convert::approval(&approval);
    settle_told(&state.service, &approval).await;
    if row.state == HostApprovalState::Pending {
        wait(state, session, &ApprovalId::new(row.id), wait_ms).await
    } else {
        Ok(row)
    }
}

fn request(params: &HookParams, wait_ms: u64) -> Result<wire::RequestApprovalParams> {
    let tool = params.tool.clone().filter(|tool| !tool.is_empty());
    let tool = tool.ok_or_else(|| {
        let words = "a hook that asks names the tool";
        ApiError::plain(Reason::InvalidParams, words)
    })?;
    let lasts_ms = match params.after_wait {
        HookEnd::Deny => wait_ms,
        // The tool's own prompt waits as long again.
        HookEnd::Ask => 2 * wait_ms + HOOK_JOIN_MS,
    };
    let request = params.request_id.as_deref();
    Ok(wire::RequestApprovalParams {
        action: title(&tool, params.input.as_ref()),
        agent_id: None,
        details: params.details.clone(),
        options: Vec::new(),
        approving: None,
        system_level: true,
        a2ui: None,
        tool: Some(tool),
        input: params.input.clone(),
        cwd: params.cwd.clone(),
        turn: Some(params.session_id.clone()),
        tool_call_id: params.tool_call_id.clone(),
        idempotency_key: request.map(|request| format!("hook:{}:{request}", params.session_id)),
        timeout_ms: Some(lasts_ms.max(1)),
    })
}

/// What a person reads first: the tool and what it is used on.
fn title(tool: &str, input: Option<&Raw>) -> String {
    let input: serde_json::Value = input
        .and_then(|input| serde_json::from_str(input.text()).ok())
        .unwrap_or_default();
    let names = [
        "command",
        "file_path",
        "notebook_path",
        "path",
        "url",
        "query",
        "pattern",
    ];
    let what = names.into_iter().find_map(|name| input.get(name)?.as_str());
    let what: String = what.unwrap_or_default().chars().take(TITLE_CHARS).collect();
    match (tool, what.as_str()) {
        (tool, "") => tool.to_owned(),
        ("Bash", what) => what.to_owned(),
        (tool, what) => format!("{tool} {what}"),
    }
}

/// A prompt has no id of its call: it belongs to the newest ask about the same thing that is open, or
/// was answered a moment ago, and that no other prompt belongs to.
async fn find_prompted(
    state: &ServerState,
    session: &Session,
    params: &HookParams,
) -> Result<Option<ApprovalId>> {
    let request = params.request_id.as_deref().unwrap_or_default();
    let asked = newest_asks(&state.service, &session.caller).await?;
    let same = asked.iter().filter(|approval| is_about(approval, params));
    let now = state.service.now();
    let fits = |(place, approval): &(usize, &Approval)| match &approval.ended {
        None => true,
        Some(ended) => {
            let decided = matches!(
                ended.ending.outcome,
                ApprovalOutcome::Allowed | ApprovalOutcome::Denied
            );
            *place == 0 && decided && now <= ended.at.plus_ms(HOOK_JOIN_MS)
        }
    };
    let mut fitting = same.enumerate().filter(fits);
    let found =
        fitting.find(|(_, approval)| !state.hook_waiters.is_claimed(&approval.ask.id, request));
    let claimed = found.filter(|(_, approval)| state.hook_waiters.claim(&approval.ask.id, request));
    Ok(claimed.map(|(_, approval)| approval.ask.id.clone()))
}

async fn newest_asks(service: &Service, caller: &Caller) -> Result<Vec<Approval>> {
    let newest = ApprovalQuery {
        dismissed: true,
        limit: CANDIDATES,
        ..ApprovalQuery::default()
    };
    Ok(service.approvals(caller, newest).await?)
}

/// Whether an approval is about exactly this: the input as asked, or as a person changed it.
fn is_about(approval: &Approval, params: &HookParams) -> bool {
    let ask = &approval.ask;
    let edited = approval.ended.as_ref();
    let edited = edited.and_then(|ended| ended.ending.edited_input.as_ref());
    let digest = match edited {
        Some(edited) => Some(edited.canonical_digest()),
        None => ask.input_digest.clone(),
    };
    let input = params.input.clone().map(convert::json);
    ask.turn.as_deref() == Some(params.session_id.as_str())
        && ask.tool == params.tool
        && digest == input.as_ref().map(Json::canonical_digest)
}

async fn wait(
    state: &Arc<ServerState>,
    session: &Session,
    id: &ApprovalId,
    wait_ms: u64,
) -> Result<HostApproval> {
    let waiter = Waiter::new(state, &session.caller, id);
    let limit = Duration::from_millis(wait_ms + SLACK_MS);
    let (service, caller) = (&state.service, &session.caller);
    let ended = tokio::select! {
        ended = wait_approval(service, caller, id.to_string(), Some(limit)) => ended,
        () = state.shutdown.cancelled() => {
            Err(ApiError::plain(Reason::ShuttingDown, "the host is ending"))
        }
    };
    waiter.stays();
    ended
}

/// Nobody answered in time.
async fn leave(
    state: &Arc<ServerState>,
    session: Session,
    row: HostApproval,
    end: HookEnd,
) -> Result<HookResult> {
    let agent_id = session.agent.id().to_string();
    let id = ApprovalId::new(row.id.as_str());
    if end == HookEnd::Ask {
        let reason = format!("nobody answered {} in time", row.id);
        HookWaiters::leave_to_prompt(state, session.caller, id);
        return Ok(HookResult {
            decision: HookDecision::Ask,
            reason: Some(reason),
            approval_id: Some(row.id),
            ..nothing(agent_id)
        });
    }
    let words = "nobody answered in time, so this was not allowed";
    withdraw(state, session.caller.clone(), id, words).await;
    // Somebody may have answered at the last moment, and then that counts.
    let row = wait_approval(&state.service, &session.caller, row.id, None).await?;
    Ok(answer(agent_id, row))
}

/// What an ask that ended means to the hook. Whatever is not an allow is a no.
fn answer(agent_id: String, row: HostApproval) -> HookResult {
    let allowed = row.state == HostApprovalState::Allowed;
    HookResult {
        decision: if allowed {
            HookDecision::Allow
        } else {
            HookDecision::Deny
        },
        reason: Some(words(&row)),
        edited_input: row.edited_input.filter(|_| allowed),
        told_before: row.deliveries > 1,
        approval_id: Some(row.id),
        agent_id,
    }
}

fn words(row: &HostApproval) -> String {
    let by = row.resolved_by.as_ref().map_or("the host", |by| &by.name);
    let by = match &row.verdict {
        Some(_)
            if row
                .resolved_by
                .as_ref()
                .is_some_and(|by| by.role == HostRole::Host) =>
        {
            format!("{by}, by rule")
        }
        _ => by.to_owned(),
    };
    let said = row.message.as_deref().unwrap_or_default();
    let head = match row.state {
        HostApprovalState::Allowed if row.edited_input.is_some() => {
            format!("allowed with a changed input by {by}")
        }
        HostApprovalState::Allowed => format!("allowed by {by}"),
        HostApprovalState::Denied => format!("denied by {by}"),
        HostApprovalState::Answered => format!(
            "answered by {by} with `{}`",
            row.resolution.as_deref().unwrap_or("")
        ),
        // It ended without an answer, and says why.
        _ if !said.is_empty() => return said.to_owned(),
        other => format!("not allowed: {other}"),
    };
    if said.is_empty() {
        head
    } else {
        format!("{head}: {said}")
    }
}

/// Takes back whatever the agent has open.
pub(super) async fn withdraw_all(state: &ServerState, agent: &Agent, words: &str) {
    let caller = caller_of(agent.id());
    let open = state.service.own_open_asks(&caller).await;
    for approval in open.unwrap_or_default() {
        let id = approval.ask.id.clone();
        withdraw(state, caller.clone(), id, words).await;
    }
}

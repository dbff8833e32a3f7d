//! The ask of a hook: one approval for one tool call, whichever of its two hooks comes first. It
//! waits for as long as the hook has time.
//!
//! Invariants: an answer applies to the call it was given for and to no other; an ask that no hook
//! waits for any more is withdrawn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use countersign_core::event::{ApprovalEnding, ApprovalOutcome, BaseState, Effect};
use countersign_core::limits::{HOOK_JOIN_MS, HOOK_WAIT_MS_MAX};
use countersign_core::{
    Agent, Approval, ApprovalId, Ask, Caller, Json, Role, SetStatus, Timestamp, find_subject,
};
use countersign_daemon::{ApprovalQuery, CheckRequest, Service};
use countersign_protocol as wire;
use countersign_protocol::{HookDecision, HookEnd, HookEvent, HookParams, HookResult, Raw, Reason};

use super::super::Result;
use super::super::approvals::{self, ask_request, record_handover};
use super::sessions::{HookSession, caller_of};
use super::waiters::{AbandonedAsk, HookWaiter, withdraw};
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

/// How long the hook waits, and what becomes of its ask if it leaves before it has its answer.
struct HookPatience {
    wait_ms: u64,
    /// The hook's time runs from its request and not from the opening of the ask, which may take long
    /// on a busy machine.
    asked_at: Instant,
    abandoned: AbandonedAsk,
}

impl HookPatience {
    fn of(params: &HookParams) -> Self {
        let abandoned = match (params.after_wait, params.event) {
            // A prompt is the last that asks: nothing comes after it that could take the ask over.
            (HookEnd::Deny, _) | (HookEnd::Ask, HookEvent::Prompt) => AbandonedAsk::IsWithdrawn,
            // Whether the hook heard that its time is over or said so by itself, the tool asks at its
            // prompt next, about the same ask.
            (HookEnd::Ask, _) => AbandonedAsk::IsLeftToPrompt,
        };
        Self {
            wait_ms: params.wait_ms.min(HOOK_WAIT_MS_MAX),
            asked_at: Instant::now(),
            abandoned,
        }
    }

    /// What is left of it.
    fn left(&self) -> Duration {
        let whole = Duration::from_millis(self.wait_ms + SLACK_MS);
        whole.saturating_sub(self.asked_at.elapsed())
    }
}

pub(super) async fn ask(
    state: &Arc<ServerState>,
    session: HookSession,
    params: HookParams,
) -> Result<HookResult> {
    let agent_id = session.agent.id().to_string();
    let patience = HookPatience::of(&params);
    let end = params.after_wait;
    let prompted = match params.event {
        HookEvent::Prompt => find_prompted(state, &session, &params).await?,
        _ => None,
    };
    let approval = match prompted {
        Some(id) => wait(state, &session, &id, &patience).await?,
        None => ask_anew(state, &session, &params, &patience).await?,
    };
    if approval.is_pending() {
        return leave(state, session, &approval, end).await;
    }
    Ok(answer(agent_id, &approval))
}

/// A question to people stays in the terminal, where its choices are shown and somebody sits. What a
/// rule denies is denied all the same.
pub(super) async fn leave_question(
    state: &Arc<ServerState>,
    session: HookSession,
    params: HookParams,
) -> Result<HookResult> {
    let check = CheckRequest {
        tool: params.tool.clone().unwrap_or_default(),
        input: params.input.clone().map(convert::json),
        cwd: params.cwd.clone(),
        agent: Some(session.agent.id().clone()),
    };
    let checked = state.service.check_rules(&Caller::host(), check).await?;
    let agent_id = session.agent.id().to_string();
    if checked.verdict.effect == Effect::Deny {
        return Ok(HookResult {
            decision: HookDecision::Deny,
            reason: Some("denied by a rule".to_owned()),
            ..nothing(agent_id)
        });
    }
    if session.is_own {
        let status = SetStatus {
            caller: session.caller.clone(),
            agent: session.agent.id().clone(),
            base: BaseState::Paused,
            // `ls` shows it; whatever the session does next replaces it.
            current_task: Some("waits for your answer in its terminal".to_owned()),
            message: None,
            payload: None,
        };
        state.service.set_status(status).await?;
    }
    Ok(HookResult {
        decision: HookDecision::Ask,
        reason: Some("this question is answered here".to_owned()),
        ..nothing(agent_id)
    })
}

/// Opens an ask, or joins the open one about the same call, and waits.
async fn ask_anew(
    state: &Arc<ServerState>,
    session: &HookSession,
    params: &HookParams,
    patience: &HookPatience,
) -> Result<Approval> {
    let ask = ask_request(session.caller.clone(), request(params, patience.wait_ms)?);
    // The same hook may be in two settings files; its second call joins the ask that the first one
    // opened. An ask that was answered is not joined, because what comes after it is another call.
    let approval = state.service.request_call_approval(ask).await?;
    request_log::note_ask(&approval);
    record_handover(&state.service, &approval).await;
    if approval.is_pending() {
        wait(state, session, &approval.ask.id, patience).await
    } else {
        Ok(approval)
    }
}

fn request(params: &HookParams, wait_ms: u64) -> Result<wire::RequestApprovalParams> {
    let tool = params.tool.clone().filter(|tool| !tool.is_empty());
    let tool = tool.ok_or_else(|| {
        ApiError::plain(Reason::InvalidParams, "a hook that asks must name the tool")
    })?;
    let lasts_ms = match params.after_wait {
        HookEnd::Deny => wait_ms,
        // After the hook the tool's own prompt has a hook that waits as long again, and there may
        // be some time between the two.
        HookEnd::Ask => 2 * wait_ms + HOOK_JOIN_MS,
    };
    let request = params.request_id.as_deref();
    Ok(wire::RequestApprovalParams {
        action: title(&tool, params.input.as_ref()),
        agent_id: None,
        details: params.details.clone(),
        options: Vec::new(),
        approving: None,
        // No connection owns it: any operator answers.
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
    let input: serde_json::Map<String, serde_json::Value> = input
        .and_then(|input| serde_json::from_str(input.text()).ok())
        .unwrap_or_default();
    let subject = find_subject(&input).unwrap_or_default();
    let subject: String = subject.chars().take(TITLE_CHARS).collect();
    match (tool, subject.as_str()) {
        (tool, "") => tool.to_owned(),
        ("Bash", command) => command.to_owned(),
        (tool, subject) => format!("{tool} {subject}"),
    }
}

/// The ask that a prompt belongs to, if there is one.
async fn find_prompted(
    state: &ServerState,
    session: &HookSession,
    params: &HookParams,
) -> Result<Option<ApprovalId>> {
    let request = params.request_id.as_deref().unwrap_or_default();
    let asked = newest_asks(&state.service, &session.caller).await?;
    let same = asked.iter().filter(|approval| is_about(approval, params));
    let now = state.service.now();
    let waiters = &state.hook_waiters;
    // A prompt does not name its call. It belongs to the newest ask about the same input that is
    // open, or was answered a moment ago, and that no other prompt has claimed. Only the newest may
    // have ended: an older answer was for an earlier call, and would allow this one unasked.
    let found = same
        .enumerate()
        .filter(|(place, approval)| {
            approval.is_pending() || (*place == 0 && was_just_decided(approval, now))
        })
        .map(|(_, approval)| &approval.ask.id)
        .find(|id| !waiters.is_claimed(id, request));
    Ok(found.filter(|id| waiters.claim(id, request)).cloned())
}

fn was_just_decided(approval: &Approval, now: Timestamp) -> bool {
    approval.ended.as_ref().is_some_and(|ended| {
        let outcome = ended.ending.outcome;
        matches!(outcome, ApprovalOutcome::Allowed | ApprovalOutcome::Denied)
            && now <= ended.at.plus_ms(HOOK_JOIN_MS)
    })
}

async fn newest_asks(service: &Service, caller: &Caller) -> Result<Vec<Approval>> {
    let newest = ApprovalQuery {
        dismissed: true,
        limit: CANDIDATES,
        ..ApprovalQuery::default()
    };
    Ok(service.approvals(caller, newest).await?)
}

/// Whether an approval is about exactly this tool call.
fn is_about(approval: &Approval, params: &HookParams) -> bool {
    // After an allow with an edited input the tool prompts with that one.
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
    session: &HookSession,
    id: &ApprovalId,
    patience: &HookPatience,
) -> Result<Approval> {
    // It sees to the ask if this future is dropped, which happens when the hook's process ends or
    // closes its connection.
    let waiter = HookWaiter::new(state, &session.caller, id, patience.abandoned);
    let limit = patience.left();
    let (service, caller) = (&state.service, &session.caller);
    let ended = tokio::select! {
        ended = approvals::wait(service, caller, id.to_string(), Some(limit)) => ended,
        () = state.shutdown.cancelled() => {
            Err(ApiError::plain(Reason::ShuttingDown, "the host is ending"))
        }
    };
    waiter.stays();
    ended
}

/// Ends the wait for an ask that is still open.
async fn leave(
    state: &Arc<ServerState>,
    session: HookSession,
    approval: &Approval,
    end: HookEnd,
) -> Result<HookResult> {
    let agent_id = session.agent.id().to_string();
    let id = approval.ask.id.clone();
    if end == HookEnd::Ask {
        let result = HookResult {
            decision: HookDecision::Ask,
            reason: Some(format!("nobody answered {id} in time")),
            approval_id: Some(id.to_string()),
            ..nothing(agent_id)
        };
        HookWaiters::leave_to_prompt(state, session.caller, id);
        return Ok(result);
    }
    let reason = "nobody answered in time, so this was not allowed";
    withdraw(state, session.caller.clone(), id.clone(), reason).await;
    // The ask may have been answered just before it was withdrawn, and then the answer counts.
    let ended = approvals::wait(&state.service, &session.caller, id.to_string(), None).await?;
    Ok(answer(agent_id, &ended))
}

/// The result of a hook whose ask has ended. Every outcome but an allow is a denial.
fn answer(agent_id: String, approval: &Approval) -> HookResult {
    let ending = approval.ended.as_ref().map(|ended| &ended.ending);
    let allowing = ending.filter(|ending| ending.outcome == ApprovalOutcome::Allowed);
    HookResult {
        decision: match allowing {
            Some(_) => HookDecision::Allow,
            None => HookDecision::Deny,
        },
        reason: ending.map(|ending| describe_ending(&approval.ask, ending)),
        edited_input: allowing.and_then(|ending| ending.edited_input.as_ref().map(convert::raw)),
        told_before: approval.deliveries > 1,
        approval_id: Some(approval.ask.id.to_string()),
        agent_id,
    }
}

fn describe_ending(ask: &Ask, ending: &ApprovalEnding) -> String {
    let is_judged = ask.verdict.is_some() || ending.verdict.is_some();
    let by_rule = is_judged && ending.by.role == Role::Host;
    let by = format!(
        "{}{}",
        ending.by.name,
        if by_rule { ", by rule" } else { "" }
    );
    let message = ending.message.as_deref().unwrap_or_default();
    let description = match ending.outcome {
        ApprovalOutcome::Allowed if ending.edited_input.is_some() => {
            format!("allowed with a changed input by {by}")
        }
        ApprovalOutcome::Allowed => format!("allowed by {by}"),
        ApprovalOutcome::Denied => format!("denied by {by}"),
        ApprovalOutcome::Answered => format!("answered by {by} with `{}`", ending.resolution),
        // It ended without an answer, and the message says why.
        _ if !message.is_empty() => return message.to_owned(),
        ApprovalOutcome::Cancelled => "not allowed: cancelled".to_owned(),
        ApprovalOutcome::Expired => "not allowed: expired".to_owned(),
        ApprovalOutcome::Gone => "not allowed: gone".to_owned(),
    };
    if message.is_empty() {
        description
    } else {
        format!("{description}: {message}")
    }
}

/// Withdraws every open ask of the agent.
pub(super) async fn withdraw_all(state: &ServerState, agent: &Agent, reason: &str) {
    let caller = caller_of(&state.service, agent.id());
    let open = state.service.own_open_asks(&caller).await;
    for approval in open.unwrap_or_default() {
        let id = approval.ask.id.clone();
        withdraw(state, caller.clone(), id, reason).await;
    }
}

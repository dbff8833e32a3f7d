//! Operations on asks for permission.

use std::time::Duration;

use countersign_core::event::AnswerDelivery;
use countersign_core::limits::ANSWERS_MAX;
use countersign_core::{
    AgentId, Approval, ApprovalAnswer, ApprovalId, AskRequest, Caller, GrantState, Json, Rejection,
};
use countersign_daemon::{ApprovalQuery, Service, StopCounts, new_approval_id};
use countersign_protocol as wire;
use countersign_protocol::Reason;
use futures_util::future::join_all;

use super::agents::find_filter;
use super::{Result, one_of, page_rows, prefixed, remember, status_filter};
use crate::api_error::ApiError;
use crate::convert;
use crate::request_log;

pub(crate) async fn request(
    service: &Service,
    caller: Caller,
    params: wire::RequestApprovalParams,
) -> Result<Approval> {
    let request = ask_request(caller, params);
    let approval = service.request_approval(request).await?;
    request_log::note_ask(&approval);
    record_handover(service, &approval).await;
    Ok(approval)
}

pub(super) fn ask_request(caller: Caller, params: wire::RequestApprovalParams) -> AskRequest {
    AskRequest {
        caller,
        id: new_approval_id(),
        agent: params.agent_id.map(AgentId::new),
        turn: params.turn,
        tool_call: params.tool_call_id,
        action: params.action,
        tool: params.tool,
        input: params.input.map(convert::json),
        details: convert::json(params.details),
        a2ui: params.a2ui.map(convert::json),
        options: params.options,
        approving: params.approving,
        system_level: params.system_level,
        idempotency_key: params.idempotency_key,
        timeout_ms: params.timeout_ms,
        cwd: params.cwd,
        judged: None,
        keyed: None,
        managed: None,
    }
}

/// An ask over the host wire, whose reply also describes the asking connection.
pub(crate) struct WireAsk {
    pub(crate) approval: Approval,
    /// Whether the connection that asked reads events.
    pub(crate) subscribed: bool,
}

pub(crate) async fn request_over_wire(
    service: &Service,
    caller: Caller,
    subscribed: bool,
    params: wire::RequestApprovalParams,
) -> Result<WireAsk> {
    let approval = request(service, caller, params).await?;
    Ok(WireAsk {
        approval,
        subscribed,
    })
}

/// An ask in a reply to its asker.
pub(crate) struct AskerReply(pub(crate) Approval);

/// Records that an answer was delivered to its asker.
pub(super) async fn record_handover(service: &Service, approval: &Approval) {
    // Recorded before the reply is sent: an external asker confirms nothing, so this is the last
    // moment that the host knows of. If the reply is lost, the asker asks again under its key.
    if approval.delivery == AnswerDelivery::Attempted {
        // If the loop has ended, the next host finds the attempt and records its outcome as
        // unknown.
        drop(
            service
                .settle_answer(approval, AnswerDelivery::Delivered)
                .await,
        );
    }
}

/// The result of answering an ask.
pub(crate) struct AnsweredAsk {
    pub(crate) approval: Approval,
    /// The connection that owns the ask was asked to decide; the ask is still open.
    pub(crate) passed_to_owner: bool,
    /// The grants that the answer became.
    pub(crate) remembered: Vec<GrantState>,
}

pub(crate) async fn resolve(
    service: &Service,
    caller: Caller,
    id: String,
    body: wire::ResolutionBody,
) -> Result<AnsweredAsk> {
    // Some clients send null for a field that they do not use; it must not replace the input.
    let edited = body.edited_input.filter(|input| !input.is_null());
    let edited_input = edited
        .map(|input| Json::from_value(&input))
        .transpose()
        .map_err(|error| ApiError::invalid(&error))?;
    let id = ApprovalId::new(id);
    request_log::note_approval(&id);
    let as_asked = edited_input.is_none();
    let remember = remember::drafts(service, &caller, &id, body.remember, as_asked).await?;
    let answer = ApprovalAnswer {
        resolution: body.resolution,
        message: body.message,
        edited_input,
        answers: body
            .answers
            .map(|answers| answers.into_iter().map(Vec::from).collect()),
        stop: body.stop,
        considered_ms: body.considered_ms,
        remember,
    };
    let remembers = !answer.remember.is_empty();
    let answered = service.resolve_approval(caller.clone(), id.clone(), answer);
    let (approval, passed_to_owner) = answered.await?;
    request_log::note_ask(&approval);
    // An answer that was passed to the owner has decided nothing yet, so there are no grants.
    let remembered = if remembers && !passed_to_owner {
        service.grants_of_answer(&caller, &id).await?
    } else {
        Vec::new()
    };
    Ok(AnsweredAsk {
        approval,
        passed_to_owner,
        remembered,
    })
}

/// What came of each of several answers, in their order.
pub(crate) struct AnsweredAsks(pub(crate) Vec<(String, Result<AnsweredAsk>)>);

/// Answers several asks, each by itself: what one is refused for says nothing of the others.
pub(crate) async fn resolve_all(
    service: &Service,
    caller: Caller,
    params: wire::AnswerApprovalsParams,
) -> Result<AnsweredAsks> {
    if params.answers.is_empty() {
        let message = "give at least one answer";
        return Err(ApiError::plain(Reason::InvalidParams, message));
    }
    if params.answers.len() > ANSWERS_MAX {
        return Err(Rejection::TooMany {
            what: "answers in one call",
            limit: ANSWERS_MAX,
        }
        .into());
    }
    let answers = params.answers.into_iter().map(|answer| {
        let body = wire::ResolutionBody {
            resolution: answer.resolution,
            message: answer.message,
            considered_ms: answer.considered_ms,
            ..wire::ResolutionBody::default()
        };
        let (caller, id) = (caller.clone(), answer.approval_id);
        async move { (id.clone(), resolve(service, caller, id, body).await) }
    });
    // Together, so that they share a commit.
    Ok(AnsweredAsks(join_all(answers).await))
}

pub(crate) async fn cancel(
    service: &Service,
    caller: Caller,
    id: String,
    message: Option<String>,
) -> Result<AskerReply> {
    let id = ApprovalId::new(id);
    request_log::note_approval(&id);
    let cancelled = service.cancel_approval(caller, id, message).await?;
    Ok(AskerReply(cancelled))
}

pub(crate) async fn dismiss(service: &Service, caller: Caller, id: String) -> Result<Approval> {
    let id = ApprovalId::new(id);
    request_log::note_approval(&id);
    let dismissed = service.dismiss_approval(caller, id).await;
    // Here the host wire refuses with -32003 whatever the reason is, also for an unknown approval.
    dismissed.map_err(|error| ApiError::from(error).into_refusal())
}

pub(crate) async fn wait(
    service: &Service,
    caller: &Caller,
    id: String,
    limit: Option<Duration>,
) -> Result<Approval> {
    let id = ApprovalId::new(id);
    request_log::note_approval(&id);
    let approval = service.wait_approval(caller, id, limit).await?;
    request_log::note_ask(&approval);
    record_handover(service, &approval).await;
    Ok(approval)
}

/// Waits over the host wire, where the asker waits.
pub(crate) async fn wait_over_wire(
    service: &Service,
    caller: &Caller,
    id: String,
    limit: Option<Duration>,
) -> Result<AskerReply> {
    wait(service, caller, id, limit).await.map(AskerReply)
}

/// One approval by its id or an abbreviation that fits no other.
pub(crate) async fn load(service: &Service, caller: &Caller, id: String) -> Result<Approval> {
    let whole_id = ApprovalId::new(id.as_str());
    request_log::note_approval(&whole_id);
    if let Ok(approval) = service.fetch_approval(caller, whole_id).await {
        record_handover(service, &approval).await;
        return Ok(approval);
    }
    // Agents know the whole ids of their asks. Abbreviations would let them search for others'
    // asks.
    caller.refuse_agents()?;
    let query = ApprovalQuery {
        id_prefix: Some(prefixed("approval-", &id)),
        dismissed: true,
        // Two are enough to know that the abbreviation is ambiguous.
        limit: 2,
        ..ApprovalQuery::default()
    };
    let found = service.approvals(caller, query).await?;
    one_of(&found, &id, "approval", Reason::UnknownApproval).cloned()
}

pub(crate) async fn list(
    service: &Service,
    caller: &Caller,
    params: wire::ListParams,
) -> Result<Vec<Approval>> {
    let has_filter = params.status.is_some()
        || params.agent_id.is_some()
        || params.limit.is_some()
        || params.after.is_some();
    // The host wire's list has no parameters and held every row. That grows into a frame which no
    // client can receive, so it is all that are pending and the newest that ended.
    if !has_filter && caller.principal.agent().is_none() {
        return Ok(service.overview(caller).await?.approvals);
    }
    let opened_before = match params.after {
        Some(id) => {
            let id = ApprovalId::new(id);
            Some(service.load_approval(caller, id).await?.opened)
        }
        None => None,
    };
    let query = ApprovalQuery {
        status: status_filter(params.status),
        agent: find_filter(service, caller, params.agent_id).await?,
        opened_before,
        limit: page_rows(params.limit, 100),
        ..ApprovalQuery::default()
    };
    Ok(service.approvals(caller, query).await?)
}

/// Denies everything open and interrupts every agent.
pub(crate) async fn stop_all(service: &Service, caller: Caller) -> Result<StopCounts> {
    Ok(service.stop_all(caller).await?)
}

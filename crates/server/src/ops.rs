//! Operations: the one implementation of each, between a door's parameters and the service.
//!
//! Invariant: REST and JSON-RPC call the same functions and so have the same results and errors.

pub(crate) mod children;
pub(crate) mod hook;
pub(crate) mod managed;
pub(crate) mod parent;
mod remember;
pub(crate) mod rules;

use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::{AgentDisplay, AgentProfile, AnswerDelivery, AskAttachment};
use countersign_core::limits::{PAGE_ROWS_MAX, TOKEN_TTL_MS_DEFAULT};
use countersign_core::{
    AgentId, Approval, ApprovalAnswer, ApprovalId, AskQuestion, AskRequest, Caller, DeviceId, Json,
    PutDevice, QuestionId, RegisterAgent, Role, SendNotification, Seq, SetStatus, Timestamp,
    TokenId,
};
use countersign_daemon::{
    ApprovalQuery, EventFilter, EventQuery, HostOverview, QuestionQuery, Service, StatusFilter,
    new_agent_id, new_approval_id, new_device_id, new_question_id,
};
use countersign_protocol as wire;
use countersign_protocol::{
    HostAgent, HostApproval, HostDevice, HostEvent, HostQuestion, HostRole, Reason,
};

use crate::api_error::ApiError;
use crate::convert;
use crate::events;
use crate::request_log;

type Result<T> = std::result::Result<T, ApiError>;

pub(crate) async fn agents(service: &Service, caller: &Caller) -> Result<Vec<HostAgent>> {
    let agents = service.agents(caller).await?;
    Ok(agents.iter().map(convert::agent).collect())
}

pub(crate) async fn agent(service: &Service, caller: &Caller, id: String) -> Result<HostAgent> {
    let id = AgentId::new(id);
    if caller.principal.agent().is_some_and(|bound| *bound != id) {
        caller.refuse_agents()?;
    }
    Ok(convert::agent(&service.load_agent(caller, id).await?))
}

pub(crate) async fn register_agent(
    service: &Service,
    caller: Caller,
    params: wire::RegisterAgentParams,
) -> Result<HostAgent> {
    let bound = caller.principal.agent().cloned();
    let id = params
        .id
        .filter(|id| !id.is_empty())
        .map(AgentId::new)
        .or(bound);
    let profile = AgentProfile {
        id: id.unwrap_or_else(new_agent_id),
        name: params.name,
        kind: params.kind,
        capabilities: params.capabilities,
        project: params.project,
        pid: params.pid,
        display: AgentDisplay {
            label: params.display.label,
            icon: params.display.icon,
            accent: params.display.accent,
        },
        metadata: convert::json(params.metadata),
    };
    Ok(convert::agent(
        &service
            .register_agent(RegisterAgent { caller, profile })
            .await?,
    ))
}

pub(crate) async fn unregister_agent(service: &Service, caller: Caller, id: String) -> Result<()> {
    Ok(service.unregister_agent(caller, AgentId::new(id)).await?)
}

pub(crate) async fn set_status(
    service: &Service,
    caller: Caller,
    agent: String,
    body: wire::StatusBody,
) -> Result<HostAgent> {
    let payload = body.payload.filter(|payload| !payload.is_null());
    let payload = payload
        .map(|payload| Json::from_value(&payload))
        .transpose()
        .map_err(|error| ApiError::invalid(&error))?;
    let agent = AgentId::new(agent);
    let input = SetStatus {
        caller,
        agent,
        base: convert::base_state(body.status),
        current_task: body.current_task,
        message: body.message,
        payload,
    };
    Ok(convert::agent(&service.set_status(input).await?))
}

pub(crate) async fn devices(service: &Service, caller: &Caller) -> Result<Vec<HostDevice>> {
    caller.refuse_agents()?;
    Ok(service
        .devices(caller)
        .await?
        .iter()
        .map(|device| convert::device(device))
        .collect())
}

pub(crate) async fn register_device(
    service: &Service,
    caller: Caller,
    params: wire::RegisterDeviceParams,
) -> Result<HostDevice> {
    let id = params.id.filter(|id| !id.is_empty());
    let input = PutDevice {
        caller,
        id: id.map_or_else(new_device_id, DeviceId::new),
        name: Some(params.name),
        platform: Some(params.platform),
        capabilities: Some(params.capabilities),
        status: params.status,
        metadata: Some(convert::json(params.metadata)),
    };
    Ok(convert::device(&*service.register_device(input).await?))
}

pub(crate) async fn update_device(
    service: &Service,
    caller: Caller,
    params: wire::UpdateDeviceParams,
) -> Result<HostDevice> {
    let input = PutDevice {
        caller,
        id: DeviceId::new(params.device_id),
        name: params.name,
        platform: params.platform,
        capabilities: params.capabilities,
        status: params.status,
        metadata: params.metadata.map(convert::json),
    };
    Ok(convert::device(&*service.update_device(input).await?))
}

pub(crate) async fn notify(
    service: &Service,
    caller: Caller,
    params: wire::NotifyParams,
) -> Result<HostEvent> {
    let input = SendNotification {
        caller,
        kind: params
            .kind
            .unwrap_or_else(|| wire::NOTIFICATION_KIND_DEFAULT.to_owned()),
        agent: params.agent_id.map(AgentId::new),
        message: params.message,
        payload: convert::json(params.payload),
    };
    Ok(events::event(&service.notify(input).await?.committed))
}

pub(crate) async fn request_approval(
    service: &Service,
    caller: Caller,
    subscribed: Option<bool>,
    params: wire::RequestApprovalParams,
) -> Result<HostApproval> {
    let request = ask_request(caller, params);
    let approval = service.request_approval(request).await?;
    request_log::note_ask(&approval);
    let mut row = convert::approval(&approval);
    row.subscribed = subscribed;
    row.answerable =
        subscribed.map(|subscribed| subscribed || approval.ask.attachment != AskAttachment::Owner);
    settle_told(service, &approval).await;
    Ok(row)
}

fn ask_request(caller: Caller, params: wire::RequestApprovalParams) -> AskRequest {
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

/// An answer that is now handed to the asker's door counts as delivered.
async fn settle_told(service: &Service, approval: &Approval) {
    if approval.delivery == AnswerDelivery::Attempted {
        // If the loop is gone, the next host finds the attempt and calls it unknown.
        drop(
            service
                .settle_answer(approval, AnswerDelivery::Delivered)
                .await,
        );
    }
}

pub(crate) async fn resolve_approval(
    service: &Service,
    caller: Caller,
    id: String,
    body: wire::ResolutionBody,
) -> Result<HostApproval> {
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
        stop: body.stop,
        remember,
    };
    let remembers = !answer.remember.is_empty();
    let answered = service.resolve_approval(caller.clone(), id.clone(), answer);
    let (approval, passed) = answered.await?;
    request_log::note_ask(&approval);
    let mut row = convert::approval(&approval);
    row.passed_to_owner = passed.then_some(true);
    if remembers && !passed {
        row.remembered = remember::made(service, &caller, &id).await?;
    }
    Ok(row)
}

pub(crate) async fn cancel_approval(
    service: &Service,
    caller: Caller,
    id: String,
    message: Option<String>,
) -> Result<HostApproval> {
    let id = ApprovalId::new(id);
    request_log::note_approval(&id);
    let approval = service.cancel_approval(caller, id, message).await?;
    Ok(convert::approval(&approval))
}

pub(crate) async fn dismiss_approval(
    service: &Service,
    caller: Caller,
    id: String,
) -> Result<HostApproval> {
    let id = ApprovalId::new(id);
    request_log::note_approval(&id);
    let dismissed = service.dismiss_approval(caller, id).await;
    let dismissed = dismissed.map_err(ApiError::from);
    // The host wire refuses here with a code of its own.
    let approval = dismissed.map_err(ApiError::into_refusal)?;
    Ok(convert::approval(&approval))
}

pub(crate) async fn wait_approval(
    service: &Service,
    caller: &Caller,
    id: String,
    limit: Option<Duration>,
) -> Result<HostApproval> {
    let id = ApprovalId::new(id);
    request_log::note_approval(&id);
    let approval = service.wait_approval(caller, id, limit).await?;
    request_log::note_ask(&approval);
    let row = convert::approval(&approval);
    settle_told(service, &approval).await;
    Ok(row)
}

/// One approval by its id or an abbreviation that fits no other.
pub(crate) async fn approval(
    service: &Service,
    caller: &Caller,
    id: String,
) -> Result<HostApproval> {
    let whole_id = ApprovalId::new(id.as_str());
    request_log::note_approval(&whole_id);
    let exact = service.fetch_approval(caller, whole_id).await;
    if let Ok(approval) = &exact {
        settle_told(service, approval).await;
        return Ok(convert::approval(approval));
    }
    caller.refuse_agents()?;
    let list = ApprovalQuery {
        id_prefix: Some(prefixed("approval-", &id)),
        dismissed: true,
        limit: 2,
        ..ApprovalQuery::default()
    };
    let found = service.approvals(caller, list).await?;
    one_of(&found, &id, "approval", Reason::UnknownApproval).map(convert::approval)
}

fn prefixed(prefix: &str, id: &str) -> String {
    if id.starts_with(prefix) {
        id.to_owned()
    } else {
        format!("{prefix}{id}")
    }
}

fn one_of<'a, T>(found: &'a [T], id: &str, what: &str, unknown: Reason) -> Result<&'a T> {
    match found {
        [one] => Ok(one),
        [] => Err(ApiError::plain(unknown, format!("unknown {what} '{id}'"))),
        _ => Err(ApiError::plain(
            Reason::AmbiguousId,
            format!("'{id}' fits more than one {what}: give more of its id"),
        )),
    }
}

pub(crate) async fn approvals(
    service: &Service,
    caller: &Caller,
    params: wire::ListParams,
) -> Result<Vec<HostApproval>> {
    let plain = params.status.is_none()
        && params.agent_id.is_none()
        && params.limit.is_none()
        && params.after.is_none();
    if plain && caller.principal.agent().is_none() {
        return Ok(service
            .overview(caller)
            .await?
            .approvals
            .iter()
            .map(convert::approval)
            .collect());
    }
    let opened_before = match params.after {
        Some(id) => Some(
            service
                .load_approval(caller, ApprovalId::new(id))
                .await?
                .opened,
        ),
        None => None,
    };
    let list = ApprovalQuery {
        status: status_filter(params.status),
        agent: params.agent_id.map(AgentId::new),
        opened_before,
        limit: page(params.limit, 100),
        ..ApprovalQuery::default()
    };
    Ok(service
        .approvals(caller, list)
        .await?
        .iter()
        .map(convert::approval)
        .collect())
}

fn status_filter(status: Option<wire::ListStatus>) -> Option<StatusFilter> {
    match status? {
        wire::ListStatus::Pending => Some(StatusFilter::Pending),
        wire::ListStatus::Resolved => Some(StatusFilter::Ended),
        wire::ListStatus::All => None,
    }
}

fn page(limit: Option<u64>, usual: usize) -> usize {
    limit.map_or(usual, |limit| {
        usize::try_from(limit)
            .unwrap_or(usize::MAX)
            .min(PAGE_ROWS_MAX)
    })
}

pub(crate) async fn ask_question(
    service: &Service,
    caller: Caller,
    params: wire::AskQuestionParams,
) -> Result<HostQuestion> {
    let input = AskQuestion {
        caller,
        id: new_question_id(),
        agent: params.agent_id.map(AgentId::new),
        text: params.question,
        timeout_ms: params.timeout_ms,
        key: params.idempotency_key,
        keyed: None,
    };
    Ok(convert::question(&service.ask_question(input).await?))
}

/// An agent tells whoever is above it something.
pub(crate) async fn notify_parent(
    service: &Service,
    caller: Caller,
    params: wire::NotifyParentParams,
) -> Result<()> {
    let told = service.notify_parent(caller, params.message, params.idempotency_key);
    Ok(told.await?)
}

pub(crate) async fn answer_question(
    service: &Service,
    caller: Caller,
    id: String,
    answer: String,
) -> Result<HostQuestion> {
    Ok(convert::question(
        &service
            .answer_question(caller, QuestionId::new(id), answer)
            .await?,
    ))
}

pub(crate) async fn wait_question(
    service: &Service,
    caller: &Caller,
    id: String,
    limit: Option<Duration>,
) -> Result<HostQuestion> {
    Ok(convert::question(
        &service
            .wait_question(caller, QuestionId::new(id), limit)
            .await?,
    ))
}

/// One question by its id or an abbreviation that fits no other.
pub(crate) async fn question(
    service: &Service,
    caller: &Caller,
    id: String,
) -> Result<HostQuestion> {
    if let Ok(question) = service
        .load_question(caller, QuestionId::new(id.as_str()))
        .await
    {
        return Ok(convert::question(&question));
    }
    caller.refuse_agents()?;
    let query = QuestionQuery {
        id_prefix: Some(prefixed("question-", &id)),
        limit: 2,
        ..QuestionQuery::default()
    };
    let found = service.questions(caller, query).await?;
    one_of(&found, &id, "question", Reason::UnknownQuestion).map(convert::question)
}

pub(crate) async fn questions(
    service: &Service,
    caller: &Caller,
    params: wire::ListParams,
) -> Result<Vec<HostQuestion>> {
    let query = QuestionQuery {
        status: status_filter(params.status),
        agent: params.agent_id.map(AgentId::new),
        limit: page(params.limit, 100),
        ..QuestionQuery::default()
    };
    Ok(service
        .questions(caller, query)
        .await?
        .iter()
        .map(convert::question)
        .collect())
}

/// Newest first, unless the caller goes forward from a cursor.
pub(crate) async fn events(
    service: &Service,
    caller: &Caller,
    params: wire::EventsParams,
) -> Result<Vec<HostEvent>> {
    caller.refuse_agents()?;
    let query = EventQuery {
        after: params.after.map(Seq),
        before: params.before.map(Seq),
        newest: params.after.is_none(),
        limit: page(params.limit, 100),
        ..EventQuery::default()
    };
    let forward = params.after.is_some();
    let filter = EventFilter {
        kinds: params.kinds.map(|kinds| kinds.0),
        agent: params.agent_id.map(AgentId::new),
    };
    let events = service.events(caller, query, filter).await?;
    let mut rows: Vec<_> = events.iter().map(events::event).collect();
    if !forward {
        rows.reverse();
    }
    Ok(rows)
}

/// What a fresh subscriber is shown.
pub(crate) async fn snapshot(
    service: &Service,
    caller: &Caller,
    overview: &HostOverview,
) -> Result<wire::HostSnapshot> {
    let events = service.newest_events(caller, 50).await?;
    let seen = events
        .iter()
        .filter(|entry| entry.committed.seq <= overview.head);
    Ok(wire::HostSnapshot {
        agents: overview.agents.iter().map(convert::agent).collect(),
        approvals: overview.approvals.iter().map(convert::approval).collect(),
        devices: overview
            .devices
            .iter()
            .map(|device| convert::device(device))
            .collect(),
        event_sequence: overview.head.0,
        events: seen.map(|entry| events::event(&entry.committed)).collect(),
        identity: Some(identity()),
        pending_signins: Vec::new(),
        questions: overview.questions.iter().map(convert::question).collect(),
        rule_problems: rules::problems(service, caller).await?,
        store_error: service.store_error().map(|error| error.to_string()),
        subscribed: true,
    })
}

fn identity() -> wire::HostIdentity {
    wire::HostIdentity {
        manifest_path: None,
        manifest_role: "none".to_owned(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

pub(crate) async fn stop_all(service: &Service, caller: Caller) -> Result<wire::StopAllResult> {
    let counts = service.stop_all(caller).await?;
    Ok(wire::StopAllResult {
        denied: counts.denied,
        interrupted: counts.interrupted,
    })
}

/// Makes a token. Every one of them ends.
pub(crate) async fn create_token(
    service: &Service,
    caller: Caller,
    params: wire::CreateTokenParams,
) -> Result<wire::NewToken> {
    let role = token_role(params.role, params.agent_id)?;
    let ttl = Duration::from_millis(params.ttl_ms.unwrap_or(TOKEN_TTL_MS_DEFAULT));
    make_token(service, caller, role, params.name, Some(ttl)).await
}

/// Makes a token that never ends: for the host's own user on the Unix socket, who is known by the
/// kernel and not by a token that may have been lost.
pub(crate) async fn create_endless_token(
    service: &Service,
    caller: Caller,
    params: wire::CreateEndlessTokenParams,
) -> Result<wire::NewToken> {
    caller.require_operator()?;
    if !caller.principal.key.as_str().starts_with("uid:") {
        return Err(ApiError::refused(
            Reason::InvalidParams,
            "a token that never ends is made with `countersign token create --expires never` on the host's own machine, without a token",
        ));
    }
    let role = token_role(params.role, params.agent_id)?;
    make_token(service, caller, role, params.name, None).await
}

fn token_role(role: HostRole, agent_id: Option<String>) -> Result<Role> {
    match (role, agent_id) {
        (HostRole::Operator, None) => Ok(Role::Operator),
        (HostRole::Observer, None) => Ok(Role::Observer),
        (HostRole::Agent, agent) => Ok(Role::Agent(agent.map_or_else(new_agent_id, AgentId::new))),
        (HostRole::Operator | HostRole::Observer, Some(_)) => Err(ApiError::plain(
            Reason::InvalidParams,
            "only a token for the role `agent` names an agent",
        )),
        (HostRole::Host | HostRole::Unknown, _) => Err(ApiError::plain(
            Reason::InvalidParams,
            "no token has this role, expected operator, observer or agent",
        )),
    }
}

async fn make_token(
    service: &Service,
    caller: Caller,
    role: Role,
    name: Option<String>,
    ttl: Option<Duration>,
) -> Result<wire::NewToken> {
    let name = name.unwrap_or_else(|| match &role {
        Role::Agent(agent) => agent.to_string(),
        Role::Operator | Role::Observer | Role::Host => caller.principal.name.to_string(),
    });
    let (token, kept) = service.create_token(caller, role, name, ttl).await?;
    Ok(wire::NewToken {
        token,
        row: convert::token(&kept),
    })
}

pub(crate) async fn tokens(service: &Service, caller: &Caller) -> Result<Vec<wire::TokenRow>> {
    caller.require_operator()?;
    Ok(service
        .tokens(caller)
        .await?
        .iter()
        .map(convert::token)
        .collect())
}

pub(crate) async fn revoke_token(service: &Service, caller: Caller, id: String) -> Result<()> {
    Ok(service.revoke_token(caller, TokenId::new(id)).await?)
}

pub(crate) async fn redact(
    service: &Service,
    caller: Caller,
    params: wire::RedactParams,
) -> Result<wire::AuditResult> {
    let seq = service
        .redact(caller, Seq(params.sequence), params.reason)
        .await?;
    Ok(wire::AuditResult { sequence: seq.0 })
}

pub(crate) async fn prune(
    service: &Service,
    caller: Caller,
    params: wire::PruneParams,
) -> Result<wire::AuditResult> {
    caller.require_operator()?;
    let before = match (params.before_sequence, params.before_time) {
        (Some(seq), None) => Seq(seq),
        (None, Some(time)) => first_since(service, &caller, &time).await?,
        _ => {
            return Err(ApiError::plain(
                Reason::InvalidParams,
                "give one of before_sequence and before_time",
            ));
        }
    };
    Ok(wire::AuditResult {
        sequence: service.prune(caller, before).await?.0,
    })
}

async fn first_since(service: &Service, caller: &Caller, time: &str) -> Result<Seq> {
    let quoted = serde_json::Value::from(time);
    let at: wire::Time =
        serde_json::from_value(quoted).map_err(|error| ApiError::invalid(&error))?;
    let first = service.first_event_since(caller, Timestamp(at.0)).await?;
    Ok(first.unwrap_or_else(|| service.head().next()))
}

/// What the caller is to the host.
pub(crate) fn you(caller: &Caller) -> wire::Who {
    convert::who(&countersign_core::RecordedActor::from(caller))
}

/// Shares one caller between requests that run at the same time.
pub(crate) fn caller(
    principal: &Arc<countersign_core::Principal>,
    client: Option<&countersign_core::ClientId>,
) -> Caller {
    Caller {
        principal: principal.clone(),
        client: client.cloned(),
    }
}

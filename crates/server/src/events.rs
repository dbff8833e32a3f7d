//! Events as readers see them: the same whether they come from memory or from the log.

mod managed;

use std::sync::Arc;

use bytes::Bytes;
use countersign_core::event::{
    AgentBypassChanged, AgentRegistered, AgentStatusChanged, ApprovalOutcome,
    ApprovalResolveRefused, ApprovalResolveRequested, ApprovalResolved, BaseState, Grant,
    GrantRemoved, QuestionAsked, QuestionEnded, RulesTrusted,
};
use countersign_core::{
    Agent, AgentId, Ask, CommittedEvent, Event, OpenCounts, PrincipalKey, Question, Seq, Timestamp,
};
use countersign_daemon::FeedEntry;
use countersign_protocol::{EVENT_FRAME_START, HostAgentStatus, HostEvent, ListedAsk, Raw};
use serde_json::json;

use crate::convert::approvals::{RowForm, ViewDetail, ask, end, shorten};
use crate::convert::rules::new_grant;
use crate::convert::{
    AgentNames, agent, agent_state, agent_status, device, door, name_of, question,
    question_outcome, raw, time, who,
};

/// The frame of the `host.event` notification. The feed keeps it, so that an event is serialised
/// once for all its readers.
pub(crate) fn event_frame(entry: &FeedEntry, names: AgentNames<'_>, form: RowForm) -> Bytes {
    let has_ask = matches!(
        entry.committed.event,
        Event::ApprovalRequested(_) | Event::ApprovalResolved(_)
    );
    if form == RowForm::Brief && has_ask {
        entry.brief_wire(|committed| make_frame(committed, names, RowForm::Brief))
    } else {
        entry.wire(|committed| make_frame(committed, names, RowForm::Whole))
    }
}

fn make_frame(committed: &CommittedEvent, names: AgentNames<'_>, form: RowForm) -> Bytes {
    let mut frame = EVENT_FRAME_START.as_bytes().to_vec();
    // Writing our own row into memory cannot fail.
    drop(serde_json::to_writer(
        &mut frame,
        &event(committed, names, form),
    ));
    frame.push(b'}');
    frame.into()
}

/// The event alone, as a slice of its notification: SSE shares the frame of the WebSocket.
pub(crate) fn event_json(frame: &Bytes) -> Bytes {
    frame.slice(EVENT_FRAME_START.len()..frame.len() - 1)
}

/// The event as a row.
pub(crate) fn event(committed: &CommittedEvent, names: AgentNames<'_>, form: RowForm) -> HostEvent {
    let (message, payload) = content(committed, names, form);
    let kind = match &committed.event {
        // The sender's kind; `decide` refuses those of the host, so that no event can be forged.
        Event::NotificationSent(notified) => notified.kind.clone(),
        other => other.kind().to_owned(),
    };
    HostEvent {
        agent_id: committed.event.agent().map(ToString::to_string),
        agent_name: name_of(committed.event.agent(), names),
        // The form of the host wire's random ids, made from the sequence: an event that is replayed
        // has the same id.
        id: format!("event-{:012x}", committed.seq.0),
        kind,
        message,
        payload,
        sequence: committed.seq.0,
        timestamp: time(committed.at),
    }
}

/// A message for people and a payload for programs.
type EventContent = (String, Raw);

fn content(committed: &CommittedEvent, names: AgentNames<'_>, form: RowForm) -> EventContent {
    let (seq, at) = (committed.seq, committed.at);
    match &committed.event {
        Event::AgentRegistered(e) => registered(e, at, names),
        // By its id, as the host wire has it.
        Event::AgentUnregistered(e) => (format!("{} unregistered", e.agent), Raw::null()),
        Event::AgentStatusChanged(e) => status_changed(e, at, names),
        Event::AgentInterruptRequested(e) => of(
            format!("{} was asked to stop by {}", e.name, e.by.name),
            &who(&e.by),
        ),
        Event::ApprovalRequested(e) => requested(&e.ask, seq, names, form),
        Event::ApprovalResolved(e) => resolved(e, committed.ask.as_ref(), at, names, form),
        Event::ApprovalResolveRequested(e) => resolve_requested(e),
        Event::ApprovalResolveRefused(e) => resolve_refused(e),
        Event::QuestionAsked(e) => question_asked(e, seq, at, names),
        Event::QuestionEnded(e) => question_ended(e),
        Event::DeviceRegistered(e) => {
            of(format!("{} connected", e.device.name), &device(&e.device))
        }
        Event::DeviceUpdated(e) => of(
            format!("{} is {}", e.device.name, e.device.status),
            &device(&e.device),
        ),
        Event::GrantCreated(e) => grant_created(&e.grant, at, names),
        Event::GrantRemoved(e) => grant_removed(e),
        Event::RulesTrusted(e) => rules_trusted(e),
        Event::AgentBypassChanged(e) => bypass_changed(e, names),
        Event::NotificationSent(e) => (e.message.clone(), raw(&e.payload)),
        // The rest is shown as it is stored; internal facts only to those who name their kind.
        other => {
            let message = managed::message(other, names).unwrap_or_else(|| other.kind().to_owned());
            (message, stored(other))
        }
    }
}

fn registered(e: &AgentRegistered, at: Timestamp, names: AgentNames<'_>) -> EventContent {
    // The agent as the event leaves it and not as it is now: a replay shows the same row.
    let agent = Agent {
        profile: e.agent.clone(),
        base: BaseState::Idle,
        current_task: None,
        owner: e.owner.clone(),
        client: e.client.clone(),
        lapses_at: None,
        bypass_until: None,
        managed: None,
        registered_at: at,
        updated_at: at,
    };
    let message = format!("{} registered", e.agent.name);
    of(
        message,
        &self::agent(&(agent, OpenCounts::default()), names),
    )
}

/// With the payload that the owner attached, or the agent as the event leaves it.
fn status_changed(e: &AgentStatusChanged, at: Timestamp, names: AgentNames<'_>) -> EventContent {
    let message = format!(
        "{} is {}",
        e.agent.name,
        host_wire_name(agent_status(e.state))
    );
    let message = e.message.clone().unwrap_or(message);
    if let Some(payload) = e.payload.as_ref().filter(|payload| !payload.is_null()) {
        return (message, raw(payload));
    }
    let agent = Agent {
        profile: e.agent.clone(),
        base: e.base,
        current_task: e.current_task.clone(),
        // Not in the event, and not in the row.
        owner: PrincipalKey::new(""),
        client: e.client.clone(),
        lapses_at: None,
        bypass_until: None,
        managed: None,
        registered_at: at,
        updated_at: at,
    };
    let mut row = self::agent(&(agent, OpenCounts::default()), names);
    // The event does not say when the agent began.
    row.started_at = None;
    // The state also depends on what was open at that time, which only the event knows.
    row.state = agent_state(e.state);
    row.status = agent_status(e.state);
    of(message, &row)
}

/// A status as the host wire prints it in this message: the name of the Rust variant.
fn host_wire_name(status: HostAgentStatus) -> String {
    format!("{status:?}")
}

fn requested(asked: &Ask, opened: Seq, names: AgentNames<'_>, form: RowForm) -> EventContent {
    let mut row = ask(asked, opened, None, names, ViewDetail::Whole);
    shorten(&mut row, form);
    let message = format!("Approval requested: {}", asked.action);
    if form == RowForm::Listed {
        of(message, &ListedAsk(&row))
    } else {
        of(message, &row)
    }
}

fn resolved(
    e: &ApprovalResolved,
    asked: Option<&Arc<Ask>>,
    at: Timestamp,
    names: AgentNames<'_>,
    form: RowForm,
) -> EventContent {
    // Without its ask if that was erased from the record.
    let Some(asked) = asked else {
        let message = format!("Approval resolved: {}", e.approval);
        return of(message, &json!({ "id": e.approval }));
    };
    let edited = e.ending.edited_input.as_ref();
    // Who reads it has read the ask, or looks for it in a list.
    let mut row = ask(asked, e.opened, edited, names, ViewDetail::Short);
    end(&mut row, &e.ending, at);
    shorten(&mut row, form);
    let message = match e.ending.outcome {
        ApprovalOutcome::Gone => "Approval auto-cancelled (agent gone)",
        ApprovalOutcome::Expired => "Approval expired",
        ApprovalOutcome::Cancelled => "Approval cancelled",
        ApprovalOutcome::Allowed | ApprovalOutcome::Denied | ApprovalOutcome::Answered => {
            "Approval resolved"
        }
    };
    of(format!("{message}: {}", asked.action), &row)
}

fn resolve_requested(e: &ApprovalResolveRequested) -> EventContent {
    let payload = json!({
        "approval_id": e.approval, "owner_client_id": e.owner,
        "requesting_client_id": e.client, "resolution": e.resolution,
    });
    let message = format!("Resolution requested for {}: {}", e.action, e.resolution);
    of(message, &payload)
}

fn resolve_refused(e: &ApprovalResolveRefused) -> EventContent {
    let payload = json!({
        "agent_id": e.agent, "approval_id": e.approval, "client_id": e.client,
        "reason": e.reason, "resolution": e.resolution,
    });
    let message = format!(
        "Resolution refused for {}: {} is an agent",
        e.action, e.by.name
    );
    of(message, &payload)
}

fn question_asked(
    e: &QuestionAsked,
    opened: Seq,
    at: Timestamp,
    names: AgentNames<'_>,
) -> EventContent {
    let question = Question {
        text: e.question.clone(),
        opened,
        created_at: at,
        escalated: false,
        ended: None,
    };
    of(
        format!("Question: {}", e.question.text),
        &self::question(&question, names),
    )
}

fn question_ended(e: &QuestionEnded) -> EventContent {
    let state = question_outcome(e.ending.outcome);
    let mut payload = json!({
        "agent_id": e.agent, "answer": e.ending.answer, "answered_by": who(&e.ending.by),
        "id": e.question, "sequence": e.opened, "state": state,
    });
    // Absent and not null, as in rows.
    if let Some(came_by) = e.ending.door {
        payload["door"] = json!(door(came_by));
    }
    if let Some(millis) = e.ending.considered_ms {
        payload["considered_ms"] = json!(millis);
    }
    of(format!("Question {state}: {}", e.question), &payload)
}

fn grant_created(grant: &Grant, at: Timestamp, names: AgentNames<'_>) -> EventContent {
    let message = format!("Rule added: {} {}", grant.effect.as_str(), grant.rule);
    of(message, &new_grant(grant, at, names))
}

fn grant_removed(e: &GrantRemoved) -> EventContent {
    let payload = json!({
        "by": e.by.as_ref().map(who), "id": e.grant, "reason": e.reason,
    });
    of(format!("Rule removed: {}", e.grant), &payload)
}

fn rules_trusted(e: &RulesTrusted) -> EventContent {
    let payload = json!({ "by": who(&e.by), "digest": e.digest, "file": e.file });
    of(format!("Rule file trusted: {}", e.file), &payload)
}

fn bypass_changed(e: &AgentBypassChanged, names: AgentNames<'_>) -> EventContent {
    let payload = json!({
        "agent_id": e.agent, "bypass_until": e.until.map(time), "by": who(&e.by),
    });
    let agent = shown_name(&e.agent, names);
    let message = match e.until {
        Some(_) => format!("{agent} is bypassed by {}: its asks are allowed", e.by.name),
        None => format!("bypass off: {agent} asks again"),
    };
    of(message, &payload)
}

/// The name of an agent, or its id if it is no longer listed.
fn shown_name(agent: &AgentId, names: AgentNames<'_>) -> String {
    let name = names.find(agent);
    name.unwrap_or_else(|| agent.to_string())
}

fn stored(event: &Event) -> Raw {
    let text = event
        .encode()
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    let value = text.and_then(|text| serde_json::value::RawValue::from_string(text).ok());
    value.map_or_else(Raw::null, |value| Raw(value.into()))
}

fn of(message: String, payload: &impl serde::Serialize) -> EventContent {
    let payload = serde_json::value::to_raw_value(payload);
    (
        message,
        payload.map_or_else(|_| Raw::null(), |payload| Raw(payload.into())),
    )
}

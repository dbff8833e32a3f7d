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
    Agent, Ask, CommittedEvent, Event, OpenCounts, PrincipalKey, Question, Seq, Timestamp,
};
use countersign_protocol::{EVENT_FRAME_START, HostAgentStatus, HostEvent, Raw};
use serde_json::json;

use crate::convert::rules::new_grant;
use crate::convert::{
    agent, agent_state, agent_status, ask, device, end, question, question_state, raw, time, who,
};

/// The `host.event` notification, whole.
pub(crate) fn event_frame(committed: &CommittedEvent) -> Bytes {
    let mut frame = EVENT_FRAME_START.as_bytes().to_vec();
    // Writing our own row into memory cannot fail.
    drop(serde_json::to_writer(&mut frame, &event(committed)));
    frame.push(b'}');
    frame.into()
}

/// The event alone, cut out of its notification.
pub(crate) fn event_json(frame: &Bytes) -> Bytes {
    frame.slice(EVENT_FRAME_START.len()..frame.len() - 1)
}

/// The event as a row.
pub(crate) fn event(committed: &CommittedEvent) -> HostEvent {
    let (message, payload) = content(committed);
    let kind = match &committed.event {
        Event::NotificationSent(notified) => notified.kind.clone(),
        other => other.kind().to_owned(),
    };
    HostEvent {
        agent_id: committed.event.agent().map(ToString::to_string),
        id: format!("event-{:012x}", committed.seq.0),
        kind,
        message,
        payload,
        sequence: committed.seq.0,
        timestamp: time(committed.at),
    }
}

/// Words for people and a payload for programs.
type Content = (String, Raw);

fn content(committed: &CommittedEvent) -> Content {
    let (seq, at) = (committed.seq, committed.at);
    match &committed.event {
        Event::AgentRegistered(e) => registered(e, at),
        Event::AgentUnregistered(e) => (format!("{} unregistered", e.agent), Raw::null()),
        Event::AgentStatusChanged(e) => status_changed(e, at),
        Event::AgentInterruptRequested(e) => of(
            format!("{} was asked to stop by {}", e.name, e.by.name),
            &who(&e.by),
        ),
        Event::ApprovalRequested(e) => of(
            format!("Approval requested: {}", e.ask.action),
            &ask(&e.ask, seq),
        ),
        Event::ApprovalResolved(e) => resolved(e, committed.ask.as_ref(), at),
        Event::ApprovalResolveRequested(e) => resolve_requested(e),
        Event::ApprovalResolveRefused(e) => resolve_refused(e),
        Event::QuestionAsked(e) => question_asked(e, seq, at),
        Event::QuestionEnded(e) => question_ended(e),
        Event::DeviceRegistered(e) => {
            of(format!("{} connected", e.device.name), &device(&e.device))
        }
        Event::DeviceUpdated(e) => of(
            format!("{} is {}", e.device.name, e.device.status),
            &device(&e.device),
        ),
        Event::GrantCreated(e) => grant_created(&e.grant, at),
        Event::GrantRemoved(e) => grant_removed(e),
        Event::RulesTrusted(e) => rules_trusted(e),
        Event::AgentBypassChanged(e) => bypass_changed(e),
        Event::NotificationSent(e) => (e.message.clone(), raw(&e.payload)),
        // The rest is shown as it is stored; internal facts only to those who name their kind.
        other => {
            let words = managed::words(other).unwrap_or_else(|| other.kind().to_owned());
            (words, stored(other))
        }
    }
}

fn registered(e: &AgentRegistered, at: Timestamp) -> Content {
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
    let words = format!("{} registered", e.agent.name);
    of(words, &self::agent(&(agent, OpenCounts::default())))
}

/// What the owner attached, or the agent as it is now.
fn status_changed(e: &AgentStatusChanged, at: Timestamp) -> Content {
    let words = format!(
        "{} is {}",
        e.agent.name,
        host_wire_name(agent_status(e.state))
    );
    let words = e.message.clone().unwrap_or(words);
    if let Some(payload) = e.payload.as_ref().filter(|payload| !payload.is_null()) {
        return (words, raw(payload));
    }
    let agent = Agent {
        profile: e.agent.clone(),
        base: e.base,
        current_task: e.current_task.clone(),
        owner: PrincipalKey::new(""),
        client: e.client.clone(),
        lapses_at: None,
        bypass_until: None,
        managed: None,
        registered_at: at,
        updated_at: at,
    };
    let mut row = self::agent(&(agent, OpenCounts::default()));
    row.state = agent_state(e.state);
    row.status = agent_status(e.state);
    of(words, &row)
}

/// A status as the host wire's own server prints it in this message: as its Rust variant is called.
fn host_wire_name(status: HostAgentStatus) -> String {
    format!("{status:?}")
}

fn resolved(e: &ApprovalResolved, asked: Option<&Arc<Ask>>, at: Timestamp) -> Content {
    let Some(asked) = asked else {
        let words = format!("Approval resolved: {}", e.approval);
        return of(words, &json!({ "id": e.approval }));
    };
    let mut row = ask(asked, e.opened);
    end(&mut row, &e.ending, at);
    let words = match e.ending.outcome {
        ApprovalOutcome::Gone => "Approval auto-cancelled (agent gone)",
        ApprovalOutcome::Expired => "Approval expired",
        ApprovalOutcome::Cancelled => "Approval cancelled",
        ApprovalOutcome::Allowed | ApprovalOutcome::Denied | ApprovalOutcome::Answered => {
            "Approval resolved"
        }
    };
    of(format!("{words}: {}", asked.action), &row)
}

fn resolve_requested(e: &ApprovalResolveRequested) -> Content {
    let payload = json!({
        "approval_id": e.approval, "owner_client_id": e.owner,
        "requesting_client_id": e.client, "resolution": e.resolution,
    });
    let words = format!("Resolution requested for {}: {}", e.action, e.resolution);
    of(words, &payload)
}

fn resolve_refused(e: &ApprovalResolveRefused) -> Content {
    let payload = json!({
        "agent_id": e.agent, "approval_id": e.approval, "client_id": e.client,
        "reason": e.reason, "resolution": e.resolution,
    });
    let words = format!(
        "Resolution refused for {}: {} is an agent",
        e.action, e.by.name
    );
    of(words, &payload)
}

fn question_asked(e: &QuestionAsked, opened: Seq, at: Timestamp) -> Content {
    let question = Question {
        text: e.question.clone(),
        opened,
        created_at: at,
        escalated: false,
        ended: None,
    };
    of(
        format!("Question: {}", e.question.text),
        &self::question(&question),
    )
}

fn question_ended(e: &QuestionEnded) -> Content {
    let state = question_state(e.ending.outcome);
    let payload = json!({
        "agent_id": e.agent, "answer": e.ending.answer, "answered_by": who(&e.ending.by),
        "id": e.question, "sequence": e.opened, "state": state,
    });
    of(format!("Question {state}: {}", e.question), &payload)
}

fn grant_created(grant: &Grant, at: Timestamp) -> Content {
    let words = format!("Rule added: {} {}", grant.effect.as_str(), grant.rule);
    of(words, &new_grant(grant, at))
}

fn grant_removed(e: &GrantRemoved) -> Content {
    let payload = json!({
        "by": e.by.as_ref().map(who), "id": e.grant, "reason": e.reason,
    });
    of(format!("Rule removed: {}", e.grant), &payload)
}

fn rules_trusted(e: &RulesTrusted) -> Content {
    let payload = json!({ "by": who(&e.by), "digest": e.digest, "file": e.file });
    of(format!("Rule file trusted: {}", e.file), &payload)
}

fn bypass_changed(e: &AgentBypassChanged) -> Content {
    let payload = json!({
        "agent_id": e.agent, "bypass_until": e.until.map(time), "by": who(&e.by),
    });
    let words = match e.until {
        Some(_) => format!("Asks of {} are let through by {}", e.agent, e.by.name),
        None => format!("Asks of {} are held again", e.agent),
    };
    of(words, &payload)
}

fn stored(event: &Event) -> Raw {
    let text = event
        .encode()
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    let value = text.and_then(|text| serde_json::value::RawValue::from_string(text).ok());
    value.map_or_else(Raw::null, |value| Raw(value.into()))
}

fn of(words: String, payload: &impl serde::Serialize) -> Content {
    let payload = serde_json::value::to_raw_value(payload);
    (
        words,
        payload.map_or_else(|_| Raw::null(), |payload| Raw(payload.into())),
    )
}

//! What the host's start, lost connections and time itself lead to. Never to an allow.

use std::collections::{BTreeSet, HashSet};

use super::approvals::end_approval;
use super::{Decision, DecisionSubject, delegation, grants, managed, questions, run_events};
use crate::agent::Agent;
use crate::approval::{EXPIRED, GONE};
use crate::event::{
    AgentUnregistered, AnswerDelivery, ApprovalEnding, ApprovalOutcome, AskAttachment, BaseState,
    ConnectionLapsed, ConnectionLost, Event, GrantEnd, HostStarted, QuestionEnding,
    QuestionOutcome,
};
use crate::ids::{AgentId, ClientId};
use crate::input::DecisionContext;
use crate::limits::GONE_AGENTS_KEPT;
use crate::principal::{Caller, RecordedActor};
use crate::state::{DeadlineTarget, State};

pub(super) fn host_started(
    state: &State,
    context: DecisionContext<'_>,
    version: String,
    pid: u32,
    adopted: &BTreeSet<AgentId>,
) -> Decision {
    let lapses_at = context.now.plus_ms(context.owner_grace_ms);
    let started = HostStarted {
        version,
        pid,
        lapses_at,
    };
    let mut events = vec![started.into()];
    events.extend(run_events::end_unadopted_runs(state, adopted));
    Decision::new(events, DecisionSubject::Nothing)
}

/// A connection that held nothing leaves no trace.
pub(super) fn connection_lost(
    state: &State,
    context: DecisionContext<'_>,
    client: ClientId,
) -> Decision {
    if !state.held.contains_key(&client) {
        return Decision::nothing();
    }
    let lapses_at = context.now.plus_ms(context.owner_grace_ms);
    Decision::new(
        vec![ConnectionLost { client, lapses_at }.into()],
        DecisionSubject::Nothing,
    )
}

/// A request may be decided after its connection ended. What it ties to that connection would
/// otherwise wait for it for ever.
pub(super) fn lose_late_connection(context: DecisionContext<'_>, events: &mut Vec<Event>) {
    let tied = events
        .iter()
        .rev()
        .filter(|event| !ends_at_once(events, event))
        .find_map(connection_of);
    if let Some(client) = tied.filter(|client| !context.presence.is_connected(client)) {
        let client = client.clone();
        let lapses_at = context.now.plus_ms(context.owner_grace_ms);
        events.push(ConnectionLost { client, lapses_at }.into());
    }
}

/// Whether the event opens an ask that the same decision ends, so that nothing stays tied.
fn ends_at_once(events: &[Event], event: &Event) -> bool {
    let Event::ApprovalRequested(requested) = event else {
        return false;
    };
    events
        .iter()
        .any(|event| matches!(event, Event::ApprovalResolved(e) if e.approval == requested.ask.id))
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "only these three tie anything to a connection"
)]
fn connection_of(event: &Event) -> Option<&ClientId> {
    match event {
        Event::AgentRegistered(e) => e.client.as_ref(),
        Event::ApprovalRequested(e) if e.ask.attachment == AskAttachment::None => None,
        Event::ApprovalRequested(e) => e.ask.client.as_ref(),
        Event::ApprovalAttached(e) => Some(&e.client),
        _ => None,
    }
}

pub(super) fn time_arrived(state: &State, context: DecisionContext<'_>) -> Decision {
    let mut events = Vec::new();
    // Held back after a start, so that clients can come back and answer first.
    if context.now >= context.expiry_held_until {
        let due = state
            .deadlines
            .iter()
            .take_while(|(at, _)| *at <= context.now);
        events.extend(due.flat_map(|(_, what)| expire_target(state, context, what)));
    }
    // Not held back: the start of the host gave every lost connection a new grace time.
    let due = state.lapses.iter().take_while(|(at, _)| *at <= context.now);
    let mut leaving = BTreeSet::new();
    for (_, client) in due {
        leaving.extend(lapse_connection(state, context, client, &mut events));
    }
    if !leaving.is_empty() {
        drop_oldest_gone(state, &leaving, &mut events);
    }
    keep_first_endings(&mut events);
    Decision::new(events, DecisionSubject::Nothing)
}

/// What runs out of time may do so together with the turn or the connection it belongs to.
fn keep_first_endings(events: &mut Vec<Event>) {
    let mut approvals = HashSet::new();
    let mut questions = HashSet::new();
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "only these two end something that others end as well"
    )]
    events.retain(|event| match event {
        Event::ApprovalResolved(ended) => approvals.insert(ended.approval.clone()),
        Event::QuestionEnded(ended) => questions.insert(ended.question.clone()),
        _ => true,
    });
}

fn expire_target(state: &State, context: DecisionContext<'_>, what: &DeadlineTarget) -> Vec<Event> {
    let one = match what {
        // Waiting, because the asker is still there and is told that nobody answered.
        DeadlineTarget::Approval(id) => state
            .approvals
            .get(id)
            .map(|approval| end_approval(approval, expired_ending(), AnswerDelivery::Waiting)),
        DeadlineTarget::Question(id) => state
            .questions
            .get(id)
            .map(|question| questions::end_question(question, unanswered_ending())),
        DeadlineTarget::Grant(id) => Some(grants::grant_removed(id.clone(), GrantEnd::Expired)),
        DeadlineTarget::Bypass(id) => {
            let host = RecordedActor::from(&Caller::host());
            Some(grants::bypass_changed(id.clone(), None, host))
        }
        DeadlineTarget::Ceiling(id) => {
            let host = RecordedActor::from(&Caller::host());
            Some(delegation::ceiling_changed(id.clone(), None, host))
        }
        DeadlineTarget::Escalation(id) => state.questions.get(id).map(questions::escalate_question),
        DeadlineTarget::Turn(id) => return managed::expire_turn(state, context, id),
    };
    one.into_iter().collect()
}

pub(super) fn expired_ending() -> ApprovalEnding {
    host_ending(
        ApprovalOutcome::Expired,
        EXPIRED,
        "nobody answered in time, so this was not allowed",
    )
}

pub(super) fn gone_ending() -> ApprovalEnding {
    host_ending(ApprovalOutcome::Gone, GONE, "the asker is gone")
}

fn host_ending(outcome: ApprovalOutcome, resolution: &str, message: &str) -> ApprovalEnding {
    ApprovalEnding {
        message: Some(message.to_owned()),
        ..ApprovalEnding::new(outcome, resolution, RecordedActor::from(&Caller::host()))
    }
}

pub(super) fn unanswered_ending() -> QuestionEnding {
    QuestionEnding {
        outcome: QuestionOutcome::Expired,
        answer: "nobody answered in time".to_owned(),
        by: RecordedActor::from(&Caller::host()),
        door: None,
        considered_ms: None,
    }
}

/// The owner did not come back: what it held ends, unless it outlives its owner. Gives the agents
/// that nobody owns from here on.
fn lapse_connection<'a>(
    state: &'a State,
    context: DecisionContext<'_>,
    client: &ClientId,
    events: &mut Vec<Event>,
) -> Vec<&'a AgentId> {
    // Connection ids are never reused, so one that is open again cannot be another's.
    let Some(held) = state.held.get(client) else {
        return Vec::new();
    };
    if context.presence.is_connected(client) {
        return Vec::new();
    }
    let approvals = held
        .approvals
        .iter()
        .filter_map(|id| state.approvals.get(id));
    events.extend(
        approvals
            // An ask with a deadline of its own outlives its connection, so it ends once.
            .filter(|approval| !approval.outlives_connection())
            .map(|approval| end_approval(approval, gone_ending(), AnswerDelivery::Withdrawn)),
    );
    let agents: Vec<&Agent> = held
        .agents
        .iter()
        .filter_map(|id| state.agents.get(id))
        .collect();
    for agent in &agents {
        // An agent that ended before stays as it ended.
        let base = if agent.base.is_terminal() {
            agent.base
        } else {
            BaseState::Stopped
        };
        let mut changed = agent.changed_to(base, state.open_of(agent.id()));
        changed.client = None;
        events.push(changed.into());
    }
    events.push(
        ConnectionLapsed {
            client: client.clone(),
        }
        .into(),
    );
    agents.into_iter().map(Agent::id).collect()
}

/// Agents that ended and that nobody owns any more are shown for a while; the oldest leave first.
fn drop_oldest_gone(state: &State, leaving: &BTreeSet<&AgentId>, events: &mut Vec<Event>) {
    let mut gone: Vec<&Agent> = state
        .agents
        .values()
        .filter(|agent| {
            leaving.contains(agent.id())
                || (agent.managed.is_none() && agent.client.is_none() && agent.base.is_terminal())
        })
        .collect();
    let surplus = gone.len().saturating_sub(GONE_AGENTS_KEPT);
    // Those that leave now are the newest, although the state has their earlier time of change.
    gone.sort_by_key(|agent| (leaving.contains(agent.id()), agent.updated_at));
    let unregistered = gone.iter().take(surplus).map(|agent| AgentUnregistered {
        agent: agent.id().clone(),
    });
    events.extend(unregistered.map(Event::from));
}

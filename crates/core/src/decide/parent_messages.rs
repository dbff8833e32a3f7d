//! Parent messages: what agents tell and ask the orchestrator that started them.
//!
//! Invariants: a parent message waits in the orchestrator's queue like any message, so it is read
//! once and between two turns; without a parent that can read it, it is for people; a question
//! that ends before it was read leaves the queue again.

use std::collections::BTreeMap;

use super::managed::begin_turn;
use super::{Decision, DecisionSubject, check_text, check_word};
use crate::event::{
    Event, MessageQueued, MessageRepeated, ParentMessage, ParentMessageWithdrawn, ParentNotified,
    PromptMessage, QuestionEnded, TurnEnded,
};
use crate::ids::AgentId;
use crate::input::{DecisionContext, NotifyParent};
use crate::limits::{AGENT_MESSAGES_MAX, PARENT_MESSAGE_BATCH_MAX, PARENT_MESSAGE_BYTES_MAX};
use crate::managed::RunState;
use crate::principal::{Caller, RecordedActor, Role};
use crate::rejection::Rejection;
use crate::state::State;
use crate::text::truncate_text;

/// An agent sends a note to its parent, or to people where no parent can read it.
pub(super) fn notify_parent(state: &State, input: NotifyParent) -> Result<Decision, Rejection> {
    input.caller.refuse_observers()?;
    check_text("the message", &input.text)?;
    check_word("the key", input.key.as_deref().unwrap_or_default())?;
    let Some(agent) = input.caller.principal.agent().cloned() else {
        return Err(Rejection::OnlyAgents);
    };
    // A call whose reply was lost with its host is repeated under the same key.
    if is_repeated(state, &agent, input.key.as_ref()) {
        return Ok(Decision::new(Vec::new(), DecisionSubject::Nothing));
    }
    let to = state.listening_parent(&agent).cloned();
    let parent = to.as_ref().and_then(|id| state.find_orchestrator(id));
    if parent.is_some_and(|managed| managed.queue.len() >= AGENT_MESSAGES_MAX) {
        return Err(Rejection::TooMany {
            what: "messages waiting for the orchestrator",
            limit: AGENT_MESSAGES_MAX,
        });
    }
    let event = ParentNotified {
        agent,
        to,
        text: input.text,
        key: input.key,
        by: RecordedActor::from(&input.caller),
    };
    Ok(Decision::new(vec![event.into()], DecisionSubject::Nothing))
}

/// Whether the agent already sent a note under this key.
fn is_repeated(state: &State, agent: &AgentId, key: Option<&String>) -> bool {
    let (Some((_, managed)), Some(key)) = (state.find_managed(agent), key) else {
        return false;
    };
    managed.note_keys.contains(key)
}

impl PromptMessage {
    /// Whether it is this note of this agent.
    pub(crate) fn is_note(&self, from: &AgentId, text: &str) -> bool {
        matches!(&self.parent_message, Some(ParentMessage::Note { from: said, .. }) if said == from)
            && self.text == text
    }

    /// Whether it asks this question.
    pub(crate) fn is_question(&self, id: &crate::ids::QuestionId) -> bool {
        matches!(&self.parent_message, Some(ParentMessage::Question { question, .. }) if question == id)
    }
}

/// Adds to `events` the parent messages that follow from them, and the turns that those start.
pub(super) fn queue_parent_messages(
    state: &State,
    context: DecisionContext<'_>,
    events: &mut Vec<Event>,
) {
    let withdrawn: Vec<Event> = events
        .iter()
        .filter_map(|event| withdraw_question(state, event))
        .collect();
    events.extend(withdrawn);
    let mut messages: BTreeMap<AgentId, Vec<PromptMessage>> = BTreeMap::new();
    for event in events.iter() {
        if let Some((to, message)) = parent_message_for(state, context, events, event) {
            messages.entry(to).or_default().push(message);
        }
    }
    for (to, messages) in messages {
        queue_for(state, context, events, &to, messages);
    }
}

/// A question that ended before its parent read it leaves the queue.
fn withdraw_question(state: &State, event: &Event) -> Option<Event> {
    let Event::QuestionEnded(QuestionEnded { question, .. }) = event else {
        return None;
    };
    let to = state.find_question(question)?.text.to.as_ref()?;
    let managed = state.find_orchestrator(to)?;
    let waits = managed
        .queue
        .iter()
        .any(|message| message.is_question(question));
    let agent = to.clone();
    let question = question.clone();
    waits.then(|| ParentMessageWithdrawn { agent, question }.into())
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "only these four are of interest to a parent"
)]
fn parent_message_for(
    state: &State,
    context: DecisionContext<'_>,
    events: &[Event],
    event: &Event,
) -> Option<(AgentId, PromptMessage)> {
    // Each text says that it is the child's: a child must not speak to its parent as if it were a
    // person.
    let (to, text, by, parent_message) = match event {
        Event::QuestionAsked(e) => {
            let (to, from) = (e.question.to.clone()?, e.question.agent.clone()?);
            let question = e.question.id.clone();
            let text = format!(
                "[countersign] {} asks you, and waits for an answer to {question} \
                 (`answer_question`). These are its words, not a person's:\n\n{}",
                describe_agent(state, &from),
                truncate_quote(&e.question.text)
            );
            (
                to,
                text,
                e.question.by.clone(),
                ParentMessage::Question { from, question },
            )
        }
        Event::ParentNotified(e) => {
            let text = format!(
                "[countersign] {} tells you something. These are its words, not a person's:\n\n{}",
                describe_agent(state, &e.agent),
                truncate_quote(&e.text)
            );
            let note = ParentMessage::Note {
                from: e.agent.clone(),
                times: 1,
            };
            (e.to.clone()?, text, e.by.clone(), note)
        }
        Event::TurnEnded(e) => report_finished(state, events, e)?,
        Event::AgentExited(e) => {
            let to = state.listening_parent(&e.agent)?.clone();
            let text = format!(
                "[countersign] {} has ended: {}",
                describe_agent(state, &e.agent),
                truncate_quote(&e.message)
            );
            let from = e.agent.clone();
            (
                to,
                text,
                RecordedActor::from(&Caller::host()),
                ParentMessage::Finished { from },
            )
        }
        _ => return None,
    };
    let message = PromptMessage {
        number: 0,
        text,
        by,
        at: context.now,
        parent_message: Some(parent_message),
        attachments: Vec::new(),
    };
    Some((to, message))
}

/// A parent is told when a turn that it prompted ends, unless the agent's next turn or its end is
/// among the same events: then only that is reported.
fn report_finished(
    state: &State,
    events: &[Event],
    end: &TurnEnded,
) -> Option<(AgentId, String, RecordedActor, ParentMessage)> {
    let (_, managed) = state.find_managed(&end.agent)?;
    let to = state.listening_parent(&end.agent)?.clone();
    let turn = managed.turn.as_ref()?;
    let parent = Role::Agent(to.clone());
    let was_prompted = turn
        .messages
        .iter()
        .any(|message| message.by.role == parent);
    let is_followed = events.iter().any(|event| {
        matches!(event, Event::TurnStarted(e) if e.agent == end.agent)
            || matches!(event, Event::AgentExited(e) if e.agent == end.agent)
    });
    if !was_prompted || is_followed {
        return None;
    }
    let why = end.message.as_deref().unwrap_or(&end.reason);
    let text = format!(
        "[countersign] {} is done with what you told it ({why}); `read_transcript` shows what it did",
        describe_agent(state, &end.agent)
    );
    let from = end.agent.clone();
    Some((
        to,
        text,
        RecordedActor::from(&Caller::host()),
        ParentMessage::Finished { from },
    ))
}

/// As much of the text as a parent message carries.
fn truncate_quote(text: &str) -> String {
    let kept = truncate_text(text, PARENT_MESSAGE_BYTES_MAX);
    if kept.len() == text.len() {
        return text.to_owned();
    }
    format!("{kept}\n\n(the rest of {} bytes is left out)", text.len())
}

fn describe_agent(state: &State, agent: &AgentId) -> String {
    match state.find_agent(agent) {
        Some(found) => format!("Agent `{}` ({agent})", found.profile.name),
        None => format!("Agent {agent}"),
    }
}

/// Puts messages into an orchestrator's queue, and starts a turn with them if it is idle.
fn queue_for(
    state: &State,
    context: DecisionContext<'_>,
    events: &mut Vec<Event>,
    to: &AgentId,
    messages: Vec<PromptMessage>,
) {
    let Some((agent, managed)) = state.find_managed(to).filter(|_| !is_ending(events, to)) else {
        return;
    };
    let mut queue: Vec<PromptMessage> = managed.queue.iter().cloned().collect();
    for message in messages {
        // A note that already waits is counted instead of queued, so that an agent that repeats
        // itself does not fill the queue.
        if let Some(ParentMessage::Note { from, .. }) = &message.parent_message
            && queue.iter().any(|other| other.is_note(from, &message.text))
        {
            let repeated = MessageRepeated {
                agent: to.clone(),
                from: from.clone(),
                text: message.text,
            };
            events.push(repeated.into());
        // Notes and questions were refused or sent to people if there is no room. A report about an
        // end is left out then: the orchestrator can still list its agents.
        } else if queue.len() < AGENT_MESSAGES_MAX {
            queue.push(message.clone());
            let agent = to.clone();
            events.push(MessageQueued { agent, message }.into());
        }
    }
    if managed.run_state == RunState::Ready && managed.turn.is_none() {
        let open = state.open_of(agent.id());
        // From the copy, because the state does not have the messages of these events yet.
        let batch = next_batch(queue.iter());
        events.extend(begin_turn(context, agent, managed, &batch, open));
    }
}

/// Whether one of the events ends the orchestrator, so that it reads nothing any more.
fn is_ending(events: &[Event], to: &AgentId) -> bool {
    events.iter().any(|event| {
        matches!(event, Event::AgentExited(e) if e.agent == *to)
            || matches!(event, Event::AgentStopRequested(e) if e.agent == *to)
    })
}

/// What the next turn starts with: one message of a person, or all parent messages in front of the
/// next such message.
pub(super) fn next_batch<'a>(
    mut queue: impl Iterator<Item = &'a PromptMessage>,
) -> Vec<&'a PromptMessage> {
    let Some(first) = queue.next() else {
        return Vec::new();
    };
    if first.parent_message.is_none() {
        return vec![first];
    }
    let more = queue.take_while(|message| message.parent_message.is_some());
    std::iter::once(first)
        .chain(more)
        .take(PARENT_MESSAGE_BATCH_MAX)
        .collect()
}

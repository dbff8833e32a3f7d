//! The mailbox upwards: what agents tell and ask the orchestrator above them.
//!
//! Invariants: a letter waits in the orchestrator's queue like any message, so it is heard once and
//! between two turns; what nobody above can hear is for people; what was answered before it was
//! heard is taken out again.

use std::collections::BTreeMap;

use super::managed::begin_turn;
use super::{Decision, Subject, check_text, check_word, refuse_observers};
use crate::agent::{Agent, OpenCounts};
use crate::event::{
    AgentNoted, Event, Mail, MailWithdrawn, Message, MessageQueued, MessageRepeated, QuestionEnded,
    TurnEnded,
};
use crate::ids::AgentId;
use crate::input::{Context, TellUp};
use crate::limits::{AGENT_MESSAGES_MAX, LETTER_BYTES_MAX, MAIL_BATCH_MAX};
use crate::managed::{Life, Managed};
use crate::principal::{By, Caller, Role};
use crate::rejection::Rejection;
use crate::state::State;

/// An agent tells whoever is above it something: its orchestrator, or people.
pub(super) fn tell_up(state: &State, input: TellUp) -> Result<Decision, Rejection> {
    refuse_observers(&input.caller)?;
    check_text("the message", &input.text)?;
    check_word("the key", input.key.as_deref().unwrap_or_default())?;
    let Some(agent) = input.caller.principal.agent().cloned() else {
        return Err(Rejection::OnlyAgents);
    };
    if is_known(state, &agent, input.key.as_ref()) {
        return Ok(Decision::new(Vec::new(), Subject::Nothing));
    }
    let to = state.listening_parent(&agent).cloned();
    let full = |parent: &AgentId| {
        let managed = state.find_orchestrator(parent);
        managed.is_some_and(|managed| managed.queue.len() >= AGENT_MESSAGES_MAX)
    };
    if to.as_ref().is_some_and(full) {
        return Err(Rejection::TooMany {
            what: "messages waiting for the orchestrator",
            limit: AGENT_MESSAGES_MAX,
        });
    }
    let noted = AgentNoted {
        agent,
        to,
        text: input.text,
        key: input.key,
        by: By::from(&input.caller),
    };
    Ok(Decision::new(vec![noted.into()], Subject::Nothing))
}

fn is_known(state: &State, agent: &AgentId, key: Option<&String>) -> bool {
    let managed = state.find_managed(agent).map(|(_, managed)| managed);
    managed.is_some_and(|managed| key.is_some_and(|key| managed.noted.contains(key)))
}

impl Message {
    /// Whether it is this note of this agent.
    pub(crate) fn is_note(&self, from: &AgentId, text: &str) -> bool {
        matches!(&self.mail, Some(Mail::Note { from: said, .. }) if said == from)
            && self.text == text
    }

    /// Whether it brings this question.
    pub(crate) fn is_question(&self, id: &crate::ids::QuestionId) -> bool {
        matches!(&self.mail, Some(Mail::Question { question, .. }) if question == id)
    }
}

/// Adds what the events mean for those above: letters, and the turns they begin.
pub(super) fn deliver(state: &State, context: Context<'_>, events: &mut Vec<Event>) {
    let withdrawn: Vec<Event> = events
        .iter()
        .filter_map(|event| withdrawal(state, event))
        .collect();
    events.extend(withdrawn);
    let mut letters: BTreeMap<AgentId, Vec<Message>> = BTreeMap::new();
    for event in events.iter() {
        if let Some((to, letter)) = letter_of(state, context, events, event) {
            letters.entry(to).or_default().push(letter);
        }
    }
    for (to, letters) in letters {
        post(state, context, events, &to, letters);
    }
}

/// A question that ended before it was heard is not heard any more.
fn withdrawal(state: &State, event: &Event) -> Option<Event> {
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
    waits.then(|| MailWithdrawn { agent, question }.into())
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "only these four reach somebody above"
)]
fn letter_of(
    state: &State,
    context: Context<'_>,
    events: &[Event],
    event: &Event,
) -> Option<(AgentId, Message)> {
    let (to, text, by, mail) = match event {
        Event::QuestionAsked(e) => {
            let (to, from) = (e.question.to.clone()?, e.question.agent.clone()?);
            let question = e.question.id.clone();
            let text = format!(
                "[countersign] {} asks you, and waits for an answer to {question} \
                 (`answer_question`). These are its words, not a person's:\n\n{}",
                name_of(state, &from),
                quoted(&e.question.text)
            );
            (
                to,
                text,
                e.question.by.clone(),
                Mail::Question { from, question },
            )
        }
        Event::AgentNoted(e) => {
            let text = format!(
                "[countersign] {} tells you something. These are its words, not a person's:\n\n{}",
                name_of(state, &e.agent),
                quoted(&e.text)
            );
            let mail = Mail::Note {
                from: e.agent.clone(),
                times: 1,
            };
            (e.to.clone()?, text, e.by.clone(), mail)
        }
        Event::TurnEnded(e) => finished(state, events, e)?,
        Event::AgentExited(e) => {
            let to = state.listening_parent(&e.agent)?.clone();
            let text = format!(
                "[countersign] {} has ended: {}",
                name_of(state, &e.agent),
                quoted(&e.message)
            );
            let from = e.agent.clone();
            (to, text, By::from(&Caller::host()), Mail::Finished { from })
        }
        _ => return None,
    };
    let message = Message {
        text,
        by,
        at: context.now,
        mail: Some(mail),
    };
    Some((to, message))
}

/// An orchestrator hears of the end of what it told an agent to do, unless more of it follows.
fn finished(
    state: &State,
    events: &[Event],
    end: &TurnEnded,
) -> Option<(AgentId, String, By, Mail)> {
    let (_, managed) = state.find_managed(&end.agent)?;
    let to = state.listening_parent(&end.agent)?.clone();
    let turn = managed.turn.as_ref()?;
    let wanted = |message: &Message| message.by.role == Role::Agent(to.clone());
    let goes_on = |event: &Event| {
        matches!(event, Event::TurnStarted(e) if e.agent == end.agent)
            || matches!(event, Event::AgentExited(e) if e.agent == end.agent)
    };
    if !turn.messages.iter().any(wanted) || events.iter().any(goes_on) {
        return None;
    }
    let why = end.message.as_deref().unwrap_or(&end.reason);
    let text = format!(
        "[countersign] {} is done with what you told it ({why}); `read_transcript` shows what it did",
        name_of(state, &end.agent)
    );
    let from = end.agent.clone();
    Some((to, text, By::from(&Caller::host()), Mail::Finished { from }))
}

/// As much of it as a letter carries.
fn quoted(text: &str) -> String {
    if text.len() <= LETTER_BYTES_MAX {
        return text.to_owned();
    }
    let kept = text.floor_char_boundary(LETTER_BYTES_MAX);
    format!(
        "{}\n\n(the rest of {} bytes is left out)",
        &text[..kept],
        text.len()
    )
}

fn name_of(state: &State, agent: &AgentId) -> String {
    match state.find_agent(agent) {
        Some(found) => format!("Agent `{}` ({agent})", found.profile.name),
        None => format!("Agent {agent}"),
    }
}

/// Puts letters into an orchestrator's queue, and begins a turn with them if it rests.
fn post(
    state: &State,
    context: Context<'_>,
    events: &mut Vec<Event>,
    to: &AgentId,
    letters: Vec<Message>,
) {
    let Some((agent, managed)) = state.find_managed(to).filter(|_| listens(events, to)) else {
        return;
    };
    let mut queue: Vec<Message> = managed.queue.iter().cloned().collect();
    for letter in letters {
        let again = match &letter.mail {
            Some(Mail::Note { from, .. }) => {
                let said = queue.iter().any(|other| other.is_note(from, &letter.text));
                said.then(|| from.clone())
            }
            _ => None,
        };
        if let Some(from) = again {
            let (agent, text) = (to.clone(), letter.text);
            events.push(MessageRepeated { agent, from, text }.into());
        } else if queue.len() < AGENT_MESSAGES_MAX {
            queue.push(letter.clone());
            let agent = to.clone();
            let message = letter;
            events.push(MessageQueued { agent, message }.into());
        }
    }
    events.extend(wake(state, context, (agent, managed), &queue));
}

/// Whether an orchestrator still listens after what the events say of it.
fn listens(events: &[Event], to: &AgentId) -> bool {
    !events.iter().any(|event| {
        matches!(event, Event::AgentExited(e) if e.agent == *to)
            || matches!(event, Event::AgentStopRequested(e) if e.agent == *to)
    })
}

fn wake(
    state: &State,
    context: Context<'_>,
    (agent, managed): (&Agent, &Managed),
    queue: &[Message],
) -> Vec<Event> {
    if managed.life != Life::Ready || managed.turn.is_some() {
        return Vec::new();
    }
    let open: OpenCounts = state.open_of(agent.id());
    begin_turn(context, agent, managed, (&batch(queue.iter()), open))
}

/// What the next turn takes: one message, or all letters that wait in front of the next one.
pub(super) fn batch<'a>(mut queue: impl Iterator<Item = &'a Message>) -> Vec<&'a Message> {
    let Some(first) = queue.next() else {
        return Vec::new();
    };
    if first.mail.is_none() {
        return vec![first];
    }
    let more = queue.take_while(|message| message.mail.is_some());
    std::iter::once(first)
        .chain(more)
        .take(MAIL_BATCH_MAX)
        .collect()
}

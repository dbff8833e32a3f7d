//! Questions: asked by anybody who may ask, answered by a person or an orchestrator above the asker.

use std::sync::Arc;

use super::time::unanswered_ending;
use super::{Decision, DecisionSubject, check_agent_id, check_text, check_word};
use crate::event::{
    Event, QuestionAsked, QuestionEnded, QuestionEnding, QuestionEscalated, QuestionOutcome,
    QuestionText,
};
use crate::ids::{AgentId, QuestionId};
use crate::input::{AskQuestion, DecisionContext};
use crate::limits::{
    AGENT_MESSAGES_MAX, AGENT_OPEN_QUESTIONS_MAX, OPEN_QUESTIONS_MAX, QUESTION_TIMEOUT_MS,
    TIMEOUT_MS_MAX,
};
use crate::principal::{Caller, RecordedActor};
use crate::question::Question;
use crate::rejection::Rejection;
use crate::state::State;

pub(super) fn ask(
    state: &State,
    context: DecisionContext<'_>,
    input: AskQuestion,
) -> Result<Decision, Rejection> {
    input.caller.refuse_observers()?;
    check_text("the question", &input.text)?;
    check_agent_id(input.agent.as_ref())?;
    check_word("the key", input.key.as_deref().unwrap_or_default())?;
    let agent = input.caller.principal.agent().cloned().or(input.agent);
    let to = agent
        .as_ref()
        .and_then(|agent| first_recipient(state, agent));
    if let Some(known) = find_asked(state, &input.caller, input.key.as_deref(), input.keyed)? {
        return Ok(known);
    }
    // A child that asks its parent the same thing again waits for the answer to the first.
    let repeated = state
        .questions
        .values()
        .filter(|question| {
            to.is_some() && question.text.agent == agent && question.text.text == input.text
        })
        .min_by_key(|question| question.opened);
    if let Some(open) = repeated {
        let id = open.text.id.clone();
        return Ok(Decision::new(Vec::new(), DecisionSubject::Question(id)));
    }
    // After looking for earlier ones: repeating a question needs no room.
    check_room(state, agent.as_ref())?;
    let timeout_ms = input
        .timeout_ms
        .unwrap_or(QUESTION_TIMEOUT_MS)
        .min(TIMEOUT_MS_MAX);
    let question = QuestionText {
        id: input.id.clone(),
        agent,
        text: input.text,
        by: RecordedActor::from(&input.caller),
        deadline: Some(context.now.plus_ms(timeout_ms)),
        escalates_at: to
            .as_ref()
            .map(|_| context.now.plus_ms(context.escalation_ms)),
        to,
        key: input.key,
    };
    let question = Arc::new(question);
    let events = vec![QuestionAsked { question }.into()];
    Ok(Decision::new(events, DecisionSubject::Question(input.id)))
}

/// The orchestrator that is asked before people are: the parent, if it can hear it.
fn first_recipient(state: &State, agent: &AgentId) -> Option<AgentId> {
    let parent = state.listening_parent(agent)?;
    let managed = state.find_orchestrator(parent)?;
    // If its queue is full, people are asked at once.
    (managed.queue.len() < AGENT_MESSAGES_MAX).then(|| parent.clone())
}

/// The question that was asked under a key. History lags behind memory: what is open there and
/// missing in memory has ended since it was read, so the caller has to read history again.
fn find_asked(
    state: &State,
    caller: &Caller,
    key: Option<&str>,
    history: Option<Question>,
) -> Result<Option<Decision>, Rejection> {
    let open = key.and_then(|key| {
        state.questions.values().find(|question| {
            question.text.key.as_deref() == Some(key)
                && question.text.by.key == caller.principal.key
        })
    });
    if let Some(open) = open {
        let id = open.text.id.clone();
        return Ok(Some(Decision::new(
            Vec::new(),
            DecisionSubject::Question(id),
        )));
    }
    match history {
        Some(stale) if stale.is_pending() => Err(Rejection::UnknownQuestion(stale.text.id.clone())),
        known => Ok(known.map(|known| {
            let known = DecisionSubject::KnownQuestion(Box::new(known));
            Decision::new(Vec::new(), known)
        })),
    }
}

fn check_room(state: &State, agent: Option<&AgentId>) -> Result<(), Rejection> {
    if state.questions.len() >= OPEN_QUESTIONS_MAX {
        return Err(Rejection::TooMany {
            what: "open questions",
            limit: OPEN_QUESTIONS_MAX,
        });
    }
    if agent.is_some_and(|agent| state.open_of(agent).questions >= AGENT_OPEN_QUESTIONS_MAX) {
        return Err(Rejection::TooMany {
            what: "open questions of this agent",
            limit: AGENT_OPEN_QUESTIONS_MAX,
        });
    }
    Ok(())
}

/// The fact that people are asked as well.
pub(super) fn escalate_question(question: &Question) -> Event {
    QuestionEscalated {
        question: question.text.id.clone(),
        opened: question.opened,
        agent: question.text.agent.clone(),
    }
    .into()
}

/// The ends of the questions of an agent that is gone.
pub(super) fn withdraw_questions(state: &State, caller: &Caller, agent: &AgentId) -> Vec<Event> {
    let mut open: Vec<_> = state
        .questions
        .values()
        .filter(|question| question.text.agent.as_ref() == Some(agent))
        .collect();
    open.sort_by_key(|question| question.opened);
    let ends = open.into_iter().map(|question| {
        let ending = QuestionEnding {
            outcome: QuestionOutcome::Cancelled,
            answer: "the asker is gone".to_owned(),
            by: RecordedActor::from(caller),
            door: None,
            considered_ms: None,
        };
        end_question(question, ending)
    });
    ends.collect()
}

/// The fact that a question ended.
pub(super) fn end_question(question: &Question, ending: QuestionEnding) -> Event {
    QuestionEnded {
        question: question.text.id.clone(),
        opened: question.opened,
        agent: question.text.agent.clone(),
        ending: Arc::new(ending),
    }
    .into()
}

pub(super) fn answer(
    state: &State,
    context: DecisionContext<'_>,
    caller: &Caller,
    id: &QuestionId,
    answer: String,
    considered_ms: Option<u64>,
) -> Result<Decision, Rejection> {
    caller.refuse_observers()?;
    check_text("the answer", &answer)?;
    // Whether an agent may answer comes before whether the question exists: it learns nothing of
    // questions that are not for it.
    let found = state.find_question(id);
    if let Some(agent) = caller.principal.agent() {
        let may = match found {
            Some(question) => {
                let asker = question.text.agent.as_ref();
                asker.is_some_and(|asker| state.is_ancestor(agent, asker))
            }
            // How it ended is in history, which tells only those above.
            None => state.find_orchestrator(agent).is_some(),
        };
        if !may {
            return Err(Rejection::AgentsCannotAnswer(agent.clone()));
        }
    }
    let question = found.ok_or_else(|| Rejection::UnknownQuestion(id.clone()))?;
    if context.has_come(question.text.deadline) {
        return Ok(refuse_late_answer(state, context, question));
    }
    let ending = QuestionEnding {
        outcome: QuestionOutcome::Answered,
        answer,
        by: RecordedActor::from(caller),
        door: caller.door,
        considered_ms: considered_ms.map(|ms| ms.min(TIMEOUT_MS_MAX)),
    };
    Ok(Decision::new(
        vec![end_question(question, ending)],
        DecisionSubject::EndedQuestion(id.clone()),
    ))
}

/// An answer that arrives before the timer ends the question is late all the same.
fn refuse_late_answer(
    state: &State,
    context: DecisionContext<'_>,
    question: &Question,
) -> Decision {
    let ending = unanswered_ending();
    let mut shown = question.clone();
    shown.ended = Some(crate::question::QuestionEnd {
        ending: Arc::new(ending.clone()),
        seq: state.head().next(),
        at: context.now,
    });
    let refusal = Rejection::AlreadyAnswered(Box::new(shown));
    Decision::new(
        vec![end_question(question, ending)],
        DecisionSubject::Refused(Box::new(refusal)),
    )
}

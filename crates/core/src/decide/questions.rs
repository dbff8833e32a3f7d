//! Questions: asked by anybody who may ask, answered by a person.

use std::sync::Arc;

use super::time::nobody_answered;
use super::{Decision, Subject, check_agent_id, check_text, refuse_observers};
use crate::event::{
    Event, QuestionAsked, QuestionEnded, QuestionEnding, QuestionOutcome, QuestionText,
};
use crate::ids::{AgentId, QuestionId};
use crate::input::{AskQuestion, Context};
use crate::limits::{
    AGENT_OPEN_QUESTIONS_MAX, OPEN_QUESTIONS_MAX, QUESTION_TIMEOUT_MS, TIMEOUT_MS_MAX,
};
use crate::principal::{By, Caller};
use crate::question::Question;
use crate::rejection::Rejection;
use crate::state::State;

pub(super) fn ask(
    state: &State,
    context: Context<'_>,
    input: AskQuestion,
) -> Result<Decision, Rejection> {
    refuse_observers(&input.caller)?;
    check_text("the question", &input.text)?;
    check_agent_id(input.agent.as_ref())?;
    let agent = input.caller.principal.agent().cloned().or(input.agent);
    if state.questions.len() >= OPEN_QUESTIONS_MAX {
        return Err(Rejection::TooMany {
            what: "open questions",
            limit: OPEN_QUESTIONS_MAX,
        });
    }
    if agent
        .as_ref()
        .is_some_and(|agent| state.open_of(agent).questions >= AGENT_OPEN_QUESTIONS_MAX)
    {
        return Err(Rejection::TooMany {
            what: "open questions of this agent",
            limit: AGENT_OPEN_QUESTIONS_MAX,
        });
    }
    let timeout_ms = input
        .timeout_ms
        .unwrap_or(QUESTION_TIMEOUT_MS)
        .min(TIMEOUT_MS_MAX);
    let question = QuestionText {
        id: input.id.clone(),
        agent,
        text: input.text,
        by: By::from(&input.caller),
        deadline: Some(context.now.plus_ms(timeout_ms)),
    };
    Ok(Decision::new(
        vec![
            QuestionAsked {
                question: Arc::new(question),
            }
            .into(),
        ],
        Subject::Question(input.id),
    ))
}

/// The ends of an agent's questions when it takes itself off the list.
pub(super) fn withdrawn(state: &State, caller: &Caller, agent: &AgentId) -> Vec<Event> {
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
            by: By::from(caller),
        };
        ended(question, ending)
    });
    ends.collect()
}

/// The fact that a question ended.
pub(super) fn ended(question: &Question, ending: QuestionEnding) -> Event {
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
    context: Context<'_>,
    caller: &Caller,
    id: &QuestionId,
    answer: String,
) -> Result<Decision, Rejection> {
    refuse_observers(caller)?;
    check_text("the answer", &answer)?;
    if let Some(agent) = caller.principal.agent() {
        return Err(Rejection::AgentsCannotAnswer(agent.clone()));
    }
    let question = state
        .find_question(id)
        .ok_or_else(|| Rejection::UnknownQuestion(id.clone()))?;
    if context.has_come(question.text.deadline) {
        return Ok(late(state, context, question));
    }
    let ending = QuestionEnding {
        outcome: QuestionOutcome::Answered,
        answer,
        by: By::from(caller),
    };
    Ok(Decision::new(
        vec![ended(question, ending)],
        Subject::EndedQuestion(id.clone()),
    ))
}

/// Words that overtake the clock's own are late all the same.
fn late(state: &State, context: Context<'_>, question: &Question) -> Decision {
    let ending = nobody_answered();
    let mut shown = question.clone();
    shown.ended = Some(crate::question::QuestionEnded {
        ending: Arc::new(ending.clone()),
        seq: state.head().next(),
        at: context.now,
    });
    let refusal = Rejection::AlreadyAnswered(Box::new(shown));
    Decision::new(
        vec![ended(question, ending)],
        Subject::Refused(Box::new(refusal)),
    )
}

//! Questions: opened and ended.

use crate::event::QuestionAsked;
use crate::ids::{Seq, Timestamp};
use crate::question::{Question, QuestionEnd};

use super::{DeadlineTarget, State};

impl State {
    pub(super) fn apply_question_asked(&mut self, seq: Seq, at: Timestamp, event: &QuestionAsked) {
        let question = Question {
            text: event.question.clone(),
            opened: seq,
            created_at: at,
            escalated: false,
            ended: None,
        };
        self.changed.rest.questions.push(question.clone());
        self.open_question(question);
    }

    pub(super) fn open_question(&mut self, question: Question) {
        if let Some(agent) = &question.text.agent {
            self.open.entry(agent.clone()).or_default().questions += 1;
        }
        if let Some(deadline) = question.text.deadline {
            self.deadlines
                .insert((deadline, DeadlineTarget::Question(question.text.id.clone())));
        }
        if let Some(at) = escalation(&question) {
            let what = DeadlineTarget::Escalation(question.text.id.clone());
            self.deadlines.insert((at, what));
        }
        self.questions.insert(question.text.id.clone(), question);
    }

    pub(super) fn apply_question_ended(
        &mut self,
        seq: Seq,
        at: Timestamp,
        event: &crate::event::QuestionEnded,
    ) {
        let Some(mut question) = self.questions.remove(&event.question) else {
            return;
        };
        if let Some(agent) = &question.text.agent {
            self.close_one(agent, |open| open.questions -= 1);
        }
        if let Some(deadline) = question.text.deadline {
            self.deadlines
                .remove(&(deadline, DeadlineTarget::Question(question.text.id.clone())));
        }
        if let Some(at) = escalation(&question) {
            let what = DeadlineTarget::Escalation(question.text.id.clone());
            self.deadlines.remove(&(at, what));
        }
        question.ended = Some(QuestionEnd {
            ending: event.ending.clone(),
            seq,
            at,
        });
        self.changed.rest.questions.push(question);
    }
}

/// When people are asked as well, if they are not yet.
fn escalation(question: &Question) -> Option<Timestamp> {
    question
        .text
        .escalates_at
        .filter(|_| !question.is_for_people())
}

//! Callers that wait for an answer.
//!
//! Invariants: a wait is answered only with what is durable; a commit that fails ends no wait.

use std::collections::HashMap;

use countersign_core::limits::WAITERS_PER_SUBJECT_MAX;
use countersign_core::{
    Approval, ApprovalId, CommittedEvent, Event, Input, Question, QuestionEnd, QuestionId,
    Rejection, Seq, Timestamp,
};

use super::{CommitBatch, PendingReply, ReplySender, Supervisor, refuse_with};
use crate::reply::{CommandReply, ServiceError};

/// Open waits, by what they wait for.
#[derive(Default)]
pub(crate) struct AnswerWaiters {
    approvals: HashMap<ApprovalId, Vec<ApprovalWaiter>>,
    questions: HashMap<QuestionId, Vec<ReplySender<Question>>>,
    dropped: usize,
}

/// A caller that waits for an approval.
struct ApprovalWaiter {
    is_asker: bool,
    answer: ReplySender<Approval>,
}

/// Waits that a batch ended: answered once that is durable, and open again if it never is.
#[derive(Default)]
pub(super) struct EndedWaits {
    approvals: Vec<(ApprovalWaiter, Approval)>,
    questions: Vec<(ReplySender<Question>, Question)>,
}

impl EndedWaits {
    pub(super) fn is_empty(&self) -> bool {
        self.approvals.is_empty() && self.questions.is_empty()
    }

    pub(super) fn answer(self) {
        // One that no longer listens has lost nothing: the record has it.
        for (waiter, approval) in self.approvals {
            drop(waiter.answer.send(Ok(approval)));
        }
        for (answer, question) in self.questions {
            drop(answer.send(Ok(question)));
        }
    }
}

impl AnswerWaiters {
    pub(super) fn wait_approval(
        &mut self,
        id: ApprovalId,
        is_asker: bool,
        answer: ReplySender<Approval>,
    ) {
        let waiting = self.approvals.entry(id).or_default();
        if waiting.len() < WAITERS_PER_SUBJECT_MAX {
            waiting.push(ApprovalWaiter { is_asker, answer });
        } else {
            refuse_with(answer, too_many_waits());
        }
    }

    pub(super) fn wait_question(&mut self, id: QuestionId, answer: ReplySender<Question>) {
        let waiting = self.questions.entry(id).or_default();
        if waiting.len() < WAITERS_PER_SUBJECT_MAX {
            waiting.push(answer);
        } else {
            refuse_with(answer, too_many_waits());
        }
    }

    /// Opens waits again whose end could not be committed.
    pub(super) fn put_back(&mut self, ended: EndedWaits) {
        // Not counted against the bound again: each of them was admitted before.
        for (waiter, approval) in ended.approvals {
            let id = approval.ask.id.clone();
            self.approvals.entry(id).or_default().push(waiter);
        }
        for (answer, question) in ended.questions {
            let id = question.text.id.clone();
            self.questions.entry(id).or_default().push(answer);
        }
    }

    /// Forgets waits that nobody listens to; often enough to leak nothing, seldom enough to be free.
    pub(super) fn sweep(&mut self) {
        self.dropped += 1;
        if self.dropped * 2 < self.approvals.len() + self.questions.len() {
            return;
        }
        self.dropped = 0;
        self.approvals.retain(|_, waiting| {
            waiting.retain(|waiter| !waiter.answer.is_closed());
            !waiting.is_empty()
        });
        self.questions.retain(|_, waiting| {
            waiting.retain(|answer| !answer.is_closed());
            !waiting.is_empty()
        });
    }
}

impl Supervisor {
    /// Hands a question that ended to those who wait for it.
    pub(super) fn end_question_waits(
        &mut self,
        seq: Seq,
        at: Timestamp,
        event: &Event,
        question: Option<&mut Question>,
        batch: &mut CommitBatch,
    ) {
        if let (Event::QuestionEnded(e), Some(question)) = (event, question) {
            question.ended = Some(QuestionEnd {
                ending: e.ending.clone(),
                seq,
                at,
            });
            let waiting = self.waiters.questions.remove(&e.question);
            for answer in waiting.unwrap_or_default() {
                batch.ended_waits.questions.push((answer, question.clone()));
            }
        }
    }

    /// If the last event ended an approval, its waits end with the same commit.
    pub(super) fn end_approval_waits(&mut self, batch: &mut CommitBatch) {
        let Some(CommittedEvent {
            event: Event::ApprovalResolved(resolved),
            ..
        }) = batch.entries.last()
        else {
            return;
        };
        let id = resolved.approval.clone();
        let Some(waiting) = self.waiters.approvals.remove(&id) else {
            return;
        };
        let Some(approval) = self.state.find_approval(&id).cloned() else {
            return;
        };
        self.end_waits(waiting, approval, batch);
    }

    fn end_waits(
        &mut self,
        mut waiting: Vec<ApprovalWaiter>,
        approval: Approval,
        batch: &mut CommitBatch,
    ) {
        // An asker that has gone is told nothing, so no attempt is recorded for it.
        waiting.retain(|waiter| !waiter.answer.is_closed());
        let told = if waiting.iter().any(|waiter| waiter.is_asker) {
            self.record_attempt(approval, batch)
        } else {
            approval
        };
        let ended = waiting.into_iter().map(|waiter| (waiter, told.clone()));
        batch.ended_waits.approvals.extend(ended);
    }

    /// Records that the answer is about to be delivered to the asker.
    fn record_attempt(&mut self, approval: Approval, batch: &mut CommitBatch) -> Approval {
        let told = self.decide_and_apply(Input::DeliverAnswer(Box::new(approval.clone())), batch);
        if let Ok(PendingReply::Ready(CommandReply::Approval(told))) = told {
            *told
        } else {
            approval
        }
    }

    pub(super) fn add_approval_wait(
        &mut self,
        id: ApprovalId,
        is_asker: bool,
        answer: ReplySender<Approval>,
        batch: &mut CommitBatch,
    ) {
        match self.state.find_approval(&id).cloned() {
            None => refuse_with(answer, Rejection::UnknownApproval(id).into()),
            Some(approval) if approval.is_pending() => {
                self.waiters.wait_approval(id, is_asker, answer);
            }
            Some(approval) => {
                let waiter = ApprovalWaiter { is_asker, answer };
                self.end_waits(vec![waiter], approval, batch);
            }
        }
    }

    pub(super) fn add_question_wait(&mut self, id: QuestionId, answer: ReplySender<Question>) {
        if self.state.find_question(&id).is_some() {
            self.waiters.wait_question(id, answer);
        } else {
            refuse_with(answer, Rejection::UnknownQuestion(id).into());
        }
    }

    /// After the state was loaded again: answers waits for what is no longer open.
    pub(super) fn recheck_waits(&mut self, batch: &mut CommitBatch) {
        let state = &self.state;
        // Taken out before they are added again: adding needs the whole supervisor.
        let approvals: Vec<_> = self
            .waiters
            .approvals
            .extract_if(|id, _| !state.find_approval(id).is_some_and(Approval::is_pending))
            .collect();
        let questions: Vec<_> = self
            .waiters
            .questions
            .extract_if(|id, _| state.find_question(id).is_none())
            .collect();
        for (id, waiting) in approvals {
            for ApprovalWaiter { is_asker, answer } in waiting {
                self.add_approval_wait(id.clone(), is_asker, answer, batch);
            }
        }
        for (id, waiting) in questions {
            for answer in waiting {
                self.add_question_wait(id.clone(), answer);
            }
        }
    }
}

fn too_many_waits() -> ServiceError {
    Rejection::TooMany {
        what: "waits for the same answer",
        limit: WAITERS_PER_SUBJECT_MAX,
    }
    .into()
}

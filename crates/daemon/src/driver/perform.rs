//! Telling: what the board says is owed goes to the agent, each thing once.
//!
//! Invariant: what was told and what was said for it change in one breath, so that whoever goes on
//! from a checkpoint neither forgets nor repeats anything.

use std::collections::HashSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_agents::adapter::{
    AgentCommand, ClientRequestError, PermissionAnswer, RequestId, WriteId,
};
use countersign_core::event::{AnswerDelivery, ApprovalOutcome, TurnEnded};
use countersign_core::limits::TOLD_MS_HELD;
use countersign_core::{Approval, ApprovalId, Duty, Input, RunEvent, Seq};

use crate::crash;
use crate::duty_board::DutyReceiver;

use super::agent_connection::{AgentConnection, SentLines};
use super::run::Run;

/// What a driver does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DutyProgress {
    Continue,
    Stop,
}

impl Run {
    /// Performs what is owed and was not performed yet.
    pub(super) fn perform_duties(self: &Arc<Self>, duties: &mut DutyReceiver) -> DutyProgress {
        let duties = duties.borrow_and_update().clone();
        let open: HashSet<Seq> = duties.iter().filter_map(answered).collect();
        self.forget_settled(&open);
        for duty in duties.iter() {
            match duty {
                Duty::Stop { .. } => return DutyProgress::Stop,
                Duty::Launch { .. } => {}
                Duty::Answer(approval) => self.answer(approval),
                Duty::Configure {
                    revision,
                    mode,
                    model,
                } => self.configure(*revision, mode.clone(), model.clone()),
                Duty::Prompt { turn, messages } => self.prompt(*turn, messages),
                Duty::Interrupt { turn } => self.interrupt(*turn),
            }
        }
        DutyProgress::Continue
    }

    /// What is settled is no longer owed.
    fn forget_settled(&self, open: &HashSet<Seq>) {
        self.connection()
            .performed
            .answers
            .retain(|opened, _| open.contains(opened));
        self.followed().retain(|opened| open.contains(opened));
    }

    fn prompt(self: &Arc<Self>, turn: u32, messages: &[String]) {
        let ordered = {
            let mut connection = self.connection();
            if connection.performed.turn >= turn {
                return;
            }
            connection.performed.turn = turn;
            let messages = messages.to_vec();
            connection.order(AgentCommand::Prompt { turn, messages })
        };
        crash::point("prompt_written");
        match ordered {
            Ok(sent) => self.confirm_when_written(sent),
            Err(error) => self.end_turn(turn, error.to_string()),
        }
    }

    /// A turn that could not even be begun is over.
    fn end_turn(self: &Arc<Self>, turn: u32, why: String) {
        let run = self.clone();
        self.tasks.spawn(async move {
            let ended = run.input(RunEvent::TurnEnded {
                entries: Vec::new(),
                end: Box::new(TurnEnded {
                    agent: run.agent.clone(),
                    turn,
                    reason: "error".to_owned(),
                    message: Some(why),
                    usage: None,
                }),
                left_open: Vec::new(),
            });
            if let Err(error) = run.service.record_output(vec![ended], None).await {
                tracing::warn!(agent = %run.agent, %error, "the end of a turn was not recorded");
            }
        });
    }

    fn interrupt(self: &Arc<Self>, turn: u32) {
        let (sent, waiting) = {
            let mut connection = self.connection();
            if connection.performed.interrupted >= turn {
                return;
            }
            connection.performed.interrupted = turn;
            // Its session may not be open any more; then there is nothing to end.
            let sent = connection.order(AgentCommand::Interrupt).ok().flatten();
            (sent, connection.unstarted_requests())
        };
        self.confirm_when_written(sent);
        // The protocol cancels asks for permission with their turn; whatever else waits for a person
        // was cancelled as well, and an agent that waits for it would never end its turn.
        for request in waiting {
            self.cancel_request(request, "the turn was interrupted");
        }
    }

    /// Nothing comes of a wish.
    pub(super) fn cancel_request(self: &Arc<Self>, request: (RequestId, u64), why: &str) {
        self.send_result(request, Err(ClientRequestError::Cancelled(why.to_owned())));
    }

    /// Nothing comes of an ask that is no longer open.
    pub(super) fn cancel_ask(self: &Arc<Self>, request: &RequestId, ask: &ApprovalId) {
        let sent = self
            .connection()
            .refuse(request, ask, PermissionAnswer::Cancelled);
        self.confirm_when_written(sent);
    }

    fn configure(self: &Arc<Self>, revision: u32, mode: Option<String>, model: Option<String>) {
        let mode = mode.map(|mode| AgentCommand::SetMode { revision, mode });
        let model = model.map(|model| AgentCommand::SetModel { revision, model });
        let mut sent = Vec::new();
        {
            let mut connection = self.connection();
            if connection.performed.configured >= revision {
                return;
            }
            connection.performed.configured = revision;
            for order in [mode, model].into_iter().flatten() {
                match connection.order(order) {
                    Ok(lines) => sent.push(lines),
                    Err(error) => {
                        tracing::warn!(agent = %self.agent, %error, "a mode or model was not set");
                    }
                }
            }
        }
        for lines in sent {
            self.confirm_when_written(lines);
        }
    }

    /// Tells the agent how its ask ended, or does what it wished for.
    fn answer(self: &Arc<Self>, approval: &Approval) {
        if !self.followed().insert(approval.opened) {
            return;
        }
        let request = RequestId(approval.ask.request.clone().unwrap_or_default());
        let mut connection = self.connection();
        if connection.performed.answers.contains_key(&approval.opened) {
            return self.follow_sent_answer(approval, &connection);
        }
        if let Some(wish) = connection.start_request(&request, &approval.ask.id) {
            drop(connection);
            let (run, approval) = (self.clone(), approval.clone());
            self.tasks
                .spawn(async move { run.serve_decided(request, wish, &approval).await });
            return;
        }
        crash::point("answer_owed");
        let answered = connection.answer(approval, answer_of(approval));
        crash::point("answer_sent");
        match answered {
            Ok(sent) => self.record_when_written(approval, &connection, sent),
            // The agent took it back, or its turn is over.
            Err(_) => self.record_delivery(approval, AnswerDelivery::Withdrawn),
        }
    }

    /// An earlier host told this. Whether it came through is known once what it left is written.
    fn follow_sent_answer(self: &Arc<Self>, approval: &Approval, connection: &AgentConnection) {
        let Some(told) = connection.performed.answers.get(&approval.opened) else {
            return;
        };
        match connection.resend_line(&WriteId::Line(told.line)) {
            Some(sent) => self.record_when_written(approval, connection, Some(sent)),
            None => self.record_delivery(approval, AnswerDelivery::Delivered),
        }
    }

    /// Records what became of an answer once it is known.
    pub(super) fn record_when_written(
        self: &Arc<Self>,
        approval: &Approval,
        connection: &AgentConnection,
        sent: Option<SentLines>,
    ) {
        let Some(sent) = sent else {
            return self.record_delivery(approval, AnswerDelivery::Withdrawn);
        };
        let told = connection.performed.answers.get(&approval.opened);
        let expected = told.map(|told| (WriteId::Line(told.line), told.kind));
        let (run, approval) = (self.clone(), approval.clone());
        self.tasks.spawn(async move {
            if let Ok(outcome) = sent.outcome(expected).await {
                crash::point("answer_written");
                run.connection().confirm(&outcome.names);
                run.record_delivery(&approval, outcome.delivery);
            }
        });
    }

    /// Records what became of an answer, together with whatever is committed next.
    pub(super) fn record_delivery(self: &Arc<Self>, approval: &Approval, delivery: AnswerDelivery) {
        let input = Input::SettleAnswer {
            approval: approval.ask.id.clone(),
            opened: approval.opened,
            delivery,
        };
        let first = {
            let mut told = self.settlements();
            told.push(input);
            told.len() == 1
        };
        if first {
            let run = self.clone();
            self.tasks.spawn(async move {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(TOLD_MS_HELD)) => {}
                    () = run.over.cancelled() => {}
                }
                run.send_settlements().await;
            });
        }
    }

    /// Sends what became of answers on its way into the loop.
    pub(super) async fn send_settlements(&self) {
        for input in self.take_settlements() {
            if self.service.send_input(input).await.is_err() {
                return;
            }
            crash::point("answer_settled");
        }
    }

    /// What became of answers, for the next commit.
    pub(super) fn take_settlements(&self) -> Vec<Input> {
        std::mem::take(&mut *self.settlements())
    }

    fn settlements(&self) -> MutexGuard<'_, Vec<Input>> {
        self.unsent_settlements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers whose fate somebody here follows already.
    fn followed(&self) -> MutexGuard<'_, HashSet<Seq>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answered(duty: &Duty) -> Option<Seq> {
    match duty {
        Duty::Answer(approval) => Some(approval.opened),
        _ => None,
    }
}

/// Anything but an allow is a denial to an agent that waits.
fn answer_of(approval: &Approval) -> PermissionAnswer {
    let Some(ended) = &approval.ended else {
        return PermissionAnswer::Cancelled;
    };
    match ended.ending.outcome {
        ApprovalOutcome::Allowed => PermissionAnswer::Allow {
            input: ended.ending.edited_input.clone(),
        },
        ApprovalOutcome::Cancelled | ApprovalOutcome::Gone => PermissionAnswer::Cancelled,
        ApprovalOutcome::Denied | ApprovalOutcome::Answered | ApprovalOutcome::Expired => {
            PermissionAnswer::Deny {
                message: ended.ending.message.clone(),
                stop: ended.ending.stop,
            }
        }
    }
}

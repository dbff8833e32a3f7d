//! Performs the duties that the board has for one run, each once.
//!
//! Invariant: what was performed and what was sent for it change under one lock, so that whoever
//! continues from a checkpoint neither forgets nor repeats a duty.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use countersign_agents::adapter::{
    AgentCommand, ClientRequest, PermissionAnswer, RequestId, WriteId,
};
use countersign_core::event::{AnswerDelivery, ApprovalOutcome, PromptAttachment, TurnEnded};
use countersign_core::{Approval, Duty, RunEvent, Seq};
use tokio_util::task::TaskTracker;

use crate::duty_board::DutyReceiver;
use crate::{attachments, crash};

use super::agent_connection::{AgentConnection, SharedConnection};
use super::client_requests::ClientRequests;
use super::connection_state::SentAnswer;
use super::deliveries::Deliveries;
use super::run::RunKey;

/// See the module.
pub(super) struct DutyPerformer {
    key: RunKey,
    connection: SharedConnection,
    deliveries: Arc<Deliveries>,
    requests: Arc<ClientRequests>,
    tasks: TaskTracker,
    /// Answers that are being sent or were sent by this host; each is handled once.
    handled_answers: HashSet<Seq>,
    /// The newest turn that the adapter refused to begin.
    refused_turn: u32,
}

/// What the run does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DutyProgress {
    Continue,
    Stop,
}

impl DutyPerformer {
    pub(super) fn new(
        key: RunKey,
        connection: SharedConnection,
        deliveries: Arc<Deliveries>,
        requests: Arc<ClientRequests>,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            key,
            connection,
            deliveries,
            requests,
            tasks,
            handled_answers: HashSet::new(),
            refused_turn: 0,
        }
    }

    /// Performs the duties that were not performed yet.
    pub(super) fn perform(&mut self, duties: &mut DutyReceiver) -> DutyProgress {
        // A copy: while this is borrowed the commit writer could not post the next duties.
        let duties = duties.borrow_and_update().clone();
        self.forget_settled(&duties);
        for duty in duties.iter() {
            match duty {
                Duty::Stop { .. } => return DutyProgress::Stop,
                // The loop around this run has performed it, and the record does not say so yet.
                Duty::Launch { .. } => {}
                Duty::Answer(approval) => self.answer(approval),
                Duty::Configure {
                    revision,
                    mode,
                    model,
                } => self.configure(*revision, mode.clone(), model.clone()),
                Duty::Prompt {
                    turn,
                    messages,
                    attachments,
                } => self.prompt(*turn, messages, attachments),
                Duty::Interrupt { turn } => self.interrupt(*turn),
            }
        }
        DutyProgress::Continue
    }

    /// An answer that is settled is no longer a duty, so nothing has to be known of it.
    fn forget_settled(&mut self, duties: &[Duty]) {
        let open: HashSet<Seq> = duties.iter().filter_map(answered_ask).collect();
        let performed = &mut self.connection.lock().performed;
        performed.answers.retain(|opened, _| open.contains(opened));
        performed.serving.retain(|opened, _| open.contains(opened));
        self.handled_answers.retain(|opened| open.contains(opened));
    }

    fn prompt(&mut self, turn: u32, messages: &[String], attachments: &[PromptAttachment]) {
        let begun = self.connection.lock().performed.turn.max(self.refused_turn);
        if begun >= turn {
            return;
        }
        // Read before the connection is locked, because other tasks need it meanwhile.
        let attachments = attachments::load(attachments);
        let ordered = {
            let mut connection = self.connection.lock();
            let messages = messages.to_vec();
            let ordered = connection.order(AgentCommand::Prompt {
                turn,
                messages,
                attachments,
            });
            if ordered.is_ok() {
                connection.performed.turn = turn;
            }
            ordered
        };
        crash::point("prompt_written");
        match ordered {
            Ok(sent) => self.connection.confirm_when_written(sent),
            Err(error) => self.end_turn(turn, error.to_string()),
        }
    }

    /// A turn that could not even be begun is over. It does not count as performed: a host that finds
    /// it on the record as running, because this end was not committed, has to try it again.
    fn end_turn(&mut self, turn: u32, message: String) {
        self.refused_turn = turn;
        let ended = self.key.input(RunEvent::TurnEnded {
            entries: Vec::new(),
            end: Box::new(TurnEnded {
                agent: self.key.agent.clone(),
                turn,
                reason: "error".to_owned(),
                message: Some(message),
                usage: None,
            }),
            left_open: Vec::new(),
        });
        self.deliveries.record_input(ended);
    }

    fn interrupt(&self, turn: u32) {
        let (sent, waiting) = {
            let mut connection = self.connection.lock();
            if connection.performed.interrupted >= turn {
                return;
            }
            connection.performed.interrupted = turn;
            // The session may be closed already; then there is nothing to interrupt.
            let sent = connection.order(AgentCommand::Interrupt).ok().flatten();
            (sent, connection.unstarted_requests())
        };
        self.connection.confirm_when_written(sent);
        // The protocol cancels asks for permission with their turn. Requests for files and
        // terminals that wait for a decision were cancelled by the host as well, and an agent that
        // still waits for one would never end its turn.
        for request in waiting {
            self.requests.cancel(request, "the turn was interrupted");
        }
    }

    fn configure(&self, revision: u32, mode: Option<String>, model: Option<String>) {
        let mode = mode.map(|mode| AgentCommand::SetMode { revision, mode });
        let model = model.map(|model| AgentCommand::SetModel { revision, model });
        let mut connection = self.connection.lock();
        if connection.performed.configured >= revision {
            return;
        }
        connection.performed.configured = revision;
        for command in [mode, model].into_iter().flatten() {
            match connection.order(command) {
                Ok(sent) => self.connection.confirm_when_written(sent),
                Err(error) => {
                    tracing::warn!(agent = %self.key.agent, %error, "a mode or model was not set");
                }
            }
        }
    }

    /// Tells the agent how its ask ended, or serves the request that was decided.
    fn answer(&mut self, approval: &Approval) {
        // Every commit posts the whole list again, until the settlement is committed.
        if !self.handled_answers.insert(approval.opened) {
            return;
        }
        let request = RequestId(approval.ask.request.clone().unwrap_or_default());
        let mut connection = self.connection.lock();
        if let Some(answer) = connection.performed.answers.get(&approval.opened) {
            return self.follow_sent_answer(approval, answer, &connection);
        }
        if let Some(started) = connection.start_request(&request, &approval.ask.id) {
            // Connections came with no line of the agent, and no answer is written to it.
            if !matches!(started.want, ClientRequest::ReleaseHold { .. }) {
                let serving = &mut connection.performed.serving;
                serving.insert(approval.opened, started.line);
            }
            drop(connection);
            let (requests, approval) = (self.requests.clone(), approval.clone());
            self.tasks
                .spawn(async move { requests.serve_decided(request, started, &approval).await });
            return;
        }
        // A host began to serve the request and the agent no longer waits for it: it took it back,
        // or the answer of an earlier host got through.
        if let Some(line) = connection.performed.serving.remove(&approval.opened) {
            let answer = SentAnswer::to_request(line, is_allowed(approval));
            let sent = connection.probe_answer(approval.opened, answer);
            return self.deliveries.record_when_written(approval, sent);
        }
        crash::point("answer_owed");
        let answered = connection.answer(approval, to_permission_answer(approval));
        crash::point("answer_sent");
        match answered {
            Ok(Some(sent)) => self.deliveries.record_when_written(approval, sent),
            // The agent took it back, or its turn is over.
            Ok(None) | Err(_) => self.deliveries.record(approval, AnswerDelivery::Withdrawn),
        }
    }

    /// An earlier host sent this answer. A line that it did not see confirmed is written again under
    /// its id, and the runner answers with what was written under that id first.
    fn follow_sent_answer(
        &self,
        approval: &Approval,
        answer: &SentAnswer,
        connection: &AgentConnection,
    ) {
        if let Some(delivery) = answer.delivery {
            return self.deliveries.record(approval, delivery);
        }
        match connection.resend_line(&WriteId::Line(answer.line)) {
            Some(sent) => self.deliveries.record_when_written(approval, sent),
            // The runner can no longer be asked about a line that nobody kept.
            None => self.deliveries.record(approval, AnswerDelivery::Unknown),
        }
    }
}

fn answered_ask(duty: &Duty) -> Option<Seq> {
    match duty {
        Duty::Answer(approval) => Some(approval.opened),
        _ => None,
    }
}

fn is_allowed(approval: &Approval) -> bool {
    let ended = approval.ended.as_ref();
    ended.is_some_and(|ended| ended.ending.outcome == ApprovalOutcome::Allowed)
}

/// Anything but an allow is a denial to an agent that waits.
fn to_permission_answer(approval: &Approval) -> PermissionAnswer {
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

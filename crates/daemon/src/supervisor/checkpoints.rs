//! Output of agents: inputs and asks that are decided together with the checkpoint that they reach.
//!
//! Invariants: a checkpoint is committed in the batch that decides everything it counts in, or not at
//! all; one about a run that is over is never kept.

use std::collections::BTreeMap;

use countersign_core::{AgentId, Approval, AskRequest, Checkpoint, Event, Input, Json, Rejection};

use super::{CommitBatch, PendingReply, ReplySender, Supervisor};
use crate::gate::AssessedAsk;
use crate::reply::{CommandReply, ServiceError};

/// An ask on its way into the loop.
pub(crate) struct AskCommand {
    pub(crate) request: Box<AskRequest>,
    /// What the rules judge; without it a person decides.
    pub(crate) assessed: Option<Box<AssessedAsk>>,
    /// Whether an open ask about the same tool call is given back instead of opening a second one.
    pub(crate) joins_open_call: bool,
}

impl AskCommand {
    pub(crate) fn new(request: AskRequest) -> Self {
        Self {
            request: Box::new(request),
            assessed: None,
            joins_open_call: false,
        }
    }
}

/// One step of an agent's output.
pub(crate) enum OutputStep {
    Input(Box<Input>),
    Ask(AskCommand, ReplySender<CommandReply>),
}

impl Supervisor {
    /// Decides the steps one after the other. If an input is refused, the asks after it are refused
    /// too, the checkpoint is not committed and the first rejection is the reply; the other inputs
    /// stay decided.
    ///
    /// An ask that is refused for itself does not hold the checkpoint back. What was said before it is
    /// decided, so nobody may read that again, and a host that continues from the checkpoint finds a
    /// request without an ask, which it cancels.
    pub(super) fn record_output(
        &mut self,
        steps: Vec<OutputStep>,
        checkpoint: Option<Checkpoint>,
        answer: ReplySender<CommandReply>,
        batch: &mut CommitBatch,
    ) {
        let mut decided = Ok(());
        for step in steps {
            match (step, &decided) {
                // Also after one that was refused: a settlement must not be lost because of another
                // input.
                (OutputStep::Input(input), _) => {
                    let one = self.decide_one(*input, batch).map(drop);
                    decided = decided.and(one);
                }
                (OutputStep::Ask(command, answer), Ok(())) => {
                    self.decide_ask(command, answer, batch);
                }
                (OutputStep::Ask(_, answer), Err(rejection)) => {
                    let refused = ServiceError::Rejected(rejection.clone());
                    batch.replies.push((answer, Err(refused)));
                }
            }
        }
        // After the steps: one of them may end the run, and then its checkpoint is not kept.
        if let (Ok(()), Some(checkpoint)) = (&decided, checkpoint) {
            self.note_checkpoint(checkpoint, batch);
        }
        let reply = decided.map(|()| PendingReply::Ready(CommandReply::Nothing));
        batch
            .replies
            .push((answer, reply.map_err(ServiceError::Rejected)));
    }

    /// Judges an ask against the very state it is then decided on, so that nothing the verdict rests on
    /// can change in between.
    pub(super) fn decide_ask(
        &mut self,
        command: AskCommand,
        answer: ReplySender<CommandReply>,
        batch: &mut CommitBatch,
    ) {
        let id = command.request.id.clone();
        let decided = self.judge_and_decide(command, batch);
        if let Err(rejection) = &decided {
            tracing::info!(approval = %id, %rejection, "ask refused");
        }
        batch
            .replies
            .push((answer, decided.map_err(ServiceError::Rejected)));
    }

    fn judge_and_decide(
        &mut self,
        command: AskCommand,
        batch: &mut CommitBatch,
    ) -> Result<PendingReply, Rejection> {
        let mut request = command.request;
        // Two hooks of one tool call can arrive together: only the loop sees which ask was first.
        if command.joins_open_call
            && let Some(open) = self.find_open_call(&request)
        {
            let reply = CommandReply::Approval(Box::new(open.clone()));
            return Ok(PendingReply::Ready(reply));
        }
        if let Some(assessed) = command.assessed {
            let now = self.clock.now();
            let agent = request.asking_agent();
            let judged = self.gate.judge(&self.state, &assessed, agent, now);
            request.judged = Some(judged);
        }
        self.decide_one(Input::RequestApproval(request), batch)
    }

    /// The open ask of the same agent about the same tool call with the same input.
    fn find_open_call(&self, request: &AskRequest) -> Option<&Approval> {
        let agent = request.asking_agent()?;
        let call = request.tool_call.as_ref()?;
        let digest = request.input.as_ref().map(Json::canonical_digest);
        self.state.open_approvals().find(|approval| {
            let ask = &approval.ask;
            ask.agent.as_ref() == Some(agent)
                && ask.tool_call.as_ref() == Some(call)
                && ask.turn == request.turn
                && ask.tool == request.tool
                && ask.input_digest == digest
        })
    }

    fn note_checkpoint(&self, checkpoint: Checkpoint, batch: &mut CommitBatch) {
        let agent = self.state.find_agent(&checkpoint.agent);
        let managed = agent.and_then(|agent| agent.managed.as_deref());
        // A checkpoint of an earlier run would have the next host skip output of the current one.
        if managed.is_some_and(|managed| managed.is_live() && managed.run == checkpoint.run) {
            batch.checkpoints.put(checkpoint);
        }
    }
}

/// The checkpoints that one batch changes: the newest of each agent, or that it is dropped.
#[derive(Default)]
pub(super) struct CheckpointChanges(BTreeMap<AgentId, Option<Checkpoint>>);

impl CheckpointChanges {
    fn put(&mut self, checkpoint: Checkpoint) {
        self.0.insert(checkpoint.agent.clone(), Some(checkpoint));
    }

    /// Drops the checkpoint of a run that ended.
    pub(super) fn note(&mut self, event: &Event) {
        let agent = match event {
            Event::AgentExited(exited) => &exited.agent,
            // A new run is another process, and its output is counted from 0 again.
            Event::AgentRunRequested(requested) => &requested.agent,
            _ => return,
        };
        self.0.insert(agent.clone(), None);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_changes(self) -> Vec<(AgentId, Option<Checkpoint>)> {
        self.0.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;

//! Output of agents: inputs that are decided together with the checkpoint that they reach.
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
    /// What is decided right before it.
    pub(crate) before: Vec<Input>,
    /// How far the output of its agent was read, this ask included.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Whether an open ask about the same tool call is given back instead of opening a second one.
    pub(crate) joins_open_call: bool,
}

impl AskCommand {
    pub(crate) fn new(request: AskRequest) -> Self {
        Self {
            request: Box::new(request),
            assessed: None,
            before: Vec::new(),
            checkpoint: None,
            joins_open_call: false,
        }
    }
}

impl Supervisor {
    /// Decides the inputs. If any of them is refused, the checkpoint is not committed and the first
    /// rejection is the reply; the other inputs stay decided.
    pub(super) fn record_output(
        &mut self,
        inputs: Vec<Input>,
        checkpoint: Option<Checkpoint>,
        answer: ReplySender<CommandReply>,
        batch: &mut CommitBatch,
    ) {
        let decided = self.decide_all(inputs, batch);
        // After the inputs: one of them may end the run, and then its checkpoint is not kept.
        if let (Ok(()), Some(checkpoint)) = (&decided, checkpoint) {
            self.note_checkpoint(checkpoint, batch);
        }
        let reply = decided.map(|()| PendingReply::Ready(CommandReply::Nothing));
        batch
            .replies
            .push((answer, reply.map_err(ServiceError::Rejected)));
    }

    /// Judges an ask against the very state it is then decided on, so that nothing the verdict rests on
    /// can change in between. If what comes before the ask is refused, so is the ask: whoever reads
    /// that output again will make it again.
    pub(super) fn decide_ask(
        &mut self,
        command: AskCommand,
        answer: ReplySender<CommandReply>,
        batch: &mut CommitBatch,
    ) {
        let mut request = command.request;
        let id = request.id.clone();
        let decided = self.decide_all(command.before, batch).and_then(|()| {
            // Two hooks of one tool call can arrive together: only the loop sees which ask was
            // first.
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
        });
        if let (Ok(_), Some(checkpoint)) = (&decided, command.checkpoint) {
            self.note_checkpoint(checkpoint, batch);
        }
        if let Err(rejection) = &decided {
            tracing::info!(approval = %id, %rejection, "ask refused");
        }
        batch
            .replies
            .push((answer, decided.map_err(ServiceError::Rejected)));
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

    /// Decides one after the other, and gives the first rejection.
    fn decide_all(&mut self, inputs: Vec<Input>, batch: &mut CommitBatch) -> Result<(), Rejection> {
        let mut all = Ok(());
        for input in inputs {
            // The others are decided all the same: a settlement among them must not be lost because
            // another input was refused.
            let one = self.decide_one(input, batch).map(drop);
            all = all.and(one);
        }
        all
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

//! What agents were heard to say: inputs that are decided together with how far the agent was heard.
//!
//! Invariants: a checkpoint is committed in the batch that decides everything it counts in, or not at
//! all; one about a run that is over is never kept.

use std::collections::BTreeMap;

use countersign_core::{AgentId, AskRequest, Checkpoint, Event, Input, Rejection};

use super::{CommitBatch, PendingReply, ReplySender, Supervisor};
use crate::gate::AssessedAsk;
use crate::reply::{CommandReply, ServiceError};

/// An ask on its way into the loop.
pub(crate) struct AskCommand {
    pub(crate) request: Box<AskRequest>,
    /// What the rules are asked about; without it a person decides.
    pub(crate) assessed: Option<Box<AssessedAsk>>,
    /// What is decided right before it.
    pub(crate) before: Vec<Input>,
    /// How far its agent was heard, this ask counted in.
    pub(crate) checkpoint: Option<Checkpoint>,
}

impl Supervisor {
    /// Decides what was heard. If any of it was refused the checkpoint is not taken, and the first no
    /// is the answer; the rest stays.
    pub(super) fn record_output(
        &mut self,
        inputs: Vec<Input>,
        checkpoint: Option<Checkpoint>,
        answer: ReplySender<CommandReply>,
        batch: &mut CommitBatch,
    ) {
        let heard = self.decide_all(inputs, batch);
        if let (Ok(()), Some(checkpoint)) = (&heard, checkpoint) {
            self.note_checkpoint(checkpoint, batch);
        }
        let heard = heard.map(|()| PendingReply::Ready(CommandReply::Nothing));
        batch
            .replies
            .push((answer, heard.map_err(ServiceError::Rejected)));
    }

    /// The rules are asked against the very state the ask is then decided on, so that nothing
    /// they rest on can change in between. An ask whose agent could not be heard up to there is
    /// not asked: it would be asked again by whoever hears the agent once more.
    pub(super) fn decide_ask(
        &mut self,
        command: AskCommand,
        answer: ReplySender<CommandReply>,
        batch: &mut CommitBatch,
    ) {
        let mut request = command.request;
        let decided = self.decide_all(command.before, batch).and_then(|()| {
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
        batch
            .replies
            .push((answer, decided.map_err(ServiceError::Rejected)));
    }

    /// Decides one after the other, and gives the first no.
    fn decide_all(&mut self, inputs: Vec<Input>, batch: &mut CommitBatch) -> Result<(), Rejection> {
        let mut all = Ok(());
        for input in inputs {
            let one = self.decide_one(input, batch).map(drop);
            all = all.and(one);
        }
        all
    }

    fn note_checkpoint(&self, checkpoint: Checkpoint, batch: &mut CommitBatch) {
        let agent = self.state.find_agent(&checkpoint.agent);
        let managed = agent.and_then(|agent| agent.managed.as_deref());
        if managed.is_some_and(|managed| managed.is_live() && managed.run == checkpoint.run) {
            batch.checkpoints.put(checkpoint);
        }
    }
}

/// What one batch does to checkpoints: the last word about each agent.
#[derive(Default)]
pub(super) struct CheckpointChanges(BTreeMap<AgentId, Option<Checkpoint>>);

impl CheckpointChanges {
    fn put(&mut self, checkpoint: Checkpoint) {
        self.0.insert(checkpoint.agent.clone(), Some(checkpoint));
    }

    /// Where a run ends or begins, how far an earlier one was heard no longer matters.
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

//! What became of duties, on its way to the record: answers that were delivered or never will be, and
//! turns that could not begin.
//!
//! Invariants: an answer is settled only when its fate is known; one whose link was lost stays owed, and
//! the next host settles it by asking the runner. What is known waits here until it is committed,
//! however often a commit fails.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_core::event::AnswerDelivery;
use countersign_core::limits::{RECOVERY_MS, SETTLEMENTS_MS_HELD};
use countersign_core::{Approval, Input, Seq};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::crash;
use crate::reply::ServiceError;
use crate::service::{Service, settle_input};

use super::agent_connection::{SentLines, SharedConnection, WriteOutcome};

/// See the module.
pub(super) struct Deliveries {
    service: Service,
    connection: SharedConnection,
    tasks: TaskTracker,
    over: CancellationToken,
    unsent: Mutex<UnsentInputs>,
}

/// Inputs that go with the next commit of the output reader, or by themselves after a while: a commit
/// of its own for each answer would double the commits of an agent that asks often.
#[derive(Default)]
struct UnsentInputs {
    inputs: Vec<Input>,
    /// Batches of which it is not known yet whether they are committed.
    batches_taken: usize,
    /// Whether a task sends them when their time comes.
    has_sender: bool,
}

impl Deliveries {
    pub(super) fn new(
        service: Service,
        connection: SharedConnection,
        tasks: TaskTracker,
        over: CancellationToken,
    ) -> Self {
        Self {
            service,
            connection,
            tasks,
            over,
            unsent: Mutex::default(),
        }
    }

    /// Records what became of an answer once it is known.
    pub(super) fn record_when_written(self: &Arc<Self>, approval: &Approval, sent: SentLines) {
        let (deliveries, approval) = (self.clone(), approval.clone());
        self.tasks.spawn(async move {
            let Ok(outcome) = sent.outcome().await else {
                return;
            };
            crash::point("answer_written");
            let delivery = deliveries.confirm(&outcome, approval.opened);
            // A checkpoint may be committed before this settlement is, and with it the state in which
            // the line is confirmed. That state has the delivery too, so the next host settles the
            // answer with what this one found out.
            if let Some(delivery) = delivery {
                deliveries.record(&approval, delivery);
            }
        });
    }

    /// Confirms the lines of an answer; gives nothing if the answer was settled meanwhile.
    fn confirm(&self, outcome: &WriteOutcome, answered: Seq) -> Option<AnswerDelivery> {
        let mut connection = self.connection.lock();
        connection.confirm(outcome);
        connection.performed.answers.get(&answered)?.delivery
    }

    /// Records what became of an answer, together with whatever is committed next.
    pub(super) fn record(self: &Arc<Self>, approval: &Approval, delivery: AnswerDelivery) {
        self.record_input(settle_input(approval, delivery));
    }

    /// Records an input together with whatever is committed next.
    pub(super) fn record_input(self: &Arc<Self>, input: Input) {
        let mut unsent = self.unsent();
        unsent.inputs.push(input);
        // One task sends all that is waiting when its time comes.
        if !unsent.has_sender {
            unsent.has_sender = true;
            let deliveries = self.clone();
            self.tasks
                .spawn(async move { deliveries.send_until_committed().await });
        }
    }

    /// Sends what waits, and again if it could not be committed, until nothing waits or the run is
    /// over.
    async fn send_until_committed(self: Arc<Self>) {
        let mut delay_ms = SETTLEMENTS_MS_HELD;
        while self.has_unsent() {
            let is_over = tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(delay_ms)) => false,
                () = self.over.cancelled() => true,
            };
            let sent = self.send_unsent().await;
            if is_over {
                // Whoever ends the run takes what is left.
                return;
            }
            delay_ms = if sent.is_ok() {
                SETTLEMENTS_MS_HELD
            } else {
                RECOVERY_MS
            };
        }
    }

    /// Whether the sender has to go on: inputs that somebody has taken may come back. Under one lock,
    /// so that an input that comes later starts another sender.
    fn has_unsent(&self) -> bool {
        let mut unsent = self.unsent();
        unsent.has_sender = !unsent.inputs.is_empty() || unsent.batches_taken > 0;
        unsent.has_sender
    }

    /// Commits the inputs that no other commit has taken along. They wait on if that fails.
    pub(super) async fn send_unsent(self: &Arc<Self>) -> Result<(), ServiceError> {
        let batch = self.take_unsent();
        if batch.inputs.is_empty() {
            return Ok(());
        }
        let recorded = self.service.record_inputs(batch.inputs.clone()).await;
        if let Err(error) = recorded {
            tracing::warn!(%error, "what became of an answer was not recorded");
            return Err(error);
        }
        batch.confirm();
        crash::point("answer_settled");
        Ok(())
    }

    /// The inputs that wait, for a commit.
    pub(super) fn take_unsent(self: &Arc<Self>) -> UnsentBatch {
        let mut unsent = self.unsent();
        unsent.batches_taken += 1;
        UnsentBatch {
            inputs: std::mem::take(&mut unsent.inputs),
            deliveries: self.clone(),
        }
    }

    fn unsent(&self) -> MutexGuard<'_, UnsentInputs> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Inputs on their way into a commit. Without [`UnsentBatch::confirm`] they wait for the next one:
/// the commit failed, or whoever made it was ended meanwhile.
pub(super) struct UnsentBatch {
    inputs: Vec<Input>,
    deliveries: Arc<Deliveries>,
}

impl UnsentBatch {
    pub(super) fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The inputs are committed.
    pub(super) fn confirm(self) {
        self.into_inputs();
    }

    /// The inputs, for somebody who commits them for certain.
    pub(super) fn into_inputs(mut self) -> Vec<Input> {
        std::mem::take(&mut self.inputs)
    }
}

impl Drop for UnsentBatch {
    fn drop(&mut self) {
        // Before those that came later.
        let taken = std::mem::take(&mut self.inputs);
        let mut unsent = self.deliveries.unsent();
        unsent.batches_taken -= 1;
        unsent.inputs.splice(..0, taken);
    }
}

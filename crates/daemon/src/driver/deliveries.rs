//! What became of answers, on its way to the record.
//!
//! Invariant: an answer is settled only when its fate is known; one whose link was lost stays owed, and
//! the next host settles it by asking the runner.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_core::event::AnswerDelivery;
use countersign_core::limits::SETTLEMENTS_MS_HELD;
use countersign_core::{Approval, Input, Seq};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::crash;
use crate::service::{Service, settle_input};

use super::agent_connection::{SentLines, SharedConnection, WriteOutcome};

/// See the module.
pub(super) struct Deliveries {
    service: Service,
    connection: SharedConnection,
    tasks: TaskTracker,
    over: CancellationToken,
    /// They go with the next commit of the output reader, or by themselves after a while: a commit
    /// of its own for each answer would double the commits of an agent that asks often.
    unsent_settlements: Mutex<Vec<Input>>,
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
            unsent_settlements: Mutex::default(),
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
        let is_first = {
            let mut unsent = self.unsent_settlements();
            unsent.push(settle_input(approval, delivery));
            unsent.len() == 1
        };
        // One task sends all that is waiting when its time comes, so the first starts it.
        if is_first {
            let deliveries = self.clone();
            self.tasks.spawn(async move {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(SETTLEMENTS_MS_HELD)) => {}
                    () = deliveries.over.cancelled() => {}
                }
                deliveries.send_settlements().await;
            });
        }
    }

    /// Sends the settlements that no commit has taken along.
    pub(super) async fn send_settlements(&self) {
        for input in self.take_settlements() {
            if self.service.send_input(input).await.is_err() {
                return;
            }
            crash::point("answer_settled");
        }
    }

    /// The settlements that wait, for the next commit.
    pub(super) fn take_settlements(&self) -> Vec<Input> {
        std::mem::take(&mut *self.unsent_settlements())
    }

    fn unsent_settlements(&self) -> MutexGuard<'_, Vec<Input>> {
        self.unsent_settlements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

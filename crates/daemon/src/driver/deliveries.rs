//! What became of answers, on its way to the record.
//!
//! Invariant: an answer is settled only when its fate is known; one whose link was lost stays owed, and
//! the next host settles it by asking the runner.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_agents::adapter::WriteId;
use countersign_core::event::AnswerDelivery;
use countersign_core::limits::TOLD_MS_HELD;
use countersign_core::{Approval, Input};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::crash;
use crate::service::Service;

use super::agent_connection::{AgentConnection, SentLines, SharedConnection};

/// See the module.
pub(super) struct Deliveries {
    service: Service,
    connection: SharedConnection,
    tasks: TaskTracker,
    over: CancellationToken,
    /// They go with the next commit of the output reader, or by themselves after a while.
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

    /// Records what became of an answer once it is known. The caller still holds the lock under which
    /// it sent the lines.
    pub(super) fn record_when_written(
        self: &Arc<Self>,
        approval: &Approval,
        connection: &AgentConnection,
        sent: Option<SentLines>,
    ) {
        let Some(sent) = sent else {
            return self.record(approval, AnswerDelivery::Withdrawn);
        };
        let answer = connection.performed.answers.get(&approval.opened);
        let expected = answer.map(|answer| (WriteId::Line(answer.line), answer.kind));
        let (deliveries, approval) = (self.clone(), approval.clone());
        self.tasks.spawn(async move {
            if let Ok(outcome) = sent.outcome(expected).await {
                crash::point("answer_written");
                deliveries.connection.lock().confirm(&outcome.names);
                deliveries.record(&approval, outcome.delivery);
            }
        });
    }

    /// Records what became of an answer, together with whatever is committed next.
    pub(super) fn record(self: &Arc<Self>, approval: &Approval, delivery: AnswerDelivery) {
        let input = Input::SettleAnswer {
            approval: approval.ask.id.clone(),
            opened: approval.opened,
            delivery,
        };
        let is_first = {
            let mut unsent = self.unsent_settlements();
            unsent.push(input);
            unsent.len() == 1
        };
        if is_first {
            let deliveries = self.clone();
            self.tasks.spawn(async move {
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(TOLD_MS_HELD)) => {}
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

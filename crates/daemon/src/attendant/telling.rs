//! Telling: what the board says is owed goes to the agent, each thing once.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use countersign_agents::adapter::{Answer, Order, OrderError, RequestId, ServeError};
use countersign_agents::{WriteError, Written};
use countersign_core::event::{Delivery, Outcome, TurnEnded};
use countersign_core::limits::TOLD_MS_HELD;
use countersign_core::{Approval, Duty, Input, Managed, ManagedInput, Ran, Seq};

use crate::board::Owed;
use crate::crash;

use super::run::Run;

/// What was told already.
pub(super) struct Told {
    turn: u32,
    interrupted: u32,
    configured: u32,
    answers: HashSet<Seq>,
}

impl From<&Managed> for Told {
    fn from(managed: &Managed) -> Self {
        Self {
            turn: managed.turns,
            interrupted: managed.turns,
            configured: managed.configured,
            answers: HashSet::new(),
        }
    }
}

/// What an attendant does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    Stop,
}

impl Run {
    /// Performs what is owed and was not performed yet.
    pub(super) fn tell(self: &Arc<Self>, told: &mut Told, owed: &mut Owed) -> Next {
        let duties = owed.borrow_and_update().clone();
        let open: HashSet<Seq> = duties.iter().filter_map(answered).collect();
        told.answers.retain(|opened| open.contains(opened));
        for duty in duties.iter() {
            match duty {
                Duty::Stop { .. } => return Next::Stop,
                Duty::Launch { .. } => {}
                Duty::Answer(approval) => {
                    if told.answers.insert(approval.opened) {
                        self.answer(approval);
                    }
                }
                Duty::Configure {
                    revision,
                    mode,
                    model,
                } => {
                    if told.configured < *revision {
                        told.configured = *revision;
                        self.configure(mode.clone(), model.clone());
                    }
                }
                Duty::Prompt { turn, messages } => {
                    if told.turn < *turn {
                        told.turn = *turn;
                        self.prompt(*turn, messages.clone());
                    }
                }
                Duty::Interrupt { turn } => {
                    if told.interrupted < *turn {
                        told.interrupted = *turn;
                        self.interrupt();
                    }
                }
            }
        }
        Next::GoOn
    }

    fn prompt(self: &Arc<Self>, turn: u32, messages: Vec<String>) {
        let ordered = self.order(Order::Prompt { turn, messages });
        crash::point("prompt_written");
        if let Err(error) = ordered {
            let run = self.clone();
            self.tasks.spawn(async move {
                run.say(Ran::TurnEnded {
                    said: Vec::new(),
                    end: Box::new(TurnEnded {
                        agent: run.agent.clone(),
                        turn,
                        reason: "error".to_owned(),
                        message: Some(error.to_string()),
                        usage: None,
                    }),
                    left_open: Vec::new(),
                })
                .await;
            });
        }
    }

    fn interrupt(&self) {
        // Its session may not be open any more; then there is nothing to end.
        drop(self.order(Order::Interrupt));
        // The protocol cancels asks for permission with their turn; whatever else waits for a person
        // was cancelled as well, and an agent that waits for it would never end its turn.
        for request in self.drop_wishes() {
            let words = "the turn was interrupted".to_owned();
            self.serve(request, Err(ServeError::Cancelled(words)));
        }
    }

    fn configure(&self, mode: Option<String>, model: Option<String>) {
        let orders = [mode.map(Order::SetMode), model.map(Order::SetModel)];
        for order in orders.into_iter().flatten() {
            if let Err(error) = self.order(order) {
                tracing::warn!(agent = %self.agent, %error, "a mode or model was not set");
            }
        }
    }

    /// Tells the agent how its ask ended, or does what it wished for.
    fn answer(self: &Arc<Self>, approval: &Approval) {
        let request = RequestId(approval.ask.request.clone().unwrap_or_default());
        if let Some(wish) = self.take_wish(&request, &approval.ask.id) {
            let (run, approval) = (self.clone(), approval.clone());
            self.tasks.spawn(async move {
                let delivery = run.grant(request, wish, &approval).await;
                run.told(&approval, delivery);
            });
            return;
        }
        crash::point("answer_owed");
        let answer = answer_of(approval);
        match self.answer_request(request, &approval.ask.id, answer) {
            Ok(written) => self.when_written(approval.clone(), written),
            Err(OrderError::NotWaiting | OrderError::NotReady | OrderError::Unsupported(_)) => {
                self.told(approval, Delivery::Withdrawn);
            }
        }
    }

    fn when_written(self: &Arc<Self>, approval: Approval, written: Vec<Written>) {
        let run = self.clone();
        self.tasks.spawn(async move {
            let delivery = all_written(written).await;
            crash::point("answer_written");
            run.told(&approval, delivery);
        });
    }

    /// Records what became of an answer, together with whatever is committed next.
    fn told(self: &Arc<Self>, approval: &Approval, delivery: Delivery) {
        let input = Input::SettleAnswer {
            approval: approval.ask.id.clone(),
            opened: approval.opened,
            delivery,
        };
        let first = {
            let mut told = self.held_told();
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
                run.settle_told().await;
            });
        }
    }

    /// Sends what became of answers on its way into the loop.
    pub(super) async fn settle_told(&self) {
        let told = std::mem::take(&mut *self.held_told());
        for input in told {
            if self.service.send_input(input).await.is_err() {
                return;
            }
        }
    }

    fn held_told(&self) -> std::sync::MutexGuard<'_, Vec<Input>> {
        let told = self.told.lock();
        told.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Says to the loop what became of the agent.
    pub(super) async fn say(&self, ran: Ran) {
        let input = ManagedInput::Ran(self.agent.clone(), self.number, ran);
        if let Err(error) = self.service.want(input).await {
            tracing::warn!(agent = %self.agent, %error, "what an agent did was not recorded");
        }
    }
}

fn answered(duty: &Duty) -> Option<Seq> {
    match duty {
        Duty::Answer(approval) => Some(approval.opened),
        _ => None,
    }
}

/// Anything but an allow is a denial to an agent that waits.
fn answer_of(approval: &Approval) -> Answer {
    let Some(ended) = &approval.ended else {
        return Answer::Cancelled;
    };
    match ended.ending.outcome {
        Outcome::Allowed => Answer::Allow,
        Outcome::Cancelled | Outcome::Gone => Answer::Cancelled,
        Outcome::Denied | Outcome::Answered | Outcome::Expired => Answer::Deny {
            message: ended.ending.message.clone(),
        },
    }
}

/// An answer is told once all of it is in the pipe.
pub(super) async fn all_written(written: Vec<Written>) -> Delivery {
    let mut delivery = Delivery::Delivered;
    for written in written {
        match written.await {
            Ok(()) => {}
            // Some of it may be there.
            Err(WriteError::Gone) => delivery = Delivery::Unknown,
            Err(WriteError::Full | WriteError::Closed) => delivery = Delivery::Withdrawn,
        }
    }
    delivery
}

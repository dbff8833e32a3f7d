//! Telling: what the board says is owed goes to the agent, each thing once.
//!
//! Invariant: what was told and what was said for it change in one breath, so that whoever goes on
//! from a bookmark neither forgets nor repeats anything.

use std::collections::HashSet;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_agents::adapter::{Answer, Name, Order, RequestId, ServeError};
use countersign_core::event::{Delivery, Outcome, TurnEnded};
use countersign_core::limits::TOLD_MS_HELD;
use countersign_core::{Approval, ApprovalId, Duty, Input, Ran, Seq};

use crate::board::Owed;
use crate::crash;

use super::run::Run;
use super::talk::{Sent, Talk};

/// What an attendant does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    Stop,
}

impl Run {
    /// Performs what is owed and was not performed yet.
    pub(super) fn tell(self: &Arc<Self>, owed: &mut Owed) -> Next {
        let duties = owed.borrow_and_update().clone();
        let open: HashSet<Seq> = duties.iter().filter_map(answered).collect();
        self.forget_settled(&open);
        for duty in duties.iter() {
            match duty {
                Duty::Stop { .. } => return Next::Stop,
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
        Next::GoOn
    }

    /// What is settled is no longer owed.
    fn forget_settled(&self, open: &HashSet<Seq>) {
        self.talk()
            .told
            .answers
            .retain(|opened, _| open.contains(opened));
        self.followed().retain(|opened| open.contains(opened));
    }

    fn prompt(self: &Arc<Self>, turn: u32, messages: &[String]) {
        let ordered = {
            let mut talk = self.talk();
            if talk.told.turn >= turn {
                return;
            }
            talk.told.turn = turn;
            let messages = messages.to_vec();
            talk.order(Order::Prompt { turn, messages })
        };
        crash::point("prompt_written");
        match ordered {
            Ok(sent) => self.follow(sent),
            Err(error) => self.end_turn(turn, error.to_string()),
        }
    }

    /// A turn that could not even be begun is over.
    fn end_turn(self: &Arc<Self>, turn: u32, why: String) {
        let run = self.clone();
        self.tasks.spawn(async move {
            let ended = run.input(Ran::TurnEnded {
                said: Vec::new(),
                end: Box::new(TurnEnded {
                    agent: run.agent.clone(),
                    turn,
                    reason: "error".to_owned(),
                    message: Some(why),
                    usage: None,
                }),
                left_open: Vec::new(),
            });
            if let Err(error) = run.service.heard(vec![ended], None).await {
                tracing::warn!(agent = %run.agent, %error, "the end of a turn was not recorded");
            }
        });
    }

    fn interrupt(self: &Arc<Self>, turn: u32) {
        let (sent, waiting) = {
            let mut talk = self.talk();
            if talk.told.interrupted >= turn {
                return;
            }
            talk.told.interrupted = turn;
            // Its session may not be open any more; then there is nothing to end.
            let sent = talk.order(Order::Interrupt).ok().flatten();
            (sent, talk.waiting_wishes())
        };
        self.follow(sent);
        // The protocol cancels asks for permission with their turn; whatever else waits for a person
        // was cancelled as well, and an agent that waits for it would never end its turn.
        for request in waiting {
            self.cancel_wish(request, "the turn was interrupted");
        }
    }

    /// Nothing comes of a wish.
    pub(super) fn cancel_wish(self: &Arc<Self>, request: (RequestId, u64), why: &str) {
        self.serve(request, Err(ServeError::Cancelled(why.to_owned())));
    }

    /// Nothing comes of an ask that is no longer open.
    pub(super) fn cancel_ask(self: &Arc<Self>, request: &RequestId, ask: &ApprovalId) {
        let sent = self.talk().refuse(request, ask, Answer::Cancelled);
        self.follow(sent);
    }

    fn configure(self: &Arc<Self>, revision: u32, mode: Option<String>, model: Option<String>) {
        let mode = mode.map(|mode| Order::SetMode { revision, mode });
        let model = model.map(|model| Order::SetModel { revision, model });
        let mut sent = Vec::new();
        {
            let mut talk = self.talk();
            if talk.told.configured >= revision {
                return;
            }
            talk.told.configured = revision;
            for order in [mode, model].into_iter().flatten() {
                match talk.order(order) {
                    Ok(lines) => sent.push(lines),
                    Err(error) => {
                        tracing::warn!(agent = %self.agent, %error, "a mode or model was not set");
                    }
                }
            }
        }
        for lines in sent {
            self.follow(lines);
        }
    }

    /// Tells the agent how its ask ended, or does what it wished for.
    fn answer(self: &Arc<Self>, approval: &Approval) {
        if !self.followed().insert(approval.opened) {
            return;
        }
        let request = RequestId(approval.ask.request.clone().unwrap_or_default());
        let mut talk = self.talk();
        if talk.told.answers.contains_key(&approval.opened) {
            return self.follow_told(approval, &talk);
        }
        if let Some(wish) = talk.begin_wish(&request, &approval.ask.id) {
            drop(talk);
            let (run, approval) = (self.clone(), approval.clone());
            self.tasks
                .spawn(async move { run.grant(request, wish, &approval).await });
            return;
        }
        crash::point("answer_owed");
        let answered = talk.answer(approval, answer_of(approval));
        crash::point("answer_sent");
        match answered {
            Ok(sent) => self.when_written(approval, &talk, sent),
            // The agent took it back, or its turn is over.
            Err(_) => self.told(approval, Delivery::Withdrawn),
        }
    }

    /// An earlier host told this. Whether it came through is known once what it left is written.
    fn follow_told(self: &Arc<Self>, approval: &Approval, talk: &Talk) {
        let Some(told) = talk.told.answers.get(&approval.opened) else {
            return;
        };
        match talk.repeat_one(&Name::Line(told.line)) {
            Some(sent) => self.when_written(approval, talk, Some(sent)),
            None => self.told(approval, Delivery::Delivered),
        }
    }

    /// Records what became of an answer once it is known.
    pub(super) fn when_written(
        self: &Arc<Self>,
        approval: &Approval,
        talk: &Talk,
        sent: Option<Sent>,
    ) {
        let Some(sent) = sent else {
            return self.told(approval, Delivery::Withdrawn);
        };
        let told = talk.told.answers.get(&approval.opened);
        let expected = told.map(|told| (Name::Line(told.line), told.meaning.clone()));
        let (run, approval) = (self.clone(), approval.clone());
        self.tasks.spawn(async move {
            if let Ok(outcome) = sent.outcome(expected).await {
                crash::point("answer_written");
                run.talk().confirm(&outcome.names);
                run.told(&approval, outcome.delivery);
            }
        });
    }

    /// Records what became of an answer, together with whatever is committed next.
    pub(super) fn told(self: &Arc<Self>, approval: &Approval, delivery: Delivery) {
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
        for input in self.take_told() {
            if self.service.send_input(input).await.is_err() {
                return;
            }
            crash::point("answer_settled");
        }
    }

    /// What became of answers, for the next commit.
    pub(super) fn take_told(&self) -> Vec<Input> {
        std::mem::take(&mut *self.held_told())
    }

    fn held_told(&self) -> MutexGuard<'_, Vec<Input>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
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
fn answer_of(approval: &Approval) -> Answer {
    let Some(ended) = &approval.ended else {
        return Answer::Cancelled;
    };
    match ended.ending.outcome {
        Outcome::Allowed => Answer::Allow {
            input: ended.ending.edited_input.clone(),
        },
        Outcome::Cancelled | Outcome::Gone => Answer::Cancelled,
        Outcome::Denied | Outcome::Answered | Outcome::Expired => Answer::Deny {
            message: ended.ending.message.clone(),
            stop: ended.ending.stop,
        },
    }
}

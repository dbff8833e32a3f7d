//! Approvals after they were asked: ended, taken back, dismissed, their answers delivered.
//!
//! Invariants: the first ending is final; a managed agent's answer is delivered by its driver alone.

use std::sync::Arc;

use super::answer::answer_ending;
use super::{Decision, DecisionSubject, check_text, grants, managed};
use crate::approval::{Approval, CANCELLED, DENY};
use crate::event::{
    AgentInterruptRequested, AnswerAttempted, AnswerDelivery, AnswerSettled, ApprovalDismissed,
    ApprovalEnding, ApprovalOutcome, ApprovalResolved, Ask, Event, GrantUse,
};
use crate::ids::{ApprovalId, Seq};
use crate::input::ApprovalAnswer;
use crate::principal::{Caller, RecordedActor};
use crate::rejection::Rejection;
use crate::state::State;

/// An ask and the event that opens it; the ask may be opened by the same decision.
#[derive(Clone, Copy)]
pub(super) struct NumberedAsk<'a> {
    pub(super) ask: &'a Ask,
    pub(super) opened: Seq,
}

impl<'a> NumberedAsk<'a> {
    pub(super) fn of(approval: &'a Approval) -> Self {
        Self {
            ask: &approval.ask,
            opened: approval.opened,
        }
    }
}

/// The fact that an approval ended.
pub(super) fn end_approval(
    approval: &Approval,
    ending: ApprovalEnding,
    delivery: AnswerDelivery,
) -> Event {
    end_ask(NumberedAsk::of(approval), ending, delivery, Vec::new())
}

/// The fact that an ask ended, with the grants that ended it.
pub(super) fn end_ask(
    NumberedAsk { ask, opened }: NumberedAsk<'_>,
    ending: ApprovalEnding,
    delivery: AnswerDelivery,
    grants_used: Vec<GrantUse>,
) -> Event {
    ApprovalResolved {
        approval: ask.id.clone(),
        opened,
        agent: ask.agent.clone(),
        ending: Arc::new(ending),
        delivery,
        grants_used,
    }
    .into()
}

pub(super) fn attempt_answer(id: &ApprovalId, opened: Seq, deliveries: u32) -> Event {
    AnswerAttempted {
        approval: id.clone(),
        opened,
        deliveries,
    }
    .into()
}

pub(super) fn cancelled_ending(caller: &Caller, message: Option<String>) -> ApprovalEnding {
    ApprovalEnding {
        message,
        ..ApprovalEnding::new(ApprovalOutcome::Cancelled, CANCELLED, caller.into())
    }
}

pub(super) fn cancel(
    state: &State,
    caller: &Caller,
    id: &ApprovalId,
    message: Option<String>,
) -> Result<Decision, Rejection> {
    caller.refuse_observers()?;
    check_text("the message", message.as_deref().unwrap_or_default())?;
    let approval = state
        .find_approval(id)
        .ok_or_else(|| Rejection::UnknownApproval(id.clone()))?;
    if !approval.was_asked_by(&caller.principal) {
        return Err(Rejection::NotYourApproval(id.clone()));
    }
    match &approval.ended {
        None => {
            let event = end_approval(
                approval,
                cancelled_ending(caller, message),
                AnswerDelivery::Withdrawn,
            );
            Ok(Decision::new(
                vec![event],
                DecisionSubject::Approval(id.clone()),
            ))
        }
        // An asker that did not get the reply cancels again.
        Some(end) if end.ending.outcome == ApprovalOutcome::Cancelled => Ok(Decision::new(
            Vec::new(),
            DecisionSubject::Approval(id.clone()),
        )),
        Some(_) => Err(Rejection::AlreadyResolved(Box::new(approval.clone()))),
    }
}

pub(super) fn dismiss(caller: &Caller, approval: &Approval) -> Result<Decision, Rejection> {
    caller.refuse_observers()?;
    let id = approval.ask.id.clone();
    if approval.is_pending() {
        return Err(Rejection::ApprovalPending(id));
    }
    // An agent must not hide from people what others asked.
    if caller.principal.agent().is_some() && !approval.was_asked_by(&caller.principal) {
        return Err(Rejection::NotYourApproval(id));
    }
    let event = ApprovalDismissed {
        approval: id,
        opened: approval.opened,
        by: RecordedActor::from(caller),
    };
    let events = if approval.dismissed {
        Vec::new()
    } else {
        vec![event.into()]
    };
    let subject = DecisionSubject::KnownApproval(Box::new(approval.clone()));
    Ok(Decision::new(events, subject))
}

pub(super) fn deliver_answer(state: &State, approval: Approval) -> Decision {
    // Memory may know of a later delivery than the approval that was read from history.
    let newest = state
        .find_approval(&approval.ask.id)
        .cloned()
        .unwrap_or(approval);
    // The driver delivers a managed agent's answers, once. Another reader is no delivery, and must
    // not cause a second one.
    if newest.is_pending() || newest.ask.request.is_some() {
        return Decision::new(Vec::new(), DecisionSubject::KnownApproval(Box::new(newest)));
    }
    deliver_ended(newest)
}

pub(super) fn deliver_ended(mut approval: Approval) -> Decision {
    approval.deliveries += 1;
    approval.delivery = AnswerDelivery::Attempted;
    let event = attempt_answer(&approval.ask.id, approval.opened, approval.deliveries);
    Decision::new(
        vec![event],
        DecisionSubject::KnownApproval(Box::new(approval)),
    )
}

/// Records what became of an answer, once: whoever could not find out whether this was committed
/// sends it again.
pub(super) fn record_delivery(
    state: &State,
    approval: &ApprovalId,
    opened: Seq,
    delivery: AnswerDelivery,
) -> Decision {
    let known = state.find_approval(approval);
    if known.is_some_and(|known| known.opened == opened && known.delivery == delivery) {
        return Decision::nothing();
    }
    // Also if it is not known here: the approval may have left memory long ago.
    let event = answer_settled(approval, opened, delivery);
    Decision::new(vec![event], DecisionSubject::Nothing)
}

/// The fact that an answer arrived, or never will.
pub(super) fn answer_settled(
    approval: &ApprovalId,
    opened: Seq,
    delivery: AnswerDelivery,
) -> Event {
    AnswerSettled {
        approval: approval.clone(),
        opened,
        delivery,
    }
    .into()
}

pub(super) fn stop_all(state: &State, caller: &Caller) -> Result<Decision, Rejection> {
    caller.require_operator()?;
    let message = Some(format!("{} stopped everything", caller.principal.name));
    // Owned ones too: stopping everything does not wait for an owner.
    let mut open: Vec<&Approval> = state.approvals.values().collect();
    open.sort_by_key(|approval| approval.opened);
    let mut events: Vec<Event> = open
        .into_iter()
        .map(|approval| {
            let answer = ApprovalAnswer {
                resolution: DENY.to_owned(),
                message: message.clone(),
                ..ApprovalAnswer::default()
            };
            // Where no denial is offered, `deny` would be an answer that its asker does not know.
            // Cancelled is not an allow either.
            let ending = if approval.ask.options.iter().any(|option| option == DENY) {
                answer_ending(ApprovalOutcome::Denied, caller, answer)
            } else {
                cancelled_ending(caller, message.clone())
            };
            end_approval(approval, ending, AnswerDelivery::Waiting)
        })
        .collect();
    let agents = state
        .agents
        .values()
        .filter(|agent| !agent.base.is_terminal());
    // For external agents this is all that can be done: they read it and stop by themselves.
    events.extend(agents.map(|agent| {
        Event::from(AgentInterruptRequested {
            agent: agent.id().clone(),
            name: agent.profile.name.clone(),
            by: RecordedActor::from(caller),
        })
    }));
    events.extend(managed::stop_turns(state, caller));
    events.extend(grants::end_bypasses(state, caller));
    Ok(Decision::new(events, DecisionSubject::Nothing))
}

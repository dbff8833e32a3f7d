//! Answers: who may give them, what they may say, and what they end.
//!
//! Invariants: the first ending is final; an orchestrator answers only within its ceiling; a late
//! answer ends an ask as expired; an answer to what was never asked leaves no trace.

use std::sync::Arc;

use super::approvals::end_approval;
use super::time::expired_ending;
use super::{
    Decision, DecisionSubject, check_json, check_size, check_text, delegation, grants, managed,
};
use crate::approval::{Approval, ApprovalEnd};
use crate::choice_question::AnswerProblem;
use crate::event::{
    AnswerDelivery, ApprovalEnding, ApprovalOutcome, ApprovalResolveRefused,
    ApprovalResolveRequested, Effect, Event,
};
use crate::ids::{ClientId, GrantId};
use crate::input::{ApprovalAnswer, DecisionContext, GrantDraft, ResolveApproval};
use crate::json::Json;
use crate::limits::{OPTIONS_MAX, TIMEOUT_MS_MAX};
use crate::principal::{Caller, RecordedActor, Role};
use crate::rejection::Rejection;
use crate::state::State;

pub(super) fn resolve(
    state: &State,
    context: DecisionContext<'_>,
    input: ResolveApproval,
) -> Result<Decision, Rejection> {
    let ResolveApproval {
        caller,
        approval: id,
        mut answer,
        grant_ids,
        delegated,
    } = input;
    let approval = state
        .find_approval(&id)
        .ok_or_else(|| Rejection::UnknownApproval(id.clone()))?;
    match &caller.principal.role {
        Role::Agent(agent) => {
            let given = delegation::DelegatedAnswer {
                orchestrator: agent,
                approval,
                answer: &answer,
                verdict: delegated,
            };
            if let Err(refusal) = delegation::check_answer(state, context, &given) {
                // On the record, because an agent that answers is worth knowing about.
                return Ok(refused_on_record(approval, &caller, &answer, refusal));
            }
        }
        Role::Observer => return Err(Rejection::ObserverCannotChange),
        Role::Operator | Role::Host => {}
    }
    check_text("the message", answer.message.as_deref().unwrap_or_default())?;
    answer.edited_input = edited_input(approval, &answer)?;
    // The edited input contains them from here on.
    answer.answers = None;
    // Before the deadline is looked at, because repeating the answer that ended an ask succeeds at
    // any later time.
    if !approval.is_pending() {
        answer_again(state, approval, &answer)?;
        return Ok(Decision::new(Vec::new(), DecisionSubject::Approval(id)));
    }
    if context.has_come(approval.ask.deadline) {
        return Ok(refuse_late_answer(state, context, approval, &answer));
    }
    // Apart from the answer, which becomes the ending.
    let remembered = std::mem::take(&mut answer.remember);
    let outcome = check_answer(approval, &answer)?;
    match approval.owner() {
        // An owned ask is ended by its owner's connection alone. What anybody else answers becomes
        // a request to it.
        Some(owner) if caller.client.as_ref() != Some(owner) => {
            pass_to_owner(context, approval, owner, &caller, answer)
        }
        owner => {
            // An owner that answers its own ask needs no delivery.
            let delivery = if owner.is_some() {
                AnswerDelivery::Delivered
            } else {
                AnswerDelivery::Waiting
            };
            let remembered = limit_remembered(state, context, &caller, approval, remembered)?;
            let grants = grants_to_remember(approval, outcome, remembered, grant_ids)?;
            // In the commit of the answer, so that it is remembered exactly if it was given.
            let grants = grants::remember(state, context, &caller, grants)?;
            let following = if outcome == ApprovalOutcome::Denied {
                follow_denial(state, context, &caller, approval, &answer)
            } else {
                Vec::new()
            };
            let ending = answer_ending(outcome, &caller, answer);
            let mut events = vec![end_approval(approval, ending, delivery)];
            events.extend(grants);
            events.extend(following);
            Ok(Decision::new(events, DecisionSubject::Approval(id)))
        }
    }
}

/// What a denial does to a managed agent besides: it ends the turn, or its message is queued.
fn follow_denial(
    state: &State,
    context: DecisionContext<'_>,
    caller: &Caller,
    approval: &Approval,
    answer: &ApprovalAnswer,
) -> Vec<Event> {
    // Not both: a message queued for an agent whose turn is to end would start the next turn.
    if answer.stop {
        return managed::stop_turn_after_denial(state, caller, approval);
    }
    let message = answer.message.as_deref();
    managed::queue_denial_message(context.now, &approval.ask, caller, message)
        .into_iter()
        .collect()
}

/// An orchestrator remembers no more than its ceiling holds; a person remembers what they like.
fn limit_remembered(
    state: &State,
    context: DecisionContext<'_>,
    caller: &Caller,
    approval: &Approval,
    remembered: Vec<GrantDraft>,
) -> Result<Vec<GrantDraft>, Rejection> {
    let Some(agent) = caller.principal.agent() else {
        return Ok(remembered);
    };
    let asker = approval.ask.agent.as_ref();
    remembered
        .into_iter()
        .map(|draft| delegation::limit_draft(state, context, agent, asker, draft))
        .collect()
}

/// What is remembered follows the answer: only an allow or a deny can be.
fn grants_to_remember(
    approval: &Approval,
    outcome: ApprovalOutcome,
    remembered: Vec<GrantDraft>,
    ids: Vec<GrantId>,
) -> Result<Vec<(GrantId, GrantDraft)>, Rejection> {
    // Ids are handed in, one for each draft: decisions have no randomness of their own.
    check_size(
        "what is remembered",
        remembered.len(),
        ids.len().min(OPTIONS_MAX),
    )?;
    let effect = match outcome {
        ApprovalOutcome::Allowed => Effect::Allow,
        ApprovalOutcome::Denied => Effect::Deny,
        _ if remembered.is_empty() => return Ok(Vec::new()),
        ApprovalOutcome::Answered
        | ApprovalOutcome::Cancelled
        | ApprovalOutcome::Expired
        | ApprovalOutcome::Gone => {
            let why = "the answer neither allows nor denies";
            return Err(Rejection::BadGrant(why.to_owned()));
        }
    };
    let origin = Some(approval.ask.id.clone());
    // The answer sets the effect: a denial is never remembered as an allow.
    let drafts = remembered.into_iter().map(|draft| GrantDraft {
        effect,
        origin: origin.clone(),
        ..draft
    });
    Ok(ids.into_iter().zip(drafts).collect())
}

/// An answer that arrives before the timer ends the ask is late all the same.
fn refuse_late_answer(
    state: &State,
    context: DecisionContext<'_>,
    approval: &Approval,
    answer: &ApprovalAnswer,
) -> Decision {
    let ending = expired_ending();
    let mut shown = approval.clone();
    shown.ended = Some(ApprovalEnd {
        ending: Arc::new(ending.clone()),
        // The end is this decision's first event, so its number is known before it is committed.
        seq: state.head().next(),
        at: context.now,
    });
    let refusal = refuse_again(&shown, answer);
    Decision::new(
        vec![end_approval(approval, ending, AnswerDelivery::Waiting)],
        DecisionSubject::Refused(Box::new(refusal)),
    )
}

fn refused_on_record(
    approval: &Approval,
    caller: &Caller,
    answer: &ApprovalAnswer,
    refusal: Rejection,
) -> Decision {
    let event = ApprovalResolveRefused {
        approval: approval.ask.id.clone(),
        agent: caller.principal.agent().cloned(),
        action: approval.ask.action.clone(),
        // Nothing has checked its length: the answer is refused before it is read.
        resolution: answer.resolution.chars().take(100).collect(),
        by: RecordedActor::from(caller),
        client: caller.client.clone(),
        reason: "own_system_row".to_owned(),
    };
    Decision::new(
        vec![event.into()],
        DecisionSubject::Refused(Box::new(refusal)),
    )
}

/// The same answer again is a success; a different one is refused with who and when. So is one with
/// a rule that the first answer did not save: only the answer that ends an ask makes rules.
pub fn answer_again(
    state: &State,
    approval: &Approval,
    answer: &ApprovalAnswer,
) -> Result<(), Rejection> {
    let edited = edited_input(approval, answer)?;
    // A repetition may say less than the first answer, but nothing else. An ask that expired or was
    // cancelled has a resolution that nobody chose.
    let same = approval.ended.as_ref().is_some_and(|ended| {
        ended.ending.resolution == answer.resolution
            && matches!(
                ended.ending.outcome,
                ApprovalOutcome::Allowed | ApprovalOutcome::Denied | ApprovalOutcome::Answered
            )
            && (edited.is_none() || ended.ending.edited_input == edited)
            && (!answer.stop || ended.ending.stop)
    });
    if same && remembers_all(state, approval, answer) {
        Ok(())
    } else {
        Err(refuse_again(approval, answer))
    }
}

/// Whether the answer that ended an ask saved every rule that its repetition names.
fn remembers_all(state: &State, approval: &Approval, answer: &ApprovalAnswer) -> bool {
    answer.remember.iter().all(|draft| {
        state.grants().any(|saved| {
            saved.grant.origin.as_ref() == Some(&approval.ask.id) && saved.grant.rule == draft.rule
        })
    })
}

fn refuse_again(approval: &Approval, answer: &ApprovalAnswer) -> Rejection {
    let approval = Box::new(approval.clone());
    if answer.remember.is_empty() {
        Rejection::AlreadyResolved(approval)
    } else {
        Rejection::NotRemembered(approval)
    }
}

/// The input that is to run: the one that was given, or the asked one with the answers in it.
fn edited_input(approval: &Approval, answer: &ApprovalAnswer) -> Result<Option<Json>, Rejection> {
    let Some(answers) = &answer.answers else {
        return Ok(answer.edited_input.clone());
    };
    if answer.edited_input.is_some() {
        return Err(Rejection::NothingToEdit);
    }
    let input = approval.ask.input_with_answers(answers);
    input.map(Some).map_err(|why| Rejection::BadAnswers {
        approval: approval.ask.id.clone(),
        why,
    })
}

fn check_answer(
    approval: &Approval,
    answer: &ApprovalAnswer,
) -> Result<ApprovalOutcome, Rejection> {
    if !approval.ask.options.contains(&answer.resolution) {
        return Err(Rejection::NotAnOption {
            approval: approval.ask.id.clone(),
            resolution: answer.resolution.chars().take(100).collect(),
            options: approval.ask.options.clone(),
        });
    }
    let outcome = approval.outcome_of(&answer.resolution);
    if let Some(edited) = &answer.edited_input {
        check_json("the edited input", edited)?;
        // The host puts the input in the place of a managed agent's own, so that it must read in
        // only one way and be what tools take.
        let fits = approval.ask.request.is_none()
            || edited
                .parse_unique_keys()
                .is_some_and(|input| input.is_object());
        if outcome != ApprovalOutcome::Allowed || !approval.ask.takes_edited_input() || !fits {
            return Err(Rejection::NothingToEdit);
        }
    }
    if outcome == ApprovalOutcome::Allowed {
        check_answered(approval, answer)?;
    }
    if answer.stop && (outcome != ApprovalOutcome::Denied || approval.ask.request.is_none()) {
        return Err(Rejection::NothingToStop);
    }
    Ok(outcome)
}

/// Refuses an allow that does not say what the questions of the ask are answered with.
fn check_answered(approval: &Approval, answer: &ApprovalAnswer) -> Result<(), Rejection> {
    let checked = approval.ask.check_answered_by(answer.edited_input.as_ref());
    checked.map_err(|problem| match problem {
        AnswerProblem::Missing => Rejection::NeedsAnswers(approval.ask.id.clone()),
        AnswerProblem::Unfit(why) => Rejection::BadAnswers {
            approval: approval.ask.id.clone(),
            why,
        },
    })
}

pub(super) fn answer_ending(
    outcome: ApprovalOutcome,
    caller: &Caller,
    answer: ApprovalAnswer,
) -> ApprovalEnding {
    ApprovalEnding {
        message: answer.message,
        edited_input: answer.edited_input,
        stop: answer.stop,
        door: caller.door,
        considered_ms: answer.considered_ms.map(|ms| ms.min(TIMEOUT_MS_MAX)),
        ..ApprovalEnding::new(outcome, answer.resolution, caller.into())
    }
}

/// Somebody else's answer to an owned ask is passed to the owner, if its connection reads events.
fn pass_to_owner(
    context: DecisionContext<'_>,
    approval: &Approval,
    owner: &ClientId,
    caller: &Caller,
    answer: ApprovalAnswer,
) -> Result<Decision, Rejection> {
    let id = approval.ask.id.clone();
    // A connection that reads no events would never learn of the request.
    if !context.presence.is_subscribed(owner) {
        return Err(Rejection::OwnerNotConnected {
            approval: id,
            owner: owner.clone(),
        });
    }
    let event = ApprovalResolveRequested {
        approval: id.clone(),
        agent: approval.ask.agent.clone(),
        action: approval.ask.action.clone(),
        resolution: answer.resolution,
        by: RecordedActor::from(caller),
        client: caller.client.clone(),
        owner: owner.clone(),
    };
    Ok(Decision::new(
        vec![event.into()],
        DecisionSubject::PassedToOwner(id),
    ))
}

//! The second key, and what is sent.

use countersign_protocol::{
    AnswerApprovalsParams, AnswerBody, ApprovalTarget, ChosenAnswer, ListedAnswer, QuestionTarget,
    Remember, RememberBody, ResolutionBody, method,
};
use serde_json::Value;

use crate::decision_guard::{GuardDecision, GuardEvent, GuardRefusal};
use crate::host_call::{CallLane, HostCall, ReplyTag};
use crate::key::KeyCode;
use crate::message::Effect;
use crate::model::{Model, PendingAllow, RuleForm};
use crate::render::approvals::APPROVE;
use crate::render::choices;
use crate::render::inbox_item::InboxContent;

use super::asks::{approving_option, selected_ask};
use super::keys::TypedKey;
use super::{overlays, say};

/// A key while an allow waits for its second.
pub(super) fn handle_pending_key(model: &mut Model, typed: TypedKey) -> Vec<Effect> {
    match typed.key.typed() {
        Some('y') => return confirm(model, typed),
        Some('n' | 'q') => return cancel(model),
        _ => {}
    }
    match typed.key.code {
        KeyCode::Escape => cancel(model),
        KeyCode::PageDown => scroll(model, 1),
        KeyCode::PageUp => scroll(model, -1),
        code => {
            if let Some(PendingAllow::Remember { form, .. }) = &mut model.ask.pending
                && change_form(form, code)
            {
                return Vec::new();
            }
            model.ask.guard.step(&GuardEvent::OtherKey, typed.at);
            model.ask.pending = None;
            say(model, "nothing was sent: another key was pressed")
        }
    }
}

fn scroll(model: &mut Model, pages: isize) -> Vec<Effect> {
    let page = isize::try_from(model.ask.page).unwrap_or(isize::MAX);
    model.ask.scroll_by(pages * page);
    Vec::new()
}

/// Whether the key belongs to the form.
fn change_form(form: &mut RuleForm, code: KeyCode) -> bool {
    let count = form.row_count();
    match code {
        KeyCode::Tab | KeyCode::Down | KeyCode::Char('j') => form.row = (form.row + 1) % count,
        KeyCode::BackTab | KeyCode::Up | KeyCode::Char('k') => {
            form.row = (form.row + count - 1) % count;
        }
        KeyCode::Char(' ') | KeyCode::Right => form.change_row(),
        _ => return false,
    }
    true
}

fn cancel(model: &mut Model) -> Vec<Effect> {
    cancel_pending(model);
    say(model, "nothing was sent")
}

/// Forgets an allow that waits for its second key.
pub(super) fn cancel_pending(model: &mut Model) {
    model.ask.guard.step(&GuardEvent::Cancel, model.now.ms);
    if model.ask.pending.take().is_some() {
        model.ask.restart_reading();
    }
}

fn confirm(model: &mut Model, typed: TypedKey) -> Vec<Effect> {
    // Before the guard is asked, which would use up the first act although nothing is sent.
    if let Some(PendingAllow::Remember { form, .. }) = &model.ask.pending
        && form.rules().is_empty()
    {
        return say(model, "no rule is chosen: Space chooses one, n goes back");
    }
    let event = GuardEvent::Confirm {
        place: "key:y",
        origin: typed.origin,
    };
    match model.ask.guard.step(&event, typed.at) {
        GuardDecision::Allow {
            subject,
            considered_ms,
            ..
        } => {
            let Some(pending) = model.ask.pending.take() else {
                return Vec::new();
            };
            model.ask.restart_reading();
            send_allow(model, &subject, pending, considered_ms)
        }
        GuardDecision::Refused(GuardRefusal::TooSoon) => {
            say(model, "key ignored: pressed too soon after the question")
        }
        GuardDecision::Refused(refusal) => say(model, refusal.describe()),
        _ => Vec::new(),
    }
}

/// Sends an allow that the guard let through.
pub(super) fn send_allow(
    model: &mut Model,
    subject: &str,
    pending: PendingAllow,
    considered_ms: u64,
) -> Vec<Effect> {
    match pending {
        PendingAllow::Once { option } => {
            send_resolution(model, subject, &option, considered_ms, |_| {})
        }
        PendingAllow::WithMessage { option, message } => {
            send_resolution(model, subject, &option, considered_ms, |body| {
                body.message = Some(message);
            })
        }
        PendingAllow::Edited { option, input } => {
            let edited: Result<Value, _> = serde_json::from_str(&input);
            match edited {
                Ok(edited) => send_resolution(model, subject, &option, considered_ms, |body| {
                    body.edited_input = Some(edited);
                }),
                Err(error) => say(model, format!("nothing was sent: {error}")),
            }
        }
        PendingAllow::Remember { option, form } => {
            let remember = RememberBody {
                rules: Some(form.rules()),
                scope: form.scope,
                expires_in_ms: Some(form.expires.milliseconds()),
                uses: form.uses,
            };
            send_resolution(model, subject, &option, considered_ms, |body| {
                body.remember = Some(Remember::Named(remember));
            })
        }
        PendingAllow::Many { ids } => send_many(model, ids, considered_ms),
    }
}

fn send_many(model: &mut Model, ids: Vec<String>, considered_ms: u64) -> Vec<Effect> {
    model.ask.sending = ids.first().cloned();
    let answers = ids.into_iter().map(|id| ListedAnswer {
        approval_id: id,
        resolution: APPROVE.to_owned(),
        message: None,
        considered_ms: Some(considered_ms),
    });
    let params = AnswerApprovalsParams {
        answers: answers.collect(),
    };
    let call = HostCall::new::<method::ResolveApprovals>(
        CallLane::Decide,
        &params,
        ReplyTag::ResolvedMany,
    );
    vec![Effect::Call(call)]
}

/// Sends an answer to an ask, once.
pub(super) fn send_resolution(
    model: &mut Model,
    id: &str,
    option: &str,
    considered_ms: u64,
    complete: impl FnOnce(&mut ResolutionBody),
) -> Vec<Effect> {
    if model.ask.sending.as_deref() == Some(id) {
        return say(model, "an answer to this is on its way");
    }
    let mut body = ResolutionBody {
        resolution: option.to_owned(),
        considered_ms: Some(considered_ms),
        ..ResolutionBody::default()
    };
    complete(&mut body);
    model.ask.sending = Some(id.to_owned());
    say(model, "sending");
    let params = ApprovalTarget {
        approval_id: id.to_owned(),
        body,
    };
    let tag = ReplyTag::Resolved { id: id.to_owned() };
    vec![Effect::Call(HostCall::new::<method::ResolveApproval>(
        CallLane::Decide,
        &params,
        tag,
    ))]
}

/// Sends the answer to a question.
pub(super) fn send_answer(
    model: &mut Model,
    typed: TypedKey,
    id: &str,
    answer: &str,
) -> Vec<Effect> {
    let considered_ms = match decide_answer(model, typed, id) {
        Ok(considered_ms) => considered_ms,
        Err(why) => return say(model, why),
    };
    model.ask.sending = Some(id.to_owned());
    let params = QuestionTarget {
        question_id: id.to_owned(),
        body: AnswerBody {
            answer: answer.to_owned(),
            considered_ms: Some(considered_ms),
        },
    };
    let tag = ReplyTag::Answered { id: id.to_owned() };
    vec![Effect::Call(HostCall::new::<method::AnswerQuestion>(
        CallLane::Decide,
        &params,
        tag,
    ))]
}

/// Whether the guard lets an answer to this item through.
fn decide_answer(model: &mut Model, typed: TypedKey, id: &str) -> Result<u64, String> {
    if model.ask.guard.subject() != Some(id) {
        return Err("nothing was sent: another item is selected".to_owned());
    }
    match model.ask.guard.step(
        &GuardEvent::Answer {
            origin: typed.origin,
        },
        typed.at,
    ) {
        GuardDecision::Answer { considered_ms, .. } => Ok(considered_ms),
        GuardDecision::Refused(refusal) => Err(format!("nothing was sent: {}", refusal.describe())),
        _ => Err("nothing was sent".to_owned()),
    }
}

/// Takes in the answer to one of the questions of an ask, and sends all of them after the last.
pub(super) fn take_choice(
    model: &mut Model,
    typed: TypedKey,
    id: &str,
    mut given: Vec<Vec<String>>,
    text: &str,
) -> Vec<Effect> {
    let Some(row) = selected_ask(model).filter(|row| row.id == id) else {
        return say(model, "nothing was sent: another item is selected");
    };
    let Some(asked) = row.questions.get(given.len()) else {
        return Vec::new();
    };
    let total = row.questions.len();
    match choices::parse_answer(asked, text) {
        Ok(answer) => given.push(answer),
        Err(why) => {
            let purpose = crate::model::TextPurpose::AnswerAsk {
                id: id.to_owned(),
                given,
            };
            overlays::open_text(model, purpose, text);
            return say(model, why);
        }
    }
    if given.len() < total {
        let purpose = crate::model::TextPurpose::AnswerAsk {
            id: id.to_owned(),
            given,
        };
        return overlays::open_text(model, purpose, "");
    }
    let option = match approving_option(row).map(str::to_owned) {
        Ok(option) => option,
        Err(why) => return say(model, why),
    };
    match decide_answer(model, typed, id) {
        Ok(considered_ms) => send_resolution(model, id, &option, considered_ms, |body| {
            body.answers = Some(given.into_iter().map(ChosenAnswer::Several).collect());
        }),
        Err(why) => say(model, why),
    }
}

/// The one command in an input, as it was sent.
pub(super) fn input_command(input: &str) -> Option<String> {
    countersign_core::JsonMembers::parse(input)?.only_text("command")
}

/// The input with what was typed: another command in it, or all of it.
pub(super) fn edited_input(model: &Model, id: &str, text: &str) -> Result<String, String> {
    let item = model.inbox.find(id).ok_or("the ask is gone")?;
    let InboxContent::Ask(row) = &item.content else {
        return Err("this is not an ask".to_owned());
    };
    let input = row.input.as_ref().map_or("", |input| input.text());
    if input_command(input).is_none() {
        let edited: Value =
            serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))?;
        return Ok(edited.to_string());
    }
    let mut edited: Value = serde_json::from_str(input).map_err(|error| error.to_string())?;
    // Only the command, so that the tool gets its other arguments as the agent gave them.
    edited["command"] = Value::String(text.to_owned());
    Ok(edited.to_string())
}

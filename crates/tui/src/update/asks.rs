//! The ask on the screen: what the guard is told about it, and what begins a decision.

use countersign_protocol::{ApprovalParams, HostApproval, SuggestRulesParams, method};

use crate::decision_guard::{AskRisk, GuardDecision, GuardEvent, needs_second_act};
use crate::host_call::{CallLane, HostCall, ReplyTag};
use crate::message::Effect;
use crate::model::{ListChoice, ListPurpose, Model, Overlay, PendingAllow, TextPurpose};
use crate::render::approvals::{self, APPROVE, DENY, FieldDetail};
use crate::render::inbox_item::{InboxContent, InboxItem};

use super::answers::{self, send_resolution};
use super::keys::TypedKey;
use super::overlays::open_text;
use super::say;

/// The ask that is selected, if it is one.
pub(super) fn selected_ask(model: &Model) -> Option<&HostApproval> {
    match &model.inbox.selected_item()?.content {
        InboxContent::Ask(row) => Some(row),
        InboxContent::Question(_) | InboxContent::Note(_) => None,
    }
}

/// Whether most of an ask was left out of its row.
pub fn is_brief(item: &InboxItem) -> bool {
    match &item.content {
        InboxContent::Ask(row) => row.brief,
        InboxContent::Question(_) | InboxContent::Note(_) => false,
    }
}

/// Tells the guard what is shown. An allow that the guard no longer waits for is forgotten.
pub(super) fn sync_guard(model: &mut Model) {
    let at = model.now.ms;
    // What is on no picture, such as in a window too small to read, is not decided about.
    let is_on_screen = model.drawn.ask.is_some();
    let item = model
        .inbox
        .selected_item()
        .filter(|item| is_on_screen && !item.is_note());
    let Some(item) = item else {
        model.ask.guard.step(&GuardEvent::Hide, at);
        model.ask.pending = None;
        return;
    };
    let id = item.id().to_owned();
    let is_over = item.ended.is_some();
    let needs_confirm = match &item.content {
        InboxContent::Ask(row) => needs_second_act(model.host.confirm, AskRisk::of(row)),
        InboxContent::Question(_) | InboxContent::Note(_) => true,
    };
    let is_drawn = model.ask.layout.id == id && model.ask.layout.version == model.inbox.version();
    // Another version once it was drawn: what was typed before the picture was meant for the one before.
    let version = format!("{} {is_drawn}", model.inbox.version());
    // Before the guard is told, because afterwards it does not know which subject was shown before.
    if model.ask.guard.subject() != Some(&id) {
        model.ask.detail = FieldDetail::Folded;
        model.ask.restart_reading();
        model.ask.pending = None;
    }
    let shown = GuardEvent::Show {
        subject: &id,
        version: &version,
        confirm: needs_confirm,
    };
    model.ask.guard.step(&shown, at);
    // After `Show`, which takes a new subject for one that is still open.
    if is_over {
        model.ask.guard.step(&GuardEvent::Ended, at);
    }
    // The guard drops a first act whenever something changes. What is pending has to go with it,
    // and the person is told, because the second key will do nothing.
    if model.ask.pending.is_some() && model.ask.guard.confirmable_from().is_none() {
        model.ask.pending = None;
        say(
            model,
            "nothing was sent: the ask, the host or the window changed meanwhile",
        );
    }
}

/// Counts what a picture showed of the ask as read.
pub(super) fn record_drawn(model: &mut Model) {
    let Some(extent) = model.drawn.ask.clone() else {
        // It was on no picture: whoever comes back to it reads it again.
        if !model.ask.layout.id.is_empty() {
            model.ask.layout.id.clear();
            model.ask.restart_reading();
        }
        return;
    };
    let ask = &mut model.ask;
    if ask.layout != extent.layout {
        ask.layout = extent.layout.clone();
        ask.read_to = 0;
        ask.guard.step(&GuardEvent::Unseen, model.now.ms);
    }
    (ask.page, ask.total) = (extent.page, extent.total);
    ask.scroll = extent.first;
    // Only a page that continues what was read counts. Whoever jumps to the end has not seen what
    // is in between.
    if extent.first <= ask.read_to {
        ask.read_to = ask.read_to.max(extent.first + extent.page);
    }
    // With no row for the content, `read_to` and `total` may both be zero, and the ask would count as read.
    let is_read = extent.is_whole && extent.page > 0 && ask.read_to >= extent.total;
    // First, because a new version makes the guard forget that the content was seen.
    sync_guard(model);
    if is_read && !model.ask.guard.is_seen() {
        model.ask.guard.step(&GuardEvent::Seen, model.now.ms);
    }
}

/// Reads the whole of an ask whose row is brief.
pub(super) fn load_brief(model: &mut Model) -> Vec<Effect> {
    let brief = model.inbox.selected_item().filter(|item| is_brief(item));
    let Some(id) = brief.map(|item| item.id().to_owned()) else {
        return Vec::new();
    };
    if !model.host.is_up() || !model.loading.insert(format!("ask {id}")) {
        return Vec::new();
    }
    let params = ApprovalParams { approval_id: id };
    let call = HostCall::new::<method::Approval>(CallLane::Read, &params, ReplyTag::Approval);
    vec![Effect::Call(call)]
}

/// What `a` means for an ask.
pub(super) fn approving_option(row: &HostApproval) -> Result<&str, &'static str> {
    match approvals::approving_options(row).as_slice() {
        [] => Err("no option approves it: r to choose an answer"),
        // Where `approve` is offered it is what `a` means, however many others allow as well: those may allow more
        // than this once.
        options if options.contains(&APPROVE) => Ok(APPROVE),
        [one] => Ok(one),
        _ => Err("more than one option approves it: r to choose"),
    }
}

pub(super) fn can_deny(row: &HostApproval) -> bool {
    // Agents name their options. One that is called `deny` and counts as an approval must not be sent as a no.
    row.options.iter().any(|option| option == DENY) && !approvals::allows(row, DENY)
}

/// The first key of an allow.
pub(super) fn begin_allow(
    model: &mut Model,
    typed: TypedKey,
    place: &str,
    pending: PendingAllow,
) -> Vec<Effect> {
    let option = match &pending {
        PendingAllow::Once { option }
        | PendingAllow::Remember { option, .. }
        | PendingAllow::WithMessage { option, .. }
        | PendingAllow::Edited { option, .. } => Some(option.clone()),
        PendingAllow::Many { .. } => None,
    };
    // Whatever is more than one allow of exactly what is shown takes its second key in any case.
    let form = !matches!(pending, PendingAllow::Once { .. });
    let event = GuardEvent::Allow {
        place,
        option: option.as_deref(),
        form,
        origin: typed.origin,
    };
    match model.ask.guard.step(&event, typed.at) {
        GuardDecision::Confirm { .. } => {
            model.ask.pending = Some(pending);
            Vec::new()
        }
        GuardDecision::Allow {
            subject,
            considered_ms,
            ..
        } => answers::send_allow(model, &subject, pending, considered_ms),
        GuardDecision::Refused(refusal) => say(model, refusal.describe()),
        GuardDecision::None | GuardDecision::Deny { .. } | GuardDecision::Answer { .. } => {
            Vec::new()
        }
    }
}

pub(super) fn approve(model: &mut Model, typed: TypedKey) -> Vec<Effect> {
    let Some(row) = selected_ask(model) else {
        return Vec::new();
    };
    match approving_option(row).map(str::to_owned) {
        Ok(option) => begin_allow(model, typed, "key:a", PendingAllow::Once { option }),
        Err(why) => say(model, why),
    }
}

/// Finds the rules that an allow could become.
pub(super) fn suggest_rules(model: &mut Model, typed: TypedKey) -> Vec<Effect> {
    let Some(row) = selected_ask(model) else {
        return Vec::new();
    };
    let (id, option) = match approving_option(row) {
        Ok(option) => (row.id.clone(), option.to_owned()),
        Err(why) => return say(model, why),
    };
    if let Some(refusal) = model.ask.guard.refusal_of_allow(typed.pressed_at()) {
        return say(model, refusal.describe());
    }
    let params = SuggestRulesParams {
        approval_id: Some(id.clone()),
    };
    let tag = ReplyTag::Suggested { id, option };
    vec![Effect::Call(HostCall::new::<method::SuggestRules>(
        CallLane::Decide,
        &params,
        tag,
    ))]
}

pub(super) fn deny(model: &mut Model, typed: TypedKey) -> Vec<Effect> {
    match model.ask.guard.step(
        &GuardEvent::Deny {
            origin: typed.origin,
        },
        typed.at,
    ) {
        GuardDecision::Deny {
            subject,
            considered_ms,
        } => send_resolution(model, &subject, DENY, considered_ms, |_| {}),
        GuardDecision::Refused(refusal) => say(model, refusal.describe()),
        _ => Vec::new(),
    }
}

/// All open asks that are exactly like this one.
pub(super) fn approve_same(model: &mut Model, typed: TypedKey) -> Vec<Effect> {
    let Some(row) = selected_ask(model) else {
        return Vec::new();
    };
    let asks = model
        .inbox
        .items()
        .iter()
        .filter_map(|item| match &item.content {
            InboxContent::Ask(other) if item.ended.is_none() => Some(other),
            _ => None,
        });
    let same = asks
        .filter(|other| approvals::are_equal(row, other) && approving_option(other) == Ok(APPROVE));
    let ids: Vec<String> = same.map(|other| other.id.clone()).collect();
    if ids.len() < 2 {
        return say(model, "no other ask is exactly like this one");
    }
    begin_allow(model, typed, "key:=", PendingAllow::Many { ids })
}

/// Opens a text box about the selected ask.
pub(super) fn open_ask_text(model: &mut Model, purpose: TextPurpose, start: &str) -> Vec<Effect> {
    // Opening a box decides nothing. Whether an allow is possible is checked when the text is sent.
    if let Some(refusal) = model.ask.guard.refusal_of_deny(model.now.ms) {
        return say(model, refusal.describe());
    }
    open_text(model, purpose, start)
}

/// Begins an answer in words, or the choice of an option.
pub(super) fn reply(model: &mut Model) -> Vec<Effect> {
    let Some(item) = model.inbox.selected_item() else {
        return Vec::new();
    };
    let id = item.id().to_owned();
    match &item.content {
        InboxContent::Question(_) => open_ask_text(model, TextPurpose::AnswerQuestion { id }, ""),
        InboxContent::Ask(row) if !row.questions.is_empty() => open_ask_text(
            model,
            TextPurpose::AnswerAsk {
                id,
                given: Vec::new(),
            },
            "",
        ),
        InboxContent::Ask(row) => {
            let choices = row.options.iter().map(|option| ListChoice {
                value: option.clone(),
                note: if approvals::allows(row, option) {
                    "allows"
                } else {
                    ""
                }
                .to_owned(),
            });
            let choices = choices.collect();
            model.overlay = Some(Overlay::List {
                purpose: ListPurpose::Option { id },
                title: "answer with".to_owned(),
                choices,
                selected: 0,
            });
            Vec::new()
        }
        InboxContent::Note(_) => say(model, "this is a note: it needs no answer"),
    }
}

/// Begins to edit what will run.
pub(super) fn edit_input(model: &mut Model) -> Vec<Effect> {
    let Some(row) = selected_ask(model) else {
        return Vec::new();
    };
    if row.brief {
        return say(model, "the whole of it is still being read from the host");
    }
    let is_editable = row.view.as_ref().is_some_and(|view| view.editable);
    let option = approving_option(row).map(str::to_owned);
    let (Some(input), true) = (&row.input, is_editable) else {
        return say(model, "its agent takes no other input");
    };
    let start = match answers::input_command(input.text()) {
        Some(command) => command,
        None => input.text().to_owned(),
    };
    let id = row.id.clone();
    match option {
        Ok(option) => open_ask_text(model, TextPurpose::EditInput { id, option }, &start),
        Err(why) => say(model, why),
    }
}

/// Shows what is folded, or folds it again. What comes into view is to be read as well.
pub(super) fn toggle_detail(model: &mut Model) -> Vec<Effect> {
    model.ask.detail = match model.ask.detail {
        FieldDetail::Folded => FieldDetail::Full,
        FieldDetail::Full => FieldDetail::Folded,
    };
    super::restart_reading(model)
}

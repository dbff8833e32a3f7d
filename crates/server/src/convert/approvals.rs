//! Approvals on the wire, with what people see of them.

use countersign_core::event::{AnswerDelivery, ApprovalEnding, ApprovalOutcome, AskAttachment};
use countersign_core::limits::{BRIEF_ASK_BYTES_MAX, VIEWS_BYTES_MAX};
use countersign_core::{AnswerLimits, Approval, Ask, ChoiceQuestion, Json, Seq, Timestamp};
use countersign_protocol as wire;
use countersign_protocol::{HostApproval, HostApprovalState, HostApprovalStatus, HostDelivery};

use super::managed::sandbox;
use super::{AgentNames, ask_view, door, name_of, raw, rules, time, who};
use crate::ops::approvals::{AnsweredAsk, AnsweredAsks, AskerReply, WireAsk};

/// How much of its view an ask's row has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ViewDetail {
    /// For the asker, who knows what it asked for.
    None,
    /// For whom the row is not news: the line that names it.
    Short,
    Whole,
}

pub(crate) fn approval(approval: &Approval, names: AgentNames<'_>) -> HostApproval {
    row(approval, names, ViewDetail::Whole)
}

/// How much the rows of asks have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowForm {
    Whole,
    /// Large asks come without what a list does not show. For readers that load an ask when it is opened.
    Brief,
    /// All asks come so, and open ones with even less. For the snapshots of such readers.
    Listed,
}

/// The rows of one reply, whose views together are bounded.
pub(crate) fn rows(
    approvals: &[Approval],
    names: AgentNames<'_>,
    form: RowForm,
) -> Vec<HostApproval> {
    let mut budget = VIEWS_BYTES_MAX;
    let rows = approvals.iter().map(|row| {
        let mut row = approval(row, names);
        shorten(&mut row, form);
        row
    });
    let mut rows: Vec<HostApproval> = rows.collect();
    for view in rows.iter_mut().filter_map(|row| row.view.as_mut()) {
        ask_view::fit(view, &mut budget);
    }
    rows
}

/// Leaves out of a row what a list does not show, if its reader wants that.
pub(crate) fn shorten(row: &mut HostApproval, form: RowForm) {
    match form {
        RowForm::Whole => {}
        RowForm::Brief if content_bytes(row) <= BRIEF_ASK_BYTES_MAX => {}
        RowForm::Listed if row.state == HostApprovalState::Pending => row.make_listed(),
        RowForm::Brief | RowForm::Listed => row.make_brief(),
    }
}

/// About how much of a row grows with the ask.
fn content_bytes(row: &HostApproval) -> usize {
    let sent = [
        Some(&row.details),
        row.input.as_ref(),
        row.a2ui.as_ref(),
        row.edited_input.as_ref(),
    ];
    let sent: usize = sent.into_iter().flatten().map(|raw| raw.text().len()).sum();
    sent + row.view.as_ref().map_or(0, ask_view::text_bytes)
}

pub(crate) fn answered_ask(answered: &AnsweredAsk, names: AgentNames<'_>) -> HostApproval {
    let mut row = row(&answered.approval, names, ViewDetail::Short);
    row.passed_to_owner = answered.passed_to_owner.then_some(true);
    row.remembered = answered
        .remembered
        .iter()
        .map(|grant| rules::grant(grant, names))
        .collect();
    row
}

pub(crate) fn answered_asks(
    answered: AnsweredAsks,
    names: AgentNames<'_>,
) -> wire::AnsweredApprovals {
    let results = answered
        .0
        .into_iter()
        .map(|(approval_id, result)| match result {
            Ok(answered) => wire::AnswerResult {
                approval: Some(answered_ask(&answered, names)),
                approval_id,
                error: None,
            },
            Err(error) => wire::AnswerResult {
                approval: None,
                approval_id,
                error: Some(error.into_error()),
            },
        });
    wire::AnsweredApprovals {
        results: results.collect(),
    }
}

pub(crate) fn asker_reply(reply: &AskerReply, names: AgentNames<'_>) -> HostApproval {
    row(&reply.0, names, ViewDetail::None)
}

pub(crate) fn wire_ask(asked: &WireAsk, names: AgentNames<'_>) -> HostApproval {
    let mut row = row(&asked.approval, names, ViewDetail::None);
    let is_owned = asked.approval.ask.attachment == AskAttachment::Owner;
    row.subscribed = Some(asked.subscribed);
    // Answers of others to an owned ask are passed to its owner as events, so they reach it only if
    // it is subscribed.
    row.answerable = Some(asked.subscribed || !is_owned);
    row
}

/// The row of an approval as it stands.
pub(crate) fn row(approval: &Approval, names: AgentNames<'_>, detail: ViewDetail) -> HostApproval {
    let edited = approval.ended.as_ref();
    let edited = edited.and_then(|ended| ended.ending.edited_input.as_ref());
    let mut row = ask(&approval.ask, approval.opened, edited, names, detail);
    // The ask names the connection that opened it. After a reconnect its owner is another one.
    if row.client_id.is_some() {
        row.client_id = approval.client.as_ref().map(ToString::to_string);
    }
    row.deliveries = approval.deliveries;
    row.lapses_at = approval.lapses_at.map(time);
    if let Some(ended) = &approval.ended {
        end(&mut row, &ended.ending, ended.at);
        row.delivery = Some(delivery(approval.delivery));
    }
    row
}

/// The row of an ask as it was opened; its view also shows the input that was given instead.
pub(crate) fn ask(
    ask: &Ask,
    opened: Seq,
    edited: Option<&Json>,
    names: AgentNames<'_>,
    detail: ViewDetail,
) -> HostApproval {
    let owned = ask.attachment == AskAttachment::Owner;
    let questions = ask.choice_questions();
    let view = ask_view::view(ask, &questions, edited, detail);
    HostApproval {
        a2ui: ask.a2ui.as_ref().map(raw),
        action: ask.action.clone(),
        agent_id: ask.agent.as_ref().map(ToString::to_string),
        agent_name: name_of(ask.agent.as_ref(), names),
        answerable: None,
        approving: ask.approving.clone(),
        asked_by: Some(who(&ask.by)),
        brief: false,
        lapses_at: None,
        client_id: ask
            .client
            .as_ref()
            .filter(|_| owned)
            .map(ToString::to_string),
        considered_ms: None,
        created_at: time(ask.asked_at),
        cwd: ask.cwd.clone(),
        deadline: ask.deadline.map(time),
        deliveries: 0,
        delivery: None,
        details: raw(&ask.details),
        door: None,
        edited_input: None,
        id: ask.id.to_string(),
        idempotency_key: ask.idempotency_key.clone(),
        input: ask.input.as_ref().map(raw),
        input_digest: ask.input_digest.clone(),
        message: None,
        options: ask.options.clone(),
        passed_to_owner: None,
        questions: questions.into_iter().map(choice_question).collect(),
        remembered: Vec::new(),
        repeats: ask.repeats.as_ref().map(ToString::to_string),
        sandbox: ask.sandbox.as_ref().map(sandbox),
        resolution: None,
        resolved_at: None,
        resolved_by: None,
        sequence: opened.0,
        state: HostApprovalState::Pending,
        status: HostApprovalStatus::Pending,
        subscribed: None,
        tool: ask.tool.clone(),
        tool_call_id: ask.tool_call.clone(),
        turn: ask.turn.clone(),
        verdict: ask.verdict.as_deref().map(rules::verdict),
        view,
    }
}

pub(crate) fn choice_question(asked: ChoiceQuestion) -> wire::HostChoiceQuestion {
    let choices = asked.options.into_iter().map(|choice| wire::HostChoice {
        description: choice.description,
        label: choice.label,
    });
    wire::HostChoiceQuestion {
        choices: choices.collect(),
        free_text: asked.free_text,
        header: asked.header,
        limits: answer_limits(asked.limits),
        number: asked.number,
        optional: asked.optional,
        question: asked.question,
        several: asked.multi_select,
    }
}

fn answer_limits(limits: AnswerLimits) -> wire::HostAnswerLimits {
    wire::HostAnswerLimits {
        format: limits.format,
        max_choices: limits.max_choices,
        max_length: limits.max_length,
        maximum: limits.maximum,
        min_choices: limits.min_choices,
        min_length: limits.min_length,
        minimum: limits.minimum,
        whole: limits.whole,
    }
}

pub(crate) fn end(row: &mut HostApproval, ending: &ApprovalEnding, at: Timestamp) {
    row.status = HostApprovalStatus::Resolved;
    row.state = outcome(ending.outcome);
    row.resolution = Some(ending.resolution.clone());
    row.resolved_at = Some(time(at));
    row.resolved_by = Some(who(&ending.by));
    row.message.clone_from(&ending.message);
    row.door = ending.door.map(door);
    row.considered_ms = ending.considered_ms;
    row.edited_input = ending.edited_input.as_ref().map(raw);
    // A later verdict, which settled the ask, replaces the one that it was opened with.
    if let Some(verdict) = &ending.verdict {
        row.verdict = Some(rules::verdict(verdict));
    }
}

pub(crate) fn approval_state(approval: &Approval) -> HostApprovalState {
    match &approval.ended {
        Some(ended) => outcome(ended.ending.outcome),
        None => HostApprovalState::Pending,
    }
}

pub(crate) fn outcome(outcome: ApprovalOutcome) -> HostApprovalState {
    match outcome {
        ApprovalOutcome::Allowed => HostApprovalState::Allowed,
        ApprovalOutcome::Denied => HostApprovalState::Denied,
        ApprovalOutcome::Answered => HostApprovalState::Answered,
        ApprovalOutcome::Cancelled => HostApprovalState::Cancelled,
        ApprovalOutcome::Expired => HostApprovalState::Expired,
        ApprovalOutcome::Gone => HostApprovalState::Gone,
    }
}

fn delivery(delivery: AnswerDelivery) -> HostDelivery {
    match delivery {
        AnswerDelivery::Waiting => HostDelivery::Waiting,
        AnswerDelivery::Attempted => HostDelivery::Attempted,
        AnswerDelivery::Delivered => HostDelivery::Delivered,
        AnswerDelivery::Withdrawn => HostDelivery::Withdrawn,
        AnswerDelivery::Unknown => HostDelivery::Unknown,
    }
}

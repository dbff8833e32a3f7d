//! Translation between the domain and the wire, both ways, and nothing else.

pub(crate) mod managed;
pub(crate) mod rules;

use countersign_core::event::{
    AgentState, AnswerDelivery, ApprovalOutcome, BaseState, Device, QuestionOutcome,
};
use countersign_core::{
    AccessToken, Agent, Approval, Ask, Json, OpenCounts, Question, RecordedActor, Role, Seq,
    Timestamp,
};
use countersign_protocol::{
    HostAgent, HostAgentDisplay, HostApproval, HostDevice, HostQuestion, Raw, Time, TokenRow, Who,
};

pub(crate) fn time(at: Timestamp) -> Time {
    Time(at.0)
}

pub(crate) fn raw(json: &Json) -> Raw {
    Raw(json.shared())
}

pub(crate) fn json(raw: Raw) -> Json {
    Json::from(raw.0)
}

pub(crate) fn who(by: &RecordedActor) -> Who {
    let (role, agent_id) = match &by.role {
        Role::Operator => ("operator", None),
        Role::Observer => ("observer", None),
        Role::Host => ("host", None),
        Role::Agent(agent) => ("agent", Some(agent.to_string())),
    };
    Who {
        agent_id,
        name: by.name.to_string(),
        role: role.to_owned(),
    }
}

pub(crate) fn agent((agent, open): &(Agent, OpenCounts)) -> HostAgent {
    let profile = &agent.profile;
    let state = agent.state(*open);
    HostAgent {
        bypass_until: agent.bypass_until.map(time),
        capabilities: profile.capabilities.clone(),
        current_task: agent.current_task.clone(),
        display: HostAgentDisplay {
            accent: profile.display.accent.clone(),
            icon: profile.display.icon.clone(),
            label: profile.display.label.clone(),
        },
        id: profile.id.to_string(),
        kind: profile.kind.clone(),
        managed: agent.managed.as_deref().map(managed::managed),
        metadata: raw(&profile.metadata),
        name: profile.name.clone(),
        open_approvals: open.approvals,
        open_questions: open.questions,
        pid: profile.pid,
        project: profile.project.clone(),
        session_id: agent.client.as_ref().map(ToString::to_string),
        state: state_name(state).to_owned(),
        status: wire_status(state).to_owned(),
        updated_at: time(agent.updated_at),
    }
}

pub(crate) fn state_name(state: AgentState) -> &'static str {
    match state {
        AgentState::Starting => "starting",
        AgentState::Running => "running",
        AgentState::Idle => "idle",
        AgentState::AwaitingPermission => "awaiting_permission",
        AgentState::Waiting => "waiting",
        AgentState::Paused => "paused",
        AgentState::Done => "done",
        AgentState::Error => "error",
        AgentState::Stopped => "stopped",
    }
}

/// The host wire's own word for a state.
pub(crate) fn wire_status(state: AgentState) -> &'static str {
    match state {
        AgentState::Starting | AgentState::Running | AgentState::Waiting => "running",
        AgentState::Idle => "idle",
        AgentState::AwaitingPermission => "waiting_for_approval",
        AgentState::Paused => "paused",
        AgentState::Done => "completed",
        AgentState::Error => "errored",
        AgentState::Stopped => "stopped",
    }
}

/// As the host wire's own server prints a status in its messages.
pub(crate) fn status_in_words(state: AgentState) -> &'static str {
    match wire_status(state) {
        "running" => "Running",
        "waiting_for_approval" => "WaitingForApproval",
        "paused" => "Paused",
        "completed" => "Completed",
        "errored" => "Errored",
        "stopped" => "Stopped",
        _ => "Idle",
    }
}

/// The base state that a client's status means. Waiting for approval is derived, never set.
pub(crate) fn base_state(status: &str) -> Option<BaseState> {
    Some(match status {
        "idle" => BaseState::Idle,
        "running" | "waiting_for_approval" => BaseState::Running,
        "paused" => BaseState::Paused,
        "completed" => BaseState::Done,
        "errored" => BaseState::Error,
        "stopped" => BaseState::Stopped,
        _ => return None,
    })
}

pub(crate) fn approval(approval: &Approval) -> HostApproval {
    let mut row = ask(&approval.ask, approval.opened);
    if row.client_id.is_some() {
        row.client_id = approval.client.as_ref().map(ToString::to_string);
    }
    row.deliveries = approval.deliveries;
    if let Some(ended) = &approval.ended {
        end(&mut row, &ended.ending, ended.at);
        row.delivery = Some(delivery_name(approval.delivery).to_owned());
    }
    row
}

/// The row of an ask that nothing has happened to yet.
pub(crate) fn ask(ask: &Ask, opened: Seq) -> HostApproval {
    let owned = ask.attachment == countersign_core::event::AskAttachment::Owner;
    HostApproval {
        a2ui: ask.a2ui.as_ref().map(raw),
        action: ask.action.clone(),
        agent_id: ask.agent.as_ref().map(ToString::to_string),
        answerable: None,
        approving: ask.approving.clone(),
        asked_by: Some(who(&ask.by)),
        client_id: ask
            .client
            .as_ref()
            .filter(|_| owned)
            .map(ToString::to_string),
        created_at: time(ask.asked_at),
        cwd: ask.cwd.clone(),
        deadline: ask.deadline.map(time),
        deliveries: 0,
        delivery: None,
        details: raw(&ask.details),
        edited_input: None,
        id: ask.id.to_string(),
        idempotency_key: ask.idempotency_key.clone(),
        input: ask.input.as_ref().map(raw),
        input_digest: ask.input_digest.clone(),
        message: None,
        options: ask.options.clone(),
        passed_to_owner: None,
        remembered: Vec::new(),
        repeats: ask.repeats.as_ref().map(ToString::to_string),
        resolution: None,
        resolved_at: None,
        resolved_by: None,
        sequence: opened.0,
        state: "pending".to_owned(),
        status: "pending".to_owned(),
        subscribed: None,
        tool: ask.tool.clone(),
        tool_call_id: ask.tool_call.clone(),
        turn: ask.turn.clone(),
        verdict: ask.verdict.as_deref().map(rules::verdict),
    }
}

pub(crate) fn end(
    row: &mut HostApproval,
    ending: &countersign_core::event::ApprovalEnding,
    at: Timestamp,
) {
    "resolved".clone_into(&mut row.status);
    outcome_name(ending.outcome).clone_into(&mut row.state);
    row.resolution = Some(ending.resolution.clone());
    row.resolved_at = Some(time(at));
    row.resolved_by = Some(who(&ending.by));
    row.message.clone_from(&ending.message);
    row.edited_input = ending.edited_input.as_ref().map(raw);
    if let Some(verdict) = &ending.verdict {
        row.verdict = Some(rules::verdict(verdict));
    }
}

fn outcome_name(outcome: ApprovalOutcome) -> &'static str {
    match outcome {
        ApprovalOutcome::Allowed => "allowed",
        ApprovalOutcome::Denied => "denied",
        ApprovalOutcome::Answered => "answered",
        ApprovalOutcome::Cancelled => "cancelled",
        ApprovalOutcome::Expired => "expired",
        ApprovalOutcome::Gone => "gone",
    }
}

fn delivery_name(delivery: AnswerDelivery) -> &'static str {
    match delivery {
        AnswerDelivery::Waiting => "waiting",
        AnswerDelivery::Attempted => "attempted",
        AnswerDelivery::Delivered => "delivered",
        AnswerDelivery::Withdrawn => "withdrawn",
        AnswerDelivery::Unknown => "unknown",
    }
}

pub(crate) fn question(question: &Question) -> HostQuestion {
    let text = &question.text;
    let ended = question.ended.as_ref();
    HostQuestion {
        agent_id: text.agent.as_ref().map(ToString::to_string),
        answer: ended.map(|ended| ended.ending.answer.clone()),
        answered_by: ended.map(|ended| who(&ended.ending.by)),
        asked_by: who(&text.by),
        created_at: time(question.created_at),
        deadline: text.deadline.map(time),
        ended_at: ended.map(|ended| time(ended.at)),
        escalates_at: text.escalates_at.map(time),
        for_people: question.is_for_people(),
        id: text.id.to_string(),
        question: text.text.clone(),
        sequence: question.opened.0,
        state: ended
            .map_or("pending", |ended| {
                question_outcome_name(ended.ending.outcome)
            })
            .to_owned(),
        to: text.to.as_ref().map(ToString::to_string),
    }
}

pub(crate) fn question_outcome_name(outcome: QuestionOutcome) -> &'static str {
    match outcome {
        QuestionOutcome::Answered => "answered",
        QuestionOutcome::Cancelled => "cancelled",
        QuestionOutcome::Expired => "expired",
    }
}

pub(crate) fn device(device: &Device) -> HostDevice {
    HostDevice {
        capabilities: device.capabilities.clone(),
        id: device.id.to_string(),
        metadata: raw(&device.metadata),
        name: device.name.clone(),
        platform: device.platform.clone(),
        session_id: device.client.as_ref().map(ToString::to_string),
        status: device.status.clone(),
        updated_at: time(device.updated_at),
    }
}

pub(crate) fn token(token: &AccessToken) -> TokenRow {
    let (role, agent_id) = match &token.role {
        Role::Operator | Role::Host => ("operator", None),
        Role::Observer => ("observer", None),
        Role::Agent(agent) => ("agent", Some(agent.to_string())),
    };
    TokenRow {
        agent_id,
        created_at: time(token.created_at),
        expires_at: token.expires_at.map(time),
        id: token.id.to_string(),
        name: token.name.clone(),
        role: role.to_owned(),
    }
}

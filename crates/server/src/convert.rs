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
    HostAgent, HostAgentDisplay, HostAgentState, HostAgentStatus, HostApproval, HostApprovalState,
    HostApprovalStatus, HostDelivery, HostDevice, HostQuestion, HostQuestionState, HostRole, Raw,
    Time, TokenRow, Who,
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
        Role::Operator => (HostRole::Operator, None),
        Role::Observer => (HostRole::Observer, None),
        Role::Host => (HostRole::Host, None),
        Role::Agent(agent) => (HostRole::Agent, Some(agent.to_string())),
    };
    Who {
        agent_id,
        name: by.name.to_string(),
        role,
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
        state: agent_state(state),
        status: agent_status(state),
        updated_at: time(agent.updated_at),
    }
}

pub(crate) fn agent_state(state: AgentState) -> HostAgentState {
    match state {
        AgentState::Starting => HostAgentState::Starting,
        AgentState::Running => HostAgentState::Running,
        AgentState::Idle => HostAgentState::Idle,
        AgentState::AwaitingPermission => HostAgentState::AwaitingPermission,
        AgentState::Waiting => HostAgentState::Waiting,
        AgentState::Paused => HostAgentState::Paused,
        AgentState::Done => HostAgentState::Done,
        AgentState::Error => HostAgentState::Error,
        AgentState::Stopped => HostAgentState::Stopped,
    }
}

/// The host wire knows fewer states than we do.
pub(crate) fn agent_status(state: AgentState) -> HostAgentStatus {
    match state {
        AgentState::Starting | AgentState::Running | AgentState::Waiting => {
            HostAgentStatus::Running
        }
        AgentState::Idle => HostAgentStatus::Idle,
        AgentState::AwaitingPermission => HostAgentStatus::WaitingForApproval,
        AgentState::Paused => HostAgentStatus::Paused,
        AgentState::Done => HostAgentStatus::Completed,
        AgentState::Error => HostAgentStatus::Errored,
        AgentState::Stopped => HostAgentStatus::Stopped,
    }
}

/// The base state that a client's status means. Waiting for approval is derived, never set.
pub(crate) fn base_state(status: HostAgentStatus) -> BaseState {
    match status {
        HostAgentStatus::Running | HostAgentStatus::WaitingForApproval => BaseState::Running,
        HostAgentStatus::Paused => BaseState::Paused,
        HostAgentStatus::Completed => BaseState::Done,
        HostAgentStatus::Errored => BaseState::Error,
        HostAgentStatus::Stopped => BaseState::Stopped,
        // An unknown word was refused when the parameters were read.
        HostAgentStatus::Idle | HostAgentStatus::Unknown => BaseState::Idle,
    }
}

pub(crate) fn approval(approval: &Approval) -> HostApproval {
    let mut row = ask(&approval.ask, approval.opened);
    if row.client_id.is_some() {
        row.client_id = approval.client.as_ref().map(ToString::to_string);
    }
    row.deliveries = approval.deliveries;
    if let Some(ended) = &approval.ended {
        end(&mut row, &ended.ending, ended.at);
        row.delivery = Some(delivery(approval.delivery));
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
        state: HostApprovalState::Pending,
        status: HostApprovalStatus::Pending,
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
    row.status = HostApprovalStatus::Resolved;
    row.state = approval_state(ending.outcome);
    row.resolution = Some(ending.resolution.clone());
    row.resolved_at = Some(time(at));
    row.resolved_by = Some(who(&ending.by));
    row.message.clone_from(&ending.message);
    row.edited_input = ending.edited_input.as_ref().map(raw);
    if let Some(verdict) = &ending.verdict {
        row.verdict = Some(rules::verdict(verdict));
    }
}

fn approval_state(outcome: ApprovalOutcome) -> HostApprovalState {
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
        state: ended.map_or(HostQuestionState::Pending, |ended| {
            question_state(ended.ending.outcome)
        }),
        to: text.to.as_ref().map(ToString::to_string),
    }
}

pub(crate) fn question_state(outcome: QuestionOutcome) -> HostQuestionState {
    match outcome {
        QuestionOutcome::Answered => HostQuestionState::Answered,
        QuestionOutcome::Cancelled => HostQuestionState::Cancelled,
        QuestionOutcome::Expired => HostQuestionState::Expired,
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
        Role::Operator | Role::Host => (HostRole::Operator, None),
        Role::Observer => (HostRole::Observer, None),
        Role::Agent(agent) => (HostRole::Agent, Some(agent.to_string())),
    };
    TokenRow {
        agent_id,
        created_at: time(token.created_at),
        expires_at: token.expires_at.map(time),
        id: token.id.to_string(),
        name: token.name.clone(),
        role,
    }
}

//! Translation between the domain and the wire, both ways, and nothing else.

mod agent_files;
pub(crate) mod approvals;
mod ask_view;
mod diff;
pub(crate) mod managed;
pub(crate) mod rules;
mod search;
mod terminals;

use std::sync::Arc;

use countersign_core::event::{AgentState, BaseState, Device, QuestionOutcome};
use countersign_core::{
    AccessToken, Agent, AgentId, Approval, CommittedEvent, Door, GrantState, Json, OpenCounts,
    Question, RecordedActor, Role, Seq, Timestamp,
};
use countersign_daemon::{
    BacktestReport, CatalogEntry, FeedEntry, GrantAdded, MergeOutcome, OwnTerminalStatus,
    RuleCheck, RulesOverview, SearchPage, Service, StopCounts, TerminalSummary, TranscriptPage,
    UntrustedRuleFile, WorktreeOutcome,
};
use countersign_protocol as wire;
use countersign_protocol::{
    HostAgent, HostAgentDisplay, HostAgentState, HostAgentStatus, HostApproval, HostDevice,
    HostDoor, HostEvent, HostQuestion, HostQuestionState, HostRole, Raw, Time, TokenRow, Who,
};
use serde::Serialize;

use self::approvals::RowForm;
use crate::events::event;
use crate::ops::agent_files::{ListedFolder, ReadPiece, WrittenByPerson};
use crate::ops::approvals::{AnsweredAsk, AnsweredAsks, AskerReply, WireAsk};
use crate::ops::editors::NumberedCall;
use crate::ops::events::SubscriberSnapshot;
use crate::ops::managed::{AgentChanges, AwaitedAgents, WaitingMessage};
use crate::ops::rules::RuleAdvice;
use crate::ops::terminals::ReadOutput;
use crate::ops::tokens::CreatedToken;

/// The names of agents, for rows that people read beside the ids that programs need.
#[derive(Clone, Copy)]
pub(crate) struct AgentNames<'a>(Option<&'a Service>);

impl<'a> AgentNames<'a> {
    pub(crate) fn of(service: &'a Service) -> Self {
        Self(Some(service))
    }

    /// For rows inside errors, which are made where no service is.
    pub(crate) fn unknown() -> Self {
        Self(None)
    }

    pub(crate) fn find(self, agent: &AgentId) -> Option<String> {
        self.0?.agent_name(agent)
    }
}

/// Translates the result of an operation to the wire. A door calls this last, when nothing is left
/// to decide.
pub(crate) trait IntoWire {
    type Wire: Serialize;

    fn into_wire(self, names: AgentNames<'_>) -> Self::Wire;

    /// The same for the rows of one reply.
    fn rows_into_wire(rows: Vec<Self>, names: AgentNames<'_>) -> Vec<Self::Wire>
    where
        Self: Sized,
    {
        let rows = rows.into_iter().map(|row| row.into_wire(names));
        rows.collect()
    }
}

impl<T: IntoWire> IntoWire for Vec<T> {
    type Wire = Vec<T::Wire>;

    fn into_wire(self, names: AgentNames<'_>) -> Self::Wire {
        T::rows_into_wire(self, names)
    }
}

impl IntoWire for AnsweredAsks {
    type Wire = wire::AnsweredApprovals;

    fn into_wire(self, names: AgentNames<'_>) -> wire::AnsweredApprovals {
        approvals::answered_asks(self, names)
    }
}

impl IntoWire for Approval {
    type Wire = HostApproval;

    fn into_wire(self, names: AgentNames<'_>) -> HostApproval {
        approvals::approval(&self, names)
    }

    fn rows_into_wire(rows: Vec<Self>, names: AgentNames<'_>) -> Vec<HostApproval> {
        approvals::rows(&rows, names, RowForm::Whole)
    }
}

/// A row is `domain type => wire type: function`.
macro_rules! into_wire {
    ($($domain:ty => $wire:ty: $convert:path;)*) => {$(
        impl IntoWire for $domain {
            type Wire = $wire;

            fn into_wire(self, _names: AgentNames<'_>) -> $wire {
                $convert(&self)
            }
        }
    )*};
}

into_wire! {
    AccessToken => TokenRow: token;
    Arc<Device> => HostDevice: device;
    BacktestReport => wire::BacktestResult: rules::backtest;
    ListedFolder => wire::ListedFiles: agent_files::listed;
    ReadPiece => wire::FilePage: agent_files::page;
    WrittenByPerson => wire::SavedFile: agent_files::saved;
    CatalogEntry => wire::CatalogRow: managed::catalog_row;
    CreatedToken => wire::NewToken: created_token;
    RuleAdvice => wire::RuleSuggestions: rules::advice;
    RuleCheck => wire::CheckedRules: rules::check;
    NumberedCall => wire::EditorCallRow: editor_call;
    ReadOutput => wire::TerminalOutputResult: terminals::output;
    StopCounts => wire::StopAllResult: stop_counts;
    OwnTerminalStatus => wire::OwnTerminalRow: terminals::own_row;
    TerminalSummary => wire::TerminalRow: terminals::row;
    TranscriptPage => wire::TranscriptResult: managed::transcript;
    WaitingMessage => wire::QueuedMessageRow: managed::queued_message;
    UntrustedRuleFile => wire::UntrustedFileRow: rules::untrusted_file;
    AgentChanges => wire::AgentDiff: diff::changes;
    MergeOutcome => wire::MergedWorktree: managed::merged;
    WorktreeOutcome => wire::RemovedWorktree: managed::removed;
}

/// The same for types that name agents.
macro_rules! into_wire_with_names {
    ($($domain:ty => $wire:ty: $convert:path;)*) => {$(
        impl IntoWire for $domain {
            type Wire = $wire;

            fn into_wire(self, names: AgentNames<'_>) -> $wire {
                $convert(&self, names)
            }
        }
    )*};
}

into_wire_with_names! {
    (Agent, OpenCounts) => HostAgent: agent;
    AnsweredAsk => HostApproval: approvals::answered_ask;
    AskerReply => HostApproval: approvals::asker_reply;
    Arc<FeedEntry> => HostEvent: feed_entry;
    AwaitedAgents => wire::WaitAgentsResult: awaited_agents;
    CommittedEvent => HostEvent: committed_event;
    GrantAdded => wire::AddedRule: rules::added;
    GrantState => wire::GrantRow: rules::grant;
    Question => HostQuestion: question;
    RulesOverview => wire::RulesResult: rules::overview;
    SearchPage => wire::SearchResult: search::page;
    SubscriberSnapshot => wire::HostSnapshot: snapshot;
    WireAsk => HostApproval: approvals::wire_ask;
}

/// Results that only the wire has.
macro_rules! is_wire {
    ($($wire:ty)*) => {$(
        impl IntoWire for $wire {
            type Wire = Self;

            fn into_wire(self, _names: AgentNames<'_>) -> Self {
                self
            }
        }
    )*};
}

is_wire! {
    () wire::HookResult wire::HostStatus wire::LoginTicket wire::NotifyStatus wire::NotifyTestResult
    wire::PushSubscriptionId wire::RescueResult wire::WithdrawnMessage wire::WrittenTerminal
}

fn awaited_agents(awaited: &AwaitedAgents, names: AgentNames<'_>) -> wire::WaitAgentsResult {
    wire::WaitAgentsResult {
        agents: awaited.agents.iter().map(|row| agent(row, names)).collect(),
        reached: awaited.reached,
    }
}

fn created_token(created: &CreatedToken) -> wire::NewToken {
    wire::NewToken {
        token: created.secret.clone(),
        row: token(&created.token),
    }
}

impl IntoWire for Seq {
    type Wire = wire::AuditResult;

    fn into_wire(self, _names: AgentNames<'_>) -> wire::AuditResult {
        wire::AuditResult { sequence: self.0 }
    }
}

fn editor_call(call: &NumberedCall) -> wire::EditorCallRow {
    wire::EditorCallRow {
        id: call.id,
        call: raw(&call.call),
    }
}

fn stop_counts(counts: &StopCounts) -> wire::StopAllResult {
    wire::StopAllResult {
        denied: counts.denied,
        interrupted: counts.interrupted,
    }
}

fn feed_entry(entry: &Arc<FeedEntry>, names: AgentNames<'_>) -> HostEvent {
    event(&entry.committed, names, RowForm::Whole)
}

fn committed_event(committed: &CommittedEvent, names: AgentNames<'_>) -> HostEvent {
    event(committed, names, RowForm::Whole)
}

fn snapshot(snapshot: &SubscriberSnapshot, names: AgentNames<'_>) -> wire::HostSnapshot {
    let overview = &snapshot.overview;
    wire::HostSnapshot {
        agents: overview
            .agents
            .iter()
            .map(|row| agent(row, names))
            .collect(),
        approvals: approvals::rows(&overview.approvals, names, snapshot.form),
        devices: overview.devices.iter().map(device).collect(),
        event_sequence: overview.head.0,
        events: snapshot
            .events
            .iter()
            .map(|entry| event(&entry.committed, names, snapshot.form))
            .collect(),
        identity: Some(wire::HostIdentity {
            manifest_path: None,
            manifest_role: "none".to_owned(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }),
        pending_signins: Vec::new(),
        questions: overview
            .questions
            .iter()
            .map(|row| question(row, names))
            .collect(),
        rule_problems: snapshot.rule_problems.iter().map(rules::problem).collect(),
        store_error: snapshot.store_error.as_ref().map(ToString::to_string),
        subscribed: true,
    }
}

pub(crate) fn name_of(agent: Option<&AgentId>, names: AgentNames<'_>) -> Option<String> {
    names.find(agent?)
}

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

pub(crate) fn door(door: Door) -> HostDoor {
    match door {
        Door::Web => HostDoor::Web,
        Door::Websocket => HostDoor::Websocket,
        Door::Rest => HostDoor::Rest,
        Door::Socket => HostDoor::Socket,
        Door::Mcp => HostDoor::Mcp,
        Door::Hook => HostDoor::Hook,
    }
}

pub(crate) fn agent((agent, open): &(Agent, OpenCounts), names: AgentNames<'_>) -> HostAgent {
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
        managed: agent
            .managed
            .as_deref()
            .map(|managed| managed::managed(managed, names)),
        metadata: raw(&profile.metadata),
        name: profile.name.clone(),
        open_approvals: open.approvals,
        open_questions: open.questions,
        pid: profile.pid,
        project: profile.project.clone(),
        session_id: agent.client.as_ref().map(ToString::to_string),
        started_at: Some(time(agent.registered_at)),
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
        // An unknown word was refused when the parameters were parsed, so this decides nothing.
        HostAgentStatus::Idle | HostAgentStatus::Unknown => BaseState::Idle,
    }
}

pub(crate) fn question(question: &Question, names: AgentNames<'_>) -> HostQuestion {
    let text = &question.text;
    let ended = question.ended.as_ref();
    HostQuestion {
        agent_id: text.agent.as_ref().map(ToString::to_string),
        agent_name: name_of(text.agent.as_ref(), names),
        answer: ended.map(|ended| ended.ending.answer.clone()),
        answered_by: ended.map(|ended| who(&ended.ending.by)),
        asked_by: who(&text.by),
        considered_ms: ended.and_then(|ended| ended.ending.considered_ms),
        created_at: time(question.created_at),
        deadline: text.deadline.map(time),
        door: ended.and_then(|ended| ended.ending.door).map(door),
        ended_at: ended.map(|ended| time(ended.at)),
        escalates_at: text.escalates_at.map(time),
        for_people: question.is_for_people(),
        id: text.id.to_string(),
        question: text.text.clone(),
        sequence: question.opened.0,
        state: question_state(question),
        to: text.to.as_ref().map(ToString::to_string),
        to_name: name_of(text.to.as_ref(), names),
    }
}

pub(crate) fn question_state(question: &Question) -> HostQuestionState {
    match &question.ended {
        Some(ended) => question_outcome(ended.ending.outcome),
        None => HostQuestionState::Pending,
    }
}

pub(crate) fn question_outcome(outcome: QuestionOutcome) -> HostQuestionState {
    match outcome {
        QuestionOutcome::Answered => HostQuestionState::Answered,
        QuestionOutcome::Cancelled => HostQuestionState::Cancelled,
        QuestionOutcome::Expired => HostQuestionState::Expired,
    }
}

pub(crate) fn device(device: &Arc<Device>) -> HostDevice {
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
        // There are no tokens for the host itself.
        Role::Operator | Role::Host => (HostRole::Operator, None),
        Role::Observer => (HostRole::Observer, None),
        Role::Agent(agent) => (HostRole::Agent, Some(agent.to_string())),
    };
    TokenRow {
        agent_id,
        created_at: time(token.created_at),
        device: token.device.as_ref().map(|_| true),
        device_name: token.device.as_ref().map(|device| device.name.clone()),
        expires_at: token.expires_at.map(time),
        id: token.id.to_string(),
        last_seen: token.last_seen.map(time),
        name: token.name.clone(),
        role,
    }
}

//! Events: the facts we persist. Their shapes are a promise.
//!
//! Invariants: a released kind is never changed in meaning, fields are only ever added and have
//! a default, and what is written here decodes for ever. An event's payload is the JSON of its
//! struct; kind and version lie beside it in the log's header.

mod managed;
mod orchestration;
mod rules;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{
    AgentId, ApprovalId, ClientId, DeviceId, PrincipalKey, QuestionId, Seq, Timestamp, TokenId,
};
use crate::json::Json;
use crate::principal::{RecordedActor, Role};

pub use managed::{
    AgentArchived, AgentConfigured, AgentExited, AgentLaunched, AgentMessage, AgentPlan,
    AgentReady, AgentRenamed, AgentReported, AgentRole, AgentRunRequested, AgentSpawned,
    AgentStopRequested, EnvVar, MessageQueued, MessagesDropped, PassUsed, PlanStep, Protocol,
    RunEnd, SpawnOptions, TokenUsage, ToolStatus, TranscriptAdded, TranscriptEntry, TurnEnded,
    TurnInterrupted, TurnStarted, Worktree, WorktreeChanged, WorktreeRequest,
};
pub use orchestration::{
    AgentCeilingChanged, Ceiling, MessageRepeated, ParentMessage, ParentMessageWithdrawn,
    ParentNotified, QuestionEscalated,
};
pub use rules::{
    AgentBypassChanged, Effect, Grant, GrantCreated, GrantEnd, GrantRemoved, GrantScope, GrantUse,
    PartKind, RuleRef, RulesTrusted, Verdict, VerdictPart,
};

macro_rules! is_public {
    (public) => {
        true
    };
    (internal) => {
        false
    };
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $audience:ident $kind:literal;)*) => {
        /// A committed fact.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Event {
            $($(#[$doc])* $name($name),)*
        }

        impl Event {
            /// Every kind of event this version writes.
            pub const KINDS: &'static [&'static str] = &[$($kind,)*];

            /// The name of the kind, as the log and the wire have it.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$name(_) => $kind,)* }
            }

            /// Whether readers that name no kinds are shown this event.
            pub fn is_public(&self) -> bool {
                match self { $(Self::$name(_) => is_public!($audience),)* }
            }

            /// The kinds that readers who name none are shown.
            pub fn public_kinds() -> impl Iterator<Item = &'static str> {
                [$((is_public!($audience), $kind),)*].into_iter().filter_map(|(public, kind)| public.then_some(kind))
            }

            /// The payload's bytes.
            pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
                match self { $(Self::$name(body) => serde_json::to_vec(body),)* }
            }

            /// Reads what `encode` wrote. `None` for a kind this version does not know.
            pub fn decode(kind: &str, payload: &[u8]) -> Option<Result<Self, serde_json::Error>> {
                match kind {
                    $($kind => Some(serde_json::from_slice(payload).map(Self::$name)),)*
                    _ => None,
                }
            }
        }

        $(impl From<$name> for Event {
            fn from(body: $name) -> Self {
                Self::$name(body)
            }
        })*
    };
}

events! {
    /// A host began to serve this log.
    HostStarted = internal "host.started";
    /// A connection that owned something went away.
    ConnectionLost = internal "host.connection_lost";
    /// The time to come back is over for a connection.
    ConnectionLapsed = internal "host.connection_lapsed";
    /// An agent registered itself, or did so again.
    AgentRegistered = public "agent.registered";
    /// Somebody wants an agent run by the host.
    AgentSpawned = public "agent.spawned";
    /// An agent is to be started, for the first time or again.
    AgentRunRequested = internal "agent.run_requested";
    /// An agent has a worktree of its own, or no longer has.
    WorktreeChanged = public "agent.worktree_changed";
    /// An agent is about to be started, or has been.
    AgentLaunched = internal "agent.launched";
    /// An agent's session is open.
    AgentReady = internal "agent.ready";
    /// An agent is to end.
    AgentStopRequested = public "agent.stop_requested";
    /// An agent's process is gone.
    AgentExited = public "agent.exited";
    /// An agent has another name.
    AgentRenamed = public "agent.renamed";
    /// An agent was put away, or taken out again.
    AgentArchived = public "agent.archived";
    /// An agent is to use another mode or model.
    AgentConfigured = public "agent.configured";
    /// An agent said something about itself.
    AgentReported = internal "agent.reported";
    /// A message waits for an agent.
    MessageQueued = public "agent.message_queued";
    /// A child repeated a note that still waits for its parent.
    MessageRepeated = internal "agent.message_repeated";
    /// A question left its parent's queue because it ended.
    ParentMessageWithdrawn = internal "agent.parent_message_withdrawn";
    /// An agent sent a note to its parent, or to people if it has none.
    ParentNotified = public "agent.parent_notified";
    /// What an orchestrator may settle for its descendants changed.
    AgentCeilingChanged = public "agent.ceiling_changed";
    /// Messages that waited for an agent never reach it.
    MessagesDropped = public "agent.messages_dropped";
    /// A turn of an agent began.
    TurnStarted = public "turn.started";
    /// A turn is to end.
    TurnInterrupted = public "turn.interrupted";
    /// A turn is over.
    TurnEnded = public "turn.ended";
    /// What an agent said and did.
    TranscriptAdded = internal "transcript.added";
    /// Something ran or was written because an earlier ask allowed exactly that.
    PassUsed = internal "approval.pass_used";
    /// An agent's state, as people see it, changed.
    AgentStatusChanged = public "agent.status_changed";
    /// An agent is gone from the list.
    AgentUnregistered = public "agent.unregistered";
    /// An operator lets an agent's asks through for a while, or no longer does.
    AgentBypassChanged = public "agent.bypass_changed";
    /// An operator asked an agent to stop what it does.
    AgentInterruptRequested = public "agent.interrupt_requested";
    /// An ask was opened.
    ApprovalRequested = public "approval.requested";
    /// An ask ended, in whatever way.
    ApprovalResolved = public "approval.resolved";
    /// Somebody answered an ask that another connection owns.
    ApprovalResolveRequested = public "approval.resolve_requested";
    /// An agent tried to answer an ask.
    ApprovalResolveRefused = public "approval.resolve_refused";
    /// An ask's asker came back on another connection.
    ApprovalAttached = internal "approval.attached";
    /// An ended ask was taken off the list.
    ApprovalDismissed = internal "approval.dismissed";
    /// An answer is about to be told to its asker.
    AnswerAttempted = internal "answer.attempted";
    /// An answer was handed to the asker's connection, or never will be.
    AnswerSettled = internal "answer.settled";
    /// An agent waits for words.
    QuestionAsked = public "question.asked";
    /// An orchestrator has not answered a question, so people are asked.
    QuestionEscalated = public "question.escalated";
    /// A question ended, with or without words.
    QuestionEnded = public "question.ended";
    /// A decision is remembered.
    GrantCreated = public "grant.created";
    /// A remembered decision counts no longer.
    GrantRemoved = public "grant.removed";
    /// Somebody trusted a rule file with exactly this content.
    RulesTrusted = public "rules.trusted";
    /// A device registered itself.
    DeviceRegistered = public "device.registered";
    /// A device changed.
    DeviceUpdated = public "device.updated";
    /// A client or agent told everybody something.
    NotificationSent = public "host.notification_sent";
    /// A token was made.
    TokenCreated = internal "token.created";
    /// A token was withdrawn.
    TokenRevoked = internal "token.revoked";
    /// A process used an agent's token: it and its descendants are that agent.
    ProcessMarked = internal "process.marked";
    /// Marks of processes that are gone were dropped.
    ProcessesForgotten = internal "process.forgotten";
    /// The payload of one event was erased.
    RecordRedacted = internal "record.redacted";
    /// Old history was erased.
    RecordPruned = internal "record.pruned";
}

impl Event {
    /// The agent the event is about, if it is about one.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::AgentRegistered(e) => Some(&e.agent.id),
            Self::AgentStatusChanged(e) => Some(&e.agent.id),
            Self::AgentUnregistered(e) => Some(&e.agent),
            Self::AgentInterruptRequested(e) => Some(&e.agent),
            Self::AgentBypassChanged(e) => Some(&e.agent),
            Self::AgentSpawned(e) => Some(&e.agent.id),
            Self::AgentRunRequested(e) => Some(&e.agent),
            Self::WorktreeChanged(e) => Some(&e.agent),
            Self::AgentLaunched(e) => Some(&e.agent),
            Self::AgentReady(e) => Some(&e.agent),
            Self::AgentStopRequested(e) => Some(&e.agent),
            Self::AgentExited(e) => Some(&e.agent),
            Self::AgentRenamed(e) => Some(&e.agent),
            Self::AgentArchived(e) => Some(&e.agent),
            Self::AgentConfigured(e) => Some(&e.agent),
            Self::AgentReported(e) => Some(&e.agent),
            Self::MessageQueued(e) => Some(&e.agent),
            Self::MessagesDropped(e) => Some(&e.agent),
            Self::MessageRepeated(e) => Some(&e.agent),
            Self::ParentMessageWithdrawn(e) => Some(&e.agent),
            Self::ParentNotified(e) => Some(&e.agent),
            Self::AgentCeilingChanged(e) => Some(&e.agent),
            Self::QuestionEscalated(e) => e.agent.as_ref(),
            Self::TurnStarted(e) => Some(&e.agent),
            Self::TurnInterrupted(e) => Some(&e.agent),
            Self::TurnEnded(e) => Some(&e.agent),
            Self::TranscriptAdded(e) => Some(&e.agent),
            Self::PassUsed(e) => Some(&e.agent),
            Self::ApprovalRequested(e) => e.ask.agent.as_ref(),
            Self::ApprovalResolved(e) => e.agent.as_ref(),
            Self::ApprovalResolveRequested(e) => e.agent.as_ref(),
            Self::ApprovalResolveRefused(e) => e.agent.as_ref(),
            Self::QuestionAsked(e) => e.question.agent.as_ref(),
            Self::QuestionEnded(e) => e.agent.as_ref(),
            Self::NotificationSent(e) => e.agent.as_ref(),
            Self::ProcessMarked(e) => Some(&e.agent),
            Self::TokenCreated(e) => match &e.role {
                Role::Agent(agent) => Some(agent),
                Role::Operator | Role::Observer | Role::Host => None,
            },
            Self::HostStarted(_)
            | Self::ConnectionLost(_)
            | Self::ConnectionLapsed(_)
            | Self::ApprovalAttached(_)
            | Self::ApprovalDismissed(_)
            | Self::AnswerAttempted(_)
            | Self::AnswerSettled(_)
            | Self::GrantCreated(_)
            | Self::GrantRemoved(_)
            | Self::RulesTrusted(_)
            | Self::DeviceRegistered(_)
            | Self::DeviceUpdated(_)
            | Self::TokenRevoked(_)
            | Self::ProcessesForgotten(_)
            | Self::RecordRedacted(_)
            | Self::RecordPruned(_) => None,
        }
    }

    /// The event that opened the ask this event ends: what a reader needs beside it.
    pub fn opened(&self) -> Option<Seq> {
        if let Self::ApprovalResolved(e) = self {
            Some(e.opened)
        } else {
            None
        }
    }
}

/// A committed event: its number, its time, and the ask it ends if it ends one.
#[derive(Clone, Debug, PartialEq)]
pub struct CommittedEvent {
    /// Its place in the log.
    pub seq: Seq,
    /// When it was decided.
    pub at: Timestamp,
    /// The fact.
    pub event: Event,
    /// For an [`ApprovalResolved`]: the ask. Erased asks are absent.
    pub ask: Option<Arc<Ask>>,
}

/// See [`Event::HostStarted`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostStarted {
    /// The version of the host.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// When owners that have not come back lose what they hold.
    pub lapses_at: Timestamp,
}

/// See [`Event::ConnectionLost`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionLost {
    /// The connection.
    pub client: ClientId,
    /// When what it held lapses.
    pub lapses_at: Timestamp,
}

/// See [`Event::ConnectionLapsed`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionLapsed {
    /// The connection. What it held and what outlives it belongs to nobody from here on.
    pub client: ClientId,
}

/// How an agent wants to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentDisplay {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// A picture's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// A colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accent: Option<String>,
}

/// The base state of an agent: what it would be if nothing waited for anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaseState {
    /// Being started.
    Starting,
    /// A turn runs.
    Running,
    /// Waits for the next message.
    Idle,
    /// Held by a person.
    Paused,
    /// Ended well.
    Done,
    /// Ended badly.
    Error,
    /// Ended by somebody, or its owner is gone.
    Stopped,
}

/// An agent as its own connection described it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentProfile {
    /// Its id, chosen by it or by us.
    pub id: AgentId,
    /// Its name.
    pub name: String,
    /// What kind of agent it is.
    #[serde(default)]
    pub kind: String,
    /// What it says it can do.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// The project it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its process, by its own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How it wants to be shown.
    #[serde(default)]
    pub display: AgentDisplay,
    /// Anything else it said.
    #[serde(default)]
    pub metadata: Json,
}

/// See [`Event::AgentRegistered`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentRegistered {
    /// The agent.
    pub agent: Arc<AgentProfile>,
    /// Who registered it.
    pub owner: PrincipalKey,
    /// The connection that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
}

/// See [`Event::AgentStatusChanged`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentStatusChanged {
    /// The agent.
    pub agent: Arc<AgentProfile>,
    /// Its base state from now on.
    pub base: BaseState,
    /// The state people see, with what is open counted in.
    pub state: AgentState,
    /// What it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_task: Option<String>,
    /// The connection that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// What its owner said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What its owner attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
}

/// The state of an agent as people see it: the base state and what is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// Being started.
    Starting,
    /// A turn runs.
    Running,
    /// Waits for the next message.
    Idle,
    /// At least one ask is open.
    AwaitingPermission,
    /// At least one question is open, and no ask.
    Waiting,
    /// Held by a person.
    Paused,
    /// Ended well.
    Done,
    /// Ended badly.
    Error,
    /// Ended by somebody, or its owner is gone.
    Stopped,
}

/// See [`Event::AgentUnregistered`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentUnregistered {
    /// The agent.
    pub agent: AgentId,
}

/// See [`Event::AgentInterruptRequested`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentInterruptRequested {
    /// The agent.
    pub agent: AgentId,
    /// Its name at the time.
    pub name: String,
    /// Who asked.
    pub by: RecordedActor,
}

/// What ties an ask to the connection it came through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskAttachment {
    /// Nothing: it lives until it is answered, cancelled or out of time.
    #[default]
    None,
    /// It ends when its asker is gone for good; any operator may answer it.
    Asker,
    /// As `Asker`, and while the connection is open only that connection answers it.
    Owner,
}

/// One ask, exactly as it was made. Never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// Its id.
    pub id: ApprovalId,
    /// The agent that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The agent's turn, where it has turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The agent's id for the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// What it wants to do, in its words.
    pub action: String,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The tool's exact input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    /// Digest of the canonical input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_digest: Option<String>,
    /// The folder it would run in, as far as the host could find out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What the rules said when it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Arc<Verdict>>,
    /// Anything else it said.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub details: Json,
    /// A screen description for clients that draw one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a2ui: Option<Json>,
    /// What it can be answered with.
    pub options: Vec<String>,
    /// Which of the options count as allow.
    pub approving: Vec<String>,
    /// The managed agent's own id of the request that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Whether words of a denial travel with the answer; otherwise they are a message of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_denial_message: bool,
    /// Whether another input can be given with an allow, where a managed agent asks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_edit: bool,
    /// Digests of what may run or be written without another ask if it is allowed, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<String>,
    /// An earlier ask for the same thing, which may already have run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<ApprovalId>,
    /// Who asks.
    pub by: RecordedActor,
    /// The connection it came through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// What ties it to that connection.
    #[serde(default)]
    pub attachment: AskAttachment,
    /// The asker's own key: the same key again is the same ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Digest of everything asked, with which a key's second use is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_digest: Option<String>,
    /// When it was made.
    #[serde(default)]
    pub asked_at: Timestamp,
    /// When it ends as expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

impl Ask {
    /// What its asker sent and what the rules said of it, in bytes: what it takes in memory and on
    /// the wire.
    pub fn bytes(&self) -> usize {
        let json = |json: &Option<Json>| json.as_ref().map_or(0, |json| json.text().len());
        let options: usize = self.options.iter().map(String::len).sum();
        self.action.len()
            + self.details.text().len()
            + json(&self.input)
            + json(&self.a2ui)
            + options
            + self.verdict.as_ref().map_or(0, |verdict| verdict.bytes())
    }
}

/// See [`Event::ApprovalRequested`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalRequested {
    /// The ask.
    pub ask: Arc<Ask>,
}

/// What the end of an ask means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalOutcome {
    /// An approving option was chosen.
    Allowed,
    /// It was denied.
    Denied,
    /// Another option was chosen; that is not an allow.
    Answered,
    /// The asker, its turn or its key's next ask took it back.
    Cancelled,
    /// Nobody answered in time.
    Expired,
    /// The asker is gone.
    Gone,
}

/// How an ask ended. The first one is final.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalEnding {
    /// What it means.
    pub outcome: ApprovalOutcome,
    /// The option chosen, or the word for how it ended.
    pub resolution: String,
    /// Who ended it.
    pub by: RecordedActor,
    /// Words for the asker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The input as the person changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_input: Option<Json>,
    /// Whether the asker's turn ends with a denial.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop: bool,
    /// What the rules said, where they settled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Arc<Verdict>>,
}

/// See [`Event::ApprovalResolved`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalResolved {
    /// The ask.
    pub approval: ApprovalId,
    /// The event that opened it.
    pub opened: Seq,
    /// The agent that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// How it ended.
    pub ending: Arc<ApprovalEnding>,
    /// What becomes of the answer from here.
    pub delivery: AnswerDelivery,
    /// The grants that decided, each with the number of parts it decided about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants_used: Vec<GrantUse>,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerDelivery {
    /// Nobody has fetched it yet.
    Waiting,
    /// Its asker is being told.
    Attempted,
    /// Its asker was told.
    Delivered,
    /// Its asker took the ask back or left before it could be told.
    Withdrawn,
    /// Its asker was being told when the host or the connection ended.
    Unknown,
}

/// See [`Event::ApprovalResolveRequested`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalResolveRequested {
    /// The ask.
    pub approval: ApprovalId,
    /// The agent that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// What it wants to do.
    pub action: String,
    /// The answer that was given.
    pub resolution: String,
    /// Who gave it.
    pub by: RecordedActor,
    /// Through which connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// The connection that owns the ask.
    pub owner: ClientId,
}

/// See [`Event::ApprovalResolveRefused`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalResolveRefused {
    /// The ask.
    pub approval: ApprovalId,
    /// The agent that tried to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// What it wants to do.
    pub action: String,
    /// The answer that was tried.
    pub resolution: String,
    /// Who tried.
    pub by: RecordedActor,
    /// Through which connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// Why not, as the wire says it.
    pub reason: String,
}

/// See [`Event::ApprovalAttached`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalAttached {
    /// The ask.
    pub approval: ApprovalId,
    /// Its asker's new connection.
    pub client: ClientId,
}

/// See [`Event::ApprovalDismissed`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalDismissed {
    /// The ask.
    pub approval: ApprovalId,
    /// The event that opened it.
    pub opened: Seq,
    /// Who took it off the list.
    pub by: RecordedActor,
}

/// See [`Event::AnswerAttempted`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerAttempted {
    /// The ask.
    pub approval: ApprovalId,
    /// The event that opened it.
    pub opened: Seq,
    /// How often its asker has been told, this time included.
    pub deliveries: u32,
}

/// See [`Event::AnswerSettled`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerSettled {
    /// The ask.
    pub approval: ApprovalId,
    /// The event that opened it.
    pub opened: Seq,
    /// What became of its answer.
    pub delivery: AnswerDelivery,
}

/// A question, exactly as it was asked. Never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionText {
    /// Its id.
    pub id: QuestionId,
    /// The agent that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// What it wants to know.
    pub text: String,
    /// Who asks.
    pub by: RecordedActor,
    /// When it ends without words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// The orchestrator that is asked first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<AgentId>,
    /// When people are asked as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalates_at: Option<Timestamp>,
    /// The asker's own key: under one key something is asked once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// See [`Event::QuestionAsked`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QuestionAsked {
    /// The question.
    pub question: Arc<QuestionText>,
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionEnding {
    /// What it means.
    pub outcome: QuestionOutcome,
    /// The words, or words that say that there are none.
    pub answer: String,
    /// Who gave them.
    pub by: RecordedActor,
}

/// What the end of a question means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionOutcome {
    /// Somebody answered.
    Answered,
    /// The asker took it back or is gone.
    Cancelled,
    /// Nobody answered in time.
    Expired,
}

/// See [`Event::QuestionEnded`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionEnded {
    /// The question.
    pub question: QuestionId,
    /// The event that opened it.
    pub opened: Seq,
    /// The agent that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// How it ended.
    pub ending: Arc<QuestionEnding>,
}

/// A device as it described itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its id.
    pub id: DeviceId,
    /// Its name.
    pub name: String,
    /// What it runs on.
    pub platform: String,
    /// What it says it can do.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// What it says of itself.
    pub status: String,
    /// The connection that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// Who registered it.
    pub owner: PrincipalKey,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Anything else it said.
    #[serde(default)]
    pub metadata: Json,
}

/// See [`Event::DeviceRegistered`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceRegistered {
    /// The device.
    pub device: Arc<Device>,
}

/// See [`Event::DeviceUpdated`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DeviceUpdated {
    /// The device.
    pub device: Arc<Device>,
}

/// See [`Event::NotificationSent`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotificationSent {
    /// The kind its sender gave it; never one of ours.
    pub kind: String,
    /// The agent it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Words.
    #[serde(default)]
    pub message: String,
    /// What its sender attached.
    #[serde(default)]
    pub payload: Json,
    /// Who sent it.
    pub by: RecordedActor,
}

/// See [`Event::TokenCreated`]. The token itself is nowhere; its hash lies in a table apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenCreated {
    /// The token's public name.
    pub token: TokenId,
    /// What its bearer may do.
    pub role: Role,
    /// Who its bearer is on the record.
    pub name: String,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// SHA-256 of the token. It is random and long, so this gives nothing away.
    pub hash: String,
    /// Who made it.
    pub by: RecordedActor,
}

/// See [`Event::TokenRevoked`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenRevoked {
    /// The token.
    pub token: TokenId,
    /// Who withdrew it.
    pub by: RecordedActor,
}

/// See [`Event::ProcessMarked`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessMarked {
    /// The agent it is.
    pub agent: AgentId,
    /// The process.
    pub process: ProcessKey,
}

/// A process, named so that a reused number is another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessKey {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
}

/// See [`Event::ProcessesForgotten`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessesForgotten {
    /// The processes that are gone.
    pub processes: Vec<ProcessKey>,
}

/// See [`Event::RecordRedacted`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordRedacted {
    /// The event whose payload is gone.
    pub seq: Seq,
    /// Why.
    pub reason: String,
    /// Who erased it.
    pub by: RecordedActor,
}

/// See [`Event::RecordPruned`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordPruned {
    /// The oldest event that is kept.
    pub before: Seq,
    /// Who erased the rest.
    pub by: RecordedActor,
}

//! Events: the facts that the log persists.
//!
//! Invariants: a released kind never changes its meaning, fields are only added and then have a
//! default, and every later version decodes what this one writes. An event's payload is the JSON of its
//! struct; kind and version stand beside it in the log's header.

mod agents;
mod approvals;
mod managed;
mod orchestration;
mod questions;
mod record;
mod rules;
mod searched_text;
mod text_bytes;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, ClientId, Seq, Timestamp};
use text_bytes::TextBytes as _;

pub use agents::{
    AgentDisplay, AgentInterruptRequested, AgentProfile, AgentRegistered, AgentState,
    AgentStatusChanged, AgentUnregistered, BaseState, Device, DeviceRegistered, DeviceUpdated,
};
pub use approvals::{
    AnswerAttempted, AnswerDelivery, AnswerSettled, ApprovalAttached, ApprovalDismissed,
    ApprovalEnding, ApprovalOutcome, ApprovalRequested, ApprovalResolveRefused,
    ApprovalResolveRequested, ApprovalResolved, Ask, AskAttachment,
};
pub use managed::{
    AgentArchived, AgentConfigured, AgentExited, AgentLaunched, AgentOffers, AgentPlan, AgentReady,
    AgentRenamed, AgentReported, AgentRole, AgentRunRequested, AgentSandbox, AgentSpawned,
    AgentStopRequested, EnvVar, MessageQueued, MessageWithdrawn, MessagesDropped, OfferedChoice,
    OfferedCommand, PassUsed, PlanStep, PromptAttachment, PromptMessage, Protocol, RunEnd,
    SandboxLevel, SpawnOptions, TerminalBackend, TokenUsage, ToolStatus, TranscriptAdded,
    TranscriptEntry, TurnEnded, TurnInterrupted, TurnStarted, Worktree, WorktreeChanged,
    WorktreeRequest,
};
pub use orchestration::{
    AgentCeilingChanged, Ceiling, MessageRepeated, ParentMessage, ParentMessageWithdrawn,
    ParentNotified, QuestionEscalated,
};
pub use questions::{QuestionAsked, QuestionEnded, QuestionEnding, QuestionOutcome, QuestionText};
pub use record::{
    LoginDevice, NotificationSent, ProcessKey, ProcessMarked, ProcessesForgotten, RecordPruned,
    RecordRedacted, TerminalEnded, TerminalOpened, TokenCreated, TokenRenewed, TokenRevoked,
};
pub use rules::{
    AgentBypassChanged, Effect, Grant, GrantCreated, GrantEnd, GrantRemoved, GrantScope, GrantUse,
    PartKind, RuleRef, RulesTrusted, Verdict, VerdictPart,
};
pub use searched_text::SearchedKind;

macro_rules! is_public {
    (public) => {
        true
    };
    (internal) => {
        false
    };
}

/// The agent that an event's body names in a field.
macro_rules! agent_in {
    ($body:ident, none) => {
        None
    };
    ($body:ident, maybe $($field:ident).+) => {
        $body.$($field).+.as_ref()
    };
    ($body:ident, bearer $role:ident) => {
        $body.$role.agent()
    };
    ($body:ident, $($field:ident).+) => {
        Some(&$body.$($field).+)
    };
}

/// Declares each event with its audience, its kind, the field that names its agent, and the fields
/// whose size has no small bound.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $audience:ident $kind:literal,
        about $($agent:ident).+ $($agent_more:ident).*, text [$($field:ident)*];)*) => {
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

            /// The agent the event is about, if it is about one.
            #[expect(unused_variables, reason = "bodies that name no agent are not read")]
            pub fn agent(&self) -> Option<&AgentId> {
                match self { $(Self::$name(body) => agent_in!(body, $($agent).+ $($agent_more).*),)* }
            }

            /// About how many bytes of text the event holds.
            #[expect(unused_variables, reason = "bodies without long fields are not read")]
            pub fn text_bytes(&self) -> usize {
                match self { $(Self::$name(body) => 0 $(+ body.$field.text_bytes())*,)* }
            }

            /// The payload's bytes.
            pub fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
                match self { $(Self::$name(body) => serde_json::to_vec(body),)* }
            }

            /// Reads what `encode` wrote. `None` for a kind this version does not know.
            pub fn decode(kind: &str, payload: &[u8]) -> Option<Result<Self, serde_json::Error>> {
                match kind {
                    $($kind => Some(serde_json::from_slice(payload).map(Self::$name)),)*
                    // A later version may have written it: readers leave it out instead of failing.
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
    HostStarted = internal "host.started", about none, text [];
    /// A connection that owned something went away.
    ConnectionLost = internal "host.connection_lost", about none, text [];
    /// The time to come back is over for a connection.
    ConnectionLapsed = internal "host.connection_lapsed", about none, text [];
    /// An agent registered itself, or did so again.
    AgentRegistered = public "agent.registered", about agent.id, text [agent];
    /// Somebody wants an agent run by the host.
    AgentSpawned = public "agent.spawned", about agent.id, text [agent options];
    /// An agent is to be started, for the first time or again.
    AgentRunRequested = internal "agent.run_requested", about agent, text [];
    /// An agent has a worktree of its own, or no longer has.
    WorktreeChanged = public "agent.worktree_changed", about agent, text [worktree];
    /// An agent is about to be started, or has been.
    AgentLaunched = internal "agent.launched", about agent, text [runner];
    /// An agent's session is open.
    AgentReady = internal "agent.ready", about agent, text [];
    /// An agent is to end.
    AgentStopRequested = public "agent.stop_requested", about agent, text [];
    /// An agent's process is gone.
    AgentExited = public "agent.exited", about agent, text [message];
    /// An agent has another name.
    AgentRenamed = public "agent.renamed", about agent, text [];
    /// An agent was put away, or taken out again.
    AgentArchived = public "agent.archived", about agent, text [];
    /// An agent is to use another mode or model.
    AgentConfigured = public "agent.configured", about agent, text [];
    /// An agent said something about itself.
    AgentReported = internal "agent.reported", about agent, text [plan title offers];
    /// A message waits for an agent.
    MessageQueued = public "agent.message_queued", about agent, text [message];
    /// A child repeated a note that still waits for its parent.
    MessageRepeated = internal "agent.message_repeated", about agent, text [text];
    /// A question left its parent's queue because it ended.
    ParentMessageWithdrawn = internal "agent.parent_message_withdrawn", about agent, text [];
    /// An agent sent a note to its parent, or to people if it has none.
    ParentNotified = public "agent.parent_notified", about agent, text [text];
    /// What an orchestrator may settle for its descendants changed.
    AgentCeilingChanged = public "agent.ceiling_changed", about agent, text [ceiling];
    /// A message that waited for an agent was taken back, and never reaches it.
    MessageWithdrawn = public "agent.message_withdrawn", about agent, text [text];
    /// Messages that waited for an agent never reach it.
    MessagesDropped = public "agent.messages_dropped", about agent, text [reason];
    /// A turn of an agent began.
    TurnStarted = public "turn.started", about agent, text [];
    /// A turn is to end.
    TurnInterrupted = public "turn.interrupted", about agent, text [reason];
    /// A turn is over.
    TurnEnded = public "turn.ended", about agent, text [message];
    /// What an agent said and did.
    TranscriptAdded = internal "transcript.added", about agent, text [entries];
    /// Something ran or was written because an earlier ask allowed exactly that.
    PassUsed = internal "approval.pass_used", about agent, text [];
    /// An agent's state, as people see it, changed.
    AgentStatusChanged = public "agent.status_changed", about agent.id, text [agent current_task message payload];
    /// An agent is gone from the list.
    AgentUnregistered = public "agent.unregistered", about agent, text [];
    /// An operator lets an agent's asks through for a while, or no longer does.
    AgentBypassChanged = public "agent.bypass_changed", about agent, text [];
    /// An operator asked an agent to stop what it does.
    AgentInterruptRequested = public "agent.interrupt_requested", about agent, text [];
    /// An ask was opened.
    ApprovalRequested = public "approval.requested", about maybe ask.agent, text [ask];
    /// An ask ended, in whatever way.
    ApprovalResolved = public "approval.resolved", about maybe agent, text [ending grants_used];
    /// Somebody answered an ask that another connection owns.
    ApprovalResolveRequested = public "approval.resolve_requested", about maybe agent, text [action];
    /// An agent tried to answer an ask.
    ApprovalResolveRefused = public "approval.resolve_refused", about maybe agent, text [action];
    /// An ask's asker came back on another connection.
    ApprovalAttached = internal "approval.attached", about none, text [];
    /// An ended ask was taken off the list.
    ApprovalDismissed = internal "approval.dismissed", about none, text [];
    /// An answer is about to be told to its asker.
    AnswerAttempted = internal "answer.attempted", about none, text [];
    /// An answer was handed to the asker's connection, or never will be.
    AnswerSettled = internal "answer.settled", about none, text [];
    /// An agent waits for words.
    QuestionAsked = public "question.asked", about maybe question.agent, text [question];
    /// An orchestrator has not answered a question, so people are asked.
    QuestionEscalated = public "question.escalated", about maybe agent, text [];
    /// A question ended, with or without words.
    QuestionEnded = public "question.ended", about maybe agent, text [ending];
    /// A decision is remembered.
    GrantCreated = public "grant.created", about none, text [grant];
    /// A remembered decision counts no longer.
    GrantRemoved = public "grant.removed", about none, text [];
    /// Somebody trusted a rule file with exactly this content.
    RulesTrusted = public "rules.trusted", about none, text [file];
    /// A device registered itself.
    DeviceRegistered = public "device.registered", about none, text [device];
    /// A device changed.
    DeviceUpdated = public "device.updated", about none, text [device];
    /// A client or agent told everybody something.
    NotificationSent = public "host.notification_sent", about maybe agent, text [message payload];
    /// Somebody opened a terminal of their own.
    TerminalOpened = public "terminal.opened", about none, text [cwd command];
    /// The program of such a terminal ended, or the terminal was closed.
    TerminalEnded = public "terminal.ended", about none, text [];
    /// A token was made.
    TokenCreated = internal "token.created", about bearer role, text [];
    /// A device that is logged in was used, and stays so for longer.
    TokenRenewed = internal "token.renewed", about none, text [];
    /// A token was withdrawn.
    TokenRevoked = internal "token.revoked", about none, text [];
    /// A process used an agent's token: it and its descendants are that agent.
    ProcessMarked = internal "process.marked", about agent, text [];
    /// Marks of processes that are gone were dropped.
    ProcessesForgotten = internal "process.forgotten", about none, text [processes];
    /// The payload of one event was erased.
    RecordRedacted = internal "record.redacted", about none, text [reason];
    /// Old history was erased.
    RecordPruned = internal "record.pruned", about none, text [];
}

impl Event {
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
    pub seq: Seq,
    /// When it was decided.
    pub at: Timestamp,
    pub event: Event,
    /// For an [`ApprovalResolved`]: the ask. Erased asks are absent.
    pub ask: Option<Arc<Ask>>,
}

/// See [`Event::HostStarted`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostStarted {
    pub version: String,
    pub pid: u32,
    /// When owners that have not come back lose what they hold.
    pub lapses_at: Timestamp,
}

/// See [`Event::ConnectionLost`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionLost {
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

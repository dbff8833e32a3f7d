//! Approvals: the ask, its answer, and how the answer reaches the asker.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{AgentSandbox, GrantUse, Verdict};
use crate::ids::{AgentId, ApprovalId, ClientId, Seq, Timestamp};
use crate::json::Json;
use crate::principal::{Door, RecordedActor};

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
    pub id: ApprovalId,
    /// The agent that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The agent's turn, where it has turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The agent's id for the tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// What it wants to do, in its words.
    pub action: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The tool's exact input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Json>,
    /// Digest of the canonical input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_digest: Option<String>,
    /// The folder it would run in, as far as the host could find out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What the rules said when it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Arc<Verdict>>,
    /// Anything else it said.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub details: Json,
    /// A screen description for clients that draw one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a2ui: Option<Json>,
    /// What it can be answered with.
    pub options: Vec<String>,
    /// Which of the options count as allow.
    pub approving: Vec<String>,
    /// The managed agent's own id of the request that asks.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<ApprovalId>,
    /// The sandbox of the managed agent that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<AgentSandbox>,
    pub by: RecordedActor,
    /// The connection it came through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// What ties it to that connection.
    pub attachment: AskAttachment,
    /// The asker's own key: the same key again is the same ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Digest of everything asked, with which a key's second use is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_digest: Option<String>,
    /// When it was made.
    pub asked_at: Timestamp,
    /// When it ends as expired.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

impl Ask {
    /// What its asker sent and what the rules said of it, in bytes: what it takes in memory and on
    /// the wire.
    pub fn bytes(&self) -> usize {
        let options: usize = self.options.iter().map(String::len).sum();
        self.action.len()
            + self.details.text().len()
            + self.input.as_ref().map_or(0, |input| input.text().len())
            + self.a2ui.as_ref().map_or(0, |screen| screen.text().len())
            + options
            + self.verdict.as_ref().map_or(0, |verdict| verdict.bytes())
    }

    /// Whether another input can be given with an allow, and would be passed on.
    pub(crate) fn takes_edited_input(&self) -> bool {
        self.input.is_some() && (self.request.is_none() || self.can_edit)
    }
}

/// See `Event::ApprovalRequested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalRequested {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The input as the person changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_input: Option<Json>,
    /// Whether the asker's turn ends with a denial.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop: bool,
    /// What the rules said, where they settled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Arc<Verdict>>,
    /// How the answer came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<Door>,
    /// How long the ask was in front of who answered, as their screen says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub considered_ms: Option<u64>,
}

impl ApprovalEnding {
    /// An ending without a message, an edit or a verdict.
    pub fn new(outcome: ApprovalOutcome, resolution: impl Into<String>, by: RecordedActor) -> Self {
        Self {
            outcome,
            resolution: resolution.into(),
            by,
            message: None,
            edited_input: None,
            stop: false,
            verdict: None,
            door: None,
            considered_ms: None,
        }
    }
}

/// See `Event::ApprovalResolved`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalResolved {
    pub approval: ApprovalId,
    /// The event that opened it.
    pub opened: Seq,
    /// The agent that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
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

/// See `Event::ApprovalResolveRequested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalResolveRequested {
    pub approval: ApprovalId,
    /// The agent that asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// What it wants to do.
    pub action: String,
    pub resolution: String,
    pub by: RecordedActor,
    /// Through which connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// The connection that owns the ask.
    pub owner: ClientId,
}

/// See `Event::ApprovalResolveRefused`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalResolveRefused {
    pub approval: ApprovalId,
    /// The agent that tried to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// What it wants to do.
    pub action: String,
    /// The answer that was tried.
    pub resolution: String,
    pub by: RecordedActor,
    /// Through which connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// Why not, as the wire says it.
    pub reason: String,
}

/// See `Event::ApprovalAttached`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalAttached {
    pub approval: ApprovalId,
    /// Its asker's new connection.
    pub client: ClientId,
}

/// See `Event::ApprovalDismissed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalDismissed {
    pub approval: ApprovalId,
    /// The event that opened it.
    pub opened: Seq,
    /// Who took it off the list.
    pub by: RecordedActor,
}

/// See `Event::AnswerAttempted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerAttempted {
    pub approval: ApprovalId,
    /// The event that opened it.
    pub opened: Seq,
    /// How often its asker has been told, this time included.
    pub deliveries: u32,
}

/// See `Event::AnswerSettled`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnswerSettled {
    pub approval: ApprovalId,
    /// The event that opened it.
    pub opened: Seq,
    /// What became of its answer.
    pub delivery: AnswerDelivery,
}

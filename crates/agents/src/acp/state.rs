//! The state of an ACP connection.
//!
//! Invariant: everything that an answer needs is here, so that another process can continue from this
//! state and the pipe.

use std::collections::BTreeMap;

use countersign_core::Json;
use serde::{Deserialize, Serialize};

use super::call::ToolCallTable;
use super::elicitation::ElicitationField;
use crate::adapter::{McpServer, RequestId, is_default};

/// How far the connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AcpPhase {
    /// Nothing was sent yet.
    #[default]
    New,
    /// `initialize` was sent.
    Initializing,
    /// A session is being opened.
    Opening,
    /// An earlier session is being loaded; its updates are a replay.
    Replaying,
    /// The session is open, its mode and model are being set.
    Configuring,
    /// Ready for turns.
    Open,
    /// No session could be opened.
    Failed,
}

/// What a request of ours is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub(super) enum SentRequest {
    Initialize,
    OpenSession,
    Prompt { turn: u32 },
    SetMode { mode: String, stage: ChoiceStage },
    SetModel { model: String, stage: ChoiceStage },
}

/// When a mode or a model is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChoiceStage {
    /// While the session is being opened.
    Opening,
    /// By an order with this revision.
    Revision(u32),
}

impl SentRequest {
    /// What it is for and nothing else says its id, so that a second process that sends it again
    /// understands the response to the first.
    pub(super) fn id(&self) -> u64 {
        match self {
            Self::Initialize => 0,
            Self::OpenSession => 1,
            Self::SetMode {
                stage: ChoiceStage::Opening,
                ..
            } => 2,
            Self::SetModel {
                stage: ChoiceStage::Opening,
                ..
            } => 3,
            Self::Prompt { turn } => numbered_id(*turn, 0),
            Self::SetMode {
                stage: ChoiceStage::Revision(revision),
                ..
            } => numbered_id(*revision, 1),
            Self::SetModel {
                stage: ChoiceStage::Revision(revision),
                ..
            } => numbered_id(*revision, 2),
        }
    }
}

/// Ids below 8 are those of the handshake; each number has eight of its own after them.
fn numbered_id(number: u32, kind: u64) -> u64 {
    8 * u64::from(number) + 8 + kind
}

/// A request of the agent that was not answered yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingRequest {
    /// The number of its line, which its answer is named after.
    pub(super) line: u64,
    pub(super) kind: PendingKind,
}

/// What a request of the agent is for, with what an answer needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum PendingKind {
    Permission {
        tool_call: String,
        /// The option that means "this once".
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allow: Option<String>,
        /// The option that means "not this time".
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deny: Option<String>,
        /// The digest of what was handed up, to see whether more became known.
        asked: String,
        /// Whether all of it could be shown.
        shown: bool,
        /// How often it was handed up.
        #[serde(default)]
        times: u32,
    },
    /// A form that people fill in.
    Form {
        fields: Vec<ElicitationField>,
    },
    Read,
    Write,
    CreateTerminal,
    Output,
    WaitForExit,
    Kill,
    Release,
}

impl PendingKind {
    /// Whether people are asked.
    pub(super) fn is_ask(&self) -> bool {
        matches!(self, Self::Permission { .. } | Self::Form { .. })
    }
}

/// What is needed to open the session once the agent said what it can do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SessionSetup {
    pub(super) session: Option<String>,
    pub(super) mode: Option<String>,
    pub(super) model: Option<String>,
    pub(super) system_prompt: Option<String>,
    pub(super) allowed_tools: Vec<String>,
    pub(super) disallowed_tools: Vec<String>,
    pub(super) mcp_servers: Vec<McpServer>,
    /// Servers that a person gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) given_servers: Option<Json>,
}

/// What the agent said it can do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an answer of the agent by itself, and none excludes another"
)]
pub(super) struct AgentAbilities {
    pub(super) load: bool,
    pub(super) resume: bool,
    pub(super) system_prompt: bool,
    /// Whether it reaches MCP servers over HTTP.
    pub(super) mcp_http: bool,
    /// What it calls itself.
    pub(super) name: Option<String>,
    /// Ways to log in, in its words.
    pub(super) logins: Vec<String>,
}

impl AgentAbilities {
    /// Whether it is the one agent that is known to take options of its own in `_meta`.
    pub(super) fn is_claude(&self) -> bool {
        self.name.as_deref() == Some("@agentclientprotocol/claude-agent-acp")
    }
}

/// What the agent takes in a prompt besides text and links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PromptAbilities {
    pub(super) image: bool,
    pub(super) embedded_context: bool,
}

/// One thing of the session that can be chosen: its mode, or its model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SessionChoice {
    /// The config option it is set with; absent for modes that are set as such.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) option: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) values: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<String>,
}

/// All of it. What is empty is not stored: this is written with every commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AcpState {
    pub(super) phase: AcpPhase,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) sent: BTreeMap<u64, SentRequest>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) pending: BTreeMap<RequestId, PendingRequest>,
    pub(super) cwd: String,
    /// Needed until the session is open.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) opening: SessionSetup,
    /// Needed until the session is open.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) abilities: AgentAbilities,
    /// Whether the agent sends its commands as titles, without an input.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) titles_are_commands: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) prompt_abilities: PromptAbilities,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) modes: SessionChoice,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) models: SessionChoice,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) calls: ToolCallTable,
    /// Whether the running turn was interrupted.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) interrupted: bool,
    /// Asks that ended by an interrupt and were not told upwards yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) withdrawn: Vec<RequestId>,
}

impl AcpState {
    /// The number of the turn that runs.
    pub(super) fn turn(&self) -> Option<u32> {
        self.sent.values().find_map(|ours| match ours {
            SentRequest::Prompt { turn } => Some(*turn),
            _ => None,
        })
    }

    /// Forgets what was said of tool calls between turns, because agents use their ids again. With
    /// an ask open it belongs to this turn already: the order to begin it was given again, and late.
    pub(super) fn begin_turn(&mut self) {
        if !self.pending.values().any(|theirs| theirs.kind.is_ask()) {
            self.calls.close();
        }
        self.interrupted = false;
    }

    /// Notes a request of ours and gives its id, which is the same whoever sends it and when.
    pub(super) fn record_sent(&mut self, ours: SentRequest) -> u64 {
        let id = ours.id();
        self.sent.insert(id, ours);
        id
    }

    /// Whether a request comes too late: the turn was interrupted, and nothing new begins in it.
    pub(super) fn is_over_for(&self, kind: &PendingKind) -> bool {
        let begins = matches!(
            kind,
            PendingKind::Read | PendingKind::Write | PendingKind::CreateTerminal
        );
        self.interrupted && begins
    }

    /// Whether a message of the agent may be about this session. Before it is known, any may.
    pub(super) fn is_our_session(&self, session: &str) -> bool {
        self.session.as_deref().is_none_or(|ours| ours == session)
    }
}

//! What callers send. Missing fields have the host wire's defaults.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::rows::HostAgentDisplay;
use crate::rules::Remember;
use crate::scalar::Raw;
use crate::states::{HostAgentStatus, HostRole};

/// The parameters of methods that take none.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct NoParams {}

// The host wire has more fields here (`tenant_id`, `attach`); they are ignored like all unknown
// ones.
/// `session.auth`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AuthParams {
    /// A bearer token.
    #[serde(default)]
    pub token: Option<String>,
    /// The token for the host wire's role `host`; here an operator's token.
    #[serde(default)]
    pub host_token: Option<String>,
    /// The agent that the token is for.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// The reply repeats it.
    #[serde(default)]
    pub memory_namespace: Option<String>,
}

/// `server.handshake`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HandshakeParams {
    /// The newest version the client speaks.
    pub protocol_version: u64,
    /// The oldest.
    #[serde(default)]
    pub protocol_version_min: Option<u64>,
    #[serde(default)]
    pub required_capabilities: Vec<String>,
    #[serde(default)]
    pub optional_capabilities: Vec<String>,
    /// Its own version.
    #[serde(default)]
    pub client_version: Option<String>,
}

/// `host.shutdown`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShutdownParams {
    #[serde(default)]
    pub agents: AgentsAtShutdown,
}

/// What becomes of the agents that the host runs when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentsAtShutdown {
    /// They keep running, and the next host adopts them.
    #[default]
    Keep,
    /// They are ended first; the reply comes when none of them is left.
    End,
}

/// `host.subscribe`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SubscribeParams {
    /// Replay everything after this event, then continue live.
    #[serde(default)]
    pub after: Option<u64>,
    /// Only these kinds, internal ones included.
    #[serde(default)]
    pub kinds: Option<Vec<String>>,
    /// These kinds as well, for a reader that wants the public ones and a few internal ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Only about this agent, the snapshot too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Whether the open asks of the snapshot, and large asks in events, come without their input and without most of
    /// their view. They are marked with `brief`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub brief: bool,
}

/// `host.events`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EventsParams {
    /// Only newer than this.
    #[serde(default)]
    pub after: Option<u64>,
    /// Only older than this.
    #[serde(default)]
    pub before: Option<u64>,
    /// At most this many (default: 100); more than 1000 counts as 1000.
    #[serde(default)]
    pub limit: Option<u64>,
    /// Only these kinds, internal ones included. Over REST, separated by commas.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub kinds: Option<Kinds>,
    /// Only about this agent.
    #[serde(default)]
    pub agent_id: Option<String>,
}

/// Kinds of events: a list, or text with commas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Kinds(pub Vec<String>);

impl<'de> Deserialize<'de> for Kinds {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // JSON has a list. A query string has only text, and repeated names are not supported
        // there.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            List(Vec<String>),
            Text(String),
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::List(kinds) => Self(kinds),
            Form::Text(text) => Self(text.split(',').map(|kind| kind.trim().to_owned()).collect()),
        })
    }
}

/// Which approvals or questions to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListStatus {
    /// Those that wait for an answer.
    Pending,
    // `resolved` is the host wire's word for every end; `ended` says it better and means the same.
    /// Those that ended in any way.
    #[serde(alias = "ended")]
    Resolved,
    /// Both.
    All,
}

/// `host.approvals` and `host.questions`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// `pending`, `resolved` (`ended` is the same) or `all`.
    #[serde(default)]
    #[param(value_type = Option<String>, pattern = "^(pending|resolved|ended|all)$")]
    pub status: Option<ListStatus>,
    /// Only of this agent.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// At most this many; more than 1000 counts as 1000.
    #[serde(default)]
    pub limit: Option<u64>,
    /// Continue after the row with this id: the next page.
    #[serde(default)]
    pub after: Option<String>,
}

/// `host.register_agent`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RegisterAgentParams {
    /// An id of its own choice, or none to be given one.
    #[serde(default)]
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// What kind of agent it is.
    #[serde(default)]
    pub kind: String,
    /// What it says it can do.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// The project it works in.
    #[serde(default)]
    pub project: Option<String>,
    /// Its process.
    #[serde(default)]
    pub pid: Option<u32>,
    /// How it wants to be shown.
    #[serde(default)]
    pub display: HostAgentDisplay,
    /// Anything else.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub metadata: Raw,
}

/// Methods that name one agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AgentParams {
    /// The agent.
    pub agent_id: String,
}

/// A new status for an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StatusBody {
    /// `idle`, `running`, `waiting_for_approval`, `paused`, `completed`, `errored` or `stopped`.
    #[serde(deserialize_with = "HostAgentStatus::strict")]
    #[schema(value_type = String, pattern = "^(idle|running|waiting_for_approval|paused|completed|errored|stopped)$")]
    pub status: HostAgentStatus,
    // The host wire clears it if it is absent, unlike the fields of `host.update_device`.
    /// What it works on; absent clears it.
    #[serde(default)]
    pub current_task: Option<String>,
    /// For people.
    #[serde(default)]
    pub message: Option<String>,
    /// For programs.
    #[serde(default)]
    #[schema(value_type = serde_json::Value, required = false)]
    pub payload: Option<serde_json::Value>,
}

/// `host.register_device`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RegisterDeviceParams {
    /// An id of its own choice, or none to be given one.
    #[serde(default)]
    pub id: Option<String>,
    /// Its name.
    pub name: String,
    /// What it runs on.
    pub platform: String,
    /// What it says it can do.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// Default: `online`.
    #[serde(default)]
    pub status: Option<String>,
    /// Anything else.
    #[serde(default)]
    pub metadata: Raw,
}

/// `host.update_device`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpdateDeviceParams {
    /// The device.
    pub device_id: String,
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// What it runs on.
    #[serde(default)]
    pub platform: Option<String>,
    /// What it says it can do.
    #[serde(default)]
    pub capabilities: Option<Vec<String>>,
    /// Any text.
    #[serde(default)]
    pub status: Option<String>,
    /// Anything else.
    #[serde(default)]
    pub metadata: Option<Raw>,
}

/// `host.notify`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NotifyParams {
    /// A kind that the sender chooses; those of the host are refused.
    #[serde(default)]
    pub kind: Option<String>,
    /// The agent it is about.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// For people.
    #[serde(default)]
    pub message: String,
    /// For programs.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub payload: Raw,
}

/// `host.request_approval`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct RequestApprovalParams {
    /// What it wants to do.
    pub action: String,
    /// The agent that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Anything else to show.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub details: Raw,
    /// The answers to offer (default: `approve` and `deny`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Options that count as an approval (default: `approve`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approving: Option<Vec<String>>,
    /// Any operator answers, not the asking connection.
    #[serde(default)]
    pub system_level: bool,
    /// A screen description for clients that draw one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub a2ui: Option<Raw>,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The tool's exact input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub input: Option<Raw>,
    /// Where it would run: an absolute path. Rules about paths need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^/")]
    pub cwd: Option<String>,
    /// The agent's turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The agent's id for the tool call; a second ask under it cancels the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The asker's own key: a request with the same key returns the same ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// How long it waits before it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Methods that name one approval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ApprovalParams {
    /// The approval.
    pub approval_id: String,
}

/// `host.wait_approval`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WaitApprovalParams {
    /// The approval.
    pub approval_id: String,
    /// How long this call waits; the ask itself stays open.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

/// An answer to an ask.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ResolutionBody {
    /// One of the options.
    pub resolution: String,
    /// A message for the asker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The input to run instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub edited_input: Option<serde_json::Value>,
    /// The answers to the ask's `questions`, in their order: a text each, or a list of texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Vec<ChosenAnswer>>,
    /// Whether the agent's turn ends with a denial; for agents that the host runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop: bool,
    /// Rules to make of this answer, and their limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember: Option<Remember>,
    /// How long the ask was in front of who answers, in milliseconds. For the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub considered_ms: Option<u64>,
}

/// `host.resolve_approvals`: each answer is a decision of its own.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct AnswerApprovalsParams {
    /// At least one, and 200 at most.
    #[schema(min_items = 1, max_items = 200)]
    pub answers: Vec<ListedAnswer>,
}

/// The answer to one of several asks.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ListedAnswer {
    /// The approval.
    pub approval_id: String,
    /// One of its options.
    pub resolution: String,
    /// A message for the asker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long the ask was in front of who answers, in milliseconds. For the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub considered_ms: Option<u64>,
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ChosenAnswer {
    One(String),
    Several(Vec<String>),
}

impl From<ChosenAnswer> for Vec<String> {
    fn from(answer: ChosenAnswer) -> Self {
        match answer {
            ChosenAnswer::One(text) => vec![text],
            ChosenAnswer::Several(texts) => texts,
        }
    }
}

/// `host.cancel_approval`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CancelApprovalParams {
    /// The approval.
    pub approval_id: String,
    /// Why.
    #[serde(default)]
    pub message: Option<String>,
}

/// `host.ask_question`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AskQuestionParams {
    /// What it wants to know.
    pub question: String,
    /// The agent that asks.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// When the question expires (default: five minutes).
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// The asker's own key: a request with the same key returns the same question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// `host.notify_parent`: an agent sends a message to its parent, or to people if it has none.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct NotifyParentParams {
    pub message: String,
    /// The agent's own key: a message with the same key is sent once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// Methods that name one question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QuestionParams {
    /// The question.
    pub question_id: String,
}

/// `host.wait_question`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WaitQuestionParams {
    /// The question.
    pub question_id: String,
    /// How long this call waits; the question itself stays open.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

/// An answer to a question.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AnswerBody {
    pub answer: String,
    /// How long the question was in front of who answers, in milliseconds. For the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub considered_ms: Option<u64>,
}

/// `host.create_token`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CreateTokenParams {
    /// `operator`, `observer` or `agent`.
    #[serde(deserialize_with = "HostRole::strict")]
    #[schema(value_type = String, pattern = "^(operator|observer|agent)$")]
    pub role: HostRole,
    /// The agent its bearer is.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// Who its bearer is on the record.
    #[serde(default)]
    pub name: Option<String>,
    /// How long it is valid, in milliseconds (default: an hour); 90 days at most.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 7_776_000_000_i64, default = 3_600_000)]
    pub ttl_ms: Option<u64>,
}

// A method of its own and not a value of `ttl_ms`: no misspelt or missing number can make a token
// that never expires.
/// `host.create_endless_token`: only for the host's own user on the Unix socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CreateEndlessTokenParams {
    /// `operator`, `observer` or `agent`.
    #[serde(deserialize_with = "HostRole::strict")]
    pub role: HostRole,
    /// The agent its bearer is.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// Who its bearer is on the record.
    #[serde(default)]
    pub name: Option<String>,
}

/// `host.create_ticket`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct CreateTicketParams {
    /// Whether another machine is to open it: the link then has the public address of the host.
    #[serde(default)]
    pub phone: bool,
}

/// `host.revoke_token`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TokenParams {
    /// The token's public name.
    pub token_id: String,
}

/// `host.redact_event`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RedactParams {
    /// The event whose payload is to be erased.
    pub sequence: u64,
    /// Why: goes on the record.
    #[serde(default)]
    pub reason: String,
}

/// `host.rescue_record`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RescueRecordParams {
    /// Where the host writes the database: an absolute path at which nothing exists yet.
    pub path: String,
}

/// `host.prune_events`: one of the two.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct PruneParams {
    /// The oldest event to keep.
    #[serde(default)]
    pub before_sequence: Option<u64>,
    /// Everything older than this instant (RFC 3339) goes.
    #[serde(default)]
    pub before_time: Option<String>,
}

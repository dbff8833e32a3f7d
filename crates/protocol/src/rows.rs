//! What the host shows: agents, approvals, questions, events, devices.
//!
//! Fields are in alphabetical order, as the host wire prints them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ask_view::HostAskView;
use crate::envelope::ErrorObject;
use crate::listed_ask;
use crate::listed_ask::{usual_approving, usual_options};
use crate::managed::{ManagedRow, SandboxRow};
use crate::rules::{BypassRow, GrantRow, HostVerdict, RuleProblem};
use crate::scalar::{Raw, Time, read_from_object_only};
use crate::states::{
    DecideConfirm, HostAgentState, HostAgentStatus, HostApprovalState, HostApprovalStatus,
    HostDelivery, HostDoor, HostQuestionState, HostRole,
};

/// The reply to a method that returns nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OkResult {
    /// Always true.
    pub ok: bool,
}

impl From<()> for OkResult {
    fn from((): ()) -> Self {
        Self { ok: true }
    }
}

/// The reply to `session.auth`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuthResult {
    /// The agent that the caller is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Always true.
    pub auth_enabled: bool,
    /// Repeated from the request.
    pub memory_namespace: Option<String>,
    /// Always true.
    pub ok: bool,
    // `Some` of null differs from `None` here: the host wire has this field for operators only, and
    // `work_context` for agents only.
    /// Kept for the host wire: null for operators, absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parslee: Option<Raw>,
    /// `host` for a caller that showed a host token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Kept for the host wire: null for agents, absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_context: Option<Raw>,
}

/// The reply to `server.handshake`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandshakeResult {
    /// Kept for the host wire; always empty here.
    pub assistant_aliases: Vec<String>,
    /// What the host is called.
    pub assistant_brand: String,
    /// What the host is called.
    pub assistant_name: String,
    /// The version that the client sent.
    pub client_protocol_version: u64,
    /// The client's own version, as it sent it.
    pub client_version: Option<String>,
    /// Everything the client asked for.
    pub negotiated_capabilities: Vec<String>,
    /// The version that both speak.
    pub protocol_version: u64,
    /// The newest version that the host speaks.
    pub server_protocol_version_max: u64,
    /// The oldest.
    pub server_protocol_version_min: u64,
    /// The host's own version.
    pub server_version: String,
}

/// The reply to `host.dismiss_approval`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DismissedApproval {
    /// The approval.
    pub approval: HostApproval,
    /// Always true.
    pub dismissed: bool,
}

impl From<HostApproval> for DismissedApproval {
    fn from(approval: HostApproval) -> Self {
        Self {
            approval,
            dismissed: true,
        }
    }
}

/// The reply to `host.resolve_approvals`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AnsweredApprovals {
    /// What came of each answer, in their order.
    pub results: Vec<AnswerResult>,
}

/// What came of one of several answers: either the approval or the error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AnswerResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<HostApproval>,
    pub approval_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject>,
}

/// How an agent wants to be shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self")]
pub struct HostAgentDisplay {
    /// A colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accent: Option<String>,
    /// A picture's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

read_from_object_only!(HostAgentDisplay);

/// An agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostAgent {
    /// Until when its asks are allowed without a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub bypass_until: Option<Time>,
    /// What it says it can do.
    pub capabilities: Vec<String>,
    /// What it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_task: Option<String>,
    /// How it wants to be shown.
    pub display: HostAgentDisplay,
    /// Its id.
    pub id: String,
    /// What kind of agent it is.
    pub kind: String,
    /// What the host knows of it, if the host runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed: Option<ManagedRow>,
    /// Anything else it said.
    #[schema(value_type = serde_json::Value)]
    pub metadata: Raw,
    /// Its name.
    pub name: String,
    /// Asks it has open.
    #[serde(default)]
    pub open_approvals: usize,
    /// Questions it has open.
    #[serde(default)]
    pub open_questions: usize,
    // What the agent said about itself. Nothing is decided by it: callers are identified by the
    // kernel.
    /// Its process, as it registered itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The project it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The connection that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// When it was started or registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Time>,
    #[serde(default)]
    #[schema(required = true)]
    pub state: HostAgentState,
    /// The host wire's value for `state`.
    pub status: HostAgentStatus,
    /// When anything about it changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Time,
}

/// A person, agent or host, as recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Who {
    /// The agent, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    pub name: String,
    pub role: HostRole,
}

/// One ask for permission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostApproval {
    /// A screen description for clients that draw one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub a2ui: Option<Raw>,
    /// What it wants to do, as the agent describes it.
    #[serde(default)]
    #[schema(required = true)]
    pub action: String,
    /// The agent that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The name of that agent, if it is still listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// In the reply to a request: whether an answer by others can reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answerable: Option<bool>,
    /// Options that count as allow.
    #[serde(default = "usual_approving")]
    #[schema(required = true)]
    pub approving: Vec<String>,
    /// Who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<Who>,
    /// Whether `input`, `details`, `a2ui`, `edited_input` and most of `view` were left out, because the
    /// reader wants brief rows; the ask by its id has them. In a snapshot an open ask comes without
    /// `verdict`, `deadline` and other fields as well; there absent `options` are `approve` and `deny`,
    /// and absent `approving` is `approve`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub brief: bool,
    /// The connection that owns it; absent for asks that any operator answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// While the program that asked is not connected: when the ask ends if it does not come back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub lapses_at: Option<Time>,
    /// How long it was in front of who answered, in milliseconds, as their screen said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub considered_ms: Option<u64>,
    /// When it was opened.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// Where it would run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// When it ends as expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Time>,
    /// How often the answer was delivered to its asker.
    #[serde(default)]
    pub deliveries: u32,
    /// What became of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<HostDelivery>,
    /// Anything else it said.
    #[serde(default)]
    #[schema(value_type = serde_json::Value, required = true)]
    pub details: Raw,
    /// How the answer came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<HostDoor>,
    /// The input as the person changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub edited_input: Option<Raw>,
    /// Its id.
    pub id: String,
    /// The asker's own key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The tool's exact input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub input: Option<Raw>,
    /// SHA-256 of the canonical input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_digest: Option<String>,
    /// The message that came with the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it can be answered with.
    #[serde(default = "usual_options")]
    #[schema(required = true)]
    pub options: Vec<String>,
    /// In the reply to a resolution: it was passed to its owner, who decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_to_owner: Option<bool>,
    /// What it asks people: an answer to each is needed, and an approval alone is refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<HostChoiceQuestion>,
    /// In the reply to a resolution: the rules that were made of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remembered: Vec<GrantRow>,
    /// An earlier ask of the agent for exactly the same, which was allowed and whose delivery is
    /// unknown: it may already have run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<String>,
    /// The sandbox of the agent that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxRow>,
    /// The option chosen, or `cancelled`, `expired`, `agent_gone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub resolved_at: Option<Time>,
    /// Who ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<Who>,
    /// The event that opened it.
    #[serde(default)]
    #[schema(required = true)]
    pub sequence: u64,
    #[serde(default)]
    #[schema(required = true)]
    pub state: HostApprovalState,
    /// The host wire's value for `state`.
    #[serde(default)]
    #[schema(required = true)]
    pub status: HostApprovalStatus,
    /// In the reply to a request: whether the caller's connection is subscribed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscribed: Option<bool>,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The agent's id for the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The agent's turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// What the rules say, or said when they settled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<HostVerdict>,
    /// What it means, for people. Absent in the reply to a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<HostAskView>,
}

/// Something that an ask wants to know of people.
#[expect(clippy::struct_excessive_bools, reason = "each is a field on the wire")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostChoiceQuestion {
    /// What can be chosen; none for an answer in words.
    #[serde(default)]
    #[schema(required = true)]
    pub choices: Vec<HostChoice>,
    /// Whether the answer can be something else than the choices.
    pub free_text: bool,
    /// A short name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The limits of an answer.
    #[serde(default, skip_serializing_if = "HostAnswerLimits::is_empty")]
    pub limits: HostAnswerLimits,
    /// Whether the answer has to be a number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub number: bool,
    /// Whether it can be left without an answer, with an empty list in its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// What it wants to know.
    pub question: String,
    /// Whether more than one choice can be given.
    pub several: bool,
}

/// The limits of the answer to one question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct HostAnswerLimits {
    /// The form of a text, such as `email`, or a regular expression. The agent checks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// The most choices that can be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_choices: Option<u64>,
    /// The most characters of a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_length: Option<u64>,
    /// The largest number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub maximum: Option<serde_json::Number>,
    /// The fewest choices that can be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_choices: Option<u64>,
    /// The fewest characters of a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_length: Option<u64>,
    /// The smallest number.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub minimum: Option<serde_json::Number>,
    /// Whether a number has to be a whole one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub whole: bool,
}

impl HostAnswerLimits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// One of the choices of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostChoice {
    /// What it means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What the answer is when it is chosen.
    pub label: String,
}

/// A question that is answered with text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostQuestion {
    /// The agent that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The name of that agent, if it is still listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// The answer, or a text that says why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<Who>,
    /// Who asks.
    pub asked_by: Who,
    /// How long it was in front of who answered, in milliseconds, as their screen said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub considered_ms: Option<u64>,
    /// When it was asked.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Time>,
    /// How the answer came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<HostDoor>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Time>,
    /// When people are asked, if the orchestrator has not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub escalates_at: Option<Time>,
    /// Whether it is for people: no orchestrator was asked, or none answered in time. People may
    /// answer any question at any time.
    // True if absent: a question that should not have been shown costs less than one that nobody
    // saw.
    #[serde(default = "yes")]
    pub for_people: bool,
    /// Its id.
    pub id: String,
    /// What it wants to know.
    pub question: String,
    /// The event that opened it.
    pub sequence: u64,
    pub state: HostQuestionState,
    /// The orchestrator that is asked first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The name of that orchestrator, if it is still listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_name: Option<String>,
}

fn yes() -> bool {
    true
}

/// A committed fact, as readers see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostEvent {
    /// The agent it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The name of that agent, if it is still listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_name: Option<String>,
    /// Its id.
    pub id: String,
    /// What kind of fact it is.
    pub kind: String,
    /// For people.
    pub message: String,
    /// For programs.
    #[schema(value_type = serde_json::Value)]
    pub payload: Raw,
    /// Its place in the log: the cursor.
    #[serde(default)]
    #[schema(required = true)]
    pub sequence: u64,
    /// When it was decided.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Time,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostDevice {
    /// What it says it can do.
    pub capabilities: Vec<String>,
    /// Its id.
    pub id: String,
    /// Anything else it said.
    #[schema(value_type = serde_json::Value)]
    pub metadata: Raw,
    /// Its name.
    pub name: String,
    /// What it runs on.
    pub platform: String,
    /// The connection that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Any text.
    pub status: String,
    /// When it last changed.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Time,
}

/// Which host this is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostIdentity {
    /// Kept for the host wire; always null here.
    pub manifest_path: Option<String>,
    /// Kept for the host wire; always `none` here.
    pub manifest_role: String,
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
}

/// What a new subscriber gets first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostSnapshot {
    /// Agents by name.
    pub agents: Vec<HostAgent>,
    /// All that are pending and the newest that ended, newest first.
    #[serde(with = "listed_ask")]
    pub approvals: Vec<HostApproval>,
    /// Devices by name.
    pub devices: Vec<HostDevice>,
    /// The newest event that is included: pass it as `after` to continue from here.
    pub event_sequence: u64,
    /// The newest events, newest first.
    pub events: Vec<HostEvent>,
    /// Which host this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<HostIdentity>,
    /// Kept for the host wire; always empty here.
    #[schema(value_type = Vec<serde_json::Value>)]
    pub pending_signins: Vec<Raw>,
    /// Open questions, newest first.
    #[serde(default)]
    pub questions: Vec<HostQuestion>,
    /// What is wrong with rule files.
    #[serde(default)]
    pub rule_problems: Vec<RuleProblem>,
    /// Why the record cannot be written, if it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_error: Option<String>,
    /// Always true.
    pub subscribed: bool,
}

/// What is shown of a token; never the token itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TokenRow {
    /// The agent its bearer is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// True if a browser logged in with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<bool>,
    /// What that browser's user calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// When it ends. For a device that moves with every day it is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Time>,
    /// Its public name.
    pub id: String,
    /// When a device was last used: to the second since the host started, to the day before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_seen: Option<Time>,
    /// Who its bearer is on the record.
    pub name: String,
    pub role: HostRole,
}

/// A new token. Shown once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    pub token: String,
    #[serde(flatten)]
    pub row: TokenRow,
}

/// The host at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostStatus {
    /// Agents on the list.
    pub agents: usize,
    /// How long agents keep running without a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_alone_ms: Option<u64>,
    /// Agents whose asks are allowed without a person.
    #[serde(default)]
    pub bypassed: Vec<BypassRow>,
    /// Connections open now.
    pub connections: usize,
    /// How the processes of agents are held together; absent if it was not determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containment: Option<Containment>,
    /// The database.
    pub database: String,
    /// Which allows need a second act on a screen that answers. A word that a screen does not know
    /// counts as `always`.
    #[serde(default)]
    pub decide_confirm: DecideConfirm,
    /// The newest event.
    pub event_sequence: u64,
    /// What the host itself uses; absent where it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<HostFigures>,
    /// The address TCP clients reach, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Asks that wait.
    pub pending_approvals: usize,
    /// Questions that wait.
    pub pending_questions: usize,
    /// Its process.
    pub pid: u32,
    /// Whether files of the record were removed, replaced or cut short while the host used them:
    /// then nothing is accepted until another host starts.
    #[serde(default)]
    pub record_lost: bool,
    /// What is wrong with rule files.
    #[serde(default)]
    pub rule_problems: Vec<RuleProblem>,
    /// The Unix socket.
    pub socket: String,
    /// When it started.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Time,
    /// Why nothing can be written, if nothing can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_error: Option<String>,
    /// Whether a token alone is enough on TCP if the calling process cannot be identified.
    #[serde(default)]
    pub unnamed_callers: bool,
    /// Its version.
    pub version: String,
    /// The web page; absent if the host is older than the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<WebStatus>,
    /// The caller.
    pub you: Who,
}

/// What the host itself uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostFigures {
    /// Commits since the start.
    pub commits: u64,
    /// Processor time since the start, of all threads.
    pub cpu_ms: u64,
    /// The database with its write-ahead log, on the disk.
    pub database_bytes: u64,
    /// Events committed since the start.
    pub events: u64,
    /// Memory that is in use.
    pub memory_bytes: u64,
}

/// What the host says about its web page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WebStatus {
    /// Whether the page is in the host; if not, it was built without `make web`.
    pub built: bool,
    /// Where other machines reach it, as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
}

/// How the processes of an agent are held together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Containment {
    /// A description for people.
    pub means: String,
    /// Whether a process that detaches itself is still held.
    pub holds_detached: bool,
}

/// What `stop_all` did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct StopAllResult {
    /// Asks that were denied.
    pub denied: usize,
    /// Agents that were interrupted.
    pub interrupted: usize,
}

/// The reply to erasing or pruning events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditResult {
    /// The event that records it.
    pub sequence: u64,
}

/// What was rescued of a lost record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RescueResult {
    /// The path at which the host had its database.
    pub database: String,
    /// How many events there are in the new file.
    pub events: u64,
    /// The newest event and its hash, as `countersign audit verify` prints them.
    pub head: String,
    /// The new file.
    pub path: String,
}

/// A login link that works once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LoginTicket {
    /// When it ends.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Time,
    /// Where to open it, once.
    pub url: String,
}

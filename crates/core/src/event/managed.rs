//! Managed agents: facts about the processes the host starts, and their story.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{AgentId, ApprovalId, Timestamp};
use crate::json::Json;
use crate::principal::RecordedActor;

use super::{ParentMessage, ProcessKey};

/// What an agent is started with. Kept, so that it can be started again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpawnOptions {
    /// The catalog's name for the agent; absent where a command was given instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The program and its arguments; empty where the catalog says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// What it speaks; the catalog says it of agents that it knows.
    #[serde(default, skip_serializing_if = "Protocol::is_usual")]
    pub protocol: Protocol,
    /// Its own id of another agent's session, from which its first session begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork: Option<String>,
    /// The folder it works in, absolute. With a worktree: the repository's folder it was asked from.
    pub cwd: String,
    /// The model, by the agent's own name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The agent's mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Words before everything else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The only tools it may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Tools it may not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// MCP servers that it starts besides the host's own: Claude Code's entries, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Json>,
    /// Labels that an operator gave it, by key. A child has those of its parent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Variables of its environment. Secret ones have no value here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Whether it works in a worktree of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeRequest>,
    /// A turn that takes longer is interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_timeout_ms: Option<u64>,
    /// How long its asks wait for an answer; 0 for as long as it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask_timeout_ms: Option<u64>,
    /// The sandbox profile, by name; the host's choice if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Where its commands run.
    #[serde(default, skip_serializing_if = "TerminalBackend::is_host")]
    pub terminals: TerminalBackend,
    /// What it is besides an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentRole>,
    /// The orchestrator that wanted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<AgentId>,
    /// The ask with which its orchestrator was allowed to start it, or with which a person agreed that an editor
    /// runs its commands. One ask starts one agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_by: Option<ApprovalId>,
}

/// The sandbox that a run was started in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSandbox {
    /// The name of the profile.
    pub profile: String,
    pub level: SandboxLevel,
    /// Where commands run that the agent asks the host for. An editor's are outside the sandbox.
    #[serde(default, skip_serializing_if = "TerminalBackend::is_host")]
    pub terminals: TerminalBackend,
}

impl AgentSandbox {
    /// Whether whatever the agent runs, and has run for it, is held by everything that a sandbox has.
    pub fn confines_commands(&self) -> bool {
        let has_own_commands = match self.terminals {
            TerminalBackend::Host | TerminalBackend::None => true,
            TerminalBackend::Editor => false,
        };
        self.level == SandboxLevel::Full && has_own_commands
    }
}

/// What runs the commands that an agent asks its client for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalBackend {
    /// The agent's runner.
    #[default]
    Host,
    /// The editor that the agent is open in: outside its process tree and any sandbox.
    Editor,
    /// Nothing.
    None,
}

impl TerminalBackend {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_host(&self) -> bool {
        *self == Self::Host
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Editor => "editor",
            Self::None => "none",
        }
    }
}

/// How much of a profile the machine enforces, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    /// Nothing.
    Open,
    /// Files and system calls, without a view of its own.
    Landlock,
    /// Everything.
    Full,
}

impl SandboxLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Landlock => "landlock",
            Self::Full => "full",
        }
    }
}

/// What an agent speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// The Agent Client Protocol.
    #[default]
    Acp,
    /// Claude Code's own stream of JSON lines.
    Claude,
}

impl Protocol {
    /// Whether it is the one that needs no mention.
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// What an agent may be besides an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentRole {
    /// It starts agents of its own, and they can ask it.
    Orchestrator,
}

/// One variable of an agent's environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvVar {
    pub name: String,
    /// Its value. Absent if it is secret or is taken from the host's environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// A wish for a worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeRequest {
    /// The branch; one named after the agent if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// A worktree that was made for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// Its folder, absolute.
    pub path: String,
    pub branch: String,
    /// The commit it began from.
    pub base: String,
    /// The repository it belongs to, absolute.
    pub repository: String,
}

/// One thing an agent, or somebody to it, said or did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TranscriptEntry {
    /// A message to the agent.
    User {
        text: String,
        /// The child that sent it, for a parent message.
        #[serde(skip_serializing_if = "Option::is_none")]
        from: Option<AgentId>,
    },
    /// Words of the agent.
    Assistant { text: String },
    /// What the agent thought.
    Thinking { text: String },
    /// The agent uses a tool, or says more of one it uses: absent fields are as they were.
    ToolUse {
        /// The agent's id of the call.
        id: String,
        /// What it says it does.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// The tool, by the name rules have for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// The tool's input as the agent sent it.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<Json>,
        /// How far it is.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<ToolStatus>,
    },
    /// What came of a tool.
    ToolResult {
        /// The agent's id of the call.
        id: String,
        /// How it ended.
        status: ToolStatus,
        /// What it gave, as text.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
    },
    /// What the agent plans.
    Plan { plan: AgentPlan },
    /// Words of the host, or of the agent about itself.
    Notice { text: String },
    /// Something this version has no words for, as it came.
    Other {
        /// What came.
        update: Json,
    },
}

impl TranscriptEntry {
    /// Roughly what it takes in memory, in bytes.
    pub fn weight(&self) -> usize {
        let own = match self {
            Self::User { text, .. }
            | Self::Assistant { text }
            | Self::Thinking { text }
            | Self::Notice { text }
            | Self::ToolResult { text, .. } => text.len(),
            Self::ToolUse { title, input, .. } => {
                title.as_ref().map_or(0, String::len)
                    + input.as_ref().map_or(0, |input| input.text().len())
            }
            Self::Plan { plan } => plan.steps.iter().map(|step| step.text.len()).sum(),
            Self::Other { update } => update.text().len(),
        };
        // An entry without text takes room too, and many of them must reach the bound as well.
        own + 64
    }
}

/// How far a tool call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// Not begun.
    Pending,
    /// Under way.
    InProgress,
    /// Done.
    Completed,
    /// It failed, or was not permitted.
    Failed,
    /// Its turn ended before it was said to have ended.
    Unknown,
}

/// What an agent plans to do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPlan {
    /// The steps, in order.
    pub steps: Vec<PlanStep>,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// What it is.
    pub text: String,
    /// `pending`, `in_progress` or `completed`, by the agent's word.
    pub status: String,
}

/// What an agent used, by its own word. Absent fields say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens it read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// Tokens it wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
    /// What it cost so far, in millionths of a US dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// Tokens in its context now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_used: Option<u64>,
    /// Tokens its context has room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_size: Option<u64>,
}

impl TokenUsage {
    /// Both together. Of the context, what `later` says counts.
    pub(crate) fn plus(self, later: Self) -> Self {
        Self {
            tokens_in: sum(self.tokens_in, later.tokens_in),
            tokens_out: sum(self.tokens_out, later.tokens_out),
            cost_micro_usd: sum(self.cost_micro_usd, later.cost_micro_usd),
            context_used: later.context_used.or(self.context_used),
            context_size: later.context_size.or(self.context_size),
        }
    }
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        // Absent is not zero: where an agent never said anything there is no number.
        (one, other) => one.or(other),
    }
}

/// See `Event::AgentSpawned`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentSpawned {
    /// The agent, with its name and kind.
    pub agent: Arc<super::AgentProfile>,
    /// What it is started with.
    pub options: Arc<SpawnOptions>,
    pub by: RecordedActor,
}

/// See `Event::AgentRunRequested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentRunRequested {
    pub agent: AgentId,
    /// Which of its runs, counted from 1.
    pub run: u32,
    /// The agent's own id of the session to go on with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub by: RecordedActor,
}

/// See `Event::AgentLaunched`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentLaunched {
    pub agent: AgentId,
    pub run: u32,
    /// Its process, once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessKey>,
    /// What holds its processes together, as the one who made it names it.
    pub runner: Json,
    /// The sandbox it is started in; absent in records of hosts that had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<AgentSandbox>,
}

/// See `Event::WorktreeChanged`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorktreeChanged {
    pub agent: AgentId,
    /// Its worktree; `None` once it was removed.
    pub worktree: Option<Worktree>,
}

/// See `Event::AgentReady`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentReady {
    pub agent: AgentId,
    pub run: u32,
    /// The agent's own id of the session.
    pub session: String,
    /// Whether the session can be gone on with later.
    pub resumable: bool,
}

/// See `Event::AgentExited`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentExited {
    pub agent: AgentId,
    pub run: u32,
    /// What it means.
    pub end: RunEnd,
    pub message: String,
}

/// What the end of a run means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// It ended by itself, well.
    Done,
    /// It never got ready, or ended badly.
    Failed,
    /// Somebody ended it.
    Killed,
    /// The host that ran it ended.
    HostEnded,
}

/// See `Event::AgentStopRequested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentStopRequested {
    pub agent: AgentId,
    pub run: u32,
    pub by: RecordedActor,
}

/// See `Event::AgentRenamed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentRenamed {
    pub agent: AgentId,
    /// Its name from now on.
    pub name: String,
    /// Who named it.
    pub by: RecordedActor,
}

/// See `Event::AgentArchived`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentArchived {
    pub agent: AgentId,
    /// Whether it is put away from now on.
    pub archived: bool,
    pub by: RecordedActor,
}

/// See `Event::AgentConfigured`. Absent fields are as they were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentConfigured {
    pub agent: AgentId,
    /// The mode it is to be in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The model it is to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub by: RecordedActor,
}

/// See `Event::AgentReported`. Absent fields are as they were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentReported {
    pub agent: AgentId,
    /// The mode it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The model it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<AgentPlan>,
    /// What it used in this run so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
    /// A title of its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What can be chosen or typed in its session.
    #[serde(default, skip_serializing_if = "AgentOffers::is_empty")]
    pub offers: AgentOffers,
}

/// What can be chosen or typed in an agent's session, by its own word. Absent lists are as they were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentOffers {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<OfferedChoice>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<OfferedChoice>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<OfferedCommand>>,
}

impl AgentOffers {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These, and what `earlier` says of the others.
    #[must_use]
    pub fn or(self, earlier: Self) -> Self {
        Self {
            modes: self.modes.or(earlier.modes),
            models: self.models.or(earlier.models),
            commands: self.commands.or(earlier.commands),
        }
    }
}

/// A mode or a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedChoice {
    pub id: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A command that can be sent as a message, after a slash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedCommand {
    pub name: String,
    pub description: String,
    /// What may follow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A message to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptMessage {
    /// Which message to its agent it is, counted from 1 over all runs. The queue gives it, so that it
    /// is 0 in the event that adds it there.
    #[serde(default, skip_serializing_if = "is_unnumbered")]
    pub number: u64,
    pub text: String,
    pub by: RecordedActor,
    /// When they were said.
    pub at: Timestamp,
    /// What it is about, if a child sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_message: Option<ParentMessage>,
    /// Files that go with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<PromptAttachment>,
}

/// A file that goes with a message. Its content is not kept: it is read when the message is sent, and goes
/// along only if it is still the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptAttachment {
    /// Where it is, absolute.
    pub path: String,
    pub mime_type: String,
    pub bytes: u64,
    /// The digest of its content when it was attached.
    pub sha256: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn is_unnumbered(number: &u64) -> bool {
    *number == 0
}

impl PromptMessage {
    /// The child that sent it, for a parent message.
    pub fn child_sender(&self) -> Option<&AgentId> {
        self.parent_message.as_ref().map(ParentMessage::from)
    }

    /// The text as the agent gets it.
    pub fn full_text(&self) -> String {
        match self.parent_message {
            Some(ParentMessage::Note { times, .. }) if times > 1 => {
                format!("{}\n\n(said {times} times)", self.text)
            }
            _ => self.text.clone(),
        }
    }

    /// The text as the transcript has it, with what was attached.
    pub fn recorded_text(&self) -> String {
        let files = self.attachments.iter().map(|file| {
            let PromptAttachment {
                path,
                mime_type,
                bytes,
                sha256,
            } = file;
            format!("\n[attached {path}: {mime_type}, {bytes} bytes, sha256 {sha256}]")
        });
        std::iter::once(self.full_text()).chain(files).collect()
    }
}

/// See `Event::MessageQueued`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageQueued {
    pub agent: AgentId,
    pub message: PromptMessage,
}

/// See `Event::MessageWithdrawn`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageWithdrawn {
    pub agent: AgentId,
    /// Which message, as [`PromptMessage::number`] has it.
    pub number: u64,
    pub text: String,
    pub by: RecordedActor,
}

/// See `Event::MessagesDropped`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessagesDropped {
    pub agent: AgentId,
    pub reason: String,
}

/// See `Event::TurnStarted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnStarted {
    pub agent: AgentId,
    /// Which of its turns, counted from 1 over all runs.
    pub turn: u32,
    /// How many of the queued messages it takes, oldest first.
    pub messages: u32,
    /// When the host ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

/// See `Event::TurnInterrupted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnInterrupted {
    pub agent: AgentId,
    pub turn: u32,
    pub by: RecordedActor,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the agent is ended if its turn has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
}

/// See `Event::TurnEnded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnEnded {
    pub agent: AgentId,
    pub turn: u32,
    /// Why it stopped: the agent's protocol's word, or `error`, or `exited`.
    pub reason: String,
    /// What went wrong, if something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What it used, if the agent said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<TokenUsage>,
}

/// See `Event::TranscriptAdded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TranscriptAdded {
    pub agent: AgentId,
    /// The turn it belongs to; 0 before the first.
    pub turn: u32,
    /// What came, in order.
    pub entries: Vec<TranscriptEntry>,
}

/// See `Event::PassUsed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassUsed {
    pub agent: AgentId,
    /// The approval that allowed it.
    pub approval: ApprovalId,
    /// The digest of what ran or was written.
    pub digest: String,
    /// The request that may go ahead.
    pub covers: ApprovalId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_sent_is_read_back_to_the_byte() {
        let raw = r#"{"b":1.50,"a":{},"b":2}"#;
        let json: Json = serde_json::from_str(raw).unwrap();
        let entries = vec![
            TranscriptEntry::ToolUse {
                id: "c".into(),
                title: None,
                tool: None,
                input: Some(json.clone()),
                status: Some(ToolStatus::Pending),
            },
            TranscriptEntry::Other { update: json },
            TranscriptEntry::Notice { text: "n".into() },
        ];
        let text = serde_json::to_string(&entries).unwrap();
        assert!(text.contains(raw), "{text}");
        assert_eq!(
            serde_json::from_str::<Vec<TranscriptEntry>>(&text).unwrap(),
            entries
        );
    }
}

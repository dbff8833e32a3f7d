//! Agents that the host runs: how they are started, controlled and shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ask_view::HostDiffHunk;
use crate::rows::{HostAgent, Who};
use crate::scalar::{Raw, Time, read_from_object_only};
use crate::states::HostAgentRole;

/// `host.spawn_agent`: one of `agent` and `command` says what to start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SpawnAgentParams {
    /// Its name; one is made up if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The catalog's name for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The program and its arguments, for an agent that is in no catalog.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Protocol of the command (default: `acp`). The catalog knows it of its own agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<AgentProtocol>,
    /// What it is to do first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Files on the host's machine that go with the prompt, by absolute path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<String>,
    /// The folder it works in: an absolute path.
    #[schema(pattern = "^/")]
    pub cwd: String,
    /// The model, by the agent's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The mode, by the agent's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Text before everything else, for agents that support it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The only tools it may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Tools it may not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// MCP servers by name, as in the configuration of Claude Code (`mcpServers`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub mcp_servers: Option<Raw>,
    /// Labels, by key: rules can be limited to agents that have them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Variables of its environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVariable>,
    /// A git worktree of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeParams>,
    /// A turn that takes longer is interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_timeout_ms: Option<u64>,
    /// How long its asks wait for an answer; 0 for as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask_timeout_ms: Option<u64>,
    /// The sandbox profile, by name (default: the host's choice).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Where the commands run that it asks the host for: `host` (default), `editor` (outside any sandbox) or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^(host|editor|none)$")]
    pub terminals: Option<String>,
    /// With `terminals: editor`: the ask for the tool `EditorTerminals` in `cwd` that a person allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_by: Option<String>,
    /// `orchestrator` for an agent that starts agents of its own.
    #[serde(
        default,
        deserialize_with = "HostAgentRole::strict_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, pattern = "^orchestrator$")]
    pub role: Option<HostAgentRole>,
}

/// The sandbox of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SandboxRow {
    /// The name of the profile; `open` for none.
    pub profile: String,
    /// How much of it the machine enforces: `full`, `landlock` or `open`.
    pub level: String,
    /// What runs commands outside of it: `editor`, or `none` if there are no commands. Absent if they run in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminals: Option<String>,
}

/// The protocol of an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentProtocol {
    /// The Agent Client Protocol.
    #[default]
    Acp,
    /// Claude Code's own stream of JSON lines.
    Claude,
}

/// One variable of an agent's environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self")]
pub struct EnvVariable {
    /// Its name.
    pub name: String,
    /// Its value (default: the host's own). Never shown if it is secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Whether the value stays out of the record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
}

/// A request for a worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(remote = "Self")]
pub struct WorktreeParams {
    /// The branch; one named after the agent if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

read_from_object_only!(EnvVariable, WorktreeParams);

/// A message to an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PromptBody {
    /// The text. It is queued while a turn runs, and restarts an agent that ended.
    pub message: String,
    /// Files on the host's machine that go with it, by absolute path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<String>,
}

/// A message that waits for its agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct QueuedMessageRow {
    /// Which message to this agent it is, counted from 1: `host.withdraw_message` takes it back.
    pub number: u64,
    #[schema(value_type = String, format = DateTime)]
    pub sent_at: Time,
    pub sent_by: Who,
    /// Its beginning, if it is long.
    pub text: String,
    /// Whether there is more than `text`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Whether the caller may take it back.
    pub withdrawable: bool,
}

/// `host.withdraw_message`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WithdrawMessageParams {
    pub agent_id: String,
    /// The `number` of the message.
    pub number: u64,
}

/// A message that was taken back, whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WithdrawnMessage {
    pub number: u64,
    pub text: String,
}

/// How an agent ends.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct KillBody {
    // No default: ending them by mistake loses work, and keeping them leaves them without a parent.
    /// What happens to running agents below it; required if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<ChildrenFate>,
}

/// What happens to the agents below one that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChildrenFate {
    /// They end as well.
    End,
    /// They keep running; people answer what they ask.
    Keep,
}

/// What an orchestrator may approve for its descendants.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct CeilingBody {
    /// The rules; an empty list removes the ceiling.
    #[serde(default)]
    pub rules: Vec<String>,
    /// When it expires, from now (default: when its agent ends).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// The ceiling of an orchestrator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CeilingRow {
    /// What it may allow.
    pub rules: Vec<String>,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub until: Option<Time>,
}

/// Why a turn is to end.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct InterruptBody {
    /// Why, for the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A second agent that continues from a copy of another's session.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ForkBody {
    /// Its name; one is made up if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is to do first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Whether an agent is archived.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ArchiveBody {
    /// Default: `true`.
    #[serde(default = "yes")]
    pub archived: bool,
}

fn yes() -> bool {
    true
}

/// A new name.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RenameBody {
    /// Its name from now on.
    pub name: String,
}

/// What an agent is to use from now on. What is absent stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ConfigureBody {
    /// The mode, by the agent's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The model, by the agent's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// `host.wait_agents`: one agent or several.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct WaitAgentsParams {
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The agents: all of them must get there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_ids: Option<Vec<String>>,
    /// What to wait for.
    #[serde(default)]
    pub until: WaitUntil,
    /// The number of the turn, with `turn_ended`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
    /// The number of the run, with `ended`: a later run counts as its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u32>,
    /// How long this call waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// What `host.wait_agents` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WaitAgentsResult {
    /// The agents as they are now.
    pub agents: Vec<HostAgent>,
    /// Whether all of them got there; `false` if time ran out first.
    pub reached: bool,
}

/// What to wait for, in a query.
#[derive(Clone, Copy, Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct WaitGoalQuery {
    /// What to wait for. Default: `idle`.
    #[serde(default)]
    #[param(inline, required = false)]
    pub until: WaitUntil,
    /// The number of the turn, with `turn_ended`.
    #[serde(default)]
    pub turn: Option<u32>,
    /// The number of the run, with `ended`: a later run counts as its end.
    #[serde(default)]
    pub run: Option<u32>,
}

/// What a wait for agents is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitUntil {
    /// No turn runs and no message is queued, or the agent ended.
    #[default]
    Idle,
    /// It is ready for a prompt, or failed to start.
    Started,
    /// The turn named by `turn` is over.
    TurnEnded,
    /// It has no process any more.
    Ended,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanStepRow {
    /// `pending`, `in_progress` or `completed`, as the agent reports it.
    pub status: String,
    /// What it is.
    pub text: String,
}

/// What the host knows of an agent that it runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ManagedRow {
    /// The catalog's name for it, if it was started by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The only tools it may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    pub archived: bool,
    /// What it may approve for its descendants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<CeilingRow>,
    /// The program and its arguments, if it was started by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Commands that can be sent to it as messages, after a slash, as it lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<SlashCommandRow>,
    /// The folder it works in.
    pub cwd: String,
    /// Tools it may not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// When its last run ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Time>,
    /// Variables it was given; secret ones without their value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVariable>,
    /// Its labels, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When it last sent something.
    #[schema(value_type = String, format = DateTime)]
    pub last_activity: Time,
    /// How its last run ended, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The mode it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The model it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The models that it can use, as it lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ChoiceRow>,
    /// The modes that it can be in, as it lists them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<ChoiceRow>,
    /// The orchestrator that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The name of that orchestrator, if it is still listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_name: Option<String>,
    /// What it plans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlanStepRow>,
    /// Messages that wait for their turn.
    pub queued: usize,
    /// Whether its session can be resumed.
    pub resumable: bool,
    /// Its role among agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<HostAgentRole>,
    /// Which of its runs, counted from 1.
    pub run: u32,
    /// The sandbox that its last run was started in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxRow>,
    /// The agent's own id of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// A title of its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The turn that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnRow>,
    /// Its turns so far, over all runs.
    pub turns: u32,
    /// What it used, as it reports it.
    pub usage: UsageRow,
    /// Its worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeRow>,
}

/// A mode or model of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChoiceRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The agent's own name for it, as `configure` takes it.
    pub id: String,
    /// Its name for people.
    pub name: String,
}

/// A command that an agent understands as a message, after a slash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlashCommandRow {
    pub description: String,
    /// What may follow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    pub name: String,
}

/// A turn that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TurnRow {
    /// When the host ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Time>,
    /// Whether it was interrupted.
    pub interrupted: bool,
    /// Which of the agent's turns, counted from 1.
    pub number: u32,
    /// When it started.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Time,
}

/// What an agent used, as it reports it. Absent fields were not reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageRow {
    /// Tokens its context has room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_size: Option<u64>,
    /// Tokens in its context now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_used: Option<u64>,
    /// What it cost, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// Tokens it read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_in: Option<u64>,
    /// Tokens it wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_out: Option<u64>,
}

/// A worktree that was made for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorktreeRow {
    /// The commit it began from.
    pub base: String,
    /// Its branch.
    pub branch: String,
    /// Its folder.
    pub path: String,
    /// The repository it belongs to.
    pub repository: String,
}

/// In which form changes are shown.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DiffQuery {
    /// Default: `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>, pattern = "^(text|hunks)$")]
    pub form: Option<DiffForm>,
    /// Only this file, relative to the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// How the changes of files are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffForm {
    /// As git prints them.
    #[default]
    Text,
    /// File by file, for screens.
    Hunks,
}

/// What an agent changed in its worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentDiff {
    /// The files, in git's order.
    pub files: Vec<DiffFileRow>,
    /// The changes as git prints them; empty in the form `hunks`.
    pub text: String,
    /// Whether there is more than is shown.
    pub truncated: bool,
}

/// One changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffFileRow {
    /// Added lines.
    pub added: u64,
    /// Whether it has no lines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
    /// Where it was, if it was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Its changes, in the form `hunks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunks: Option<Vec<HostDiffHunk>>,
    /// Where it is, relative to the worktree.
    pub path: String,
    /// Removed lines.
    pub removed: u64,
    /// `added`, `modified`, `deleted`, `renamed`, `type_changed` or `repository`.
    pub status: String,
    /// Whether its hunks were left out, because there are too many: ask for the file by its path.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub too_large: bool,
}

/// Whether uncommitted work may be lost.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RemoveWorktreeQuery {
    /// Delete uncommitted work too (default: `false`).
    #[serde(default)]
    pub discard: bool,
}

/// The reply to removing a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedWorktree {
    /// The branch, if it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_kept: Option<String>,
    // False is not an error: a worktree with uncommitted work is kept on purpose.
    /// Whether the worktree was removed.
    pub removed: bool,
    /// Why it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Where an agent's branch is merged into.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct MergeWorktreeBody {
    /// The branch; the one that is checked out in the repository if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
}

/// What came of a merge. Where it was not made, nothing was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MergedWorktree {
    /// The commit that the branch is at now; absent if it had all commits before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Files that both branches changed differently.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// Whether the branch was moved forward without a merge commit.
    pub fast_forward: bool,
    /// The branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// Whether the branch has all commits of the agent now.
    pub merged: bool,
    /// Why it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A known agent, and whether it can be started here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogRow {
    /// What would be run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// How to install it, or what to know about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Whether it was found.
    pub installed: bool,
    /// Its name, for `spawn`.
    pub name: String,
    /// Its name for people.
    pub title: String,
}

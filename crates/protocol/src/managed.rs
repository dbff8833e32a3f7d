//! Agents that the host runs: what they are started with, told and asked, and their story.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::rows::HostAgent;
use crate::scalar::{Time, read_from_object_only};
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
    /// The folder it works in: an absolute path.
    #[schema(pattern = "^/")]
    pub cwd: String,
    /// The model, by the agent's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The mode, by the agent's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Words before everything else, for agents that take them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The only tools it may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Tools it may not use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
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
    /// `orchestrator` for an agent that starts agents of its own.
    #[serde(
        default,
        deserialize_with = "HostAgentRole::strict_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, pattern = "^orchestrator$")]
    pub role: Option<HostAgentRole>,
}

/// What an agent speaks.
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
    /// Its value; the host's own if absent. Never given back if it is secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Whether the value stays out of the record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
}

/// A wish for a worktree.
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
    /// The words. They wait while a turn runs, and wake an agent that ended.
    pub message: String,
}

/// How an agent ends.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct KillBody {
    /// What becomes of agents below it that run; has to be said if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<ChildrenFate>,
}

/// What becomes of the agents below one that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChildrenFate {
    /// They end as well.
    End,
    /// They go on; what they ask is for people.
    Keep,
}

/// What an orchestrator may settle for those below it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct CeilingBody {
    /// What it may allow; none to take its ceiling away.
    #[serde(default)]
    pub rules: Vec<String>,
    /// When it ends, from now; as late as its agent if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// What an orchestrator may settle, as it is now.
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

/// A second agent that goes on from where another stands, which stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ForkBody {
    /// Its name; one is made up if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is to do first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Whether an agent is put away.
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

/// `host.wait_idle`: one agent or several.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct WaitIdleParams {
    /// The agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// The agents: all of them must be idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_ids: Option<Vec<String>>,
    /// How long this call waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// What `host.wait_idle` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WaitIdleResult {
    /// The agents as they are now.
    pub agents: Vec<HostAgent>,
    /// Whether all of them are idle or ended; `false` if time ran out first.
    pub idle: bool,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlanStepRow {
    /// `pending`, `in_progress` or `completed`, by the agent's word.
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
    /// Whether it was put away.
    pub archived: bool,
    /// What it may settle for those below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<CeilingRow>,
    /// The program and its arguments, if it was started by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
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
    /// When it was last heard of.
    #[schema(value_type = String, format = DateTime)]
    pub last_activity: Time,
    /// How its last run ended, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The mode it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The model it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The orchestrator that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What it plans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlanStepRow>,
    /// Messages that wait for their turn.
    pub queued: usize,
    /// Whether its session can be gone on with.
    pub resumable: bool,
    /// What it is besides an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<HostAgentRole>,
    /// Which of its runs, counted from 1.
    pub run: u32,
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
    /// What it used, by its own word.
    pub usage: UsageRow,
    /// Its worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<WorktreeRow>,
}

/// A turn that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TurnRow {
    /// When the host ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub deadline: Option<Time>,
    /// Whether it was told to end.
    pub interrupted: bool,
    /// Which of the agent's turns, counted from 1.
    pub number: u32,
    /// When it started.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Time,
}

/// What an agent used, by its own word. What is absent it did not say.
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

/// What an agent changed in its worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentDiff {
    /// The files, in git's order.
    pub files: Vec<DiffFileRow>,
    /// The changes as git prints them.
    pub text: String,
    /// Whether there is more than is shown.
    pub truncated: bool,
}

/// One changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffFileRow {
    /// Lines that came.
    pub added: u64,
    /// Whether it has no lines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
    /// Where it was, if it was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Where it is, relative to the worktree.
    pub path: String,
    /// Lines that went.
    pub removed: u64,
    /// `added`, `modified`, `deleted`, `renamed`, `type_changed` or `repository`.
    pub status: String,
}

/// Whether uncommitted work may be lost.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RemoveWorktreeQuery {
    /// Delete uncommitted work too (default: `false`).
    #[serde(default)]
    pub discard: bool,
}

/// What became of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedWorktree {
    /// The branch, if it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_kept: Option<String>,
    /// Whether the worktree is gone.
    pub removed: bool,
    /// Why it is not, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A known agent, and whether it can be started here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CatalogRow {
    /// What would be run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// What to do to have it, or what to know of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Whether it was found.
    pub installed: bool,
    /// Its name, for `spawn`.
    pub name: String,
    /// Its name for people.
    pub title: String,
}

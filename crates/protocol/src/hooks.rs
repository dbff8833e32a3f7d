//! What the hooks of other tools send, in words that fit any tool, and what they are told.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::scalar::Raw;

/// What happened in a session that the host did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HookEvent {
    /// A session began, was taken up again, or goes on under another id.
    SessionStarted,
    /// It ended.
    SessionEnded,
    /// It has nothing to do.
    Idle,
    /// It tells its person something.
    Notice,
    /// It is about to use a tool.
    Ask,
    /// It is about to ask at its own terminal about a tool that it has been told of before, or not.
    Prompt,
}

/// What a hook says when nobody answered in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookEnd {
    /// No; the ask ends with it.
    #[default]
    Deny,
    /// The tool asks at its own terminal; the ask stays open until that is answered.
    Ask,
}

/// `host.hook`: one event of one session. Only on the Unix socket, where the host finds out itself
/// which process it comes from.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HookParams {
    /// The tool whose hook it is; `claude` if absent. REST has it in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub hook: Option<String>,
    /// What happened.
    pub event: HookEvent,
    /// The session, by its tool's own id.
    pub session_id: String,
    /// The same again is the same request, told once more because its answer was not heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Where the session works: an absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^/")]
    pub cwd: Option<String>,
    /// The tool it wants to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The tool's exact input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub input: Option<Raw>,
    /// The session's id for the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// How long to wait for a person.
    #[serde(default)]
    pub wait_ms: u64,
    /// What the hook says after that.
    #[serde(default)]
    pub after_wait: HookEnd,
    /// Words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Anything else to show.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub details: Raw,
}

/// What a hook is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookDecision {
    /// It may go on.
    Allow,
    /// It may not.
    Deny,
    /// The tool asks as if there were no hook, whatever its own settings allow.
    Ask,
    /// There is nothing to decide.
    None,
}

/// What a hook is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HookResult {
    /// The agent that the session is to the host.
    pub agent_id: String,
    /// What to say.
    pub decision: HookDecision,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The input to run instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub edited_input: Option<Raw>,
    /// The ask this was decided by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// Whether this answer was told before: what it allows may already have run.
    #[serde(default)]
    pub told_before: bool,
}

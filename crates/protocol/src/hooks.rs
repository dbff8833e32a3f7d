//! What the hooks of other tools send and get back, in a form that fits any tool.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::scalar::Raw;

/// What happened in a session that the host did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HookEvent {
    /// A session began, was resumed, or continues under another id.
    SessionStarted,
    SessionEnded,
    /// The session waits for its person.
    Idle,
    /// The session shows a notification.
    Notice,
    /// The session is about to use a tool.
    Ask,
    /// The session is about to ask at its own terminal, after an `Ask` about the same tool call or
    /// without one.
    Prompt,
}

// A hook that has to choose a default denies: silence must not become consent.
/// What a hook decides when no answer came in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookEnd {
    /// It denies, and the ask ends.
    #[default]
    Deny,
    /// The tool asks at its own terminal; the ask stays open until that is answered.
    Ask,
}

/// `host.hook`: one event of one session. Only on the Unix socket, where the host identifies the
/// process that it comes from.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct HookParams {
    // Not in the schema: over REST it is in the path, and in a body it is refused.
    /// The tool whose hook it is (default: `claude`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    pub hook: Option<String>,
    /// What happened.
    pub event: HookEvent,
    /// The session, by its tool's own id.
    pub session_id: String,
    /// A hook repeats its request under the same id if it lost the connection before the answer.
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
    /// What the hook decides after that.
    #[serde(default)]
    pub after_wait: HookEnd,
    /// A message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Anything else to show.
    #[serde(default)]
    #[schema(value_type = serde_json::Value)]
    pub details: Raw,
}

// No default and no unknown value: a hook that cannot read its decision must not go ahead.
/// What a hook is to answer to its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookDecision {
    Allow,
    Deny,
    /// The tool asks as if there were no hook, whatever its own settings allow.
    Ask,
    /// There is nothing to decide.
    None,
}

/// The reply to a hook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HookResult {
    /// The id of the session's agent.
    pub agent_id: String,
    pub decision: HookDecision,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The input to run instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub edited_input: Option<Raw>,
    /// The ask that decided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// Whether the same answer was delivered before: what it allows may already have run.
    #[serde(default)]
    pub told_before: bool,
}

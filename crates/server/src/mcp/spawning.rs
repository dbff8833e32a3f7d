//! `spawn_agent`: an orchestrator wants an agent of its own, which is itself an ask.
//!
//! Invariant: what is started is exactly what was asked and allowed, or what the person made of it.

use std::collections::BTreeMap;

use countersign_core::limits::MANAGED_ASK_TIMEOUT_MS;
use countersign_core::own_tool_name;
use countersign_protocol::{
    EnvVariable, HostAgentRole, HostApprovalState, Raw, Reason, RequestApprovalParams,
    SpawnAgentParams, WorktreeParams,
};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use super::call::Call;
use super::permission::decided;
use super::reply::{Outcome, Stop, Told, named};
use super::steering::agent_data;
use crate::api_error::ApiError;
use crate::ops;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    prompt: String,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    system_prompt: Option<String>,
    #[serde(default)]
    allowed_tools: Vec<String>,
    #[serde(default)]
    disallowed_tools: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    worktree: bool,
    #[serde(default, deserialize_with = "HostAgentRole::strict_option")]
    role: Option<HostAgentRole>,
}

pub(super) async fn spawn(call: &Call<'_>, arguments: Map<String, Value>) -> Outcome {
    let wanted = read(Value::Object(arguments.clone()))?;
    let (own, timeout_ms) = ops::parent::whereabouts(call.service(), &call.caller).await;
    let input = to_raw_value(&arguments).map_err(|error| ApiError::invalid(&error))?;
    let asked = RequestApprovalParams {
        action: action(&wanted),
        tool: Some(own_tool_name("spawn_agent")),
        input: Some(Raw(input.into())),
        cwd: own.clone(),
        idempotency_key: call.key(),
        timeout_ms: Some(timeout_ms.unwrap_or(MANAGED_ASK_TIMEOUT_MS)).filter(|ms| *ms > 0),
        ..RequestApprovalParams::default()
    };
    let row = decided(call, asked).await?;
    if row.state != HostApprovalState::Allowed {
        let words = ops::parent::refusal(&row);
        return Err(ApiError::refused(Reason::AgentNotAllowed, words).into());
    }
    let wanted = match &row.edited_input {
        Some(edited) => read(parsed(edited)?)?,
        None => wanted,
    };
    let params = params(wanted, own.as_deref());
    let child = ops::children::spawn(call.service(), &call.caller, params, row.id).await?;
    let words = format!(
        "started `{}`; it tells you when it is done, and wait_for_agents waits for it",
        named(&child.name)
    );
    Ok(Told::new(words, agent_data(&child)))
}

fn parsed(edited: &Raw) -> Result<Value, Stop> {
    serde_json::from_str(edited.0.get()).map_err(|error| ApiError::invalid(&error).into())
}

fn read(arguments: Value) -> Result<Wanted, Stop> {
    serde_json::from_value(arguments).map_err(|error| ApiError::invalid(&error).into())
}

fn action(wanted: &Wanted) -> String {
    let what = match &wanted.agent {
        Some(agent) => named(agent),
        None => named(&wanted.command.join(" ")),
    };
    let what = match &wanted.role {
        Some(role) => format!("{what} as {role}"),
        None => what,
    };
    match &wanted.cwd {
        Some(cwd) => format!("start an agent: {what} in {}", named(cwd)),
        None => format!("start an agent: {what}"),
    }
}

/// A folder that is not said is the orchestrator's own, and a relative one lies in it.
fn params(wanted: Wanted, own: Option<&str>) -> SpawnAgentParams {
    let own = own.unwrap_or("/");
    let cwd = match wanted.cwd {
        Some(cwd) if cwd.starts_with('/') => cwd,
        Some(cwd) => format!("{}/{cwd}", own.trim_end_matches('/')),
        None => own.to_owned(),
    };
    let env = wanted.env.into_iter().map(|(name, value)| EnvVariable {
        name,
        value: Some(value),
        secret: false,
    });
    SpawnAgentParams {
        name: wanted.name,
        agent: wanted.agent,
        command: wanted.command,
        prompt: Some(wanted.prompt),
        cwd,
        model: wanted.model,
        mode: wanted.mode,
        system_prompt: wanted.system_prompt,
        allowed_tools: wanted.allowed_tools,
        disallowed_tools: wanted.disallowed_tools,
        env: env.collect(),
        worktree: wanted.worktree.then(WorktreeParams::default),
        role: wanted.role,
        ..SpawnAgentParams::default()
    }
}

/// What the tool takes.
pub(super) fn schema() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    let texts =
        |about: &str| json!({"type": "array", "items": {"type": "string"}, "description": about});
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["prompt"],
        "properties": {
            "prompt": text("Its task, with all it needs to know: it has not seen this conversation."),
            "agent": text("The kind of agent, such as claude or codex."),
            "command": texts("A program and its arguments in place of a kind; a person has to allow it."),
            "name": text("A short name for it."),
            "cwd": text("Its folder: yours or one in it. Yours if left out."),
            "model": text("The model, by the agent's own name for it."),
            "mode": text("The mode, by the agent's own name for it; none that asks less than yours."),
            "system_prompt": text("Words before everything else."),
            "allowed_tools": texts("The only tools it may use."),
            "disallowed_tools": texts("Tools it may not use."),
            "env": {"type": "object", "additionalProperties": {"type": "string"},
                    "description": "Variables of its environment; no secrets, people see them."},
            "worktree": {"type": "boolean", "description": "Give it a git worktree of its own."},
            "role": {"type": "string", "enum": ["orchestrator"],
                     "description": "Let it start agents of its own; a person has to allow it."},
        },
    })
}

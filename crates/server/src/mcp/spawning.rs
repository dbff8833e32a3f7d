//! `spawn_agent`: an orchestrator starts an agent of its own, for which it needs an approval.
//!
//! Invariant: what is started is exactly what was asked and allowed, or the input that the person
//! edited.

use std::borrow::Cow;
use std::collections::BTreeMap;

use countersign_core::event::ApprovalOutcome;
use countersign_core::limits::MANAGED_ASK_TIMEOUT_MS;
use countersign_core::own_tool_name;
use countersign_protocol::{
    EnvVariable, HostAgentRole, Raw, Reason, RequestApprovalParams, SpawnAgentParams,
    WorktreeParams,
};
use rmcp::schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};

use super::call::ToolCall;
use super::permission::ask_and_wait;
use super::reply::{ToolFailure, ToolReply, ToolResult, one_line};
use super::steering::agent_data;
use crate::api_error::ApiError;
use crate::ops;

/// The arguments as they were sent, which is what people are asked about, and parsed.
#[derive(Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub(super) struct SpawnArguments {
    given: Map<String, Value>,
    child: ChildOptions,
}

impl TryFrom<Map<String, Value>> for SpawnArguments {
    type Error = serde_json::Error;

    fn try_from(given: Map<String, Value>) -> Result<Self, Self::Error> {
        let child = serde_json::from_value(Value::Object(given.clone()))?;
        Ok(Self { given, child })
    }
}

impl JsonSchema for SpawnArguments {
    fn schema_name() -> Cow<'static, str> {
        ChildOptions::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        ChildOptions::json_schema(generator)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "rmcp::schemars")]
struct ChildOptions {
    /// Its task, with all it needs to know: it has not seen this conversation.
    prompt: String,
    /// The kind of agent, such as claude or codex.
    #[serde(default)]
    agent: Option<String>,
    /// A program and its arguments instead of a kind; a person has to allow it.
    #[serde(default)]
    command: Vec<String>,
    /// A short name for it.
    #[serde(default)]
    name: Option<String>,
    /// Its directory: yours or one inside it. Default: yours.
    #[serde(default)]
    cwd: Option<String>,
    /// The model, by the agent's own name for it.
    #[serde(default)]
    model: Option<String>,
    /// The mode, by the agent's own name for it; none that asks less than yours.
    #[serde(default)]
    mode: Option<String>,
    /// Text that comes before everything else.
    #[serde(default)]
    system_prompt: Option<String>,
    /// The only tools it may use.
    #[serde(default)]
    allowed_tools: Vec<String>,
    /// Tools it may not use.
    #[serde(default)]
    disallowed_tools: Vec<String>,
    /// Variables of its environment; no secrets, people see them.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Give it a git worktree of its own.
    #[serde(default)]
    worktree: bool,
    /// Let it start agents of its own; a person has to allow it.
    #[serde(default, deserialize_with = "HostAgentRole::strict_option")]
    #[schemars(with = "String", extend("enum" = ["orchestrator"]))]
    role: Option<HostAgentRole>,
}

pub(super) async fn spawn(call: &ToolCall<'_>, arguments: SpawnArguments) -> ToolResult {
    let SpawnArguments { given, child } = arguments;
    let (own_cwd, timeout_ms) = ops::parent::ask_defaults(call.service(), &call.caller).await;
    let input = to_raw_value(&given).map_err(|error| ApiError::invalid(&error))?;
    let params = RequestApprovalParams {
        action: action(&child),
        tool: Some(own_tool_name("spawn_agent")),
        input: Some(Raw(input.into())),
        cwd: own_cwd.clone(),
        idempotency_key: call.key(),
        timeout_ms: Some(timeout_ms.unwrap_or(MANAGED_ASK_TIMEOUT_MS)).filter(|ms| *ms > 0),
        ..RequestApprovalParams::default()
    };
    let approval = ask_and_wait(call, params).await?;
    let ending = approval.ended.as_ref().map(|ended| &ended.ending);
    let Some(ending) = ending.filter(|ending| ending.outcome == ApprovalOutcome::Allowed) else {
        let message = ops::parent::refusal(&approval);
        return Err(ApiError::refused(Reason::AgentNotAllowed, message).into());
    };
    // What the person edited replaces the arguments as a whole, and is parsed as strictly.
    let child = match &ending.edited_input {
        Some(edited) => parse_edited(edited.text())?,
        None => child,
    };
    let params = spawn_params(child, own_cwd.as_deref());
    // The loop checks that this ask was allowed for this caller and has started no agent yet.
    let allowed_by = approval.ask.id.clone();
    let started = ops::children::spawn(call.service(), &call.caller, params, allowed_by).await?;
    let text = format!(
        "started `{}`; it tells you when it is done, and wait_for_agents waits for it",
        one_line(&started.0.profile.name)
    );
    Ok(ToolReply::new(text, agent_data(&started)))
}

fn parse_edited(input: &str) -> Result<ChildOptions, ToolFailure> {
    serde_json::from_str(input).map_err(|error| ApiError::invalid(&error).into())
}

fn action(child: &ChildOptions) -> String {
    let program = match &child.agent {
        Some(agent) => one_line(agent),
        None => one_line(&child.command.join(" ")),
    };
    let role = child.role.map(|role| format!(" as {role}"));
    let cwd = child
        .cwd
        .as_deref()
        .map(|cwd| format!(" in {}", one_line(cwd)));
    format!(
        "start an agent: {program}{}{}",
        role.unwrap_or_default(),
        cwd.unwrap_or_default()
    )
}

/// Without a directory the child gets the orchestrator's own; a relative one is inside it.
fn spawn_params(child: ChildOptions, own_cwd: Option<&str>) -> SpawnAgentParams {
    let own_cwd = own_cwd.unwrap_or("/");
    let cwd = match child.cwd {
        Some(cwd) if cwd.starts_with('/') => cwd,
        Some(cwd) => format!("{}/{cwd}", own_cwd.trim_end_matches('/')),
        None => own_cwd.to_owned(),
    };
    let env = child.env.into_iter().map(|(name, value)| EnvVariable {
        name,
        value: Some(value),
        // They were part of the ask, so they are in the record already.
        secret: false,
    });
    SpawnAgentParams {
        name: child.name,
        agent: child.agent,
        command: child.command,
        prompt: Some(child.prompt),
        cwd,
        model: child.model,
        mode: child.mode,
        system_prompt: child.system_prompt,
        allowed_tools: child.allowed_tools,
        disallowed_tools: child.disallowed_tools,
        env: env.collect(),
        worktree: child.worktree.then(WorktreeParams::default),
        role: child.role,
        ..SpawnAgentParams::default()
    }
}

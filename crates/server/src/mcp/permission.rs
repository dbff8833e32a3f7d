//! Permission by MCP, in the form that Claude Code's `--permission-prompt-tool` expects.
//!
//! Invariant: only an ask that was allowed gives `allow`, and then with exactly the input that was
//! judged or that the person made of it. Everything else is `deny` with the reason.

use countersign_core::event::ApprovalOutcome;
use countersign_core::limits::MANAGED_ASK_TIMEOUT_MS;
use countersign_core::{Approval, find_subject};
use countersign_protocol::{Raw, RequestApprovalParams};
use rmcp::schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use super::call::ToolCall;
use super::reply::{ToolFailure, ToolReply, ToolResult, cut, one_line};
use crate::api_error::ApiError;
use crate::ops;

/// How much of a command is in the line that names the ask; the whole of it is in its input.
const ACTION_BYTES: usize = 200;

// Unknown fields are not refused: newer clients may send more than we know.
#[derive(Deserialize, JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
pub(super) struct PermissionArguments {
    /// The tool that is to be used.
    tool_name: String,
    /// Its exact input.
    input: Map<String, Value>,
    /// The id of the tool call; asking again with it is the same ask.
    #[serde(default)]
    tool_use_id: Option<String>,
}

pub(super) async fn request(call: &ToolCall<'_>, arguments: PermissionArguments) -> ToolResult {
    let input = Value::Object(arguments.input.clone());
    let raw = to_raw_value(&input).map_err(|error| ApiError::invalid(&error))?;
    let params = ask_params(call, arguments, Raw(raw.into())).await;
    let ended = match ask_and_wait(call, params).await {
        Ok(ended) => ended,
        // The asker understands only its own two answers, so a failure is one of them.
        Err(ToolFailure::Api(error)) => return Ok(deny(&error.into_error().message)),
        Err(failure) => return Err(failure),
    };
    Ok(answer(&ended, input))
}

async fn ask_params(
    call: &ToolCall<'_>,
    arguments: PermissionArguments,
    input: Raw,
) -> RequestApprovalParams {
    // The host's own knowledge of the directory: an agent that could name another one would choose
    // the rules that judge it.
    let (cwd, timeout_ms) = ops::parent::ask_defaults(call.service(), &call.caller).await;
    // The id of the tool call is better than the bridge's key: it also stays the same if the agent
    // itself asks again.
    let tool_call_key = arguments
        .tool_use_id
        .as_ref()
        .map(|id| format!("mcp-permission:{id}"));
    RequestApprovalParams {
        action: action(&arguments.tool_name, &arguments.input),
        tool: Some(arguments.tool_name),
        input: Some(input),
        cwd,
        tool_call_id: arguments.tool_use_id,
        idempotency_key: tool_call_key.or_else(|| call.key()),
        // Zero stands for "no limit" in an agent's options.
        timeout_ms: Some(timeout_ms.unwrap_or(MANAGED_ASK_TIMEOUT_MS)).filter(|ms| *ms > 0),
        ..RequestApprovalParams::default()
    }
}

/// Opens the ask and waits for its end. If the asker stops waiting, its ask is withdrawn.
pub(super) async fn ask_and_wait(
    call: &ToolCall<'_>,
    params: RequestApprovalParams,
) -> Result<Approval, ToolFailure> {
    let (service, caller) = (call.service(), &call.caller);
    let approval = ops::approvals::request(service, caller.clone(), params).await?;
    if !approval.is_pending() {
        return Ok(approval);
    }
    let id = approval.ask.id.to_string();
    let wait = ops::approvals::wait(service, caller, id.clone(), None);
    let ended = call
        .await_with_progress("waiting for a decision", wait)
        .await;
    // Not when the host ends: then the ask stays open, and the bridge repeats the call with the
    // next host under the same key.
    if matches!(ended, Err(ToolFailure::CallerGone)) {
        let reason = Some("its asker stopped waiting".to_owned());
        // It may have ended in the same moment, and then there is nothing to withdraw.
        drop(ops::approvals::cancel(service, caller.clone(), id, reason).await);
    }
    ended
}

fn answer(approval: &Approval, input: Value) -> ToolReply {
    let ending = approval.ended.as_ref().map(|ended| &ended.ending);
    let Some(ending) = ending.filter(|ending| ending.outcome == ApprovalOutcome::Allowed) else {
        return deny(&ops::parent::refusal(approval));
    };
    let edited = ending.edited_input.as_ref();
    let edited = edited.map(|edited| serde_json::from_str::<Value>(edited.text()));
    match edited.transpose() {
        Ok(edited) => {
            answer_text(&json!({"behavior": "allow", "updatedInput": edited.unwrap_or(input)}))
        }
        Err(_) => deny("the input that a person gave could not be read"),
    }
}

fn deny(message: &str) -> ToolReply {
    answer_text(&json!({"behavior": "deny", "message": message}))
}

fn answer_text(answer: &Value) -> ToolReply {
    // Without structured data: Claude Code would read that instead of the text.
    ToolReply::new(answer.to_string(), Value::Null)
}

/// The line that names the ask in the inbox.
fn action(tool: &str, input: &Map<String, Value>) -> String {
    match find_subject(input) {
        Some(subject) => format!("{}: {}", one_line(tool), cut(subject, ACTION_BYTES)),
        None => one_line(tool),
    }
}

//! Permission by MCP, in the form that Claude Code's `--permission-prompt-tool` expects.
//!
//! Invariant: only an ask that was allowed gives `allow`, and then with exactly the input that was
//! judged or that the person made of it. Everything else is `deny`, in words.

use countersign_core::limits::MANAGED_ASK_TIMEOUT_MS;
use countersign_protocol::{HostApproval, HostApprovalState, Raw, RequestApprovalParams};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use super::call::Call;
use super::reply::{Outcome, Stop, Told, cut, named};
use crate::api_error::ApiError;
use crate::ops;

/// How much of a command stands in the line that names the ask; the whole of it is in its input.
const ACTION_BYTES: usize = 200;

/// Newer clients may say more than we know of.
#[derive(Deserialize)]
pub(super) struct Wanted {
    tool_name: String,
    input: Map<String, Value>,
    #[serde(default)]
    tool_use_id: Option<String>,
}

pub(super) async fn request(call: &Call<'_>, wanted: Wanted) -> Outcome {
    let input = Value::Object(wanted.input.clone());
    let raw = to_raw_value(&input).map_err(|error| ApiError::invalid(&error))?;
    let params = params(call, wanted, Raw(raw.into())).await;
    let row = match decided(call, params).await {
        Ok(row) => row,
        Err(Stop::Api(error)) => return Ok(denied(&error.into_error().message)),
        Err(stop) => return Err(stop),
    };
    Ok(answer(&row, input))
}

async fn params(call: &Call<'_>, wanted: Wanted, input: Raw) -> RequestApprovalParams {
    let (cwd, timeout_ms) = ops::parent::whereabouts(call.service(), &call.caller).await;
    let key = wanted.tool_use_id.as_ref();
    let key = key.map(|id| format!("mcp-permission:{id}"));
    RequestApprovalParams {
        action: action(&wanted.tool_name, &wanted.input),
        tool: Some(wanted.tool_name),
        input: Some(input),
        cwd,
        tool_call_id: wanted.tool_use_id,
        idempotency_key: key.or_else(|| call.key()),
        timeout_ms: Some(timeout_ms.unwrap_or(MANAGED_ASK_TIMEOUT_MS)).filter(|ms| *ms > 0),
        ..RequestApprovalParams::default()
    }
}

/// Opens the ask and waits for its end. An asker that stops waiting takes its ask back: what nobody
/// waits for is not to be answered.
pub(super) async fn decided(
    call: &Call<'_>,
    params: RequestApprovalParams,
) -> Result<HostApproval, Stop> {
    let (service, caller) = (call.service(), &call.caller);
    let row = ops::request_approval(service, caller.clone(), None, params).await?;
    if row.state != HostApprovalState::Pending {
        return Ok(row);
    }
    let wait = ops::wait_approval(service, caller, row.id.clone(), None);
    let ended = call
        .await_with_progress("waiting for a decision", wait)
        .await;
    if matches!(ended, Err(Stop::CallerGone)) {
        let words = Some("its asker stopped waiting".to_owned());
        // It may have ended in the same moment.
        drop(ops::cancel_approval(service, caller.clone(), row.id, words).await);
    }
    ended
}

fn answer(row: &HostApproval, input: Value) -> Told {
    if row.state != HostApprovalState::Allowed {
        return denied(&ops::parent::refusal(row));
    }
    let edited = row.edited_input.as_ref();
    let edited = edited.map(|edited| serde_json::from_str::<Value>(edited.0.get()));
    match edited.transpose() {
        Ok(edited) => told(&json!({"behavior": "allow", "updatedInput": edited.unwrap_or(input)})),
        Err(_) => denied("the input that a person gave could not be read"),
    }
}

fn denied(words: &str) -> Told {
    told(&json!({"behavior": "deny", "message": words}))
}

/// The asker reads the text; data beside it would only be read instead of it.
fn told(answer: &Value) -> Told {
    Told::new(answer.to_string(), Value::Null)
}

/// The line under which the ask stands in the inbox.
fn action(tool: &str, input: &Map<String, Value>) -> String {
    let known = [
        "command",
        "file_path",
        "path",
        "url",
        "pattern",
        "description",
    ];
    let told = known
        .iter()
        .find_map(|key| input.get(*key).and_then(Value::as_str));
    match told {
        Some(told) => format!("{}: {}", named(tool), cut(told, ACTION_BYTES)),
        None => named(tool),
    }
}

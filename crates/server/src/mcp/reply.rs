//! The result of a tool: text that a model can act on, and the same as data.
//!
//! Invariant: what other agents wrote is bounded and has its hidden characters made visible.

use countersign_core::limits::MCP_TEXT_BYTES_MAX;
use countersign_core::{TextLayout, truncate_text, visible};
use countersign_protocol::Reason;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ErrorCode, ErrorData};
use serde_json::{Value, json};

use crate::api_error::ApiError;

/// The code by which the bridge knows that the host ended, and that it may repeat the call.
const HOST_ENDS: ErrorCode = ErrorCode(-32_099);

#[derive(Debug)]
pub(super) struct ToolReply {
    pub(super) text: String,
    pub(super) data: Value,
}

impl ToolReply {
    pub(super) fn new(text: impl Into<String>, data: Value) -> Self {
        Self {
            text: text.into(),
            data,
        }
    }
}

/// Why a call has no reply.
#[derive(Debug)]
pub(super) enum ToolFailure {
    /// The call was refused or failed: the result says so.
    Api(ApiError),
    /// The caller stopped waiting.
    CallerGone,
    /// The host ends; the caller may repeat the call with the next one.
    HostEnds,
}

impl From<ApiError> for ToolFailure {
    fn from(error: ApiError) -> Self {
        if error.reason == Reason::ShuttingDown {
            Self::HostEnds
        } else {
            Self::Api(error)
        }
    }
}

pub(super) type ToolResult = Result<ToolReply, ToolFailure>;

/// The result of a call in the protocol's form.
pub(super) fn response(result: ToolResult) -> Result<CallToolResponse, ErrorData> {
    match result {
        Ok(reply) => {
            let mut success = CallToolResult::success(vec![ContentBlock::text(reply.text)]);
            success.structured_content = (!reply.data.is_null()).then_some(reply.data);
            Ok(success.into())
        }
        // A result and not an error of the protocol: models get to see results, while clients often
        // keep protocol errors for themselves.
        Err(ToolFailure::Api(error)) => Ok(refusal(error).into()),
        Err(ToolFailure::CallerGone) => {
            Err(ErrorData::internal_error("the caller went away", None))
        }
        Err(ToolFailure::HostEnds) => Err(ErrorData::new(
            HOST_ENDS,
            "the host ended before this was answered: call again",
            Some(json!({"reason": Reason::ShuttingDown.as_str()})),
        )),
    }
}

fn refusal(error: ApiError) -> CallToolResult {
    let hint = hint(error.reason);
    let error = error.into_error();
    let text = match hint {
        Some(hint) => format!("{}; {hint}", error.message),
        None => error.message.clone(),
    };
    let data = error
        .data
        .and_then(|data| serde_json::from_str::<Value>(data.0.get()).ok());
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    let data = data.unwrap_or_default();
    // Only these: the data of some errors holds whole approvals, with text that was not made safe.
    result.structured_content = Some(json!({
        "error": error.message, "reason": data["reason"], "request_id": data["request_id"],
    }));
    result
}

/// What to do next, where the refusal does not say it.
fn hint(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::UnknownAgent => Some("list_agents shows the agents you started"),
        Reason::UnknownQuestion => Some("list_questions shows what is open"),
        Reason::UnknownApproval => Some("list_approvals shows what is open"),
        Reason::AgentsCannotAnswer => {
            Some("a person has to answer this; continue with something else")
        }
        Reason::AgentEnded => Some("resume_agent starts it again"),
        Reason::TooMany => Some("wait until some have ended"),
        Reason::StoreUnavailable => Some("nothing was recorded; try again in a while"),
        _ => None,
    }
}

/// Text of another agent or person, with hidden characters made visible, cut to a limit.
pub(super) fn quoted(text: &str) -> String {
    cut(&visible(text, TextLayout::Block), MCP_TEXT_BYTES_MAX)
}

/// The same for a name, on one line.
pub(super) fn one_line(text: &str) -> String {
    cut(&visible(text, TextLayout::Line), 200)
}

/// The beginning of a text, and how much is missing.
pub(super) fn cut(text: &str, bytes_max: usize) -> String {
    let kept = truncate_text(text, bytes_max);
    match text.len() - kept.len() {
        0 => kept.to_owned(),
        missing => format!("{kept}… ({missing} bytes left out)"),
    }
}

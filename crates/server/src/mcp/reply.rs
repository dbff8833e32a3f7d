//! What a tool gives back: words that a model can act on, and the same as data.
//!
//! Invariant: what other agents wrote is bounded and has its hidden characters made visible.

use countersign_core::limits::MCP_TEXT_BYTES_MAX;
use countersign_core::{TextLayout, truncate_text, visible};
use countersign_protocol::Reason;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ErrorCode, ErrorData};
use serde_json::{Value, json};

use crate::api_error::ApiError;

/// The code by which whoever relays calls knows that the host ended before it could say more.
const HOST_ENDS: ErrorCode = ErrorCode(-32_099);

/// What a tool has to say.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) words: String,
    pub(super) data: Value,
}

impl Told {
    pub(super) fn new(words: impl Into<String>, data: Value) -> Self {
        Self {
            words: words.into(),
            data,
        }
    }
}

/// Why a tool has nothing to say.
#[derive(Debug)]
pub(super) enum Stop {
    /// The domain or the world said no: the caller is told so in a result.
    Api(ApiError),
    /// Nobody listens any more.
    CallerGone,
    /// The host ends; the next one can be asked again.
    HostEnds,
}

impl From<ApiError> for Stop {
    fn from(error: ApiError) -> Self {
        if error.reason == Reason::ShuttingDown {
            Self::HostEnds
        } else {
            Self::Api(error)
        }
    }
}

pub(super) type Outcome = Result<Told, Stop>;

/// The protocol's form of what came of a call.
pub(super) fn response(outcome: Outcome) -> Result<CallToolResponse, ErrorData> {
    match outcome {
        Ok(told) => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(told.words)]);
            result.structured_content = (!told.data.is_null()).then_some(told.data);
            Ok(result.into())
        }
        Err(Stop::Api(error)) => Ok(refusal(error).into()),
        Err(Stop::CallerGone) => Err(ErrorData::internal_error("the caller went away", None)),
        Err(Stop::HostEnds) => Err(ErrorData::new(
            HOST_ENDS,
            "the host ended before this was answered: call again",
            Some(json!({"reason": Reason::ShuttingDown.as_str()})),
        )),
    }
}

fn refusal(error: ApiError) -> CallToolResult {
    let hint = hint(error.reason);
    let error = error.into_error();
    let words = match hint {
        Some(hint) => format!("{}; {hint}", error.message),
        None => error.message.clone(),
    };
    let data = error
        .data
        .and_then(|data| serde_json::from_str::<Value>(data.0.get()).ok());
    let mut result = CallToolResult::error(vec![ContentBlock::text(words)]);
    let data = data.unwrap_or_default();
    result.structured_content = Some(json!({
        "error": error.message, "reason": data["reason"], "request_id": data["request_id"],
    }));
    result
}

/// What to do next, where the words of the refusal do not say it.
fn hint(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::UnknownAgent => Some("list_agents shows the agents you started"),
        Reason::UnknownQuestion => Some("list_questions shows what is open"),
        Reason::UnknownApproval => Some("list_approvals shows what is open"),
        Reason::AgentsCannotAnswer => {
            Some("a person has to answer this; go on with something else")
        }
        Reason::AgentEnded => Some("resume_agent starts it again"),
        Reason::TooMany => Some("wait until some have ended"),
        Reason::StoreUnavailable => Some("nothing was recorded; try again in a while"),
        _ => None,
    }
}

/// Words of somebody else, safe to show and not too long.
pub(super) fn quoted(text: &str) -> String {
    cut(&visible(text, TextLayout::Block), MCP_TEXT_BYTES_MAX)
}

/// A name of somebody else, in one line.
pub(super) fn named(text: &str) -> String {
    cut(&visible(text, TextLayout::Line), 200)
}

/// The beginning, at a boundary of characters, and how much is missing.
pub(super) fn cut(text: &str, bytes_max: usize) -> String {
    let kept = truncate_text(text, bytes_max);
    match text.len() - kept.len() {
        0 => kept.to_owned(),
        missing => format!("{kept}… ({missing} bytes left out)"),
    }
}

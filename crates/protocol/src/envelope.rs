//! The envelope of JSON-RPC 2.0, as the host wire has it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::scalar::Raw;

/// A request. `id` and `params` may be missing, and `jsonrpc` is not read: clients of the host wire
/// may leave all three out.
#[derive(Deserialize)]
pub struct Request<'a> {
    // Any JSON, kept as text. A number above 2^53 or a `1.0` would not survive being parsed and
    // printed again, and the client would not recognise its reply.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    pub method: String,
    // Parsed later as the type of the method. Until the caller is authenticated nothing else than
    // the method's name is looked at.
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
}

/// What went wrong, for programs (code, `data.reason`) and for people (message).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorObject {
    /// See [`ErrorCode`](crate::ErrorCode).
    pub code: i64,
    /// For people.
    pub message: String,
    /// For programs; `reason` first of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    pub data: Option<Raw>,
}

/// The method of the notification that carries an event to a subscriber.
pub const EVENT_NOTIFICATION: &str = "host.event";

// Text and not a serialised struct: the frame of an event is made once for all subscribers, and SSE
// sends the part between this beginning and the closing brace.
/// The beginning of the frame of such a notification; the event and a closing brace follow.
pub const EVENT_FRAME_START: &str = r#"{"jsonrpc":"2.0","method":"host.event","params":"#;

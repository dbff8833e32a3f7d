//! JSON-RPC 2.0 as this wire speaks it: lenient in what it takes, exact in what it sends.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::scalar::Raw;

/// A request. `jsonrpc`, `id` and `params` may be missing: then the id is null.
#[derive(Deserialize)]
pub struct Request<'a> {
    /// Whatever the client chose; given back as it came.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    /// What is asked for.
    pub method: String,
    /// Its parameters.
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
}

/// What went wrong, for programs (code, `data.reason`) and for people (message).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// See [`ErrorCode`](crate::ErrorCode).
    pub code: i64,
    /// For people.
    pub message: String,
    /// For programs; `reason` first of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Raw>,
}

/// The method of the notification that carries an event to a subscriber.
pub const EVENT_NOTIFICATION: &str = "host.event";

/// How the frame of such a notification begins; the event and a closing brace follow.
pub const EVENT_FRAME_START: &str = r#"{"jsonrpc":"2.0","method":"host.event","params":"#;

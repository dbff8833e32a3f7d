//! JSON-RPC lines: told apart, and written.
//!
//! Invariant: an id is echoed as its sender wrote it. A line that is no message of JSON-RPC is an
//! error here and is never answered, because an agent that prints to its output does not listen.

use std::borrow::Cow;

use countersign_core::limits::WORD_BYTES_MAX;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::adapter::RequestId;
pub(crate) use crate::truncate::{truncate, truncate_noise};

/// The codes of JSON-RPC and of the protocol.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INTERNAL_ERROR: i64 = -32603;
pub(crate) const REQUEST_CANCELLED: i64 = -32800;
pub(crate) const AUTH_REQUIRED: i64 = -32000;
pub(crate) const RESOURCE_NOT_FOUND: i64 = -32002;
/// Ours, of the range that JSON-RPC leaves to servers.
pub(crate) const NOT_PERMITTED: i64 = -32010;
pub(crate) const FAILED: i64 = -32011;

/// One message of the other side.
#[derive(Debug)]
pub(crate) enum AcpMessage<'a> {
    Request {
        id: RequestId,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    Response {
        id: RequestId,
        outcome: Result<&'a RawValue, AcpError>,
    },
}

/// An error response.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct AcpError {
    #[serde(default)]
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) data: Option<Value>,
}

impl AcpError {
    /// The message, and what its data adds in words.
    pub(crate) fn describe(&self) -> String {
        let data = match &self.data {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Object(fields)) => ["message", "details", "error"]
                .iter()
                .find_map(|name| fields.get(*name).and_then(Value::as_str))
                .map(str::to_owned)
                .or_else(|| self.data.as_ref().map(Value::to_string)),
            Some(Value::Null) | None => None,
            Some(other) => Some(other.to_string()),
        };
        let message = match data {
            Some(data) if !data.is_empty() && !self.message.contains(&data) => {
                format!("{}: {data}", self.message)
            }
            _ => self.message.clone(),
        };
        truncate_noise(&message)
    }
}

#[derive(Deserialize)]
struct AcpEnvelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Keeps `null` apart from a field that is not there.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Fails with what the line looks like.
pub(crate) fn parse(line: &[u8]) -> Result<AcpMessage<'_>, String> {
    read_message(line).ok_or_else(|| truncate_noise(&String::from_utf8_lossy(line)))
}

fn read_message(line: &[u8]) -> Option<AcpMessage<'_>> {
    let text = std::str::from_utf8(line).ok()?;
    let envelope: AcpEnvelope<'_> = serde_json::from_str(text).ok()?;
    let id = match envelope.id {
        Some(raw) => Some(parse_id(raw)?),
        None => None,
    };
    match (envelope.method, id, envelope.result, envelope.error) {
        (Some(method), Some(id), None, None) => Some(AcpMessage::Request {
            id,
            method,
            params: envelope.params,
        }),
        (Some(method), None, None, None) => Some(AcpMessage::Notification {
            method,
            params: envelope.params,
        }),
        (None, Some(id), Some(result), None) => Some(AcpMessage::Response {
            id,
            outcome: Ok(result),
        }),
        // Some agents write `"result": null` beside an error.
        (None, Some(id), result, Some(error)) if result.is_none_or(|raw| raw.get() == "null") => {
            let failure = serde_json::from_str(error.get()).unwrap_or_else(|_| AcpError {
                message: error.get().to_owned(),
                ..AcpError::default()
            });
            Some(AcpMessage::Response {
                id,
                outcome: Err(failure),
            })
        }
        _ => None,
    }
}

/// Text, a number or `null`. Two spellings of one text are one id.
pub(crate) fn parse_id(raw: &RawValue) -> Option<RequestId> {
    let text = raw.get();
    if text.len() > WORD_BYTES_MAX {
        return None;
    }
    match serde_json::from_str(text).ok()? {
        Value::String(word) => Some(RequestId(Value::String(word).to_string())),
        Value::Number(_) | Value::Null => Some(RequestId(text.to_owned())),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

pub(crate) fn request(id: u64, method: &str, params: &Value) -> Vec<u8> {
    line(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{params}}}"#,
        Value::from(method)
    ))
}

pub(crate) fn notification(method: &str, params: &Value) -> Vec<u8> {
    line(&format!(
        r#"{{"jsonrpc":"2.0","method":{},"params":{params}}}"#,
        Value::from(method)
    ))
}

pub(crate) fn result(id: &RequestId, result: &Value) -> Vec<u8> {
    line(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#,
        id.0
    ))
}

pub(crate) fn error(id: &RequestId, code: i64, message: &str) -> Vec<u8> {
    line(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":{}}}}}"#,
        id.0,
        Value::from(message)
    ))
}

fn line(text: &str) -> Vec<u8> {
    let mut line = Vec::with_capacity(text.len() + 1);
    line.extend_from_slice(text.as_bytes());
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_by_what_they_carry() {
        let kind = |line: &str| match parse(line.as_bytes()) {
            Ok(AcpMessage::Request { id, method, .. }) => format!("request {} {method}", id.0),
            Ok(AcpMessage::Notification { method, .. }) => format!("notification {method}"),
            Ok(AcpMessage::Response { id, outcome }) => {
                format!("response {} {}", id.0, outcome.is_ok())
            }
            Err(_) => "noise".to_owned(),
        };
        for (line, expected) in [
            (r#"{"id":7,"method":"a"}"#, "request 7 a"),
            (r#"{"id":"7","method":"a","params":{}}"#, r#"request "7" a"#),
            (r#"{"id":"\u0037","method":"a"}"#, r#"request "7" a"#),
            (r#"{"id":null,"method":"a"}"#, "request null a"),
            (r#"{"method":"a"}"#, "notification a"),
            (r#"{"id":1,"result":null}"#, "response 1 true"),
            (r#"{"result":{},"jsonrpc":"2.0","id":1}"#, "response 1 true"),
            (
                r#"{"id":1,"error":{"code":-1,"message":"x"}}"#,
                "response 1 false",
            ),
            (
                r#"{"id":1,"result":null,"error":{"code":-1}}"#,
                "response 1 false",
            ),
            (r#"{"id":1,"result":{},"error":{}}"#, "noise"),
            (r#"{"id":1,"method":"a","result":{}}"#, "noise"),
            (r#"{"id":1,"id":2,"method":"a"}"#, "noise"),
            (r#"{"id":[1],"method":"a"}"#, "noise"),
            (r#"{"id":true,"method":"a"}"#, "noise"),
            (r#"{"id":1}"#, "noise"),
            (r#"[{"id":1,"method":"a"}]"#, "noise"),
            ("warming up…", "noise"),
            ("", "noise"),
            ("3", "noise"),
        ] {
            assert_eq!(kind(line), expected, "{line}");
        }
        assert!(parse(b"{\"method\":\"\xff\"}").is_err());
    }

    #[test]
    fn an_errors_data_is_put_into_words() {
        let describe = |text: &str| serde_json::from_str::<AcpError>(text).unwrap().describe();
        assert_eq!(
            describe(r#"{"code":-32603,"message":"Internal error","data":{"message":"no model"}}"#),
            "Internal error: no model"
        );
        assert_eq!(
            describe(r#"{"code":1,"message":"x","data":"session/bogus"}"#),
            "x: session/bogus"
        );
        assert_eq!(
            describe(r#"{"code":1,"message":"x: y","data":"y"}"#),
            "x: y"
        );
    }
}

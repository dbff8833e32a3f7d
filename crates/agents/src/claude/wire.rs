//! The lines that are written to Claude Code.

use countersign_core::Json;
use serde_json::{Value, json};

use crate::adapter::RequestId;

/// The id of the one request that opens the connection.
pub(super) const START: &str = "countersign-start";

/// The id of a request of ours: what it is for and nothing else says it.
pub(super) fn id(kind: &str, number: u32) -> String {
    format!("countersign-{kind}-{number}")
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Asks the agent for something.
pub(super) fn request(id: &str, request: &Value) -> Vec<u8> {
    line(&json!({"type": "control_request", "request_id": id, "request": request}))
}

/// Answers a request of the agent.
pub(super) fn success(request: &RequestId, response: &Value) -> Vec<u8> {
    let id = read(request);
    let response = json!({"subtype": "success", "request_id": id, "response": response});
    line(&json!({"type": "control_response", "response": response}))
}

/// Refuses a request of the agent.
pub(super) fn error(request: &RequestId, message: &str) -> Vec<u8> {
    let id = read(request);
    let response = json!({"subtype": "error", "request_id": id, "error": message});
    line(&json!({"type": "control_response", "response": response}))
}

/// Begins a turn.
pub(super) fn prompt(id: &str, messages: &[String]) -> Vec<u8> {
    let texts = messages
        .iter()
        .map(|text| json!({"type": "text", "text": text}));
    let content: Vec<Value> = texts.collect();
    line(&json!({
        "type": "user",
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": null,
        "session_id": "",
        "uuid": id,
    }))
}

/// The agent's id as it was sent.
fn read(request: &RequestId) -> Value {
    serde_json::from_str(&request.0).unwrap_or_default()
}

/// The id of a prompt, the same whoever sends it and when.
pub(super) fn prompt_id(session: &str, turn: u32) -> String {
    uuid(&json!([session, turn]))
}

/// The id of a new session, made of a text that belongs to it alone.
pub(super) fn new_session_id(of: &str) -> String {
    uuid(&json!(of))
}

/// A UUID of the kind whose content is its maker's own (version 8).
fn uuid(of: &Value) -> String {
    let digest = Json::from_value(of).unwrap_or_default().canonical_digest();
    let part = |range| digest.get(range).unwrap_or_default();
    format!(
        "{}-{}-8{}-a{}-{}",
        part(0..8),
        part(8..12),
        part(13..16),
        part(17..20),
        part(20..32)
    )
}

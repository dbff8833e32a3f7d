//! The lines that are written to Claude Code.

use countersign_core::Json;
use serde_json::{Value, json};

use crate::adapter::{AttachedFile, RequestId};

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
pub(super) fn prompt(id: &str, messages: &[String], attachments: &[AttachedFile]) -> Vec<u8> {
    let texts = messages
        .iter()
        .map(|text| json!({"type": "text", "text": text}));
    let content: Vec<Value> = texts.chain(attachments.iter().map(attachment)).collect();
    line(&json!({
        "type": "user",
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": null,
        "session_id": "",
        "uuid": id,
    }))
}

/// Images as such; texts with their path before them; everything else by its path, which the agent can
/// read.
fn attachment(file: &AttachedFile) -> Value {
    if let Some(data) = file.image() {
        let source = json!({"type": "base64", "media_type": file.mime_type, "data": data});
        return json!({"type": "image", "source": source});
    }
    let path = file.path.display();
    let text = match file.text() {
        Some(text) => format!("Attached file {path}:\n\n{text}"),
        None => format!("Attached file: {path}"),
    };
    json!({"type": "text", "text": text})
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
    format!(
        "{}-{}-8{}-a{}-{}",
        &digest[..8],
        &digest[8..12],
        &digest[13..16],
        &digest[17..20],
        &digest[20..32]
    )
}

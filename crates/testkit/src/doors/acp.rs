//! Checks what an agent of the Agent Client Protocol writes, line by line, with the types of the official schema.
//!
//! Those types pass over what they cannot read: an unknown field, or one part of a list. So a line counts as correct
//! only if nothing of it is missing when it is written again from what was read.

use std::collections::HashMap;

use agent_client_protocol_schema::v1::{
    AuthenticateResponse, CancelRequestNotification, CloseSessionResponse,
    CreateElicitationRequest, CreateTerminalRequest, DeleteSessionResponse, Error,
    InitializeResponse, KillTerminalRequest, ListSessionsResponse, LoadSessionResponse,
    NewSessionResponse, PromptResponse, ReadTextFileRequest, ReleaseTerminalRequest,
    RequestPermissionRequest, ResumeSessionResponse, SessionNotification,
    SetSessionConfigOptionResponse, SetSessionModeResponse, TerminalOutputRequest,
    WaitForTerminalExitRequest,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What the types leave out when they write, because its absence means the same.
const DEFAULTS: [(&str, &str); 2] = [("status", "pending"), ("kind", "other")];

/// The agent's side of one connection.
#[derive(Debug, Default)]
pub struct AgentLineCheck {
    /// Methods of the client's requests that were not answered yet, by id.
    open: HashMap<String, String>,
}

impl AgentLineCheck {
    /// Notes what the client says, so that the answer to it is known.
    pub fn note_client_line(&mut self, line: &Value) {
        if let (Some(id), Some(method)) = (line.get("id"), line["method"].as_str()) {
            self.open.insert(id.to_string(), method.to_owned());
        }
    }

    /// Says what is wrong with a line of the agent.
    pub fn check_agent_line(&mut self, line: &Value) -> Result<(), String> {
        let checked = self.check(line);
        checked.map_err(|error| format!("{error} in {line}"))
    }

    fn check(&mut self, line: &Value) -> Result<(), String> {
        if line["jsonrpc"] != "2.0" {
            return Err("no JSON-RPC 2.0".to_owned());
        }
        match (line["method"].as_str(), line.get("id")) {
            (Some(method), id) => check_call(method, id.is_some(), &line["params"]),
            (None, Some(Value::Null)) => is_whole::<Error>(&line["error"]),
            (None, Some(id)) => match self.open.remove(&id.to_string()) {
                Some(_) if line.get("error").is_some() => is_whole::<Error>(&line["error"]),
                Some(method) => check_result(&method, &line["result"]),
                None => Err("an answer to nothing".to_owned()),
            },
            (None, None) => Err("neither a call nor an answer".to_owned()),
        }
    }
}

/// A request or notification of the agent.
fn check_call(method: &str, is_request: bool, params: &Value) -> Result<(), String> {
    let is_notification = matches!(method, "session/update" | "$/cancel_request");
    if is_request == is_notification {
        return Err(format!(
            "`{method}` is not to be sent with or without an id"
        ));
    }
    match method {
        "session/update" => is_whole::<SessionNotification>(params),
        "session/request_permission" => is_whole::<RequestPermissionRequest>(params),
        "elicitation/create" => is_whole::<CreateElicitationRequest>(params),
        "fs/read_text_file" => is_whole::<ReadTextFileRequest>(params),
        "terminal/create" => is_whole::<CreateTerminalRequest>(params),
        "terminal/output" => is_whole::<TerminalOutputRequest>(params),
        "terminal/wait_for_exit" => is_whole::<WaitForTerminalExitRequest>(params),
        "terminal/kill" => is_whole::<KillTerminalRequest>(params),
        "terminal/release" => is_whole::<ReleaseTerminalRequest>(params),
        "$/cancel_request" => is_whole::<CancelRequestNotification>(params),
        _ => Err(format!("clients have no method `{method}`")),
    }
}

/// What a request of the client gave.
fn check_result(method: &str, result: &Value) -> Result<(), String> {
    match method {
        "initialize" => is_whole::<InitializeResponse>(result),
        "authenticate" => is_whole::<AuthenticateResponse>(result),
        "session/new" => is_whole::<NewSessionResponse>(result),
        "session/load" => is_whole::<LoadSessionResponse>(result),
        "session/resume" => is_whole::<ResumeSessionResponse>(result),
        "session/list" => is_whole::<ListSessionsResponse>(result),
        "session/prompt" => is_whole::<PromptResponse>(result),
        "session/set_mode" => is_whole::<SetSessionModeResponse>(result),
        "session/set_config_option" => is_whole::<SetSessionConfigOptionResponse>(result),
        "session/close" => is_whole::<CloseSessionResponse>(result),
        "session/delete" => is_whole::<DeleteSessionResponse>(result),
        _ => Err(format!("agents have no method `{method}`")),
    }
}

fn is_whole<T: DeserializeOwned + Serialize>(value: &Value) -> Result<(), String> {
    let read: T = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
    let written = serde_json::to_value(&read).map_err(|error| error.to_string())?;
    match find_lost(value, &written, "") {
        Some(place) => Err(format!("`{place}` is not of the protocol")),
        None => Ok(()),
    }
}

/// The first place of a value that is not the same, or absent, in another.
fn find_lost(value: &Value, written: &Value, place: &str) -> Option<String> {
    match (value, written) {
        (Value::Object(fields), Value::Object(found)) => fields.iter().find_map(|(name, field)| {
            let place = format!("{place}/{name}");
            match found.get(name) {
                Some(found) => find_lost(field, found, &place),
                None => (!is_default(name, field)).then_some(place),
            }
        }),
        (Value::Array(items), Value::Array(found)) if items.len() == found.len() => {
            let mut pairs = items.iter().zip(found).enumerate();
            pairs.find_map(|(at, (item, found))| find_lost(item, found, &format!("{place}/{at}")))
        }
        _ => (value != written).then(|| place.to_owned()),
    }
}

fn is_default(name: &str, value: &Value) -> bool {
    let is_known = DEFAULTS
        .iter()
        .any(|(field, word)| *field == name && value == word);
    is_known || value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(line: &Value) -> Result<(), String> {
        let mut lines = AgentLineCheck::default();
        lines.note_client_line(&json!({ "id": 1, "method": "session/prompt" }));
        lines.check(line)
    }

    fn update(update: &Value) -> Value {
        let params = json!({ "sessionId": "s", "update": update });
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })
    }

    #[test]
    fn correct_lines_pass() {
        for line in [
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "stopReason": "end_turn" } }),
            json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32603, "message": "no" } }),
            update(
                &json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Look",
                "status": "pending", "kind": "other", "content": [] }),
            ),
        ] {
            assert_eq!(check(&line), Ok(()), "{line}");
        }
    }

    #[test]
    fn what_the_types_would_pass_over_is_found() {
        for line in [
            json!({ "id": 1, "result": { "stopReason": "end_turn" } }),
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "stopReason": "tired" } }),
            json!({ "jsonrpc": "2.0", "id": 2, "result": {} }),
            json!({ "jsonrpc": "2.0", "id": 1, "method": "session/update", "params": {} }),
            json!({ "jsonrpc": "2.0", "method": "session/unheard_of", "params": {} }),
            update(
                &json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Look", "titel": 1 }),
            ),
            update(&json!({ "sessionUpdate": "plan",
                "entries": [{ "content": "one", "priority": "medium", "status": "begun" }] })),
        ] {
            assert!(check(&line).is_err(), "{line}");
        }
    }
}

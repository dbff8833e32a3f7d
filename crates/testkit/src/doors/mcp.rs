//! Calls of the MCP door, and an agent that makes them.

use serde_json::{Value, json};

use super::TestHost;
use super::agent::Agent;
use super::wire::Wire;

pub const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");
pub const JSON: (&str, &str) = ("content-type", "application/json");

/// The messages of an answer, whether they came as one document or as a stream.
pub fn messages(body: &str) -> Vec<Value> {
    let lines = body
        .lines()
        .map(|line| line.trim_start_matches("data:").trim());
    let messages = lines.filter_map(|line| serde_json::from_str(line).ok());
    messages
        .filter(|message: &Value| message["jsonrpc"] == "2.0")
        .collect()
}

pub fn call(id: u64, tool: &str, arguments: Value) -> Value {
    let mut message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
                              "params": { "name": tool } });
    message["params"]["arguments"] = arguments;
    message
}

/// An agent that shows its bearer with every call.
pub struct Bearer {
    agent: Agent,
    address: String,
    token: String,
    /// What it calls its calls.
    pub key: Option<String>,
}

impl Bearer {
    pub async fn of(host: &impl TestHost, operator: &mut Wire, id: &str) -> Self {
        let params = json!({ "role": "agent", "agent_id": id });
        let mut token = operator.ok("host.create_token", params).await;
        Self {
            agent: Agent::start(host),
            address: host.address().to_owned(),
            token: serde_json::from_value(token["token"].take()).unwrap(),
            key: None,
        }
    }

    pub async fn post(&mut self, message: Value) -> Value {
        let bearer = format!("Bearer {}", self.token);
        let mut headers = vec![ACCEPT, JSON, ("authorization", &bearer)];
        headers.extend(self.key.as_deref().map(|key| ("idempotency-key", key)));
        let parts =
            json!({ "method": "POST", "path": "/mcp", "headers": headers, "body": message });
        let answer = self.agent.http(&self.address, parts).await;
        assert_eq!(answer["status"], 200, "{answer}");
        let mut messages = messages(answer["body"].as_str().unwrap());
        messages.pop().expect("an answer")
    }

    /// The result of a tool: whether it is an error, its text, and its data.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> (bool, String, Value) {
        let mut answer = self.post(call(1, tool, arguments)).await;
        result(&mut answer)
    }
}

pub fn result(answer: &mut Value) -> (bool, String, Value) {
    let result = &mut answer["result"];
    let text = result["content"][0]["text"].as_str();
    let text = text
        .unwrap_or_else(|| panic!("no text in {result}"))
        .to_owned();
    (
        result["isError"] == true,
        text,
        result["structuredContent"].take(),
    )
}

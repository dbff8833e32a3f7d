//! Each API, over a socket: what goes in is read, and what comes out is framed as its clients want.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use serde_json::{Value, json};

use super::ScriptedModel;

const SCRIPT: &str = r#"Do: <script>[{"say":"I will."},{"shell":"ls"}]</script>"#;

/// Posts a body and gives status and body of the answer. HTTP/1.0, so that the body comes without chunks.
fn post(path: &str, body: &Value) -> (u16, String) {
    let model = ScriptedModel::start().expect("listens");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, model.port)).expect("connects");
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .expect("sends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    (status.expect("a status"), body.to_owned())
}

/// The events of a stream: name, or nothing, and data.
fn events(body: &str) -> Vec<(String, Value)> {
    let frames = body.split("\n\n").filter(|frame| !frame.is_empty());
    let event = |frame: &str| {
        let mut name = String::new();
        let mut data = Value::Null;
        for line in frame.lines() {
            if let Some(value) = line.strip_prefix("event: ") {
                value.clone_into(&mut name);
            }
            if let Some(value) = line.strip_prefix("data: ") {
                data = serde_json::from_str(value).unwrap_or(json!(value));
            }
        }
        (name, data)
    };
    frames.map(event).collect()
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

fn anthropic(messages: &Value, stream: bool) -> Value {
    let tool =
        json!({"name": "Bash", "input_schema": {"properties": {"command": {"type": "string"}}}});
    json!({"model": "m", "stream": stream, "messages": messages, "tools": [tool]})
}

#[test]
fn anthropic_streams_blocks_in_deltas() {
    let messages = json!([{"role": "user", "content": [{"type": "text", "text": SCRIPT}]}]);
    let (status, body) = post("/v1/messages?beta=true", &anthropic(&messages, true));
    let events = events(&body);
    assert_eq!(status, 200);
    assert_eq!(
        names(&events),
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    assert_eq!(
        events[2].1["delta"],
        json!({"type": "text_delta", "text": "I will."})
    );
    assert_eq!(events[4].1["content_block"]["name"], "Bash");
    assert_eq!(events[5].1["delta"]["partial_json"], r#"{"command":"ls"}"#);
    assert_eq!(events[7].1["delta"]["stop_reason"], "tool_use");
}

#[test]
fn anthropic_answers_in_one_piece_and_counts() {
    let result = json!([{"type": "tool_result", "content": [{"type": "text", "text": "a.txt"}]},
        {"type": "text", "text": "<system-reminder>"}]);
    let messages = json!([{"role": "user", "content": SCRIPT}, {"role": "assistant", "content": []},
        {"role": "user", "content": result}]);
    let (status, body) = post("/v1/messages", &anthropic(&messages, false));
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(status, 200);
    assert_eq!(body["stop_reason"], "end_turn");
    let text = "The script is over. The last result: a.txt";
    assert_eq!(body["content"], json!([{"type": "text", "text": text}]));
    let counted = post("/v1/messages/count_tokens", &json!({}));
    assert_eq!(counted, (200, json!({"input_tokens": 100}).to_string()));
}

#[test]
fn errors_look_like_each_apis() {
    let script = r#"<script>[{"error":529}]</script>"#;
    let messages = json!([{"role": "user", "content": script}]);
    let (status, body) = post("/v1/messages", &anthropic(&messages, true));
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        (status, &body["error"]["type"]),
        (529, &json!("overloaded_error"))
    );
    let tool = json!({"type": "function", "name": "shell", "parameters": {}});
    let (status, body) = post("/v1/responses", &json!({"input": script, "tools": [tool]}));
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(
        (status, &body["error"]["message"]),
        (529, &json!("scripted error 529"))
    );
}

#[test]
fn responses_stream_items_with_their_numbers() {
    let tool = json!({"type": "function", "name": "exec_command",
        "parameters": {"properties": {"cmd": {"type": "string"}}}});
    let input = json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": SCRIPT}]}]);
    let body = json!({"model": "m", "stream": true, "input": input, "tools": [tool, {"type": "web_search"}]});
    let (_, body) = post("/v1/responses", &body);
    let events = events(&body);
    assert_eq!(
        names(&events),
        [
            "response.created",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.output_item.done",
            "response.completed"
        ]
    );
    let numbers: Vec<&Value> = events
        .iter()
        .map(|(_, data)| &data["sequence_number"])
        .collect();
    assert_eq!(json!(numbers), json!([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
    let call = &events[8].1["item"];
    assert_eq!(
        (&call["type"], &call["arguments"]),
        (&json!("function_call"), &json!(r#"{"cmd":"ls"}"#))
    );
    assert_eq!(events[9].1["response"]["output"][1], *call);
}

#[test]
fn what_is_not_known_is_not_found() {
    assert_eq!(post("/v1/dance", &json!({})).0, 404);
    assert_eq!(post("/v1/messages", &json!({})).0, 200);
}

//! The Anthropic Messages API.

use serde_json::{Value, json};

use super::conversation::{Conversation, Item, Part, text_of};
use super::message::{Frame, INPUT_TOKENS, Message, OUTPUT_TOKENS, fields, pieces};
use super::tools::Offer;

pub(super) fn read(body: &Value) -> Conversation {
    let messages = body["messages"].as_array().into_iter().flatten();
    let users = messages.filter(|message| message["role"] == "user");
    let tools = body["tools"].as_array().into_iter().flatten();
    Conversation {
        items: users
            .flat_map(|message| items(&message["content"]))
            .collect(),
        // A deferred tool is only a name until the model searched for it.
        offers: tools
            .filter(|tool| tool["defer_loading"] != true)
            .map(offer)
            .collect(),
        model: text_of(&body["model"]),
        stream: body["stream"] == true,
    }
}

fn items(content: &Value) -> Vec<Item> {
    let Some(blocks) = content.as_array() else {
        return vec![Item::User(text_of(content))];
    };
    let items = blocks.iter().map(|block| match block["type"].as_str() {
        Some("tool_result") => Item::Result(text_of(&block["content"])),
        _ => Item::User(text_of(block)),
    });
    items.collect()
}

fn offer(tool: &Value) -> Offer {
    Offer {
        name: text_of(&tool["name"]),
        schema: tool["input_schema"].clone(),
    }
}

/// The answer in one piece.
pub(super) fn whole(message: &Message) -> Value {
    let numbered = message.parts.iter().enumerate();
    let content: Vec<Value> = numbered
        .filter_map(|(at, part)| block(message, at, part))
        .collect();
    let mut whole = envelope(message);
    whole["content"] = json!(content);
    whole["stop_reason"] = json!(stop_reason(message));
    whole
}

fn block(message: &Message, at: usize, part: &Part) -> Option<Value> {
    match part {
        Part::Text(text) => Some(json!({"type": "text", "text": text})),
        Part::Call(call) => Some(json!({
            "type": "tool_use", "id": message.call_id("toolu", at), "name": call.name, "input": fields(call),
        })),
        Part::Pause(_) => None,
    }
}

fn envelope(message: &Message) -> Value {
    json!({
        "id": format!("msg_{}", message.id), "type": "message", "role": "assistant",
        "model": message.model, "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        },
    })
}

fn stop_reason(message: &Message) -> &'static str {
    if message.calls() {
        "tool_use"
    } else {
        "end_turn"
    }
}

/// The answer as a stream.
pub(super) fn frames(message: &Message) -> Vec<Frame> {
    let mut frames = vec![named(
        "message_start",
        json!({"message": envelope(message)}),
    )];
    let mut index = 0;
    for (at, part) in message.parts.iter().enumerate() {
        if let Part::Pause(duration) = part {
            frames.push(Frame::Pause(*duration));
        } else {
            frames.extend(block_frames(message, at, part, index));
            index += 1;
        }
    }
    let delta = json!({
        "delta": {"stop_reason": stop_reason(message), "stop_sequence": null},
        "usage": {"output_tokens": OUTPUT_TOKENS},
    });
    frames.push(named("message_delta", delta));
    frames.push(named("message_stop", json!({})));
    frames
}

/// A block starts empty, and what it holds follows in deltas.
fn block_frames(message: &Message, at: usize, part: &Part, index: usize) -> Vec<Frame> {
    let mut start = block(message, at, part).unwrap_or_default();
    let (kind, key, text) = match part {
        Part::Call(call) => {
            start["input"] = json!({});
            ("input_json_delta", "partial_json", fields(call).to_string())
        }
        Part::Text(text) => {
            start["text"] = json!("");
            ("text_delta", "text", text.clone())
        }
        Part::Pause(_) => return Vec::new(),
    };
    let start = json!({"index": index, "content_block": start});
    let mut frames = vec![named("content_block_start", start)];
    for piece in pieces(&text) {
        let delta = json!({"index": index, "delta": {"type": kind, key: piece}});
        frames.push(named("content_block_delta", delta));
    }
    frames.push(named("content_block_stop", json!({"index": index})));
    frames
}

fn named(name: &'static str, mut data: Value) -> Frame {
    data["type"] = json!(name);
    Frame::Named(name, data)
}

pub(super) fn failure(status: u16) -> Value {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    let message = format!("scripted error {status}");
    json!({"type": "error", "error": {"type": kind, "message": message}})
}

pub(super) fn count_tokens() -> Value {
    json!({"input_tokens": INPUT_TOKENS})
}

//! The chat completions API of `OpenAI`.

use serde_json::{Value, json};

use super::conversation::{Conversation, Item, Part, text_of};
use super::message::{Frame, INPUT_TOKENS, Message, OUTPUT_TOKENS, fields, pieces};
use super::tools::Offer;

/// Reads a request.
pub(super) fn read(body: &Value) -> Conversation {
    let messages = body["messages"].as_array().into_iter().flatten();
    let tools = body["tools"].as_array().into_iter().flatten();
    Conversation {
        items: messages.filter_map(item).collect(),
        offers: tools.map(offer).collect(),
        model: text_of(&body["model"]),
        stream: body["stream"] == true,
    }
}

fn item(message: &Value) -> Option<Item> {
    let text = text_of(&message["content"]);
    match message["role"].as_str()? {
        "user" => Some(Item::User(text)),
        "tool" => Some(Item::Result(text)),
        _ => None,
    }
}

fn offer(tool: &Value) -> Offer {
    Offer {
        name: text_of(&tool["function"]["name"]),
        schema: tool["function"]["parameters"].clone(),
    }
}

/// The answer in one piece.
pub(super) fn whole(message: &Message) -> Value {
    let text: String = message.parts.iter().filter_map(text).collect();
    let numbered = message.parts.iter().enumerate();
    let calls: Vec<Value> = numbered
        .filter_map(|(at, part)| call(message, at, part))
        .collect();
    let mut said = json!({"role": "assistant", "content": text});
    if !calls.is_empty() {
        said["tool_calls"] = json!(calls);
    }
    let choice = json!({"index": 0, "message": said, "finish_reason": finish_reason(message)});
    let mut whole = envelope(message, "chat.completion", &json!([choice]));
    whole["usage"] = usage();
    whole
}

fn text(part: &Part) -> Option<&str> {
    match part {
        Part::Text(text) => Some(text),
        Part::Call(_) | Part::Pause(_) => None,
    }
}

fn call(message: &Message, at: usize, part: &Part) -> Option<Value> {
    let Part::Call(call) = part else { return None };
    let function = json!({"name": call.name, "arguments": fields(call).to_string()});
    Some(json!({"id": message.call_id("call", at), "type": "function", "function": function}))
}

fn envelope(message: &Message, object: &str, choices: &Value) -> Value {
    json!({
        "id": format!("chatcmpl-{}", message.id), "object": object, "created": 0,
        "model": message.model, "choices": choices,
    })
}

fn finish_reason(message: &Message) -> &'static str {
    if message.calls() {
        "tool_calls"
    } else {
        "stop"
    }
}

fn usage() -> Value {
    json!({
        "prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    })
}

/// The answer as a stream.
pub(super) fn frames(message: &Message) -> Vec<Frame> {
    let mut frames = vec![chunk(
        message,
        &json!({"role": "assistant", "content": ""}),
        None,
    )];
    let mut index = 0;
    for (at, part) in message.parts.iter().enumerate() {
        match part {
            Part::Pause(duration) => frames.push(Frame::Pause(*duration)),
            Part::Text(text) => {
                let piece = |piece| chunk(message, &json!({"content": piece}), None);
                frames.extend(pieces(text).into_iter().map(piece));
            }
            Part::Call(_) => {
                let mut call = call(message, at, part).unwrap_or_default();
                call["index"] = json!(index);
                index += 1;
                frames.push(chunk(message, &json!({"tool_calls": [call]}), None));
            }
        }
    }
    frames.push(chunk(message, &json!({}), Some(finish_reason(message))));
    let mut last = envelope(message, "chat.completion.chunk", &json!([]));
    last["usage"] = usage();
    frames.push(Frame::Plain(last));
    frames.push(Frame::Done);
    frames
}

fn chunk(message: &Message, delta: &Value, finish_reason: Option<&str>) -> Frame {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    Frame::Plain(envelope(message, "chat.completion.chunk", &json!([choice])))
}

/// How a failure looks, here and in the responses API.
pub(super) fn failure(status: u16) -> Value {
    let message = format!("scripted error {status}");
    json!({"error": {"message": message, "type": "scripted", "param": null, "code": null}})
}

//! The Gemini API, as far as Gemini CLI uses it.

use serde_json::{Value, json};

use super::conversation::{Conversation, Item, Part, text_of};
use super::message::{Frame, INPUT_TOKENS, Message, OUTPUT_TOKENS, fields, pieces};
use super::tools::Offer;

/// Reads a request whose answer comes in one piece.
pub(super) fn read(body: &Value) -> Conversation {
    let contents = body["contents"].as_array().into_iter().flatten();
    let users = contents.filter(|content| content["role"] != "model");
    let parts = users.flat_map(|content| content["parts"].as_array().into_iter().flatten());
    let tools = body["tools"].as_array().into_iter().flatten();
    let declared = tools.flat_map(|tool| {
        let declared = tool["functionDeclarations"].as_array();
        declared.into_iter().flatten()
    });
    Conversation {
        items: parts.map(item).collect(),
        offers: declared.map(offer).collect(),
        // It is a part of the path, and nothing here depends on it.
        model: "scripted".to_owned(),
        stream: false,
    }
}

/// Reads a request whose answer is streamed, which only its path says.
pub(super) fn read_streamed(body: &Value) -> Conversation {
    Conversation {
        stream: true,
        ..read(body)
    }
}

fn item(part: &Value) -> Item {
    let response = &part["functionResponse"]["response"];
    if response.is_null() {
        Item::User(text_of(part))
    } else {
        // A failure stands under another name than a result.
        let text = response.get("error").unwrap_or(response);
        Item::Result(text_of(text))
    }
}

fn offer(tool: &Value) -> Offer {
    let schema = tool.get("parametersJsonSchema");
    Offer {
        name: text_of(&tool["name"]),
        schema: schema.unwrap_or(&tool["parameters"]).clone(),
    }
}

/// The answer in one piece.
pub(super) fn whole(message: &Message) -> Value {
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(json!({"text": text})),
        other => call(other),
    });
    candidate(&parts.collect::<Vec<_>>(), true)
}

/// The answer as a stream.
pub(super) fn frames(message: &Message) -> Vec<Frame> {
    let mut frames = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text(text) => frames.extend(pieces(text).iter().map(|piece| {
                let part = json!({"text": piece});
                Frame::Unnamed(candidate(&[part], false))
            })),
            Part::Pause(duration) => frames.push(Frame::Pause(*duration)),
            Part::Call(_) => {
                let part: Vec<Value> = call(part).into_iter().collect();
                frames.push(Frame::Unnamed(candidate(&part, false)));
            }
        }
    }
    frames.push(Frame::Unnamed(candidate(&[json!({"text": ""})], true)));
    frames
}

fn call(part: &Part) -> Option<Value> {
    match part {
        Part::Call(call) => {
            Some(json!({"functionCall": {"name": call.name, "args": fields(call)}}))
        }
        Part::Text(_) | Part::Pause(_) => None,
    }
}

fn candidate(parts: &[Value], is_last: bool) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if is_last {
        candidate["finishReason"] = json!("STOP");
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": INPUT_TOKENS, "candidatesTokenCount": OUTPUT_TOKENS,
            "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
        },
        "modelVersion": "scripted",
    })
}

/// The answer that an HTTP status comes with.
pub(super) fn failure(status: u16) -> Value {
    json!({"error": {"code": status, "message": "scripted failure", "status": "UNAVAILABLE"}})
}

/// How many tokens a request has.
pub(super) fn count_tokens() -> Value {
    json!({"totalTokens": INPUT_TOKENS})
}

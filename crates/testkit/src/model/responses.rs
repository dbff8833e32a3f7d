//! The responses API of `OpenAI`.

use serde_json::{Value, json};

use super::conversation::{Conversation, Item, Part, text_of};
use super::message::{Frame, INPUT_TOKENS, Message, OUTPUT_TOKENS, pieces};
use super::tools::{Input, Offer};

pub(super) fn read(body: &Value) -> Conversation {
    let input = &body["input"];
    let items = match input.as_array() {
        Some(items) => items.iter().filter_map(item).collect(),
        None => vec![Item::User(text_of(input))],
    };
    let tools = body["tools"].as_array().into_iter().flatten();
    Conversation {
        items,
        offers: tools.flat_map(offers).collect(),
        model: text_of(&body["model"]),
        stream: body["stream"] == true,
    }
}

fn item(item: &Value) -> Option<Item> {
    let kind = item["type"].as_str().unwrap_or("message");
    if kind == "message" {
        return (item["role"] == "user").then(|| Item::User(text_of(&item["content"])));
    }
    kind.ends_with("_output")
        .then(|| Item::Result(text_of(&item["output"])))
}

/// Tools may stand in a namespace: the server of tools that they come from.
fn offers(tool: &Value) -> Vec<Offer> {
    if tool["type"] != "namespace" {
        return offer(tool).into_iter().collect();
    }
    let inner = tool["tools"].as_array().into_iter().flatten();
    let inner = inner.filter_map(offer).map(|offer| Offer {
        name: format!("{}__{}", text_of(&tool["name"]), offer.name),
        ..offer
    });
    inner.collect()
}

/// The namespace of a tool, if it has one, and its name there.
fn apart(name: &str) -> (Option<&str>, &str) {
    match name.rsplit_once("__") {
        Some((namespace, name)) if namespace.starts_with("mcp__") => (Some(namespace), name),
        _ => (None, name),
    }
}

/// Tools that the API itself runs (a web search, say) have no name and are not offered to us.
fn offer(tool: &Value) -> Option<Offer> {
    let name = tool["name"].as_str()?.to_owned();
    let schema = match tool["type"].as_str()? {
        "function" => tool["parameters"].clone(),
        "custom" => Value::Null,
        _ => return None,
    };
    Some(Offer { name, schema })
}

/// The answer in one piece.
pub(super) fn whole(message: &Message) -> Value {
    let numbered = message.parts.iter().enumerate();
    let output: Vec<Value> = numbered
        .filter_map(|(at, part)| output(message, at, part))
        .collect();
    envelope(message, "completed", &json!(output))
}

fn output(message: &Message, at: usize, part: &Part) -> Option<Value> {
    match part {
        Part::Pause(_) => None,
        Part::Text(text) => Some(json!({
            "type": "message", "id": message.call_id("msg", at), "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        })),
        Part::Call(call) => {
            let (kind, key, value) = match &call.input {
                Input::Text(text) => ("custom_tool_call", "input", text.clone()),
                Input::Fields(fields) => ("function_call", "arguments", fields.to_string()),
            };
            let (namespace, name) = apart(&call.name);
            let mut item = json!({
                "type": kind, "id": message.call_id("fc", at), "call_id": message.call_id("call", at),
                "status": "completed", "name": name, key: value,
            });
            if let Some(namespace) = namespace {
                item["namespace"] = json!(namespace);
            }
            Some(item)
        }
    }
}

fn envelope(message: &Message, status: &str, output: &Value) -> Value {
    json!({
        "id": format!("resp_{}", message.id), "object": "response", "created_at": 0, "status": status,
        "model": message.model, "output": output, "error": null, "incomplete_details": null,
        "usage": {
            "input_tokens": INPUT_TOKENS, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": OUTPUT_TOKENS, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
        },
    })
}

/// The answer as a stream.
pub(super) fn frames(message: &Message) -> Vec<Frame> {
    let started = envelope(message, "in_progress", &json!([]));
    let mut events = vec![Frame::Named(
        "response.created",
        json!({"response": started}),
    )];
    let mut index = 0;
    for (at, part) in message.parts.iter().enumerate() {
        if let Part::Pause(duration) = part {
            events.push(Frame::Pause(*duration));
        } else if let Some(item) = output(message, at, part) {
            events.extend(item_events(&item, index, part));
            index += 1;
        }
    }
    events.push(Frame::Named(
        "response.completed",
        json!({"response": whole(message)}),
    ));
    number(events)
}

/// Every event also carries its name and number.
fn number(mut frames: Vec<Frame>) -> Vec<Frame> {
    for (number, frame) in frames.iter_mut().enumerate() {
        if let Frame::Named(name, data) = frame {
            data["type"] = json!(name);
            data["sequence_number"] = json!(number);
        }
    }
    frames
}

fn item_events(item: &Value, index: usize, part: &Part) -> Vec<Frame> {
    let mut started = item.clone();
    started["status"] = json!("in_progress");
    if matches!(part, Part::Text(_)) {
        started["content"] = json!([]);
    }
    let added = json!({"output_index": index, "item": started});
    let mut events = vec![Frame::Named("response.output_item.added", added)];
    if let Part::Text(text) = part {
        events.extend(text_events(text, &item["id"], index));
    }
    let done = json!({"output_index": index, "item": item});
    events.push(Frame::Named("response.output_item.done", done));
    events
}

fn text_events(text: &str, id: &Value, index: usize) -> Vec<Frame> {
    let place = json!({"item_id": id, "output_index": index, "content_index": 0});
    let mut events = vec![text_event(
        "response.content_part.added",
        &place,
        "part",
        text_part(""),
    )];
    for piece in pieces(text) {
        events.push(text_event(
            "response.output_text.delta",
            &place,
            "delta",
            json!(piece),
        ));
    }
    events.push(text_event(
        "response.output_text.done",
        &place,
        "text",
        json!(text),
    ));
    events.push(text_event(
        "response.content_part.done",
        &place,
        "part",
        text_part(text),
    ));
    events
}

fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

fn text_event(name: &'static str, place: &Value, key: &str, value: Value) -> Frame {
    let mut data = place.clone();
    data[key] = value;
    Frame::Named(name, data)
}

pub(super) fn failure(status: u16) -> Value {
    let message = format!("scripted error {status}");
    json!({"error": {"message": message, "type": "scripted", "param": null, "code": null}})
}

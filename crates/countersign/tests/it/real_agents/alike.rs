//! Stories of two agents that did the same, made alike: without what sets one run apart from another.

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::actor::Actor;
use super::stage::Stage;
use super::told;

/// What Codex puts into the input of a call that is another in each run.
const OF_ONE_RUN: [&str; 4] = ["call_id", "turn_id", "started_at_ms", "process_id"];

/// What an agent said and did, as another that did the same would have it.
pub(super) async fn story(stage: &mut Stage, actor: &Actor) -> Vec<Value> {
    let mut story = stage.story(actor).await;
    let mut ids: Vec<Value> = Vec::new();
    for entry in &mut story {
        if let Some(id) = entry.get_mut("id") {
            if !ids.contains(id) {
                ids.push(id.clone());
            }
            *id = json!(ids.iter().position(|known| known == id));
        }
        let input = entry.get_mut("input").and_then(Value::as_object_mut);
        if let Some(input) = input {
            input.retain(|name, _| !OF_ONE_RUN.contains(&name.as_str()));
        }
        if stage.kind == RealAgent::Codex
            && let Some(text) = entry["text"].as_str()
        {
            entry["text"] = json!(codex_words(text));
        }
    }
    if stage.kind == RealAgent::Codex {
        story = without_results(story);
    }
    let mut story = joined(story);
    if stage.kind == RealAgent::Claude {
        story = with_text_before_calls(story);
    }
    let text = json!(story).to_string();
    let text = text.replace(actor.work.to_str().unwrap(), "WORK");
    serde_json::from_str(&text).unwrap()
}

/// Codex tells its client the end of a command before or after what its model says next, and leaves out
/// what the command wrote, or the beginning of it, as it happens. What the model heard of it is in the
/// words that follow.
fn without_results(story: Vec<Value>) -> Vec<Value> {
    let mut told: Vec<Value> = Vec::new();
    for entry in story
        .into_iter()
        .filter(|entry| entry["type"] != "tool_result")
    {
        match told.last_mut() {
            Some(last) if last["type"] == "assistant" && entry["type"] == "assistant" => {
                let text = [&last["text"], &entry["text"]].map(|text| text.as_str().unwrap());
                last["text"] = json!(text.concat());
            }
            _ => told.push(entry),
        }
    }
    told
}

/// Claude's ACP agent announces a call as soon as its permission is asked for, and that request takes
/// another channel than the text of the model: text that the model wrote right before a call may be
/// sent right after it. The record has both in the order in which they were sent.
fn with_text_before_calls(story: Vec<Value>) -> Vec<Value> {
    let mut ordered: Vec<Value> = Vec::new();
    for entry in story {
        let last = ordered.last().map(|last| last["type"].clone());
        match last {
            Some(last) if last == "tool_use" && entry["type"] == "assistant" => {
                ordered.insert(ordered.len() - 1, entry);
            }
            _ => ordered.push(entry),
        }
    }
    ordered
}

/// What is told of a call before its end, in one piece: what comes at once is told at once, and what
/// comes at once depends on who is faster.
fn joined(story: Vec<Value>) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for entry in story {
        let is_call = entry["type"] == "tool_use";
        let known = joined.iter_mut().find(|known| {
            is_call && (&known["type"], &known["id"]) == (&entry["type"], &entry["id"])
        });
        match (known, entry) {
            (Some(Value::Object(known)), Value::Object(more)) => known.extend(more),
            (_, entry) => joined.push(entry),
        }
    }
    joined
}

/// Codex tells its model how long a command took under a name of its own. It shows its client what a
/// command prints only from when it looks, and as code only if it looked before the end.
fn codex_words(text: &str) -> String {
    let text = text.replace(&told::first_lines(), "");
    let code = text.strip_prefix("```sh\n");
    let code = code.and_then(|rest| rest.strip_suffix("```\n"));
    let text = code.unwrap_or(&text);
    let own = text.split_once("Chunk ID: ");
    let own = own.and_then(|(before, rest)| Some((before, rest.split_once(" seconds\n")?.1)));
    match own {
        Some((before, after)) => [before, after].concat(),
        None => text.to_owned(),
    }
}

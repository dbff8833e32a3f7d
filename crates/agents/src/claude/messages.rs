//! Messages in our words.
//!
//! Invariant: every message ends as a report, a transcript entry, or both; one that has no words of
//! ours is kept as it came.

use countersign_core::event::{AgentPlan, PlanStep, ToolStatus, TranscriptEntry};
use countersign_core::limits::{
    PLAN_STEPS_MAX, TOOL_CALLS_KNOWN_MAX, TOOL_RESULT_BYTES_MAX, WORD_BYTES_MAX,
};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::state::State;
use super::{Message, stream};
use crate::adapter::{AdapterOutput, AgentEvent, AgentReport};
use crate::truncate::{cut, kept, shorten};

/// Kept as it came.
pub(super) fn other(heard: &mut AdapterOutput, update: &RawValue) {
    let entry = match kept(update) {
        Some(update) => TranscriptEntry::Other { update },
        None => TranscriptEntry::Notice {
            text: format!("an update of {} bytes was left out", update.get().len()),
        },
    };
    say(heard, entry);
}

fn say(heard: &mut AdapterOutput, entry: TranscriptEntry) {
    heard.events.push(AgentEvent::Transcript(entry));
}

fn note(heard: &mut AdapterOutput, text: &str) {
    let text = shorten(text);
    say(heard, TranscriptEntry::Notice { text });
}

#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow)]
    message: Content<'a>,
    #[serde(default, rename = "isReplay")]
    is_replay: bool,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(default)]
    id: String,
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: String,
    },
    Thinking {
        thinking: String,
    },
    ToolUse {
        id: String,
        name: String,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Value,
        #[serde(default)]
        is_error: Option<bool>,
    },
    #[serde(other)]
    Other,
}

/// The input of a tool, to the byte.
#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow)]
    input: &'a RawValue,
}

/// A whole message of the agent.
pub(super) fn take_assistant(
    state: &mut State,
    heard: &mut AdapterOutput,
    message: &Message<'_>,
) -> Option<()> {
    let whole: Whole<'_> = message.parse()?;
    let blocks: Vec<&RawValue> = serde_json::from_str(whole.message.content.get()).ok()?;
    for raw in blocks {
        match serde_json::from_str(raw.get()) {
            Ok(Block::Text { text }) => {
                let text = stream::rest(state, &whole.message.id, &text).to_owned();
                if !text.is_empty() {
                    say(heard, TranscriptEntry::Assistant { text });
                }
            }
            Ok(Block::Thinking { thinking }) => {
                let text = stream::rest(state, &whole.message.id, &thinking).to_owned();
                if !text.is_empty() {
                    say(heard, TranscriptEntry::Thinking { text });
                }
            }
            Ok(Block::ToolUse { id, name }) if id.len() <= WORD_BYTES_MAX => {
                let input = serde_json::from_str(raw.get());
                let input = input.ok().map(|Input { input }| input);
                use_tool(state, heard, id, &name, input);
            }
            _ => other(heard, raw),
        }
    }
    Some(())
}

fn use_tool(
    state: &mut State,
    heard: &mut AdapterOutput,
    id: String,
    name: &str,
    input: Option<&RawValue>,
) {
    let fields = input.and_then(|input| serde_json::from_str(input.get()).ok());
    let fields: Value = fields.unwrap_or_default();
    if name == "TodoWrite" {
        plan(heard, &fields);
    }
    if state.calls.len() < TOOL_CALLS_KNOWN_MAX {
        state.calls.insert(id.clone());
    }
    let entry = TranscriptEntry::ToolUse {
        id,
        title: Some(title(name, &fields)),
        tool: Some(cut(name, WORD_BYTES_MAX)),
        input: input.and_then(kept),
        status: Some(ToolStatus::InProgress),
    };
    say(heard, entry);
}

/// A tool and what it is about.
pub(super) fn title(tool: &str, input: &Value) -> String {
    let names = [
        "command",
        "file_path",
        "notebook_path",
        "url",
        "pattern",
        "query",
        "description",
    ];
    let mut texts = names
        .iter()
        .filter_map(|name| input.get(*name)?.as_str())
        .filter(|text| !text.is_empty());
    match texts.next() {
        Some(text) => shorten(&format!("{tool}: {text}")),
        None => shorten(tool),
    }
}

fn plan(heard: &mut AdapterOutput, input: &Value) {
    let todos = input.get("todos").and_then(Value::as_array);
    let steps = todos.into_iter().flatten().take(PLAN_STEPS_MAX);
    let text = |todo: &Value, name: &str| {
        let text = todo.get(name).and_then(Value::as_str);
        cut(text.unwrap_or_default(), WORD_BYTES_MAX)
    };
    let steps = steps.map(|todo| PlanStep {
        text: text(todo, "content"),
        status: text(todo, "status"),
    });
    let plan = AgentPlan {
        steps: steps.collect(),
    };
    heard.events.push(AgentEvent::Reported(AgentReport {
        plan: Some(plan.clone()),
        ..AgentReport::default()
    }));
    say(heard, TranscriptEntry::Plan { plan });
}

/// What came of tools, and what the agent says that it was told.
pub(super) fn take_user(
    state: &mut State,
    heard: &mut AdapterOutput,
    message: &Message<'_>,
) -> Option<()> {
    let whole: Whole<'_> = message.parse()?;
    let content = whole.message.content.get();
    if let Ok(text) = serde_json::from_str::<String>(content) {
        note(heard, &text);
        return Some(());
    }
    let blocks: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    for raw in blocks {
        match serde_json::from_str(raw.get()) {
            Ok(Block::ToolResult {
                tool_use_id,
                content,
                is_error,
            }) if tool_use_id.len() <= WORD_BYTES_MAX => {
                state.calls.remove(&tool_use_id);
                let status = if is_error == Some(true) {
                    ToolStatus::Failed
                } else {
                    ToolStatus::Completed
                };
                let text = cut(&text_of(&content), TOOL_RESULT_BYTES_MAX);
                let id = tool_use_id;
                say(heard, TranscriptEntry::ToolResult { id, status, text });
            }
            // What it was told is recorded where it is told, and that it was interrupted too.
            Ok(Block::Text { text })
                if whole.is_replay
                    || message.parent.is_some()
                    || text.starts_with("[Request interrupted") => {}
            Ok(Block::Text { text }) => {
                let text = format!("the agent says that it was told: {text}");
                note(heard, &text);
            }
            _ => other(heard, raw),
        }
    }
    Some(())
}

/// The words of a result; what is not text is named.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().map(|block| {
                let kind = block.get("type").and_then(Value::as_str);
                match block.get("text").and_then(Value::as_str) {
                    Some(text) => text.to_owned(),
                    None => format!("({})", kind.unwrap_or("something that is not text")),
                }
            });
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[derive(Deserialize)]
struct System {
    #[serde(default)]
    model: Option<String>,
    #[serde(default, rename = "permissionMode")]
    mode: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    summary: Option<String>,
}

/// What the agent says about itself.
pub(super) fn take_system(
    state: &mut State,
    heard: &mut AdapterOutput,
    message: &Message<'_>,
) -> Option<()> {
    let system: System = message.parse()?;
    match message.subtype.as_deref()? {
        "init" => report(state, heard, system.mode, system.model),
        "status" => {
            report(state, heard, system.mode, None);
            if system.status.as_deref() == Some("compacting") {
                note(heard, "the agent shortens its memory");
            }
        }
        "compact_boundary" => note(heard, "the agent shortened its memory"),
        "task_notification" => {
            let words = system.summary.unwrap_or_default();
            note(heard, &format!("the agent notes: {words}"));
        }
        // What its own screen draws anew, and tasks that are told of when they end.
        "ui_invalidate"
        | "background_tasks_changed"
        | "task_started"
        | "task_updated"
        | "task_progress"
        | "session_state_changed" => {}
        _ => return None,
    }
    Some(())
}

/// Tells of a mode or model that is another than before.
pub(super) fn report(
    state: &mut State,
    heard: &mut AdapterOutput,
    mode: Option<String>,
    model: Option<String>,
) {
    let word = |text: String| cut(&text, WORD_BYTES_MAX);
    let mode = mode
        .map(word)
        .filter(|mode| state.mode.as_ref() != Some(mode));
    let model = model
        .map(word)
        .filter(|model| state.model.as_ref() != Some(model));
    if mode.is_none() && model.is_none() {
        return;
    }
    state.mode = mode.clone().or(state.mode.take());
    state.model = model.clone().or(state.model.take());
    heard.events.push(AgentEvent::Reported(AgentReport {
        mode,
        model,
        ..AgentReport::default()
    }));
}

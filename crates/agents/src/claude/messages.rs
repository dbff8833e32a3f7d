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

use super::state::ClaudeState;
use super::{ClaudeMessage, stream};
use crate::adapter::{AdapterOutput, AgentEvent, AgentReport};
use crate::truncate::{to_bounded_json, truncate, truncate_noise};

/// Kept as it came.
pub(super) fn record_unknown(heard: &mut AdapterOutput, update: &RawValue) {
    let entry = match to_bounded_json(update) {
        Some(update) => TranscriptEntry::Other { update },
        None => TranscriptEntry::Notice {
            text: format!("an update of {} bytes was left out", update.get().len()),
        },
    };
    record_entry(heard, entry);
}

fn record_entry(heard: &mut AdapterOutput, entry: TranscriptEntry) {
    heard.events.push(AgentEvent::Transcript(entry));
}

fn record_notice(heard: &mut AdapterOutput, text: &str) {
    let text = truncate_noise(text);
    record_entry(heard, TranscriptEntry::Notice { text });
}

#[derive(Deserialize)]
struct WholeMessage<'a> {
    #[serde(borrow)]
    message: MessageContent<'a>,
    #[serde(default, rename = "isReplay")]
    is_replay: bool,
}

#[derive(Deserialize)]
struct MessageContent<'a> {
    #[serde(default)]
    id: String,
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum MessageBlock {
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
struct ToolUseInput<'a> {
    #[serde(borrow)]
    input: &'a RawValue,
}

/// A whole message of the agent.
pub(super) fn handle_assistant(
    state: &mut ClaudeState,
    heard: &mut AdapterOutput,
    message: &ClaudeMessage<'_>,
) -> Option<()> {
    let whole: WholeMessage<'_> = message.parse()?;
    let blocks: Vec<&RawValue> = serde_json::from_str(whole.message.content.get()).ok()?;
    for raw in blocks {
        match serde_json::from_str(raw.get()) {
            Ok(MessageBlock::Text { text }) => {
                let text = stream::untold_part(state, &whole.message.id, &text).to_owned();
                if !text.is_empty() {
                    record_entry(heard, TranscriptEntry::Assistant { text });
                }
            }
            Ok(MessageBlock::Thinking { thinking }) => {
                let text = stream::untold_part(state, &whole.message.id, &thinking).to_owned();
                if !text.is_empty() {
                    record_entry(heard, TranscriptEntry::Thinking { text });
                }
            }
            Ok(MessageBlock::ToolUse { id, name }) if id.len() <= WORD_BYTES_MAX => {
                let input = serde_json::from_str(raw.get());
                let input = input.ok().map(|ToolUseInput { input }| input);
                record_tool_use(state, heard, id, &name, input);
            }
            _ => record_unknown(heard, raw),
        }
    }
    Some(())
}

fn record_tool_use(
    state: &mut ClaudeState,
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
        tool: Some(truncate(name, WORD_BYTES_MAX)),
        input: input.and_then(to_bounded_json),
        status: Some(ToolStatus::InProgress),
    };
    record_entry(heard, entry);
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
        Some(text) => truncate_noise(&format!("{tool}: {text}")),
        None => truncate_noise(tool),
    }
}

fn plan(heard: &mut AdapterOutput, input: &Value) {
    let todos = input.get("todos").and_then(Value::as_array);
    let steps = todos.into_iter().flatten().take(PLAN_STEPS_MAX);
    let text = |todo: &Value, name: &str| {
        let text = todo.get(name).and_then(Value::as_str);
        truncate(text.unwrap_or_default(), WORD_BYTES_MAX)
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
    record_entry(heard, TranscriptEntry::Plan { plan });
}

/// What came of tools, and what the agent says that it was told.
pub(super) fn handle_user(
    state: &mut ClaudeState,
    heard: &mut AdapterOutput,
    message: &ClaudeMessage<'_>,
) -> Option<()> {
    let whole: WholeMessage<'_> = message.parse()?;
    let content = whole.message.content.get();
    if let Ok(text) = serde_json::from_str::<String>(content) {
        record_notice(heard, &text);
        return Some(());
    }
    let blocks: Vec<&RawValue> = serde_json::from_str(content).ok()?;
    for raw in blocks {
        match serde_json::from_str(raw.get()) {
            Ok(MessageBlock::ToolResult {
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
                let text = truncate(&text_of(&content), TOOL_RESULT_BYTES_MAX);
                let id = tool_use_id;
                record_entry(heard, TranscriptEntry::ToolResult { id, status, text });
            }
            // What it was told is recorded where it is told, and that it was interrupted too.
            Ok(MessageBlock::Text { text })
                if whole.is_replay
                    || message.parent.is_some()
                    || text.starts_with("[Request interrupted") => {}
            Ok(MessageBlock::Text { text }) => {
                let text = format!("the agent says that it was told: {text}");
                record_notice(heard, &text);
            }
            _ => record_unknown(heard, raw),
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
struct SystemMessage {
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
pub(super) fn handle_system(
    state: &mut ClaudeState,
    heard: &mut AdapterOutput,
    message: &ClaudeMessage<'_>,
) -> Option<()> {
    let system: SystemMessage = message.parse()?;
    match message.subtype.as_deref()? {
        "init" => report_if_changed(state, heard, system.mode, system.model),
        "status" => {
            report_if_changed(state, heard, system.mode, None);
            if system.status.as_deref() == Some("compacting") {
                record_notice(heard, "the agent shortens its memory");
            }
        }
        "compact_boundary" => record_notice(heard, "the agent shortened its memory"),
        "task_notification" => {
            let words = system.summary.unwrap_or_default();
            record_notice(heard, &format!("the agent notes: {words}"));
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
pub(super) fn report_if_changed(
    state: &mut ClaudeState,
    heard: &mut AdapterOutput,
    mode: Option<String>,
    model: Option<String>,
) {
    let word = |text: String| truncate(&text, WORD_BYTES_MAX);
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

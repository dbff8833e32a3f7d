//! Translation of messages into events.
//!
//! Invariant: every message becomes a report, a transcript entry, or both; an unknown one is recorded as
//! it came.

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
    output: &mut AdapterOutput,
    message: &ClaudeMessage<'_>,
) -> Option<()> {
    let whole: WholeMessage<'_> = message.parse()?;
    let blocks: Vec<&RawValue> = serde_json::from_str(whole.message.content.get()).ok()?;
    // Each block is read from its own text: an input that was parsed and printed again is not what
    // runs.
    for raw in blocks {
        match serde_json::from_str(raw.get()) {
            Ok(MessageBlock::Text { text }) => {
                let text = stream::untold_part(state, &whole.message.id, &text).to_owned();
                if !text.is_empty() {
                    output.record_entry(TranscriptEntry::Assistant { text });
                }
            }
            Ok(MessageBlock::Thinking { thinking }) => {
                let text = stream::untold_part(state, &whole.message.id, &thinking).to_owned();
                if !text.is_empty() {
                    output.record_entry(TranscriptEntry::Thinking { text });
                }
            }
            Ok(MessageBlock::ToolUse { id, name }) if id.len() <= WORD_BYTES_MAX => {
                let input = serde_json::from_str(raw.get());
                let input = input.ok().map(|ToolUseInput { input }| input);
                record_tool_use(state, output, id, &name, input);
            }
            _ => output.record_unknown(raw),
        }
    }
    Some(())
}

fn record_tool_use(
    state: &mut ClaudeState,
    output: &mut AdapterOutput,
    id: String,
    name: &str,
    input: Option<&RawValue>,
) {
    let fields = input.and_then(|input| serde_json::from_str(input.get()).ok());
    let fields: Value = fields.unwrap_or_default();
    if name == "TodoWrite" {
        plan(output, &fields);
    }
    // Beyond the bound a call is only not closed at the end of its turn.
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
    output.record_entry(entry);
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
    // What a tool asks people is what it is about.
    let question = input.pointer("/questions/0/question");
    let mut texts = names
        .iter()
        .filter_map(|name| input.get(*name))
        .chain(question)
        .filter_map(Value::as_str)
        .filter(|text| !text.is_empty());
    match texts.next() {
        Some(text) => truncate_noise(&format!("{tool}: {text}")),
        None => truncate_noise(tool),
    }
}

fn plan(output: &mut AdapterOutput, input: &Value) {
    let todos = input.get("todos").and_then(Value::as_array);
    let steps = todos.into_iter().flatten().take(PLAN_STEPS_MAX);
    let steps = steps.map(|todo| PlanStep {
        text: read_word(todo, "content"),
        status: read_word(todo, "status"),
    });
    let plan = AgentPlan {
        steps: steps.collect(),
    };
    output.events.push(AgentEvent::Reported(AgentReport {
        plan: Some(plan.clone()),
        ..AgentReport::default()
    }));
    output.record_entry(TranscriptEntry::Plan { plan });
}

fn read_word(todo: &Value, name: &str) -> String {
    let text = todo.get(name).and_then(Value::as_str);
    truncate(text.unwrap_or_default(), WORD_BYTES_MAX)
}

/// What came of tools, and what the agent says that it was told.
pub(super) fn handle_user(
    state: &mut ClaudeState,
    output: &mut AdapterOutput,
    message: &ClaudeMessage<'_>,
) -> Option<()> {
    let whole: WholeMessage<'_> = message.parse()?;
    let content = whole.message.content.get();
    if let Ok(text) = serde_json::from_str::<String>(content) {
        output.record_notice(truncate_noise(&text));
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
                output.record_entry(TranscriptEntry::ToolResult { id, status, text });
            }
            // Prompts and interrupts are recorded where they are sent.
            Ok(MessageBlock::Text { text })
                if whole.is_replay
                    || message.parent.is_some()
                    || text.starts_with("[Request interrupted") => {}
            // As a notice: an agent must not be able to invent what a person said.
            Ok(MessageBlock::Text { text }) => {
                let text = format!("the agent says that it was told: {text}");
                output.record_notice(truncate_noise(&text));
            }
            _ => output.record_unknown(raw),
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
    output: &mut AdapterOutput,
    message: &ClaudeMessage<'_>,
) -> Option<()> {
    let system: SystemMessage = message.parse()?;
    match message.subtype.as_deref()? {
        "init" => report_if_changed(state, output, system.mode, system.model),
        "status" => {
            report_if_changed(state, output, system.mode, None);
            if system.status.as_deref() == Some("compacting") {
                output.record_notice("the agent shortens its memory".to_owned());
            }
        }
        "compact_boundary" => output.record_notice("the agent shortened its memory".to_owned()),
        "task_notification" => {
            let summary = system.summary.unwrap_or_default();
            output.record_notice(truncate_noise(&format!("the agent notes: {summary}")));
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
    output: &mut AdapterOutput,
    mode: Option<String>,
    model: Option<String>,
) {
    let mode = mode
        .map(|mode| truncate(&mode, WORD_BYTES_MAX))
        .filter(|mode| state.mode.as_ref() != Some(mode));
    let model = model
        .map(|model| truncate(&model, WORD_BYTES_MAX))
        .filter(|model| state.model.as_ref() != Some(model));
    if mode.is_none() && model.is_none() {
        return;
    }
    state.mode = mode.clone().or(state.mode.take());
    state.model = model.clone().or(state.model.take());
    output.events.push(AgentEvent::Reported(AgentReport {
        mode,
        model,
        ..AgentReport::default()
    }));
}

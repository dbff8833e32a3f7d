//! Translation of `session/update` into events.
//!
//! Invariant: every update becomes a report, a transcript entry, or both; an unknown one is recorded as
//! it came. What is replayed while a session is loaded is not recorded again.

use agent_client_protocol_schema::v1::{
    CompactionSummaryChunk, CompactionUpdate, ContentBlock, ContentChunk, CurrentModeUpdate,
    EmbeddedResourceResource, Notice, Plan as WirePlan, UsageUpdate,
};
use countersign_core::event::{AgentPlan, PlanStep, TokenUsage, ToolStatus, TranscriptEntry};
use countersign_core::limits::{PLAN_STEPS_MAX, TOOL_RESULT_BYTES_MAX, WORD_BYTES_MAX};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::call::{CallUpdate, ToolCallState};
use super::state::{AcpPhase, AcpState};
use super::{choice, envelope, permission, tool};
use crate::adapter::{AdapterOutput, AgentEvent, AgentReport, TurnEnd, to_micro_usd};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateParams<'a> {
    session_id: String,
    #[serde(borrow)]
    update: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateKind {
    session_update: String,
}

/// Takes one update.
pub(super) fn handle_update(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    params: Option<&RawValue>,
) {
    let params = params.map_or("null", RawValue::get);
    let Ok(params) = serde_json::from_str::<UpdateParams<'_>>(params) else {
        let noise = envelope::truncate_noise(params);
        return output.events.push(AgentEvent::Noise(noise));
    };
    if !state.is_our_session(&params.session_id) {
        let session = envelope::truncate_noise(&params.session_id);
        let noise = format!("an update for another session, `{session}`");
        return output.events.push(AgentEvent::Noise(noise));
    }
    if state.phase == AcpPhase::Replaying {
        let mut replayed = AdapterOutput::default();
        translate_update(state, &mut replayed, params.update);
        // Agents use their ids again: a replayed call must not be taken for one of the next turn.
        state.calls.close();
        // The transcript has these entries from the run that wrote them; mode and model are news.
        let reports = replayed
            .events
            .into_iter()
            .filter(|event| matches!(event, AgentEvent::Reported(_)));
        output.events.extend(reports);
    } else {
        translate_update(state, output, params.update);
    }
}

fn translate_update(state: &mut AcpState, output: &mut AdapterOutput, update: &RawValue) {
    let kind = serde_json::from_str::<UpdateKind>(update.get()).map(|kind| kind.session_update);
    let understood = match kind.as_deref() {
        // Prompts are recorded where they are sent. An agent must not be able to invent what a person said.
        Ok("user_message_chunk") => chunk(output, update, |text| TranscriptEntry::Notice {
            text: format!("the agent says that it was told: {text}"),
        }),
        Ok("agent_message_chunk") => {
            chunk(output, update, |text| TranscriptEntry::Assistant { text })
        }
        Ok("agent_thought_chunk") => {
            chunk(output, update, |text| TranscriptEntry::Thinking { text })
        }
        Ok("tool_call") => tool_call(state, output, update, true),
        Ok("tool_call_update") => tool_call(state, output, update, false),
        Ok("plan") => plan(output, update),
        Ok("usage_update") => usage(output, update),
        Ok("current_mode_update") => mode(state, output, update),
        Ok("config_option_update") => choice::handle_options_update(state, output, update),
        Ok("session_info_update") => title(output, update),
        Ok("notice") => notice(output, update),
        Ok("compaction_update") => compaction(output, update),
        Ok("compaction_summary_chunk") => compaction_summary(output, update),
        Ok("available_commands_update") => choice::handle_commands_update(output, update),
        _ => None,
    };
    if understood.is_none() {
        output.record_unknown(update);
    }
}

fn parse<T: DeserializeOwned>(update: &RawValue) -> Option<T> {
    serde_json::from_str(update.get()).ok()
}

fn chunk(
    output: &mut AdapterOutput,
    update: &RawValue,
    entry: impl Fn(String) -> TranscriptEntry,
) -> Option<()> {
    let chunk: ContentChunk = parse(update)?;
    match text_of(&chunk.content) {
        Some(text) if text.is_empty() => {}
        Some(text) => output.record_entry(entry(text)),
        None => output.record_notice(shape_of(&chunk.content)),
    }
    Some(())
}

/// The words of a content block, if it has any.
pub(super) fn text_of(block: &ContentBlock) -> Option<String> {
    match block {
        ContentBlock::Text(text) => Some(text.text.clone()),
        ContentBlock::ResourceLink(link) => Some(link.uri.clone()),
        ContentBlock::Resource(resource) => match &resource.resource {
            EmbeddedResourceResource::TextResourceContents(text) => Some(text.text.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn shape_of(block: &ContentBlock) -> String {
    match block {
        ContentBlock::Image(image) => {
            let kind = envelope::truncate(&image.mime_type, WORD_BYTES_MAX);
            format!("an image ({kind})")
        }
        ContentBlock::Audio(audio) => {
            let kind = envelope::truncate(&audio.mime_type, WORD_BYTES_MAX);
            format!("a sound ({kind})")
        }
        _ => "something that is not text".to_owned(),
    }
}

fn tool_call(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    update: &RawValue,
    begins: bool,
) -> Option<()> {
    let update: CallUpdate<'_> = serde_json::from_str(update.get()).ok()?;
    if update.tool_call_id.len() > WORD_BYTES_MAX {
        return None;
    }
    learn_tool_call(state, output, &update, begins);
    Some(())
}

/// What of a call stands in the transcript.
fn shown(call: &ToolCallState, cwd: &str) -> (Option<String>, Option<String>, Option<ToolStatus>) {
    (
        call.title.clone(),
        tool::transcript_label(call, cwd),
        call.status,
    )
}

/// Takes in what is said of a tool call: for the transcript, and for the asks about it.
pub(super) fn learn_tool_call(
    state: &mut AcpState,
    output: &mut AdapterOutput,
    update: &CallUpdate<'_>,
    begins: bool,
) {
    let id = update.tool_call_id.clone();
    let known = state.calls.find(&id);
    // A call that begins under the id of one that is over is another call.
    let known = known.filter(|call| !(begins && call.is_over()));
    let before = known
        .map(|call| shown(call, &state.cwd))
        .unwrap_or_default();
    let was_over = known.is_some_and(ToolCallState::is_over);
    let input_before = known.and_then(|call| call.raw_input.as_ref());
    let input = update.input().filter(|input| Some(input) != input_before);
    let revision = known.map(|call| call.revision);
    let call = if begins {
        state.calls.begin(update)
    } else {
        state.calls.learn(update)
    };
    let after = shown(call, &state.cwd);
    let is_over = call.is_over();
    let is_news = revision != Some(call.revision);
    let title = after.0.filter(|title| Some(title) != before.0.as_ref());
    let tool = after.1.filter(|tool| Some(tool) != before.1.as_ref());
    let status = after
        .2
        .filter(|status| !is_over && Some(*status) != before.2);
    if !was_over && (title.is_some() || tool.is_some() || input.is_some() || status.is_some()) {
        let id = id.clone();
        let entry = TranscriptEntry::ToolUse {
            id,
            title,
            tool,
            input,
            status,
        };
        output.record_entry(entry);
    }
    if is_news {
        // After the entry, so that the transcript shows the call before the ask about it.
        permission::ask_again_if_changed(state, output, &id);
    }
    // After the asks, which still show what the call was.
    state.calls.settle(&id);
    if let (Some(status), true, false) = (update.status(), is_over, was_over) {
        let text = envelope::truncate(&update.output(), TOOL_RESULT_BYTES_MAX);
        output.record_entry(TranscriptEntry::ToolResult { id, status, text });
    }
}

fn plan(output: &mut AdapterOutput, update: &RawValue) -> Option<()> {
    let plan: WirePlan = parse(update)?;
    let surplus = plan.entries.len().saturating_sub(PLAN_STEPS_MAX);
    let steps = plan.entries.into_iter().take(PLAN_STEPS_MAX);
    let steps = steps.map(|entry| {
        let status = serde_json::to_value(&entry.status).unwrap_or_default();
        PlanStep {
            text: envelope::truncate(&entry.content, WORD_BYTES_MAX),
            status: status.as_str().unwrap_or("pending").to_owned(),
        }
    });
    let more = (surplus > 0).then(|| PlanStep {
        text: format!("… and {surplus} more"),
        status: "pending".to_owned(),
    });
    let plan = AgentPlan {
        steps: steps.chain(more).collect(),
    };
    output.report(AgentReport {
        plan: Some(plan.clone()),
        ..AgentReport::default()
    });
    output.record_entry(TranscriptEntry::Plan { plan });
    Some(())
}

fn usage(output: &mut AdapterOutput, update: &RawValue) -> Option<()> {
    let wire: UsageUpdate = parse(update)?;
    let cost = wire.cost.filter(|cost| cost.currency == "USD");
    let usage = TokenUsage {
        context_used: Some(wire.used),
        context_size: Some(wire.size),
        cost_micro_usd: cost.and_then(|cost| to_micro_usd(cost.amount)),
        ..TokenUsage::default()
    };
    output.report(AgentReport {
        usage: Some(usage),
        ..AgentReport::default()
    });
    Some(())
}

fn mode(state: &mut AcpState, output: &mut AdapterOutput, update: &RawValue) -> Option<()> {
    let update: CurrentModeUpdate = parse(update)?;
    let mode = envelope::truncate(&update.current_mode_id.0, WORD_BYTES_MAX);
    state.modes.current = Some(mode.clone());
    output.report(AgentReport {
        mode: Some(mode),
        ..AgentReport::default()
    });
    Some(())
}

fn title(output: &mut AdapterOutput, update: &RawValue) -> Option<()> {
    let update: Value = parse(update)?;
    if let Some(title) = update.get("title").and_then(Value::as_str) {
        output.report(AgentReport {
            title: Some(envelope::truncate(title, WORD_BYTES_MAX)),
            ..AgentReport::default()
        });
    }
    Some(())
}

fn notice(output: &mut AdapterOutput, update: &RawValue) -> Option<()> {
    let notice: Notice = parse(update)?;
    let text = match notice.description {
        Some(description) => format!("the agent notes: {}: {description}", notice.title),
        None => format!("the agent notes: {}", notice.title),
    };
    output.record_notice(text);
    Some(())
}

fn compaction(output: &mut AdapterOutput, update: &RawValue) -> Option<()> {
    let update: CompactionUpdate = parse(update)?;
    let status = serde_json::to_value(&update.status).ok()?;
    let status = status.as_str().unwrap_or("under way").replace('_', " ");
    let text = format!("the agent shortens its memory: {status}");
    output.record_notice(text);
    Some(())
}

fn compaction_summary(output: &mut AdapterOutput, update: &RawValue) -> Option<()> {
    let update: CompactionSummaryChunk = parse(update)?;
    let text = format!("the agent remembers: {}", text_of(&update.content)?);
    output.record_notice(text);
    Some(())
}

/// How a turn stopped, by its response.
pub(super) fn read_stop(result: &RawValue) -> TurnEnd {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PromptResult {
        stop_reason: String,
        #[serde(default)]
        usage: Option<Value>,
    }
    let Ok(stop) = serde_json::from_str::<PromptResult>(result.get()) else {
        let result = envelope::truncate_noise(result.get());
        return TurnEnd {
            reason: "error".to_owned(),
            message: Some(format!("the turn ended with {result}")),
            ..TurnEnd::default()
        };
    };
    let usage = stop.usage.map(|usage| TokenUsage {
        tokens_in: usage.get("inputTokens").and_then(Value::as_u64),
        tokens_out: usage.get("outputTokens").and_then(Value::as_u64),
        ..TokenUsage::default()
    });
    TurnEnd {
        reason: envelope::truncate(&stop.stop_reason, WORD_BYTES_MAX),
        usage,
        ..TurnEnd::default()
    }
}

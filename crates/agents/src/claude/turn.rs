//! Turns: begun by a prompt, ended by a result.
//!
//! Invariant: the end of a turn that the agent began by itself is not the end of ours.

use countersign_core::event::{TokenUsage, ToolStatus};
use countersign_core::limits::WORD_BYTES_MAX;
use serde::Deserialize;
use serde_json::{Value, json};

use super::state::{ClaudePhase, ClaudeState, ClaudeTurn};
use super::{ClaudeMessage, control, wire};
use crate::adapter::{
    AdapterOutput, AgentEvent, AgentReport, AgentWrite, AttachedFile, CommandError, TurnEnd,
    WriteKind, to_micro_usd,
};
use crate::truncate::{truncate, truncate_noise};

/// Begins a turn, or says again what began the one that runs.
pub(super) fn prompt(
    state: &mut ClaudeState,
    turn: u32,
    messages: &[String],
    attachments: &[AttachedFile],
) -> Result<Vec<AgentWrite>, CommandError> {
    // The same turn again is no error: a host that was replaced gives its orders once more, and the
    // runner writes each prompt only once.
    let runs = state.turn.is_some_and(|running| running.number != turn);
    if state.phase != ClaudePhase::Open || runs {
        return Err(CommandError::NotReady);
    }
    state.turn.get_or_insert(ClaudeTurn {
        number: turn,
        queued: false,
        interrupted: false,
    });
    let id = wire::prompt_id(&state.session, turn);
    let bytes = wire::prompt(&id, messages, attachments);
    Ok(vec![AgentWrite::own("prompt", turn, bytes)])
}

/// Ends the turn. The agent takes back what it asks in it, so nothing is answered here.
pub(super) fn interrupt(state: &mut ClaudeState) -> Vec<AgentWrite> {
    let Some(turn) = &mut state.turn else {
        return Vec::new();
    };
    turn.interrupted = true;
    let number = turn.number;
    // Reported by the next `handle_line`, because a command gives writes only.
    let asks = std::mem::take(&mut state.pending_asks);
    state.withdrawn.extend(asks.into_keys());
    vec![AgentWrite::own("interrupt", number, stop(number))]
}

fn stop(turn: u32) -> Vec<u8> {
    let id = wire::id("interrupt", turn);
    wire::request(&id, &json!({"subtype": "interrupt"}))
}

#[derive(Deserialize)]
struct CommandLifecycle {
    command_uuid: String,
    state: String,
}

/// The agent says how far it is with a prompt.
pub(super) fn handle_lifecycle(
    state: &mut ClaudeState,
    output: &mut AdapterOutput,
    message: &ClaudeMessage<'_>,
) -> Option<()> {
    let of: CommandLifecycle = message.parse()?;
    let session = &state.session;
    let ours = state
        .turn
        .as_mut()
        .filter(|turn| wire::prompt_id(session, turn.number) == of.command_uuid);
    let Some(turn) = ours else {
        return Some(());
    };
    match of.state.as_str() {
        "queued" => turn.queued = true,
        "started" => {
            turn.queued = false;
            // An interrupt ends what runs, and not what waits in the queue behind it.
            if turn.interrupted {
                let line =
                    AgentWrite::reply_to(message.line, WriteKind::Unspecified, stop(turn.number));
                output.writes.push(line);
            }
        }
        // Its result comes before, unless there was nothing to run.
        "completed" | "cancelled" => {
            let reason = if of.state == "completed" {
                "end_turn"
            } else {
                "cancelled"
            };
            let turn = *turn;
            state.turn = None;
            let end = TurnEnd {
                reason: reason.to_owned(),
                ..TurnEnd::default()
            };
            end_turn(state, output, turn, end);
        }
        _ => {}
    }
    Some(())
}

#[derive(Deserialize)]
struct TurnResult {
    #[serde(default)]
    subtype: Option<String>,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    terminal_reason: Option<String>,
    #[serde(default)]
    result: Option<String>,
    #[serde(default)]
    errors: Vec<String>,
    #[serde(default)]
    total_cost_usd: Option<f64>,
    #[serde(default)]
    usage: Value,
    #[serde(default, rename = "modelUsage")]
    models: Value,
}

/// A turn is over, or no session came about.
pub(super) fn handle_result(
    state: &mut ClaudeState,
    output: &mut AdapterOutput,
    message: &ClaudeMessage<'_>,
) -> Option<()> {
    let ended: TurnResult = message.parse()?;
    if state.phase != ClaudePhase::Open {
        control::fail(state, output, &describe_failure(&ended));
        return Some(());
    }
    output.events.push(AgentEvent::Reported(AgentReport {
        usage: Some(session_usage(state, &ended)),
        ..AgentReport::default()
    }));
    // While ours waits in the queue, this is the result of a turn that the agent began by itself.
    if let Some(turn) = state.turn.take_if(|turn| !turn.queued) {
        let reason = reason(turn, &ended);
        let end = TurnEnd {
            message: (reason == "error").then(|| describe_failure(&ended)),
            reason,
            usage: Some(turn_usage(&ended)),
            ..TurnEnd::default()
        };
        end_turn(state, output, turn, end);
    }
    Some(())
}

fn end_turn(state: &mut ClaudeState, output: &mut AdapterOutput, turn: ClaudeTurn, end: TurnEnd) {
    for request in std::mem::take(&mut state.pending_asks).into_keys() {
        output.withdraw(request);
    }
    let calls = std::mem::take(&mut state.calls).into_iter();
    output.events.push(AgentEvent::TurnEnded {
        turn: turn.number,
        end: TurnEnd {
            left_open: calls.map(|call| (call, ToolStatus::Unknown)).collect(),
            ..end
        },
    });
}

/// The words that other protocols have for it too.
fn reason(turn: ClaudeTurn, ended: &TurnResult) -> String {
    let stopped = ended.terminal_reason.as_deref();
    let is_stopped = stopped.is_some_and(|why| why.starts_with("aborted"));
    let word = match ended.subtype.as_deref() {
        // An interrupted turn may end as an error, which is not a failure of the agent.
        _ if is_stopped || (turn.interrupted && ended.is_error) => "cancelled",
        Some("error_max_turns") => "max_turn_requests",
        _ if ended.is_error => "error",
        _ => ended.stop_reason.as_deref().unwrap_or("end_turn"),
    };
    truncate(word, WORD_BYTES_MAX)
}

/// What went wrong.
fn describe_failure(ended: &TurnResult) -> String {
    let errors = ended.errors.join("; ");
    let message = ended
        .result
        .as_deref()
        .filter(|message| !message.is_empty());
    truncate_noise(message.unwrap_or(if errors.is_empty() {
        "it did not say why"
    } else {
        &errors
    }))
}

/// What this turn read and wrote.
fn turn_usage(ended: &TurnResult) -> TokenUsage {
    TokenUsage {
        tokens_in: Some(tokens_read(&ended.usage)),
        tokens_out: Some(count(&ended.usage, "output_tokens")),
        ..TokenUsage::default()
    }
}

/// What the session cost so far, and how full it is.
fn session_usage(state: &ClaudeState, ended: &TurnResult) -> TokenUsage {
    let sizes = ended.models.as_object().into_iter().flatten();
    let current = state.model.as_ref();
    let sizes = sizes.filter(|(name, _)| current.is_none_or(|model| *name == model));
    let size = sizes.map(|(_, usage)| count(usage, "contextWindow")).max();
    TokenUsage {
        cost_micro_usd: ended.total_cost_usd.and_then(to_micro_usd),
        context_used: Some(state.context).filter(|used| *used > 0),
        context_size: size.filter(|size| *size > 0),
        ..TokenUsage::default()
    }
}

/// Everything that was read, whether it was kept ready for it or not.
pub(super) fn tokens_read(usage: &Value) -> u64 {
    let kinds = [
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    ];
    let counts = kinds.iter().map(|kind| count(usage, kind));
    counts.fold(0, u64::saturating_add)
}

fn count(of: &Value, name: &str) -> u64 {
    of.get(name).and_then(Value::as_u64).unwrap_or_default()
}

//! Messages in pieces: text and thoughts are told as they come.
//!
//! Invariant: what was told of a block is counted, so that its whole message tells only the rest.

use countersign_core::event::TranscriptEntry;
use countersign_core::limits::WORD_BYTES_MAX;
use serde::Deserialize;
use serde_json::Value;

use super::state::{ClaudeState, StreamProgress};
use super::{ClaudeMessage, turn};
use crate::adapter::AdapterOutput;
use crate::truncate::truncate;

#[derive(Deserialize)]
struct StreamPiece {
    event: StreamEvent,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum StreamEvent {
    MessageStart {
        message: MessageStart,
    },
    ContentBlockStart,
    ContentBlockDelta {
        delta: BlockDelta,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MessageStart {
    id: String,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum BlockDelta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(other)]
    Other,
}

/// Takes one piece. Those of a helper of the agent's own are left out: its messages come whole.
pub(super) fn handle_piece(
    state: &mut ClaudeState,
    output: &mut AdapterOutput,
    message: &ClaudeMessage<'_>,
) -> Option<()> {
    let piece: StreamPiece = message.parse()?;
    if message.parent.is_some() {
        return Some(());
    }
    match piece.event {
        StreamEvent::MessageStart { message } => {
            state.context = turn::tokens_read(&message.usage);
            state.streamed = StreamProgress {
                message: truncate(&message.id, WORD_BYTES_MAX),
                bytes: 0,
            };
        }
        StreamEvent::ContentBlockStart => state.streamed.bytes = 0,
        StreamEvent::ContentBlockDelta { delta } => match delta {
            BlockDelta::Text { text } => {
                record_piece(state, output, text, |text| TranscriptEntry::Assistant {
                    text,
                });
            }
            BlockDelta::Thinking { thinking } => {
                record_piece(state, output, thinking, |text| TranscriptEntry::Thinking {
                    text,
                });
            }
            BlockDelta::Other => {}
        },
        StreamEvent::Other => {}
    }
    Some(())
}

fn record_piece(
    state: &mut ClaudeState,
    output: &mut AdapterOutput,
    text: String,
    entry: impl Fn(String) -> TranscriptEntry,
) {
    state.streamed.bytes += text.len();
    if !text.is_empty() {
        output.record_entry(entry(text));
    }
}

/// What of a whole block was not told in pieces.
pub(super) fn untold_part<'t>(state: &mut ClaudeState, message: &str, text: &'t str) -> &'t str {
    if state.streamed.message != truncate(message, WORD_BYTES_MAX) {
        return text;
    }
    // Each block of a whole message comes right after its pieces, so the count is for this block alone.
    let told = std::mem::take(&mut state.streamed.bytes);
    text.get(told..).unwrap_or_default()
}

//! Messages in pieces: text and thoughts are told as they come.
//!
//! Invariant: what was told of a block is counted, so that its whole message tells only the rest.

use countersign_core::event::TranscriptEntry;
use countersign_core::limits::WORD_BYTES_MAX;
use serde::Deserialize;
use serde_json::Value;

use super::state::{State, Streamed};
use super::{Message, turn};
use crate::adapter::{AdapterOutput, AgentEvent};
use crate::truncate::cut;

#[derive(Deserialize)]
struct Piece {
    event: Event,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Begun,
    },
    ContentBlockStart,
    ContentBlockDelta {
        delta: Delta,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Begun {
    id: String,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(other)]
    Other,
}

/// Takes one piece. Those of a helper of the agent's own are left out: its messages come whole.
pub(super) fn take(
    state: &mut State,
    heard: &mut AdapterOutput,
    message: &Message<'_>,
) -> Option<()> {
    let piece: Piece = message.parse()?;
    if message.parent.is_some() {
        return Some(());
    }
    match piece.event {
        Event::MessageStart { message } => {
            state.context = turn::tokens_read(&message.usage);
            state.streamed = Streamed {
                message: cut(&message.id, WORD_BYTES_MAX),
                bytes: 0,
            };
        }
        Event::ContentBlockStart => state.streamed.bytes = 0,
        Event::ContentBlockDelta { delta } => match delta {
            Delta::Text { text } => {
                tell(state, heard, text, |text| TranscriptEntry::Assistant {
                    text,
                });
            }
            Delta::Thinking { thinking } => {
                tell(state, heard, thinking, |text| TranscriptEntry::Thinking {
                    text,
                });
            }
            Delta::Other => {}
        },
        Event::Other => {}
    }
    Some(())
}

fn tell(
    state: &mut State,
    heard: &mut AdapterOutput,
    text: String,
    entry: impl Fn(String) -> TranscriptEntry,
) {
    state.streamed.bytes += text.len();
    if !text.is_empty() {
        heard.events.push(AgentEvent::Transcript(entry(text)));
    }
}

/// What of a whole block was not told in pieces.
pub(super) fn rest<'t>(state: &mut State, message: &str, text: &'t str) -> &'t str {
    if state.streamed.message != cut(message, WORD_BYTES_MAX) {
        return text;
    }
    let told = std::mem::take(&mut state.streamed.bytes);
    text.get(told..).unwrap_or_default()
}

//! What the APIs have in common on the way out: a message to be told, and the frames it is told in.

use std::time::Duration;

use serde_json::{Value, json};

use super::conversation::Part;
use super::tools::{Input, ToolCall};

/// What every message is said to have used, so that sums can be checked.
pub(super) const INPUT_TOKENS: u64 = 100;
/// See [`INPUT_TOKENS`].
pub(super) const OUTPUT_TOKENS: u64 = 10;

/// Characters of text that a stream carries at once: few, so that text comes in pieces.
const PIECE_CHARS: usize = 24;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    /// Like no other message's, in this process or any other.
    pub(super) id: String,
    pub(super) model: String,
    pub(super) parts: Vec<Part>,
}

/// A piece of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Frame {
    /// A server-sent event.
    Named(&'static str, Value),
    /// A server-sent event without a name.
    Unnamed(Value),
    /// Nothing for a while.
    Pause(Duration),
}

impl Message {
    /// The id of the call that is the part with this index.
    pub(super) fn call_id(&self, prefix: &str, index: usize) -> String {
        format!("{prefix}_{}_{index}", self.id)
    }

    /// Whether the model waits for a tool.
    pub(super) fn calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Call(_)))
    }

    /// How long it takes to say all of it.
    pub(super) fn pauses(&self) -> Duration {
        let pauses = self.parts.iter().map(|part| match part {
            Part::Pause(duration) => *duration,
            Part::Text(_) | Part::Call(_) => Duration::ZERO,
        });
        pauses.sum()
    }
}

impl Frame {
    /// The bytes on the wire; nothing for a pause.
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::Named(name, data) => format!("event: {name}\ndata: {data}\n\n"),
            Self::Unnamed(data) => format!("data: {data}\n\n"),
            Self::Pause(_) => String::new(),
        }
    }
}

/// Cuts a text into the pieces a stream carries.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let pieces = chars.chunks(PIECE_CHARS);
    pieces.map(|piece| piece.iter().collect()).collect()
}

/// A call's input where an API wants an object.
pub(super) fn fields(call: &ToolCall) -> Value {
    match &call.input {
        Input::Fields(fields) => fields.clone(),
        Input::Text(text) => json!({"input": text}),
    }
}

//! What an agent wrote, made safe to show. Everything that came from outside passes through here.

use std::borrow::Cow;

use countersign_core::{TextLayout, hidden_count, visible};

/// For a place inside one line.
pub fn line(text: &str) -> Cow<'_, str> {
    visible(text, TextLayout::Line)
}

/// For lines of its own: line breaks stay.
pub fn block(text: &str) -> Cow<'_, str> {
    visible(text, TextLayout::Block)
}

/// How many characters would not have been seen.
pub fn hidden(text: &str) -> usize {
    hidden_count(text)
}

//! What was found in transcripts, for people.

use countersign_protocol::SearchHitKind;

/// The mark of a text, as transcripts have it.
pub fn kind_mark(kind: SearchHitKind) -> char {
    match kind {
        SearchHitKind::User => '>',
        SearchHitKind::Assistant => '|',
        SearchHitKind::Thinking => '~',
        SearchHitKind::ToolUse => '*',
        SearchHitKind::Plan => '-',
        SearchHitKind::Notice => '!',
        SearchHitKind::Unknown => '?',
    }
}

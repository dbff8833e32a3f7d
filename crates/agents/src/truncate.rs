//! What agents say, cut to what the record takes.

use countersign_core::Json;
use countersign_core::limits::{JSON_BYTES_MAX, JSON_DEPTH_MAX, NOISE_BYTES_MAX};
use serde_json::value::RawValue;

/// The beginning of a text, cut at a character.
pub(crate) fn truncate_noise(text: &str) -> String {
    truncate(text, NOISE_BYTES_MAX)
}

/// At most so many bytes of a text, and an ellipsis where some are missing.
pub(crate) fn truncate(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let mut end = bytes_max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

/// JSON as it came, unless it is more than the record takes.
pub(crate) fn to_bounded_json(raw: &RawValue) -> Option<Json> {
    if raw.get().len() > JSON_BYTES_MAX {
        return None;
    }
    let json = Json::from(raw.to_owned());
    (json.depth() <= JSON_DEPTH_MAX).then_some(json)
}

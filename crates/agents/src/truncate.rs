//! What agents say, cut to what the record takes.

use countersign_core::Json;
use countersign_core::limits::{JSON_BYTES_MAX, JSON_DEPTH_MAX, NOISE_BYTES_MAX};
use serde_json::value::RawValue;

pub(crate) use countersign_core::truncate_with_ellipsis as truncate;

/// The beginning of a text, cut at a character.
pub(crate) fn truncate_noise(text: &str) -> String {
    truncate(text, NOISE_BYTES_MAX)
}

/// JSON as it came, unless it is more than the record takes.
pub(crate) fn to_bounded_json(raw: &RawValue) -> Option<Json> {
    if raw.get().len() > JSON_BYTES_MAX {
        return None;
    }
    let json = Json::from(raw.to_owned());
    (json.depth() <= JSON_DEPTH_MAX).then_some(json)
}

//! Spans of time as people write and read them, and the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

use countersign_protocol::Time;
pub(crate) use countersign_tui::duration::*;

/// The wall clock.
pub(crate) fn now() -> Time {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Time(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

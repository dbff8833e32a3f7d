//! How a channel fares, for whoever asks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_core::Timestamp;

use super::channel::ChannelKind;

/// How a channel fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelReport {
    pub name: String,
    pub kind: ChannelKind,
    /// When it last told something, since the host started.
    pub last_ok: Option<Timestamp>,
    /// Why the last attempt failed, if it did.
    pub last_error: Option<String>,
}

/// What came of testing a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelTest {
    pub name: String,
    /// Why nothing arrived, if so.
    pub error: Option<String>,
}

/// What is known of a channel while the host runs.
#[derive(Debug, Default)]
pub(super) struct ChannelStatus(Mutex<LastOutcome>);

#[derive(Debug, Default)]
struct LastOutcome {
    last_ok: Option<Timestamp>,
    last_error: Option<String>,
}

impl ChannelStatus {
    pub(super) fn note_ok(&self, now: Timestamp) {
        *self.lock() = LastOutcome {
            last_ok: Some(now),
            last_error: None,
        };
    }

    pub(super) fn note_error(&self, error: &str) {
        self.lock().last_error = Some(error.to_owned());
    }

    pub(super) fn report(&self, name: &str, kind: ChannelKind) -> ChannelReport {
        let outcome = self.lock();
        ChannelReport {
            name: name.to_owned(),
            kind,
            last_ok: outcome.last_ok,
            last_error: outcome.last_error.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LastOutcome> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

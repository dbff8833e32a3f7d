//! Notes to people in words: the same on every screen of the terminal.

use countersign_core::hidden_warning;
use countersign_protocol::{HostEvent, Time};

use crate::duration;
use crate::render::approvals;
use crate::render::{decisions, escape};

/// How long notes are listed: a day, so that those of a night are seen in the morning.
const LISTED_MICROS: u64 = 24 * 3_600_000_000;
/// How many of them at most.
pub const LISTED_MAX: usize = 20;

/// Whether a note from then is still listed.
pub fn is_recent(sent: Time, now: Time) -> bool {
    sent.0 >= now.0.saturating_sub(LISTED_MICROS)
}

/// What an agent without an orchestrator said, which needs no answer.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonNote {
    pub event: HostEvent,
    text: String,
}

impl PersonNote {
    /// Nothing if the event is something else, or a note that an orchestrator reads.
    pub fn of(event: HostEvent) -> Option<Self> {
        if event.kind != decisions::NOTE {
            return None;
        }
        let text = decisions::note_to_people(&event)?;
        Some(Self { event, text })
    }

    pub fn sender(&self) -> String {
        let event = &self.event;
        approvals::asker(event.agent_name.as_deref(), event.agent_id.as_deref(), None)
    }

    pub fn summary(&self) -> String {
        escape::line(&self.text).into_owned()
    }

    pub fn fields(&self, now: Time) -> Vec<(&'static str, String)> {
        approvals::present([
            ("note", Some(escape::block(&self.text).into_owned())),
            ("warning", hidden_warning(escape::hidden(&self.text))),
            ("from", Some(self.sender())),
            ("state", Some("needs no answer".to_owned())),
            ("history", Some(self.history(now))),
        ])
    }

    fn history(&self, now: Time) -> String {
        let (age, sequence) = (
            duration::age(now, self.event.timestamp),
            self.event.sequence,
        );
        format!("{age} ago  sent (event {sequence})")
    }
}

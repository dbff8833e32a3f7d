//! Notes to people in words: the same on every screen of the terminal.

use countersign_protocol::{HostEvent, Time};

use crate::duration;
use crate::render::approvals::{self, hidden_warning};
use crate::render::{decisions, escape};

/// What an agent without an orchestrator said, which needs no answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PersonNote {
    pub(crate) event: HostEvent,
    text: String,
}

impl PersonNote {
    /// Nothing if the event is something else, or a note that an orchestrator reads.
    pub(crate) fn of(event: HostEvent) -> Option<Self> {
        if event.kind != decisions::NOTE {
            return None;
        }
        let text = decisions::note_to_people(&event)?;
        Some(Self { event, text })
    }

    pub(crate) fn sender(&self) -> String {
        let event = &self.event;
        approvals::asker(event.agent_name.as_deref(), event.agent_id.as_deref(), None)
    }

    pub(crate) fn summary(&self) -> String {
        escape::line(&self.text).into_owned()
    }

    pub(crate) fn fields(&self, now: Time) -> Vec<(&'static str, String)> {
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

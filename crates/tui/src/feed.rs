//! What happened, newest first: from the record, and as it goes on. Pure.

use std::collections::VecDeque;

use countersign_protocol::HostEvent;

use crate::render::{decisions, escape};

/// Events that are kept; older ones are read again when somebody scrolls there.
const EVENTS_MAX: usize = 5_000;

/// Which events are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeedFilter {
    #[default]
    Happened,
    Agents,
    ForYou,
    Everything,
}

impl FeedFilter {
    /// All of them, in the order in which a key goes through them.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Happened, "what happened"),
        (Self::Agents, "agents"),
        (Self::ForYou, "for you"),
        (Self::Everything, "everything"),
    ];

    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(filter, _)| *filter == self);
        found.map_or("", |(_, name)| name)
    }

    pub fn parse(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(filter, _)| *filter)
    }

    #[must_use]
    pub fn next(self) -> Self {
        let index = Self::ALL
            .iter()
            .position(|(filter, _)| *filter == self)
            .unwrap_or(0);
        Self::ALL[(index + 1) % Self::ALL.len()].0
    }

    pub fn includes(self, event: &HostEvent) -> bool {
        let kind = event.kind.as_str();
        let starts = |start: &str| kind.starts_with(start);
        match self {
            Self::Everything => true,
            Self::Agents => starts("agent.") || starts("turn."),
            Self::Happened => {
                starts("approval.")
                    || starts("question.")
                    || starts("turn.")
                    || starts("agent.")
                    || starts("grant.")
            }
            Self::ForYou => match kind {
                "approval.requested" | "question.asked" | "question.escalated" | "agent.exited" => {
                    true
                }
                decisions::NOTE => decisions::note_to_people(event).is_some(),
                _ => false,
            },
        }
    }
}

/// How much of an event is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeedRows {
    #[default]
    Compact,
    Expanded,
}

#[derive(Clone, Debug, Default)]
pub struct Feed {
    /// Newest first.
    events: VecDeque<HostEvent>,
    /// Whether the newest page was read.
    pub is_loaded: bool,
    /// Whether there is nothing older.
    pub is_complete: bool,
    pub filter: FeedFilter,
    pub rows: FeedRows,
}

impl Feed {
    /// Takes in an event that just happened.
    pub fn push(&mut self, event: HostEvent) {
        if self
            .events
            .front()
            .is_none_or(|newest| newest.sequence < event.sequence)
        {
            self.events.push_front(event);
        }
        while self.events.len() > EVENTS_MAX {
            self.events.pop_back();
            self.is_complete = false;
        }
    }

    /// Takes in a page that was read, newest first.
    pub fn append_page(&mut self, page: Vec<HostEvent>) {
        self.is_loaded = true;
        self.is_complete |= page.is_empty();
        for event in page {
            if self
                .events
                .back()
                .is_none_or(|oldest| event.sequence < oldest.sequence)
                && self.events.len() < EVENTS_MAX
            {
                self.events.push_back(event);
            }
        }
    }

    /// The cursor before the oldest event that is known.
    pub fn before(&self) -> Option<u64> {
        self.events.back().map(|event| event.sequence)
    }

    /// The events that are shown.
    pub fn shown(&self, words: &str) -> Vec<&HostEvent> {
        let words = words.to_lowercase();
        let events = self
            .events
            .iter()
            .filter(|event| self.filter.includes(event));
        events
            .filter(|event| words.is_empty() || describe(event).to_lowercase().contains(&words))
            .collect()
    }
}

/// An event in words, escaped, on one line or more.
pub fn describe(event: &HostEvent) -> String {
    let text = if decisions::KINDS.contains(&event.kind.as_str()) {
        decisions::describe(event)
    } else if event.message.is_empty() {
        event.kind.clone()
    } else {
        event.message.clone()
    };
    escape::block(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(sequence: u64, kind: &str, message: &str) -> HostEvent {
        let event = json!({
            "id": sequence.to_string(), "kind": kind, "message": message, "payload": null, "sequence": sequence,
            "timestamp": "1970-01-01T00:00:00.000000Z",
        });
        serde_json::from_str(&event.to_string()).unwrap()
    }

    fn sequences(feed: &Feed, words: &str) -> Vec<u64> {
        feed.shown(words)
            .iter()
            .map(|event| event.sequence)
            .collect()
    }

    #[test]
    fn pages_and_news_meet_without_a_gap_or_a_repetition() {
        let mut feed = Feed::default();
        feed.push(event(9, "agent.exited", "x"));
        feed.append_page(vec![
            event(9, "agent.exited", "x"),
            event(8, "turn.ended", "done"),
            event(7, "host.started", ""),
        ]);
        feed.push(event(10, "approval.requested", "asks"));
        feed.push(event(10, "approval.requested", "asks"));
        assert_eq!(sequences(&feed, ""), [10, 9, 8]);
        feed.filter = FeedFilter::Everything;
        assert_eq!(sequences(&feed, ""), [10, 9, 8, 7]);
        assert_eq!(sequences(&feed, "ASKS"), [10]);
        feed.filter = FeedFilter::ForYou;
        assert_eq!(sequences(&feed, ""), [10, 9]);
        assert_eq!(feed.before(), Some(7));
        feed.append_page(Vec::new());
        assert!(feed.is_complete);
    }

    #[test]
    fn a_key_goes_through_all_filters() {
        let mut filter = FeedFilter::default();
        let names: Vec<&str> = (0..5)
            .map(|_| {
                let name = filter.name();
                filter = filter.next();
                name
            })
            .collect();
        assert_eq!(
            names,
            [
                "what happened",
                "agents",
                "for you",
                "everything",
                "what happened"
            ]
        );
        assert_eq!(FeedFilter::parse("for you"), Some(FeedFilter::ForYou));
    }
}

//! What an agent said and did between two commits, put together and bounded.
//!
//! Invariants: the order is the order of the pipe; what is taken is given once; text that streams in
//! small pieces becomes one entry.

use std::time::Duration;

use countersign_agents::adapter::AgentReport;
use countersign_core::AgentId;
use countersign_core::event::{AgentReported, TranscriptEntry};
use countersign_core::limits::{
    TRANSCRIPT_BYTES_HELD, TRANSCRIPT_ENTRIES_HELD, TRANSCRIPT_MS_HELD,
};
use tokio::time::Instant;

/// See the module.
#[derive(Default)]
pub(super) struct TranscriptBuffer {
    entries: Vec<TranscriptEntry>,
    bytes: usize,
    report: AgentReport,
    since: Option<Instant>,
}

impl TranscriptBuffer {
    pub(super) fn add(&mut self, entry: TranscriptEntry) {
        self.begin();
        self.bytes += entry.weight();
        let apart = match self.entries.last_mut() {
            Some(last) => join(last, entry),
            None => Some(entry),
        };
        self.entries.extend(apart);
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.add(TranscriptEntry::Notice { text: text.into() });
    }

    /// Only the newest value of each field counts.
    pub(super) fn report(&mut self, report: AgentReport) {
        self.begin();
        let held = std::mem::take(&mut self.report);
        self.report = AgentReport {
            mode: report.mode.or(held.mode),
            model: report.model.or(held.model),
            plan: report.plan.or(held.plan),
            usage: report.usage.or(held.usage),
            title: report.title.or(held.title),
            offers: report.offers.or(held.offers),
        };
    }

    fn begin(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Whether it must be committed before more is added.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= TRANSCRIPT_BYTES_HELD || self.entries.len() >= TRANSCRIPT_ENTRIES_HELD
    }

    /// When it is committed at the latest.
    pub(super) fn due(&self) -> Option<Instant> {
        let since = self.since?;
        Some(since + Duration::from_millis(TRANSCRIPT_MS_HELD))
    }

    /// What was said, to be committed with what comes next.
    pub(super) fn take(&mut self) -> Vec<TranscriptEntry> {
        self.bytes = 0;
        // A report that is still held keeps the time since when something waits.
        if self.report == AgentReport::default() {
            self.since = None;
        }
        std::mem::take(&mut self.entries)
    }

    /// What the agent said about itself.
    pub(super) fn take_report(&mut self, agent: &AgentId) -> Option<AgentReported> {
        let report = std::mem::take(&mut self.report);
        if self.entries.is_empty() {
            self.since = None;
        }
        let reported = AgentReported {
            agent: agent.clone(),
            mode: report.mode.clone(),
            model: report.model.clone(),
            plan: report.plan.clone(),
            usage: report.usage,
            title: report.title.clone(),
            offers: report.offers.clone(),
        };
        (report != AgentReport::default()).then_some(reported)
    }
}

/// Adds to the last entry what goes on with it; gives back what does not.
fn join(last: &mut TranscriptEntry, entry: TranscriptEntry) -> Option<TranscriptEntry> {
    match (last, entry) {
        (TranscriptEntry::Assistant { text }, TranscriptEntry::Assistant { text: more })
        | (TranscriptEntry::Thinking { text }, TranscriptEntry::Thinking { text: more })
        | (
            TranscriptEntry::User { text, from: None },
            TranscriptEntry::User {
                text: more,
                from: None,
            },
        ) => {
            text.push_str(&more);
            None
        }
        (_, entry) => Some(entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> TranscriptEntry {
        TranscriptEntry::Assistant {
            text: text.to_owned(),
        }
    }

    #[test]
    fn pieces_of_text_become_one_entry_and_nothing_else_is_joined() {
        let mut transcript = TranscriptBuffer::default();
        for piece in ["to", "ge", "ther"] {
            transcript.add(said(piece));
        }
        transcript.note("x");
        transcript.add(said("apart"));
        let notice = TranscriptEntry::Notice {
            text: "x".to_owned(),
        };
        assert_eq!(transcript.take(), [said("together"), notice, said("apart")]);
        assert_eq!((transcript.take(), transcript.due()), (Vec::new(), None));
    }

    #[tokio::test]
    async fn it_is_full_at_its_bound_and_empty_once_taken() {
        let mut transcript = TranscriptBuffer::default();
        while !transcript.is_full() {
            transcript.add(said("0123456789"));
        }
        assert_eq!(transcript.take().len(), 1);
        assert!(!transcript.is_full());
    }

    #[test]
    fn only_the_newest_word_about_each_thing_is_reported() {
        let (mut transcript, agent) = (TranscriptBuffer::default(), AgentId::new("a"));
        let mode = |mode: &str| AgentReport {
            mode: Some(mode.to_owned()),
            ..AgentReport::default()
        };
        transcript.report(mode("plan"));
        transcript.report(AgentReport {
            title: Some("t".to_owned()),
            ..mode("code")
        });
        let reported = transcript.take_report(&agent).unwrap();
        let words = (reported.mode.as_deref(), reported.title.as_deref());
        assert_eq!(words, (Some("code"), Some("t")));
        assert_eq!(transcript.take_report(&agent), None);
    }
}

//! The feed: a cursor and a wake-up.
//!
//! Invariants: no event travels in the signal; the newest events stay in memory up to a bound in
//! number and bytes; a reader that falls behind that reads the log, and costs only itself.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use countersign_core::limits::{FEED_BYTES_KEPT, FEED_EVENTS_KEPT};
use countersign_core::{CommittedEvent, Seq};
use tokio::sync::watch;

/// A committed event in memory, with room for its serialised form.
#[derive(Debug)]
pub struct FeedEntry {
    /// The event.
    pub committed: CommittedEvent,
    wire: OnceLock<Bytes>,
    brief_wire: OnceLock<Bytes>,
}

impl FeedEntry {
    pub(crate) fn new(committed: CommittedEvent) -> Arc<Self> {
        Arc::new(Self {
            committed,
            wire: OnceLock::new(),
            brief_wire: OnceLock::new(),
        })
    }

    /// The serialised form, made by whoever needs it first and shared by all who follow.
    pub fn wire(&self, serialise: impl FnOnce(&CommittedEvent) -> Bytes) -> Bytes {
        self.wire.get_or_init(|| serialise(&self.committed)).clone()
    }

    /// The same for readers of brief rows.
    pub fn brief_wire(&self, serialise: impl FnOnce(&CommittedEvent) -> Bytes) -> Bytes {
        let wire = self.brief_wire.get_or_init(|| serialise(&self.committed));
        wire.clone()
    }
}

/// The newest events, and the signal that there are more.
#[derive(Debug)]
pub struct EventFeed {
    ring: RwLock<EventRing>,
    head: watch::Sender<Seq>,
}

#[derive(Debug, Default)]
struct EventRing {
    entries: VecDeque<Arc<FeedEntry>>,
    bytes: usize,
}

impl EventFeed {
    pub(crate) fn new(head: Seq) -> Self {
        Self {
            ring: RwLock::default(),
            head: watch::Sender::new(head),
        }
    }

    /// The newest committed event.
    pub fn head(&self) -> Seq {
        *self.head.borrow()
    }

    /// A signal that fires whenever there is more to read.
    pub fn watch(&self) -> watch::Receiver<Seq> {
        self.head.subscribe()
    }

    pub(crate) fn push(&self, entries: impl IntoIterator<Item = Arc<FeedEntry>>) {
        let mut ring = self.write_ring();
        for entry in entries {
            ring.bytes += weight(&entry.committed);
            ring.entries.push_back(entry);
        }
        // Before anything makes room: one event alone may be too heavy to stay.
        let head = ring.entries.back().map(|entry| entry.committed.seq);
        while ring.entries.len() > FEED_EVENTS_KEPT || ring.bytes > FEED_BYTES_KEPT {
            let Some(oldest) = ring.entries.pop_front() else {
                break;
            };
            ring.bytes -= weight(&oldest.committed);
        }
        // Readers that the signal wakes take the lock themselves.
        drop(ring);
        if let Some(head) = head {
            self.head.send_replace(head);
        }
    }

    /// After a failed commit: what readers may see is what the log has.
    pub(crate) fn reset(&self, head: Seq) {
        let mut ring = self.write_ring();
        *ring = EventRing::default();
        drop(ring);
        self.head.send_replace(head);
    }

    /// An erased event must not live on in memory, nor inside another that shows it.
    pub(crate) fn remove_erased(&self, erased: impl Fn(&CommittedEvent) -> bool) {
        let mut ring = self.write_ring();
        ring.entries.retain(|entry| !erased(&entry.committed));
        ring.bytes = ring
            .entries
            .iter()
            .map(|entry| weight(&entry.committed))
            .sum();
    }

    /// Up to `limit` events after `cursor`, or `None` if some of them are no longer in memory.
    pub(crate) fn after(&self, cursor: Seq, limit: usize) -> Option<Vec<Arc<FeedEntry>>> {
        let ring = self.read_ring();
        let oldest = ring.entries.front()?.committed.seq;
        if oldest > cursor.next() {
            return None;
        }
        let from = ring
            .entries
            .partition_point(|entry| entry.committed.seq <= cursor);
        Some(ring.entries.range(from..).take(limit).cloned().collect())
    }

    /// The newest events that `wanted` holds for, newest first; `None` if memory has too few.
    pub(crate) fn newest(
        &self,
        limit: usize,
        wanted: impl Fn(&CommittedEvent) -> bool,
    ) -> Option<Vec<Arc<FeedEntry>>> {
        let ring = self.read_ring();
        let found: Vec<_> = ring
            .entries
            .iter()
            .rev()
            .filter(|entry| wanted(&entry.committed))
            .take(limit)
            .cloned()
            .collect();
        (found.len() == limit).then_some(found)
    }

    fn read_ring(&self) -> RwLockReadGuard<'_, EventRing> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_ring(&self) -> RwLockWriteGuard<'_, EventRing> {
        self.ring.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Roughly what an event takes in memory, its serialised form included.
fn weight(committed: &CommittedEvent) -> usize {
    let ask = committed.ask.as_ref().map_or(0, |ask| ask.bytes());
    1024 + 2 * (ask + committed.event.text_bytes())
}

#[cfg(test)]
mod tests {
    use countersign_core::event::NotificationSent;
    use countersign_core::{Caller, Json, RecordedActor, Timestamp};

    use super::*;

    #[test]
    fn an_event_too_heavy_for_memory_still_wakes_its_readers() {
        let feed = EventFeed::new(Seq(0));
        let event = NotificationSent {
            kind: "big".to_owned(),
            agent: None,
            message: "x".repeat(FEED_BYTES_KEPT),
            payload: Json::null(),
            by: RecordedActor::from(&Caller::host()),
        };
        let committed = CommittedEvent {
            seq: Seq(1),
            at: Timestamp(1),
            event: event.into(),
            ask: None,
        };
        feed.push([FeedEntry::new(committed)]);
        assert_eq!(
            (feed.head(), feed.after(Seq(0), 10).map(|page| page.len())),
            (Seq(1), None)
        );
    }
}

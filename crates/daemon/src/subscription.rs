//! Subscriptions: each reads the log from its own cursor, live and replay by the same code.

use std::sync::Arc;

use countersign_core::limits::FEED_PAGE;
use countersign_core::{AgentId, CommittedEvent, Event, Seq};
use countersign_store::{EventHistory, EventQuery};
use tokio::sync::watch;

use crate::feed::{EventFeed, FeedEntry};
use crate::reply::ServiceError;
use crate::service::read_blocking;

/// Which events a reader wants to see.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only these kinds; `None` for all that are public.
    pub kinds: Option<Vec<String>>,
    /// These kinds besides the public ones.
    pub also: Vec<String>,
    /// Only about this agent.
    pub agent: Option<AgentId>,
}

impl EventFilter {
    /// Whether the reader wants this event.
    pub fn wants(&self, committed: &CommittedEvent) -> bool {
        if self.agent.is_some() && self.agent.as_ref() != committed.event.agent() {
            return false;
        }
        let kind = kind_of(&committed.event);
        match &self.kinds {
            None => committed.event.is_public() || self.also.iter().any(|also| also == kind),
            Some(kinds) => kinds.iter().chain(&self.also).any(|one| one == kind),
        }
    }

    /// The kinds to look for in the log: a notification's own kind lies inside its payload.
    pub(crate) fn stored_kinds(&self) -> Option<Vec<String>> {
        let kinds = self.kinds.as_ref()?;
        let kinds: Vec<&String> = kinds.iter().chain(&self.also).collect();
        let mut stored: Vec<String> = kinds
            .iter()
            .copied()
            .filter(|kind| Event::KINDS.contains(&kind.as_str()))
            .cloned()
            .collect();
        // Whatever is no kind of ours can only be the kind that the sender of a notification gave
        // it.
        if stored.len() < kinds.len() {
            stored.push("host.notification_sent".to_owned());
        }
        Some(stored)
    }
}

/// The kind readers see: for a notification, the one its sender gave it.
fn kind_of(event: &Event) -> &str {
    if let Event::NotificationSent(notified) = event {
        &notified.kind
    } else {
        event.kind()
    }
}

/// A cursor into the log.
pub struct Subscription {
    feed: Arc<EventFeed>,
    history: Arc<dyn EventHistory>,
    wake: watch::Receiver<Seq>,
    cursor: Seq,
    filter: EventFilter,
}

impl Subscription {
    pub(crate) fn new(
        feed: Arc<EventFeed>,
        history: Arc<dyn EventHistory>,
        cursor: Seq,
        filter: EventFilter,
    ) -> Self {
        let wake = feed.watch();
        Self {
            feed,
            history,
            wake,
            cursor,
            filter,
        }
    }

    /// The next events the reader wants, at least one and in order; waits until there are some.
    /// Dropping the wait loses nothing: the cursor moves only with what is returned.
    pub async fn next(&mut self) -> Result<Vec<Arc<FeedEntry>>, ServiceError> {
        loop {
            // Marked as seen before it is read up to: a commit during the reading wakes once more.
            let head = *self.wake.borrow_and_update();
            while self.cursor < head {
                let page = self.page(head).await?;
                if !page.is_empty() {
                    return Ok(page);
                }
            }
            if self.wake.changed().await.is_err() {
                return Err(ServiceError::ShuttingDown);
            }
        }
    }

    async fn page(&mut self, head: Seq) -> Result<Vec<Arc<FeedEntry>>, ServiceError> {
        let page = match self.feed.after(self.cursor, FEED_PAGE) {
            Some(page) => page,
            None => self.read_log().await?,
        };
        // Erased events leave gaps, so a page that ends early still reaches the head.
        self.cursor = page.last().map_or(head, |entry| entry.committed.seq);
        Ok(page
            .into_iter()
            .filter(|entry| self.filter.wants(&entry.committed))
            .collect())
    }

    async fn read_log(&self) -> Result<Vec<Arc<FeedEntry>>, ServiceError> {
        let query = EventQuery {
            after: Some(self.cursor),
            limit: FEED_PAGE,
            ..EventQuery::default()
        };
        let events = read_blocking(&self.history, move |history| history.events(&query)).await?;
        Ok(events.into_iter().map(FeedEntry::new).collect())
    }
}

//! Events, and what is erased from the record.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use countersign_core::limits::PAGE_ROWS_MAX;
use countersign_core::{Caller, CommittedEvent, Event, Input, Rejection, Seq, Timestamp};
use countersign_store::{EventQuery, RescuedRecord};
use tokio::sync::oneshot;

use crate::feed::FeedEntry;
use crate::subscription::EventFilter;
use crate::supervisor::SupervisorCommand;

use super::{Service, ServiceResult, event};

/// Events and the record.
impl Service {
    /// Events from history, in rising order.
    pub async fn events(
        &self,
        caller: &Caller,
        mut query: EventQuery,
        filter: EventFilter,
    ) -> ServiceResult<Vec<CommittedEvent>> {
        caller.refuse_agents()?;
        query.agent = filter.agent.clone();
        query.kinds = filter.stored_kinds().or_else(|| Some(public_kinds()));
        let wanted = query.limit;
        let mut found = VecDeque::new();
        // A notification's own kind is known only once it was read, so one page may not be enough.
        loop {
            let asked = query.clone();
            let page = self.history(move |history| history.events(&asked)).await?;
            let last_page = page.len() < query.limit;
            if query.newest {
                query.before = page.first().map(|committed| committed.seq).or(query.before);
                let older = page.into_iter().rev().filter(|event| filter.wants(event));
                older
                    .take(wanted - found.len())
                    .for_each(|event| found.push_front(event));
            } else {
                query.after = page.last().map(|committed| committed.seq).or(query.after);
                let newer = page.into_iter().filter(|event| filter.wants(event));
                found.extend(newer.take(wanted - found.len()));
            }
            if last_page || found.len() >= wanted {
                return Ok(found.into());
            }
            // Few events pass the filter, so the next page is as large as one may be.
            query.limit = PAGE_ROWS_MAX;
        }
    }

    /// The newest events everybody is shown, newest first.
    pub async fn newest_events(
        &self,
        caller: &Caller,
        limit: usize,
    ) -> ServiceResult<Vec<Arc<FeedEntry>>> {
        caller.refuse_agents()?;
        let public = EventFilter::default();
        if let Some(newest) = self
            .shared
            .feed
            .newest(limit, |committed| public.wants(committed))
        {
            return Ok(newest);
        }
        let query = EventQuery {
            newest: true,
            limit,
            ..EventQuery::default()
        };
        let events = self.events(caller, query, public).await?;
        Ok(events.into_iter().rev().map(FeedEntry::new).collect())
    }

    /// Erases the payload of an event. Gives the event that records it. What records an erasure
    /// is never erased itself.
    pub async fn redact(&self, caller: Caller, seq: Seq, reason: String) -> ServiceResult<Seq> {
        let query = EventQuery {
            after: Some(Seq(seq.0.saturating_sub(1))),
            before: Some(seq.next()),
            limit: 1,
            ..EventQuery::default()
        };
        let found = self.history(move |history| history.events(&query)).await?;
        match found.first().map(|committed| &committed.event) {
            None => return Err(Rejection::UnknownEvent(seq).into()),
            Some(Event::RecordRedacted(_) | Event::RecordPruned(_)) => {
                return Err(Rejection::StillNeeded(seq).into());
            }
            Some(_) => {}
        }
        let reply = self
            .submit(Input::Redact {
                caller,
                seq,
                reason,
            })
            .await?;
        Ok(event(reply)?.committed.seq)
    }

    /// Erases everything before an event. Gives the event that records it.
    pub async fn prune(&self, caller: Caller, before: Seq) -> ServiceResult<Seq> {
        let pruned = self.submit(Input::Prune { caller, before }).await?;
        // What ended agents printed is as old as their end.
        self.prune_terminals(before).await;
        Ok(event(pruned)?.committed.seq)
    }

    /// Has the loop look whether the record is still there; what it finds is
    /// [`Service::store_error`].
    pub async fn check_record(&self) {
        // The loop checks the record before any command. An error of the read is the outage itself.
        drop(self.read(|_| ()).await);
    }

    /// Writes what the host can still read to a file that does not exist yet, after the record was
    /// lost.
    pub async fn rescue_record(&self, target: PathBuf) -> ServiceResult<RescuedRecord> {
        let (answer, wait) = oneshot::channel();
        self.send(SupervisorCommand::Rescue { target, answer })
            .await?;
        wait.await.map_err(|_| self.unavailable())?
    }

    /// The first event at or after an instant, if there is one.
    pub async fn first_event_since(
        &self,
        caller: &Caller,
        at: Timestamp,
    ) -> ServiceResult<Option<Seq>> {
        caller.refuse_agents()?;
        self.history(move |history| history.first_event_since(at))
            .await
    }
}

fn public_kinds() -> Vec<String> {
    Event::public_kinds().map(str::to_owned).collect()
}

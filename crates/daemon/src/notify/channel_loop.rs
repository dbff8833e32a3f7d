//! The reader behind one channel: takes in events from its cursor, and tells what is due.
//!
//! A delivery is committed before it is sent and after it was. A host that is killed in between leaves
//! the delivery in the record: the next one repeats it under the same id, where receivers know a
//! repetition by its id (ntfy, webhooks, Web Push), or counts it as told (commands). Nothing else is
//! committed, since events after the cursor are read again.

use std::sync::Arc;
use std::time::Duration;

use countersign_core::limits::{NOTIFY_CURSOR_LAG_MAX, RECOVERY_MS};
use countersign_core::{Json, Seq, Timestamp};
use countersign_notify::{NotifyMessage, SendError};
use tokio_util::sync::CancellationToken;

use super::NotifyCenter;
use super::channel::ChannelSettings;
use super::deny_link::DenyLinks;
use super::planner::{
    ChannelPolicy, ChannelState, Delivery, KINDS_READ, NoticeSubject, NotifyFacts, PlannerStep,
    subject_of,
};
use super::status::ChannelStatus;
use super::text::{MessageParts, NoticeDetail};
use crate::crash;
use crate::feed::FeedEntry;
use crate::reply::ServiceError;
use crate::service::Service;
use crate::subscription::{EventFilter, Subscription};

/// Why a channel's reader ended.
pub(super) enum ChannelEnd {
    /// The host ends, or the channel was taken away.
    Stopped,
    /// The receiver is gone for good.
    Gone,
}

/// The reader behind one channel.
pub(super) struct ChannelLoop {
    pub(super) service: Service,
    pub(super) center: Arc<NotifyCenter>,
    pub(super) settings: ChannelSettings,
    pub(super) status: Arc<ChannelStatus>,
    pub(super) stop: CancellationToken,
    pub(super) policy: ChannelPolicy,
    pub(super) state: ChannelState,
    /// The cursor in the record.
    pub(super) saved: Seq,
}

impl ChannelLoop {
    /// Runs until the channel or the host ends.
    pub(super) async fn run(mut self) -> ChannelEnd {
        let mut events = self.read_events();
        let (stop, service) = (self.stop.clone(), self.service.clone());
        loop {
            let step = tokio::select! {
                step = self.step(&mut events) => step,
                () = stop.cancelled() => return ChannelEnd::Stopped,
                () = service.loop_ended() => return ChannelEnd::Stopped,
            };
            match step {
                Ok(None) => {}
                Ok(Some(end)) => return end,
                Err(ServiceError::ShuttingDown) => return ChannelEnd::Stopped,
                Err(error) => {
                    // Nothing is told that could not be committed; the record is tried again.
                    self.status.note_error(&error.to_string());
                    tokio::time::sleep(Duration::from_millis(RECOVERY_MS)).await;
                    // A page may have been read and not taken in.
                    events = self.read_events();
                }
            }
        }
    }

    fn read_events(&self) -> Subscription {
        let filter = EventFilter {
            kinds: Some(KINDS_READ.map(str::to_owned).to_vec()),
            ..EventFilter::default()
        };
        self.service.read_events_after(self.state.cursor, filter)
    }

    /// Does what is due, or waits until something happens. Dropping it loses nothing: what is taken out
    /// of the state was committed before.
    async fn step(
        &mut self,
        events: &mut Subscription,
    ) -> Result<Option<ChannelEnd>, ServiceError> {
        let mut screens = self.center.screens.watch();
        let holding = self.find_holding().await?;
        let until = match self.plan(&holding) {
            PlannerStep::Send(delivery) => return self.deliver(delivery).await,
            PlannerStep::Wait(until) => until,
        };
        let due = async {
            match until {
                Some(until) => tokio::time::sleep(self.service.until(until)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            page = events.next() => {
                self.take_page(page?).await?;
            }
            () = due => {}
            // The sender lives as long as the host.
            _ = screens.changed() => {}
        }
        Ok(None)
    }

    fn plan(&mut self, holding: &[NoticeSubject]) -> PlannerStep {
        let now = self.service.now();
        let facts = NotifyFacts {
            now,
            utc_offset_s: local_offset_s(now),
            screens: &self.center.screens.focus(now),
            holds: &|subject| holding.contains(subject),
        };
        self.state.next_step(&self.policy, &facts)
    }

    /// Takes in what still holds of a page of events. Most asks are settled by a rule in the commit
    /// that opens them, and must not take the places of those that wait.
    async fn take_page(&mut self, page: Vec<Arc<FeedEntry>>) -> Result<(), ServiceError> {
        let subjects = page
            .iter()
            .filter_map(|entry| subject_of(&entry.committed.event));
        let holding = self.retain_holding(subjects.collect()).await?;
        for entry in page {
            let committed = &entry.committed;
            match subject_of(&committed.event) {
                Some(subject) if holding.contains(&subject) => {
                    self.state.take_event(committed, &self.policy);
                }
                _ => self.state.skip_event(committed.seq),
            }
        }
        self.save_if_behind().await
    }

    /// Which of the things that are not told yet still hold.
    async fn find_holding(&self) -> Result<Vec<NoticeSubject>, ServiceError> {
        self.retain_holding(self.state.open_subjects().cloned().collect())
            .await
    }

    async fn retain_holding(
        &self,
        subjects: Vec<NoticeSubject>,
    ) -> Result<Vec<NoticeSubject>, ServiceError> {
        if subjects.is_empty() {
            return Ok(subjects);
        }
        let found = self.service.read(move |view| {
            let open = subjects
                .iter()
                .filter(|subject| NoticeDetail::find(view.state, subject).is_some());
            open.cloned().collect()
        });
        found.await
    }

    async fn deliver(&mut self, delivery: Delivery) -> Result<Option<ChannelEnd>, ServiceError> {
        let Some(message) = self.compose(&delivery).await? else {
            // It ended this very moment; the next step drops it.
            return Ok(None);
        };
        let owner = self.settings.owner.as_ref();
        if owner.is_some_and(|token| !self.service.is_token_valid(token)) {
            return Ok(Some(ChannelEnd::Gone));
        }
        self.save().await?;
        crash::point("notify_committed");
        let sent = self.settings.target.send(message, self.service.now()).await;
        crash::point("notify_sent");
        let now = self.service.now();
        match &sent {
            Ok(()) => {
                self.status.note_ok(now);
                self.state.note_told(now);
            }
            Err(error) => {
                tracing::warn!(channel = self.settings.name, %error, "a notification was not sent");
                self.status.note_error(&error.to_string());
                match error {
                    SendError::Later(_) => self.state.note_failed(now),
                    SendError::Refused(_) => self.state.note_refused(),
                    SendError::Gone(_) => return Ok(Some(ChannelEnd::Gone)),
                }
            }
        }
        self.save().await?;
        Ok(None)
    }

    async fn compose(&self, delivery: &Delivery) -> Result<Option<NotifyMessage>, ServiceError> {
        let notices = delivery.notices.clone();
        let read = self.service.read(move |view| {
            let found = notices
                .iter()
                .filter_map(|notice| NoticeDetail::find(view.state, &notice.subject));
            let questions = view
                .state
                .open_questions()
                .filter(|question| question.is_for_people());
            let open = view.state.open_approvals().len() + questions.count();
            (found.collect::<Vec<_>>(), open)
        });
        let (details, open) = read.await?;
        let keys = self.center.keys()?;
        let parts = MessageParts {
            delivery,
            details,
            open,
            content: self.settings.content,
            public_url: self.center.settings.public_url.clone(),
            deny_links: &DenyLinks {
                keys: &keys,
                channel: &self.settings.name,
            },
        };
        Ok(parts.compose())
    }

    async fn save_if_behind(&mut self) -> Result<(), ServiceError> {
        if self.state.cursor.0 - self.saved.0 < NOTIFY_CURSOR_LAG_MAX {
            return Ok(());
        }
        self.save().await
    }

    async fn save(&mut self) -> Result<(), ServiceError> {
        let document = channel_document(&self.settings.name, &self.state)?;
        self.service.save_notify_documents(vec![document]).await?;
        self.saved = self.state.cursor;
        Ok(())
    }
}

/// The stored form of a channel's state.
pub(super) fn channel_document(
    name: &str,
    state: &ChannelState,
) -> Result<(String, Option<Json>), ServiceError> {
    let body =
        Json::from_value(state).map_err(|error| ServiceError::World(error.to_string().into()))?;
    Ok((channel_key(name), Some(body)))
}

pub(super) fn channel_key(name: &str) -> String {
    format!("channel/{name}")
}

/// How far local time is ahead of UTC.
fn local_offset_s(now: Timestamp) -> i64 {
    let micros = i64::try_from(now.0).unwrap_or_default();
    let instant = jiff::Timestamp::from_microsecond(micros).unwrap_or_default();
    let offset = jiff::tz::TimeZone::system().to_offset(instant);
    i64::from(offset.seconds())
}

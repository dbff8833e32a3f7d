//! The notifier: tells people elsewhere that somebody waits for them.
//!
//! Each channel is a reader of the committed log with a cursor of its own (`channel_loop.rs`). What it
//! tells, and when, is decided by `planner.rs` alone, which touches nothing.
//!
//! Invariants: the loop never waits for a channel; no channel carries a way to allow anything; a message
//! about an ask that ended is not sent.

mod channel;
mod channel_loop;
mod deny_link;
mod planner;
mod quiet_hours;
mod screens;
mod status;
#[cfg(test)]
mod test_support;
mod text;
mod viewer_watch;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_core::limits::NOTIFY_PUSH_MAX;
use countersign_core::{ApprovalId, Json, PrincipalKey, Rejection, Seq, Timestamp, TokenId, hex};
use countersign_notify::{NotifyKeys, NotifyMessage, PushChannel, PushSubscription};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use channel::{ChannelKind, ChannelSettings, ChannelTarget};
pub use planner::NoticeKind;
pub use quiet_hours::QuietHours;
pub use screens::AskViewer;
pub(crate) use screens::{ScreenReport, ScreenReports};
pub use status::{ChannelReport, ChannelTest};
pub use text::NoticeContent;
pub use viewer_watch::ViewerWatch;

use crate::reply::ServiceError;
use crate::service::Service;
use channel_loop::{ChannelEnd, ChannelLoop, channel_document, channel_key};
use planner::{ChannelPolicy, ChannelState};
use status::ChannelStatus;

const PUSH_PREFIX: &str = "push/";

/// How people elsewhere are told.
#[derive(Clone, Default)]
pub struct NotifySettings {
    pub channels: Vec<ChannelSettings>,
    pub quiet: Option<QuietHours>,
    /// What links say, without a slash at the end.
    pub public_url: Option<String>,
    /// Where the keys are kept; `None` for keys that end with the host.
    pub key_file: Option<PathBuf>,
}

/// The channels that run, and what they share.
#[derive(Default)]
pub(crate) struct NotifyCenter {
    pub(crate) settings: NotifySettings,
    pub(crate) screens: ScreenReports,
    keys: Mutex<Option<Arc<NotifyKeys>>>,
    running: Mutex<Vec<RunningChannel>>,
}

struct RunningChannel {
    settings: ChannelSettings,
    /// What a person calls it.
    label: String,
    status: Arc<ChannelStatus>,
    stop: CancellationToken,
}

/// A browser's subscription as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredSubscription {
    subscription: PushSubscription,
    /// Who subscribed. Without their token nothing more is told to the browser.
    owner: PrincipalKey,
}

impl NotifyCenter {
    pub(crate) fn new(settings: NotifySettings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// The host's own keys, read or made when they are first needed.
    pub(crate) fn keys(&self) -> Result<Arc<NotifyKeys>, ServiceError> {
        let mut keys = lock(&self.keys);
        if let Some(keys) = &*keys {
            return Ok(keys.clone());
        }
        let made = match &self.settings.key_file {
            Some(path) => NotifyKeys::load_or_create(path),
            None => NotifyKeys::generate(),
        };
        let made = made
            .map_err(|error| ServiceError::World(countersign_core::error_chain(&error).into()))?;
        Ok(keys.insert(Arc::new(made)).clone())
    }

    pub(crate) fn reports(&self) -> Vec<ChannelReport> {
        let running = lock(&self.running);
        let reports = running.iter();
        reports
            .map(|channel| {
                channel
                    .status
                    .report(&channel.label, channel.settings.target.kind())
            })
            .collect()
    }

    /// The ask that an address denies, and the channel it was sent to.
    pub(crate) fn parse_deny_code(
        &self,
        text: &str,
    ) -> Result<Option<(ApprovalId, String)>, ServiceError> {
        Ok(deny_link::parse_deny_code(&*self.keys()?, text))
    }

    /// How many browsers are told besides this one.
    fn count_other_browsers(&self, id: &str) -> usize {
        let running = lock(&self.running);
        let others = running.iter().filter(|channel| {
            let settings = &channel.settings;
            settings.target.kind() == ChannelKind::Push && settings.name != id
        });
        others.count()
    }

    /// Whether a browser is told already, in the name of the same token.
    fn tells(&self, id: &str, wanted: &StoredSubscription) -> bool {
        let running = lock(&self.running);
        running.iter().any(|channel| {
            let settings = &channel.settings;
            let same = matches!(&settings.target, ChannelTarget::Push(push) if push.subscription == wanted.subscription);
            settings.name == id && same && settings.owner == owner_token(&wanted.owner)
        })
    }

    /// Sends a test to every channel at once and says what came of each.
    pub(crate) async fn test_channels(&self, now: Timestamp) -> Vec<ChannelTest> {
        let message = self.test_message(now);
        let mut sending = JoinSet::new();
        for (index, channel) in lock(&self.running).iter().enumerate() {
            let (target, message) = (channel.settings.target.clone(), message.clone());
            let (name, status) = (channel.label.clone(), channel.status.clone());
            sending.spawn(async move {
                let sent = target.send(message, now).await;
                let error = sent.err().map(|error| error.to_string());
                match &error {
                    None => status.note_ok(now),
                    Some(error) => status.note_error(error),
                }
                (index, ChannelTest { name, error })
            });
        }
        let mut results = sending.join_all().await;
        results.sort_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    }

    fn test_message(&self, now: Timestamp) -> NotifyMessage {
        NotifyMessage {
            id: format!("test_{}", now.0),
            kind: "test",
            title: "Countersign".to_owned(),
            text: "This is a test: notifications arrive here.".to_owned(),
            public_url: self.settings.public_url.clone(),
            path: Some("/".to_owned()),
            deny_path: None,
            agent: None,
            subject: None,
            at: now,
            waits: false,
        }
    }

    /// Ends a channel. Returns whether there was one.
    pub(crate) fn stop_channel(&self, name: &str) -> bool {
        let mut running = lock(&self.running);
        let before = running.len();
        running.retain(|channel| {
            let stopped = channel.settings.name == name;
            if stopped {
                channel.stop.cancel();
            }
            !stopped
        });
        running.len() < before
    }
}

/// Starts every channel that is configured, and those of the browsers that subscribed.
pub(crate) async fn start_channels(
    service: &Service,
    center: &Arc<NotifyCenter>,
) -> Result<(), ServiceError> {
    let documents = service.load_notify_documents().await?;
    for settings in &center.settings.channels {
        let stored = find_state(&documents, &settings.name);
        let label = settings.name.clone();
        start_channel(service, center, settings.clone(), label, stored).await?;
    }
    for (name, body) in &documents {
        let Some(id) = name.strip_prefix(PUSH_PREFIX) else {
            continue;
        };
        let Ok(stored) = serde_json::from_str::<StoredSubscription>(body.text()) else {
            tracing::warn!(%name, "a subscription cannot be read and is left out");
            continue;
        };
        let state = find_state(&documents, id);
        start_push(service, center, id, stored, state).await?;
    }
    Ok(())
}

/// A stored state. One that cannot be read, as of a later version, is as good as none.
fn find_state(documents: &[(String, Json)], name: &str) -> Option<ChannelState> {
    let key = channel_key(name);
    let (_, body) = documents.iter().find(|(found, _)| *found == key)?;
    serde_json::from_str(body.text()).ok()
}

/// Tells a browser from now on, and after a restart as well. Returns its id, which is the same if it
/// subscribes again.
pub(crate) async fn subscribe(
    service: &Service,
    center: &Arc<NotifyCenter>,
    subscription: PushSubscription,
    owner: PrincipalKey,
) -> Result<String, ServiceError> {
    let digest = hex(&Sha256::digest(subscription.endpoint.as_bytes()));
    let id = format!("push-{}", &digest[..12]);
    let stored = StoredSubscription {
        subscription,
        owner,
    };
    // Pages subscribe again whenever they are opened.
    if center.tells(&id, &stored) {
        return Ok(id);
    }
    if center.count_other_browsers(&id) >= NOTIFY_PUSH_MAX {
        let rejection = Rejection::TooMany {
            what: "subscriptions",
            limit: NOTIFY_PUSH_MAX,
        };
        return Err(rejection.into());
    }
    center.stop_channel(&id);
    let body =
        Json::from_value(&stored).map_err(|error| ServiceError::World(error.to_string().into()))?;
    let document = (format!("{PUSH_PREFIX}{id}"), Some(body));
    service.save_notify_documents(vec![document]).await?;
    let documents = service.load_notify_documents().await?;
    let state = find_state(&documents, &id);
    start_push(service, center, &id, stored, state).await?;
    Ok(id)
}

/// Ends what is told to a browser, and forgets it. Returns whether it was known.
pub(crate) async fn unsubscribe(
    service: &Service,
    center: &Arc<NotifyCenter>,
    id: &str,
) -> Result<bool, ServiceError> {
    let known = center.stop_channel(id);
    let documents = [format!("{PUSH_PREFIX}{id}"), channel_key(id)];
    let dropped = documents.map(|name| (name, None)).to_vec();
    service.save_notify_documents(dropped).await?;
    Ok(known)
}

async fn start_push(
    service: &Service,
    center: &Arc<NotifyCenter>,
    id: &str,
    stored: StoredSubscription,
    state: Option<ChannelState>,
) -> Result<(), ServiceError> {
    let StoredSubscription {
        subscription,
        owner,
    } = stored;
    let label = match &subscription.device {
        Some(device) => format!("{device} ({id})"),
        None => id.to_owned(),
    };
    let channel = PushChannel {
        subscription,
        keys: center.keys()?,
    };
    let settings = ChannelSettings {
        name: id.to_owned(),
        target: ChannelTarget::Push(channel),
        // It is encrypted to the device.
        content: NoticeContent::Full,
        kinds: NoticeKind::ALL.to_vec(),
        owner: owner_token(&owner),
    };
    start_channel(service, center, settings, label, state).await
}

/// The token that somebody subscribed with; whoever came over the socket has none.
fn owner_token(owner: &PrincipalKey) -> Option<TokenId> {
    let has_token = !owner.as_str().starts_with("uid:");
    has_token.then(|| TokenId::new(owner.as_str()))
}

async fn start_channel(
    service: &Service,
    center: &Arc<NotifyCenter>,
    settings: ChannelSettings,
    label: String,
    stored: Option<ChannelState>,
) -> Result<(), ServiceError> {
    let repeats = settings.target.repeats();
    let state = if let Some(state) = stored {
        state.resumed(repeats, service.now())
    } else {
        // Committed at once: what is asked from now on is told even if the host is killed before.
        let state = ChannelState::starting_at(service.head());
        let document = channel_document(&settings.name, &state)?;
        service.save_notify_documents(vec![document]).await?;
        state
    };
    let (status, stop) = (Arc::new(ChannelStatus::default()), CancellationToken::new());
    let reader = ChannelLoop {
        service: service.clone(),
        center: center.clone(),
        policy: ChannelPolicy {
            kinds: settings.kinds.clone(),
            quiet: center.settings.quiet,
        },
        saved: Seq(state.cursor.0),
        settings: settings.clone(),
        status: status.clone(),
        stop: stop.clone(),
        state,
    };
    let running = RunningChannel {
        settings,
        label,
        status,
        stop,
    };
    lock(&center.running).push(running);
    service.spawn_task(run_channel(reader));
    Ok(())
}

async fn run_channel(reader: ChannelLoop) {
    let (service, center) = (reader.service.clone(), reader.center.clone());
    let name = reader.settings.name.clone();
    if let ChannelEnd::Gone = Box::pin(reader.run()).await {
        tracing::info!(
            channel = name,
            "the receiver is gone: it is told nothing more"
        );
        if let Err(error) = unsubscribe(&service, &center, &name).await {
            tracing::warn!(channel = name, %error, "the subscription could not be removed");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The connections to the host: one for news, two for calls, two for terminals, one for the transcript that is looked
//! at, and one that says which ask is on the screen and hears what is open on others.
//!
//! Invariants: nothing is sent twice; a connection that was made before the host was lost is not used afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use countersign_protocol::{PresenceParams, SubscribeParams, method};
use countersign_tui::host_call::{CallFailure, CallLane, CallResult, HostCall};
use countersign_tui::message::Message;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;

use crate::client::{CallError, HostClient, HostEndpoint};
use crate::notes;

/// Messages that wait for the screen. The host waits with the rest.
const NEWS_WAITING: usize = 1_024;
/// Calls that wait for their connection: more than a person can make.
const CALLS_WAITING: usize = 256;
/// The first pause before a new try to reach the host; each next one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often the host is told what is on the screen: it forgets it after half a minute.
const PRESENCE_EVERY: Duration = Duration::from_secs(20);

/// Dropping it ends the connections.
pub(super) struct HostLinks {
    messages: mpsc::Receiver<Message>,
    decide: mpsc::Sender<HostCall>,
    read: mpsc::Sender<HostCall>,
    watch: mpsc::Sender<HostCall>,
    typed: mpsc::Sender<HostCall>,
    followed: watch::Sender<Option<String>>,
    /// The ask or question that is on the screen.
    shown: watch::Sender<Option<String>>,
    /// Counts how often the host was lost.
    losses: Arc<AtomicU64>,
    /// Holds the tasks, which end with the runtime.
    _tasks: TaskTracker,
}

impl HostLinks {
    pub(super) fn open(endpoint: HostEndpoint) -> Self {
        let (news, messages) = mpsc::channel(NEWS_WAITING);
        let (decide, decide_calls) = mpsc::channel(CALLS_WAITING);
        let (read, read_calls) = mpsc::channel(CALLS_WAITING);
        let (watch, watch_calls) = mpsc::channel(CALLS_WAITING);
        let (typed, typed_calls) = mpsc::channel(CALLS_WAITING);
        let (followed, follow_receiver) = watch::channel(None);
        let (shown, shown_receiver) = watch::channel(None);
        let losses = Arc::new(AtomicU64::new(0));
        let tasks = TaskTracker::new();
        tasks.spawn(read_news(endpoint.clone(), news.clone()));
        let lane = CallLaneWorker {
            endpoint: endpoint.clone(),
            losses: Arc::clone(&losses),
            client: None,
        };
        for calls in [decide_calls, read_calls, typed_calls] {
            tasks.spawn(lane.another().run(calls, news.clone()));
        }
        tasks.spawn(lane.run_newest(watch_calls, news.clone()));
        tasks.spawn(share_presence(
            endpoint.clone(),
            shown_receiver,
            news.clone(),
        ));
        tasks.spawn(follow_transcripts(endpoint, follow_receiver, news));
        Self {
            messages,
            decide,
            read,
            watch,
            typed,
            followed,
            shown,
            losses,
            _tasks: tasks,
        }
    }

    /// The next message. Never ends: as long as there is a screen, the host is looked for.
    pub(super) async fn next_message(&mut self) -> Message {
        match self.messages.recv().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }

    pub(super) fn try_next_message(&mut self) -> Option<Message> {
        self.messages.try_recv().ok()
    }

    /// Makes a call, or says that too many wait.
    pub(super) fn call(&self, call: HostCall) -> Result<(), Box<Message>> {
        let lane = match call.lane {
            CallLane::Decide => &self.decide,
            CallLane::Read => &self.read,
            CallLane::Watch => &self.watch,
            CallLane::Type => &self.typed,
        };
        lane.try_send(call).map_err(|refused| {
            let call = refused.into_inner();
            Box::new(Message::Reply {
                tag: call.tag,
                result: Err(CallFailure {
                    message: "nothing was sent: too many calls wait for the host".to_owned(),
                    reason: None,
                    is_lost: false,
                }),
            })
        })
    }

    pub(super) fn follow(&self, agent: Option<String>) {
        self.followed.send_replace(agent);
    }

    /// Says what is on the screen, so that other screens can say so.
    pub(super) fn show(&self, subject: Option<&str>) {
        self.shown.send_if_modified(|known| {
            let is_new = known.as_deref() != subject;
            if is_new {
                *known = subject.map(str::to_owned);
            }
            is_new
        });
    }

    /// Calls after this use new connections.
    pub(super) fn forget_connections(&self) {
        self.losses.fetch_add(1, Ordering::Relaxed);
    }
}

/// Subscribes, and passes on everything that happens; looks for the host whenever it is lost.
async fn read_news(endpoint: HostEndpoint, news: mpsc::Sender<Message>) {
    let mut pause = PAUSE_FIRST;
    loop {
        if let Ok(mut client) = HostClient::connect(&endpoint).await
            && let Ok(connected) = subscribe(&mut client).await
        {
            pause = PAUSE_FIRST;
            if news.send(connected).await.is_err() {
                return;
            }
            while let Ok(event) = client.next_event().await {
                if news.send(Message::Event(Box::new(event))).await.is_err() {
                    return;
                }
            }
            if news.send(Message::Lost).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

async fn subscribe(client: &mut HostClient) -> Result<Message, CallError> {
    let params = SubscribeParams {
        brief: true,
        ..SubscribeParams::default()
    };
    let snapshot = client.call::<method::Subscribe>(&params).await?;
    // After subscribing, so that a note that comes meanwhile is in this list or in an event.
    let notes = notes::recent(client, None).await?;
    Ok(Message::Connected {
        snapshot: Box::new(snapshot),
        notes,
    })
}

/// Makes the calls of one lane, one after the other.
struct CallLaneWorker {
    endpoint: HostEndpoint,
    losses: Arc<AtomicU64>,
    /// A connection, and how often the host had been lost when it was made.
    client: Option<(u64, HostClient)>,
}

impl CallLaneWorker {
    async fn run(mut self, mut calls: mpsc::Receiver<HostCall>, replies: mpsc::Sender<Message>) {
        while let Some(call) = calls.recv().await {
            let result = self.perform(&call).await;
            let reply = Message::Reply {
                tag: call.tag,
                result,
            };
            if replies.send(reply).await.is_err() {
                return;
            }
        }
    }

    /// A lane with a connection of its own.
    fn another(&self) -> Self {
        Self {
            endpoint: self.endpoint.clone(),
            losses: Arc::clone(&self.losses),
            client: None,
        }
    }

    /// Makes the newest call: one that waits is given up, with its connection, when another comes.
    async fn run_newest(
        mut self,
        mut calls: mpsc::Receiver<HostCall>,
        replies: mpsc::Sender<Message>,
    ) {
        let mut next = calls.recv().await;
        while let Some(call) = next {
            let performed = tokio::select! {
                result = self.perform(&call) => Ok(result),
                newer = calls.recv() => Err(newer),
            };
            next = match performed {
                Ok(result) => {
                    let tag = call.tag;
                    if replies.send(Message::Reply { tag, result }).await.is_err() {
                        return;
                    }
                    calls.recv().await
                }
                Err(newer) => newer,
            };
        }
    }

    async fn perform(&mut self, call: &HostCall) -> CallResult {
        // Read before connecting, so that a host that is lost meanwhile makes this connection an old one.
        let losses = self.losses.load(Ordering::Relaxed);
        let params: Box<RawValue> = RawValue::from_string(call.params.clone())
            .map_err(|error| failure_of(error.to_string()))?;
        // Taken out: a call that `run_newest` gives up drops its connection with it, so that its
        // late reply is never taken for the reply to the next call.
        let known = self.client.take().filter(|(made_at, _)| *made_at == losses);
        let mut client = match known {
            Some((_, client)) => client,
            None => HostClient::connect(&self.endpoint)
                .await
                .map_err(|_| failure_of("not connected: nothing was sent".to_owned()))?,
        };
        let result = client.call_raw(call.method, &params).await;
        // After a failure of the connection nobody knows what the next reply would belong to.
        if !result.as_ref().is_err_and(CallError::is_connection) {
            self.client = Some((losses, client));
        }
        result.map_err(call_failure)
    }
}

fn failure_of(message: String) -> CallFailure {
    CallFailure {
        message,
        reason: None,
        is_lost: false,
    }
}

fn call_failure(error: CallError) -> CallFailure {
    let is_lost = error.is_connection();
    let reason = error.reason();
    let message = match error {
        CallError::Refused(refusal) => refusal.describe(),
        other => other.to_string(),
    };
    CallFailure {
        message,
        reason,
        is_lost,
    }
}

/// Says what is on this screen and hears what is open on others, as long as there is a screen.
async fn share_presence(
    endpoint: HostEndpoint,
    mut shown: watch::Receiver<Option<String>>,
    news: mpsc::Sender<Message>,
) {
    loop {
        if let Ok(client) = HostClient::connect(&endpoint).await {
            let ended = keep_present(client, &mut shown, &news).await;
            // Nobody knows any more; an observer never will.
            let forgotten = news.send(Message::Viewers(Vec::new())).await;
            if forgotten.is_err() || !ended.is_connection() {
                return;
            }
        }
        tokio::time::sleep(PAUSE_MAX).await;
    }
}

/// Says why it ended.
async fn keep_present(
    mut client: HostClient,
    shown: &mut watch::Receiver<Option<String>>,
    news: &mpsc::Sender<Message>,
) -> CallError {
    loop {
        let params = PresenceParams {
            // Never: a terminal that says nothing about its focus would keep notifications quiet for as long as it
            // is open.
            focused: false,
            subject: shown.borrow_and_update().clone(),
        };
        if let Err(error) = client.call::<method::Presence>(&params).await {
            return error;
        }
        let again = tokio::time::sleep(PRESENCE_EVERY);
        tokio::pin!(again);
        loop {
            tokio::select! {
                changed = shown.changed() => match changed {
                    Ok(()) => break,
                    // The screen is gone, and this task ends with the runtime.
                    Err(_) => std::future::pending().await,
                },
                () = &mut again => break,
                heard = client.next_viewers() => match heard {
                    // A screen that is gone takes nothing, and ends this task with the runtime.
                    Ok(notice) => drop(news.send(Message::Viewers(notice.viewers)).await),
                    Err(error) => return error,
                },
            }
        }
    }
}

/// Tells when the transcript that is looked at grows. What is shown is always read from a cursor.
async fn follow_transcripts(
    endpoint: HostEndpoint,
    mut followed: watch::Receiver<Option<String>>,
    news: mpsc::Sender<Message>,
) {
    loop {
        let agent = followed.borrow_and_update().clone();
        let Some(agent) = agent else {
            if followed.changed().await.is_err() {
                return;
            }
            continue;
        };
        tokio::select! {
            changed = followed.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = tell_growth(&endpoint, &agent, &news) => tokio::time::sleep(PAUSE_MAX).await,
        }
    }
}

/// Ends when the connection is lost.
async fn tell_growth(endpoint: &HostEndpoint, agent: &str, news: &mpsc::Sender<Message>) {
    let Ok(mut client) = HostClient::connect(endpoint).await else {
        return;
    };
    let params = SubscribeParams {
        kinds: Some(vec!["transcript.added".to_owned()]),
        agent_id: Some(agent.to_owned()),
        ..SubscribeParams::default()
    };
    if client.call::<method::Subscribe>(&params).await.is_err() {
        return;
    }
    loop {
        let message = Message::TranscriptGrew {
            agent: agent.to_owned(),
        };
        // Once more at the beginning: what was added before this subscription.
        if news.send(message).await.is_err() || client.next_event().await.is_err() {
            return;
        }
    }
}

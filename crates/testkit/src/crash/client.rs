//! A client that outlives hosts: it calls, and when the host dies it waits for the next one.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::ledger::Ledger;
use crate::wire::{Connection, Frame};

/// A client that lost its connection must meet the next host by then: losing it without a kill is a fault.
const NEXT_HOST_WITHIN: Duration = Duration::from_mins(1);

/// Where the present host is reached.
#[derive(Clone, Debug)]
pub(super) struct Doorway {
    pub(super) generation: u64,
    pub(super) url: String,
}

/// Why a call gave nothing.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The host died before it answered.
    Lost,
    /// The host said no.
    Refused(Refusal),
}

/// A host's no, or words that are none of the wire's.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) method: String,
    pub(super) error: Value,
}

impl Refusal {
    /// The stable name of the reason.
    pub(super) fn reason(&self) -> Option<&str> {
        self.error["data"]["reason"].as_str()
    }
}

/// An event as a reader gets it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct SeenEvent {
    pub(super) sequence: u64,
    pub(super) kind: String,
    pub(super) payload: Value,
}

/// One connection to one host.
pub(super) struct Client(Connection);

impl Client {
    pub(super) async fn open(url: &str, token: &str) -> Result<Self, Trouble> {
        let connection = Connection::dial(url).await.map_err(|_| Trouble::Lost)?;
        let mut client = Self(connection);
        // Here and not by `Connection::open`, so that a token that is no longer known is not taken for a dead host.
        let params = json!({ "token": token });
        client.call::<Value>("session.auth", &params).await?;
        Ok(client)
    }

    pub(super) async fn call<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<T, Trouble> {
        let reply = self.0.exchange(method, params).await;
        let reply = reply.map_err(|_| Trouble::Lost)?;
        to_result(&reply).map_err(|error| {
            Trouble::Refused(Refusal {
                method: method.to_owned(),
                error,
            })
        })
    }

    async fn next_event(&mut self) -> Result<SeenEvent, Trouble> {
        loop {
            let text = match self.0.queued_notification() {
                Some(text) => text,
                None => self.0.receive().await.map_err(|_| Trouble::Lost)?,
            };
            if let Some(event) = to_event(&text) {
                return Ok(event);
            }
        }
    }

    /// An event that came while a call was under way.
    fn queued_event(&mut self) -> Option<SeenEvent> {
        to_event(&self.0.queued_notification()?)
    }
}

fn to_event(text: &str) -> Option<SeenEvent> {
    #[derive(Deserialize)]
    struct Notification {
        params: SeenEvent,
    }
    let notification: Option<Notification> = serde_json::from_str(text).ok();
    notification.map(|notification| notification.params)
}

fn to_result<T: DeserializeOwned>(text: &str) -> Result<T, Value> {
    let frame = Frame::parse(text).map_err(|error| json!(error.to_string()))?;
    if let Some(error) = frame.error {
        return Err(serde_json::from_str(error.get()).unwrap_or_default());
    }
    let result = frame.result.map_or("null", |result| result.get());
    serde_json::from_str(result).map_err(|error| json!(format!("`{result:.200}`: {error}")))
}

/// A client's way to whichever host lives.
pub(super) struct Line {
    token: String,
    doorway: watch::Receiver<Option<Doorway>>,
    pub(super) ledger: Arc<Ledger>,
    client: Option<Client>,
    generation: u64,
    subscription: Option<Subscription>,
}

/// What is read, and how far it was read.
struct Subscription {
    kinds: Option<&'static [&'static str]>,
    cursor: u64,
}

impl Line {
    pub(super) fn new(
        token: &str,
        doorway: &watch::Receiver<Option<Doorway>>,
        ledger: &Arc<Ledger>,
    ) -> Self {
        Self {
            token: token.to_owned(),
            doorway: doorway.clone(),
            ledger: Arc::clone(ledger),
            client: None,
            generation: 0,
            subscription: None,
        }
    }

    /// Also reads events from the first one on, across all hosts: those of `kinds`, or all that are public.
    pub(super) fn subscribing(self, kinds: Option<&'static [&'static str]>) -> Self {
        Self {
            subscription: Some(Subscription { kinds, cursor: 0 }),
            ..self
        }
    }

    /// Calls the present host once, or waits for the next one to call.
    pub(super) async fn call<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<T, Trouble> {
        let outcome = match self.reach().await {
            Ok(client) => client.call(method, params).await,
            Err(trouble) => Err(trouble),
        };
        if matches!(outcome, Err(Trouble::Lost)) {
            self.client = None;
        }
        outcome
    }

    /// Calls one host after the other until one answers.
    pub(super) async fn insist<T: DeserializeOwned>(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<T, Refusal> {
        loop {
            match self.call(method, params).await {
                Ok(result) => return Ok(result),
                Err(Trouble::Refused(refusal)) => return Err(refusal),
                Err(Trouble::Lost) => {}
            }
        }
    }

    /// The next event after all that were given out before, from whichever host.
    pub(super) async fn next_event(&mut self) -> Result<SeenEvent, Refusal> {
        loop {
            let outcome = match self.reach().await {
                Ok(client) => client.next_event().await,
                Err(trouble) => Err(trouble),
            };
            match outcome {
                Ok(event) => return Ok(self.give_out(event)),
                Err(Trouble::Lost) => self.client = None,
                Err(Trouble::Refused(refusal)) => return Err(refusal),
            }
        }
    }

    /// An event that came while a call was under way.
    pub(super) fn find_event(&mut self) -> Option<SeenEvent> {
        let event = self.client.as_mut()?.queued_event()?;
        Some(self.give_out(event))
    }

    fn give_out(&mut self, event: SeenEvent) -> SeenEvent {
        if let Some(subscription) = &mut self.subscription {
            if event.sequence <= subscription.cursor {
                self.ledger.complain(format!(
                    "a reader at {} was sent event {} once more",
                    subscription.cursor, event.sequence
                ));
            }
            subscription.cursor = event.sequence;
        }
        event
    }

    async fn reach(&mut self) -> Result<&mut Client, Trouble> {
        let client = match self.client.take() {
            Some(client) => client,
            None => self.connect().await?,
        };
        Ok(self.client.insert(client))
    }

    async fn connect(&mut self) -> Result<Client, Trouble> {
        let met = self.generation;
        let fresh = self.doorway.wait_for(|doorway| {
            let doorway = doorway.as_ref();
            doorway.is_some_and(|doorway| doorway.generation > met)
        });
        let next = tokio::time::timeout(NEXT_HOST_WITHIN, fresh).await;
        let doorway = next.ok().and_then(Result::ok).and_then(|door| door.clone());
        let Some(Doorway { generation, url }) = doorway else {
            return Err(Trouble::Refused(Refusal {
                method: "a new connection".to_owned(),
                error: json!(format!("host {met} closed the last one and was not killed")),
            }));
        };
        self.generation = generation;
        let mut client = Client::open(&url, &self.token).await?;
        if let Some(Subscription { kinds, cursor }) = &self.subscription {
            let params = json!({ "after": cursor, "kinds": kinds });
            client.call::<Value>("host.subscribe", &params).await?;
        }
        Ok(client)
    }

    /// Reports a refusal that no host should have given.
    pub(super) fn complain_of(&self, who: &str, refusal: &Refusal) {
        let Refusal { method, error } = refusal;
        self.ledger
            .complain(format!("{who} was refused `{method}`: {error}"));
    }
}

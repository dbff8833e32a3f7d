//! A raw client of the host wire: sends what it is told, reads frame by frame.

use std::collections::VecDeque;
use std::path::Path;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{self, Message};

use super::shape::take_request_id;
use super::{PATIENCE, TestHost};
use crate::wire::Connection;

/// One connection.
pub struct Wire {
    connection: Connection,
    events: VecDeque<Value>,
}

impl Wire {
    /// Opens a TCP connection and says nothing yet.
    pub async fn open(host: &impl TestHost) -> Self {
        Self::open_at(host.address()).await
    }

    pub async fn open_at(address: &str) -> Self {
        Self::upgrade(address, "/", &[]).await.unwrap()
    }

    /// Tries to open a TCP connection with headers of the caller's choice.
    pub async fn upgrade(
        address: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self, tungstenite::Error> {
        let mut request = format!("ws://{address}{path}").into_client_request()?;
        for (name, value) in headers {
            let name: HeaderName = name.parse()?;
            request
                .headers_mut()
                .insert(name, value.parse::<HeaderValue>()?);
        }
        let stream = TcpStream::connect(address).await?;
        let upgraded = tokio::time::timeout(PATIENCE, Connection::upgrade(request, stream)).await;
        Ok(Self::over(upgraded.unwrap()?))
    }

    /// Opens the Unix socket, where the host knows its peer without a token.
    pub async fn unix(path: &Path) -> Self {
        Self::try_unix(path).await.expect("a host at the socket")
    }

    /// Opens the Unix socket, if a host is there and stays.
    pub async fn try_unix(path: &Path) -> Option<Self> {
        let stream = UnixStream::connect(path).await.ok()?;
        let upgraded = Connection::upgrade("ws://localhost/", stream).await;
        upgraded.ok().map(Self::over)
    }

    fn over(connection: Connection) -> Self {
        Self {
            connection,
            events: VecDeque::new(),
        }
    }

    /// Opens a TCP connection and shows a token, as every client of this wire begins.
    pub async fn connect(host: &impl TestHost, token: &str) -> Self {
        let mut wire = Self::open(host).await;
        wire.ok("session.auth", json!({ "token": token })).await;
        wire
    }

    /// With an operator's token.
    pub async fn operator(host: &impl TestHost) -> Self {
        Self::connect(host, &host.token()).await
    }

    /// An operator that gets events.
    pub async fn subscriber(host: &impl TestHost) -> Self {
        let mut wire = Self::operator(host).await;
        wire.ok("host.subscribe", json!({})).await;
        wire
    }

    pub async fn send_text(&mut self, text: impl Into<String>) {
        self.connection.send_text(text.into()).await.unwrap();
    }

    /// Bytes past the WebSocket's own framing.
    pub async fn send_raw(&mut self, bytes: &[u8]) {
        let stream = self.connection.stream();
        stream.write_all(bytes).await.unwrap();
        stream.flush().await.unwrap();
    }

    pub async fn send(&mut self, frame: Value) {
        self.send_text(frame.to_string()).await;
    }

    /// The very next frame, without the id of the request that an error carries.
    pub async fn next(&mut self) -> Value {
        let mut frame: Value = serde_json::from_str(&self.next_text().await).unwrap();
        if let Some(error) = frame.get_mut("error") {
            take_request_id(&mut error["data"]);
        }
        frame
    }

    /// The very next frame, as it was sent.
    pub async fn next_text(&mut self) -> String {
        match self.next_message().await {
            Some(Message::Text(text)) => text.to_string(),
            other => panic!("expected a text frame, got {other:?}"),
        }
    }

    async fn next_message(&mut self) -> Option<Message> {
        let next = tokio::time::timeout(PATIENCE, self.connection.next_message()).await;
        next.expect("a frame in time")
    }

    /// Waits until the host closes, and gives the code it closes with. No frame may come before.
    pub async fn closed(mut self) -> Option<u16> {
        match self.next_message().await {
            Some(Message::Close(frame)) => frame.map(|frame| frame.code.into()),
            None => None,
            other => panic!("expected the end, got {other:?}"),
        }
    }

    /// The whole reply to a request; events that come before it are kept.
    pub async fn reply(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        self.reply_to(id).await
    }

    /// Sends a request and does not wait.
    pub async fn request(&mut self, method: &str, params: Value) -> u64 {
        let sent = self.try_request(method, params).await;
        sent.expect("the host takes a request")
    }

    async fn try_request(&mut self, method: &str, params: Value) -> Option<u64> {
        let id = self.connection.feed(method, &params).await.ok()?;
        self.connection.flush().await.ok()?;
        Some(id)
    }

    pub async fn reply_to(&mut self, id: u64) -> Value {
        loop {
            let frame = self.next().await;
            if frame["method"] == "host.event" {
                self.events.push_back(frame);
            } else {
                assert_eq!(frame["id"], id, "{frame}");
                return frame;
            }
        }
    }

    /// The result of a request that succeeds.
    pub async fn ok(&mut self, method: &str, params: Value) -> Value {
        let mut reply = self.reply(method, params).await;
        assert!(reply.get("result").is_some(), "{method}: {reply}");
        reply["result"].take()
    }

    /// The whole reply to a request, unless the host is gone before it comes.
    pub async fn try_reply(&mut self, method: &str, params: Value) -> Option<Value> {
        self.try_request(method, params).await?;
        loop {
            let frame = self.try_next().await?;
            if frame["method"] == "host.event" {
                self.events.push_back(frame);
            } else {
                return Some(frame);
            }
        }
    }

    /// The next event, unless the host is gone before it comes.
    pub async fn try_event(&mut self) -> Option<Value> {
        let mut frame = match self.events.pop_front() {
            Some(frame) => frame,
            None => self.try_next().await?,
        };
        Some(frame["params"].take())
    }

    async fn try_next(&mut self) -> Option<Value> {
        match self.next_message().await? {
            Message::Text(text) => serde_json::from_str(&text).ok(),
            _ => None,
        }
    }

    /// The error of a request that is refused.
    pub async fn no(&mut self, method: &str, params: Value) -> Value {
        let mut reply = self.reply(method, params).await;
        assert!(reply.get("error").is_some(), "{method}: {reply}");
        reply["error"].take()
    }

    /// The next event, whole.
    pub async fn event(&mut self) -> Value {
        let mut frame = match self.events.pop_front() {
            Some(frame) => frame,
            None => self.next().await,
        };
        assert_eq!(frame["method"], "host.event", "{frame}");
        frame["params"].take()
    }

    /// The next event of a kind; those before it are dropped.
    pub async fn event_of(&mut self, kind: &str) -> Value {
        loop {
            let event = self.event().await;
            if event["kind"] == kind {
                return event;
            }
        }
    }

    /// The kinds of the next events.
    pub async fn kinds(&mut self, count: usize) -> Vec<String> {
        let mut kinds = Vec::new();
        for _ in 0..count {
            kinds.push(self.event().await["kind"].as_str().unwrap().to_owned());
        }
        kinds
    }
}

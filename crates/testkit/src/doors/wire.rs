//! A raw client of the host wire: sends what it is told, reads frame by frame.

use std::collections::VecDeque;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::shape::take_request_id;
use super::{PATIENCE, TestHost};

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One connection.
pub struct Wire {
    socket: WebSocketStream<Box<dyn Stream>>,
    next_id: u64,
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
        let stream: Box<dyn Stream> = Box::new(stream);
        let shaken = tokio::time::timeout(PATIENCE, client_async(request, stream)).await;
        let (socket, _) = shaken.unwrap()?;
        Ok(Self::over(socket))
    }

    /// Opens the Unix socket, where nobody needs to say who they are.
    pub async fn unix(path: &std::path::Path) -> Self {
        let stream: Box<dyn Stream> = Box::new(UnixStream::connect(path).await.unwrap());
        let (socket, _) = client_async("ws://localhost/", stream).await.unwrap();
        Self::over(socket)
    }

    /// Opens the Unix socket, if a host is there and stays.
    pub async fn try_unix(path: &std::path::Path) -> Option<Self> {
        let stream: Box<dyn Stream> = Box::new(UnixStream::connect(path).await.ok()?);
        let (socket, _) = client_async("ws://localhost/", stream).await.ok()?;
        Some(Self::over(socket))
    }

    fn over(socket: WebSocketStream<Box<dyn Stream>>) -> Self {
        Self {
            socket,
            next_id: 1,
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
        self.socket.send(Message::text(text.into())).await.unwrap();
    }

    /// Bytes past the WebSocket's own framing.
    pub async fn send_raw(&mut self, bytes: &[u8]) {
        self.socket.get_mut().write_all(bytes).await.unwrap();
        self.socket.get_mut().flush().await.unwrap();
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
        loop {
            let next = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            match next.expect("a frame in time") {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(message)) => return Some(message),
                Some(Err(_)) | None => return None,
            }
        }
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
        let id = self.next_id;
        self.next_id += 1;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        id
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
        let id = self.next_id;
        self.next_id += 1;
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.socket
            .send(Message::text(frame.to_string()))
            .await
            .ok()?;
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

//! The client of the host wire: JSON-RPC over one WebSocket, with any number of requests in flight.
//!
//! A connection has one owner, which queues requests, flushes them together and matches replies by id. There is no
//! task or channel between the load and the socket: on a small machine they would be most of what is measured.
//! The owner bounds what it has in flight, so that requests and replies fit the socket buffers; a flush can therefore
//! wait for the server without a reader beside it.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// Small enough for hundreds of connections, large enough to take a burst of events in one read.
const READ_BUFFER_BYTES: usize = 32 * 1024;
/// Longer than any reply takes, so that a silent server ends a run instead of hanging it.
const REPLY_TIMEOUT: Duration = Duration::from_mins(1);

/// A TCP or Unix stream.
pub(crate) trait WireStream: AsyncRead + AsyncWrite + AsFd + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + AsFd + Send + Unpin> WireStream for T {}

pub(crate) struct Connection {
    socket: WebSocketStream<Box<dyn WireStream>>,
    next_id: u64,
    /// What came while a reply was waited for.
    notifications: VecDeque<Utf8Bytes>,
}

/// The envelope of any frame from the server; only a notification has a `method`.
#[derive(Debug, Deserialize)]
pub(crate) struct Frame<'a> {
    pub(crate) id: Option<u64>,
    pub(crate) method: Option<&'a str>,
    #[serde(borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a P,
}

impl<'a> Frame<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self> {
        serde_json::from_str(text).with_context(|| format!("could not read frame `{text:.200}`"))
    }

    /// The result, or the server's error as ours.
    pub(crate) fn into_result(self) -> Result<&'a RawValue> {
        match (self.result, self.error) {
            (_, Some(error)) => Err(anyhow!("the server answered {:.200}", error.get())),
            (Some(result), None) => Ok(result),
            (None, None) => Err(anyhow!("the reply has neither result nor error")),
        }
    }
}

impl Connection {
    /// Connects over TCP, and authenticates if there is a token.
    pub(crate) async fn open(url: &str, token: Option<&str>) -> Result<Self> {
        let mut connection = Self::dial(url).await?;
        if let Some(token) = token {
            let params = json!({ "token": token });
            connection.call("session.auth", &params).await?;
        }
        Ok(connection)
    }

    /// Connects over TCP and sends nothing yet.
    pub(crate) async fn dial(url: &str) -> Result<Self> {
        tokio::time::timeout(REPLY_TIMEOUT, Self::dial_tcp(url))
            .await
            .unwrap_or_else(|late| Err(late.into()))
            .with_context(|| format!("could not connect to `{url}`"))
    }

    async fn dial_tcp(url: &str) -> Result<Self> {
        let request = url.into_client_request()?;
        let address = request.uri().authority().context("the URL has no host")?;
        let stream = TcpStream::connect(address.as_str()).await?;
        stream.set_nodelay(true)?;
        Ok(Self::upgrade(request, stream).await?)
    }

    /// Makes a WebSocket of a stream, by a request of the caller's choice.
    pub(crate) async fn upgrade(
        request: impl IntoClientRequest + Unpin,
        stream: impl WireStream + 'static,
    ) -> Result<Self, Error> {
        let stream: Box<dyn WireStream> = Box::new(stream);
        let config = WebSocketConfig::default().read_buffer_size(READ_BUFFER_BYTES);
        let (socket, _) = client_async_with_config(request, stream, Some(config)).await?;
        Ok(Self {
            socket,
            next_id: 1,
            notifications: VecDeque::new(),
        })
    }

    /// Queues a request and returns its id; nothing is sent for certain until [`Connection::flush`].
    pub(crate) async fn feed(&mut self, method: &str, params: &impl Serialize) -> Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        let text = serde_json::to_string(&Request {
            jsonrpc: "2.0",
            id,
            method,
            params,
        })?;
        let fed = self.socket.feed(Message::text(text)).await;
        fed.with_context(|| format!("could not send `{method}`"))?;
        Ok(id)
    }

    pub(crate) async fn flush(&mut self) -> Result<()> {
        let flushed = self.socket.flush().await;
        flushed.context("could not send to the server")
    }

    pub(crate) async fn send_text(&mut self, text: String) -> Result<(), Error> {
        self.socket.send(Message::text(text)).await
    }

    /// The stream below the WebSocket.
    pub(crate) fn stream(&mut self) -> &mut Box<dyn WireStream> {
        self.socket.get_mut()
    }

    /// The next text or close frame; nothing when the connection is gone.
    pub(crate) async fn next_message(&mut self) -> Option<Message> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(message)) => return Some(message),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// The next text frame, reply or notification.
    pub(crate) async fn receive(&mut self) -> Result<Utf8Bytes> {
        loop {
            let message = self.socket.next().await;
            if let Some(text) = to_text(message)? {
                return Ok(text);
            }
        }
    }

    /// The next text frame if it has arrived already.
    pub(crate) fn receive_ready(&mut self) -> Result<Option<Utf8Bytes>> {
        while let Some(message) = self.socket.next().now_or_never() {
            if let Some(text) = to_text(message)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// A notification that came before a reply.
    pub(crate) fn queued_notification(&mut self) -> Option<Utf8Bytes> {
        self.notifications.pop_front()
    }

    /// Sends one request and waits for its reply, which is returned whole.
    ///
    /// The caller must have nothing else in flight: a reply to another id is an error.
    pub(crate) async fn exchange(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Utf8Bytes> {
        let id = self.feed(method, params).await?;
        self.flush().await?;
        tokio::time::timeout(REPLY_TIMEOUT, self.reply_to(id))
            .await
            .map_err(|_| anyhow!("no reply to `{method}` within {REPLY_TIMEOUT:?}"))?
            .with_context(|| format!("no reply to `{method}`"))
    }

    /// As [`Connection::exchange`], and gives the result; an error reply is an error.
    pub(crate) async fn call(&mut self, method: &str, params: &impl Serialize) -> Result<Value> {
        let reply = self.exchange(method, params).await?;
        let result = Frame::parse(&reply)?.into_result();
        let result = result.with_context(|| format!("`{method}` failed"))?;
        Ok(serde_json::from_str(result.get())?)
    }

    async fn reply_to(&mut self, id: u64) -> Result<Utf8Bytes> {
        loop {
            let text = self.receive().await?;
            let frame = Frame::parse(&text)?;
            if frame.id == Some(id) {
                return Ok(text);
            }
            if frame.method.is_none() {
                bail!("expected the reply to {id}, got `{text:.200}`");
            }
            self.notifications.push_back(text);
        }
    }

    pub(crate) fn set_receive_buffer(&self, bytes: usize) -> Result<()> {
        rustix::net::sockopt::set_socket_recv_buffer_size(self.socket.get_ref(), bytes)
            .context("could not set the receive buffer")
    }
}

fn to_text(message: Option<Result<Message, Error>>) -> Result<Option<Utf8Bytes>> {
    match message {
        Some(Ok(Message::Text(text))) => Ok(Some(text)),
        Some(Ok(Message::Close(Some(frame)))) => bail!("the server closed the connection: {frame}"),
        Some(Ok(Message::Close(None))) => bail!("the server closed the connection"),
        Some(Ok(_)) => Ok(None),
        Some(Err(error)) => Err(error).context("the connection broke"),
        None => bail!("the connection ended"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reply_is_an_error() {
        let frame =
            Frame::parse(r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no"},"id":7}"#)
                .unwrap();
        assert_eq!(frame.id, Some(7));
        assert_eq!(
            frame.into_result().unwrap_err().to_string(),
            r#"the server answered {"code":-32601,"message":"no"}"#
        );
    }

    #[test]
    fn a_notification_has_a_method_and_no_id() {
        let frame = Frame::parse(r#"{"method":"host.event","params":{}}"#).unwrap();
        assert_eq!((frame.id, frame.method), (None, Some("host.event")));
    }
}

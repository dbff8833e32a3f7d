//! One WebSocket connection that speaks JSON-RPC with any number of requests in flight.
//!
//! A connection has one owner, which queues requests, flushes them together and matches replies by id. There is no
//! task or channel between the load and the socket: on a small machine they would be most of what is measured.
//! The owner bounds what it has in flight, so that requests and replies fit the socket buffers; a flush can therefore
//! wait for the server without a reader beside it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use futures_util::{FutureExt, SinkExt, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::Target;

const AUTH_ID: u64 = 0;
const HANDSHAKE_ID: u64 = 2;
/// Small enough for hundreds of connections, large enough to take a burst of events in one read.
const READ_BUFFER_BYTES: usize = 32 * 1024;
/// Past any honest reply, so that a silent server ends a run instead of hanging it.
const REPLY_TIMEOUT: Duration = Duration::from_mins(1);

/// An authenticated connection to a host.
#[derive(Debug)]
pub struct Connection {
    socket: WebSocketStream<TcpStream>,
    next_id: u64,
}

/// A reply with what it cost on the wire.
#[derive(Debug)]
pub struct Call {
    pub text: Utf8Bytes,
    pub elapsed: Duration,
}

/// The envelope of any frame from the server; `method` is there only on a notification.
#[derive(Debug, Deserialize)]
pub struct Frame<'a> {
    pub id: Option<u64>,
    pub method: Option<&'a str>,
    #[serde(borrow)]
    pub result: Option<&'a RawValue>,
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a P,
}

impl<'a> Frame<'a> {
    pub fn parse(text: &'a str) -> Result<Self> {
        serde_json::from_str(text).with_context(|| format!("could not read frame `{text:.200}`"))
    }

    /// The result, or the server's error as ours.
    pub fn into_result(self) -> Result<&'a RawValue> {
        match (self.result, self.error) {
            (_, Some(error)) => Err(anyhow!("the server answered {:.200}", error.get())),
            (Some(result), None) => Ok(result),
            (None, None) => Err(anyhow!("the reply has neither result nor error")),
        }
    }
}

impl Connection {
    /// Connects, authenticates when the target has a token, and offers the handshake.
    pub async fn open(target: &Target) -> Result<Self> {
        Self::open_on(target, new_socket).await
    }

    pub async fn open_many(target: &Target, count: usize) -> Result<Vec<Self>> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(Self::open(target).await?);
        }
        Ok(connections)
    }

    /// As [`Connection::open`], with so small a receive buffer that the server soon cannot write.
    pub async fn open_with_receive_buffer(target: &Target, bytes: u32) -> Result<Self> {
        Self::open_on(target, |address| {
            let socket = new_socket(address)?;
            socket.set_recv_buffer_size(bytes)?;
            Ok(socket)
        })
        .await
    }

    async fn open_on(
        target: &Target,
        new_socket: impl FnOnce(SocketAddr) -> std::io::Result<TcpSocket>,
    ) -> Result<Self> {
        let mut connection = Self::dial_on(&target.url, new_socket).await?;
        connection.introduce(target).await?;
        Ok(connection)
    }

    /// Connects and says nothing yet.
    pub async fn dial(url: &str) -> Result<Self> {
        Self::dial_on(url, new_socket).await
    }

    async fn dial_on(
        url: &str,
        new_socket: impl FnOnce(SocketAddr) -> std::io::Result<TcpSocket>,
    ) -> Result<Self> {
        let connecting = connect(url, new_socket);
        let socket = tokio::time::timeout(REPLY_TIMEOUT, connecting)
            .await
            .unwrap_or_else(|late| Err(late.into()))
            .with_context(|| format!("could not connect to `{url}`"))?;
        Ok(Self {
            socket,
            next_id: HANDSHAKE_ID + 1,
        })
    }

    async fn introduce(&mut self, target: &Target) -> Result<()> {
        if let Some(token) = &target.token {
            let reply = self
                .call_as(AUTH_ID, "session.auth", &json!({ "token": token }), |_| {})
                .await?;
            Frame::parse(&reply.text)?
                .into_result()
                .context("could not authenticate")?;
        }
        // The oldest hosts do not know the method; their error reply changes nothing for us.
        let params = json!({ "protocol_version": 3, "client_version": env!("CARGO_PKG_VERSION") });
        self.call_as(HANDSHAKE_ID, "server.handshake", &params, |_| {})
            .await?;
        Ok(())
    }

    /// Queues a request and returns its id; nothing is sent for certain until [`Connection::flush`].
    pub async fn feed(&mut self, method: &str, params: &impl Serialize) -> Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        self.feed_as(id, method, params).await?;
        Ok(id)
    }

    async fn feed_as(&mut self, id: u64, method: &str, params: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(&Request {
            jsonrpc: "2.0",
            id,
            method,
            params,
        })?;
        self.socket
            .feed(Message::text(text))
            .await
            .with_context(|| format!("could not send `{method}`"))
    }

    pub async fn flush(&mut self) -> Result<()> {
        self.socket
            .flush()
            .await
            .context("could not send to the server")
    }

    /// The next text frame, reply or notification.
    pub async fn receive(&mut self) -> Result<Utf8Bytes> {
        loop {
            let message = self.socket.next().await;
            if let Some(text) = to_text(message)? {
                return Ok(text);
            }
        }
    }

    /// The next text frame if it is here already.
    pub fn receive_ready(&mut self) -> Result<Option<Utf8Bytes>> {
        while let Some(message) = self.socket.next().now_or_never() {
            if let Some(text) = to_text(message)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// Sends one request and waits for its reply; notifications that come before it go to `on_notification`.
    ///
    /// The caller must have nothing else in flight: a reply to another id is an error.
    pub async fn call(
        &mut self,
        method: &str,
        params: &impl Serialize,
        on_notification: impl FnMut(&str),
    ) -> Result<Call> {
        let id = self.next_id;
        self.next_id += 1;
        self.call_as(id, method, params, on_notification).await
    }

    /// From here on the connection gets `host.event`; events that come before the reply are passed over.
    pub async fn subscribe(&mut self) -> Result<Call> {
        let reply = self.call("host.subscribe", &json!({}), |_| {}).await?;
        Frame::parse(&reply.text)?
            .into_result()
            .context("could not subscribe")?;
        Ok(reply)
    }

    async fn call_as(
        &mut self,
        id: u64,
        method: &str,
        params: &impl Serialize,
        on_notification: impl FnMut(&str),
    ) -> Result<Call> {
        let started = Instant::now();
        self.feed_as(id, method, params).await?;
        self.flush().await?;
        let text = tokio::time::timeout(REPLY_TIMEOUT, self.reply_to(id, on_notification))
            .await
            .map_err(|_| anyhow!("no reply to `{method}` within {REPLY_TIMEOUT:?}"))?
            .with_context(|| format!("no reply to `{method}`"))?;
        Ok(Call {
            text,
            elapsed: started.elapsed(),
        })
    }

    async fn reply_to(
        &mut self,
        id: u64,
        mut on_notification: impl FnMut(&str),
    ) -> Result<Utf8Bytes> {
        loop {
            let text = self.receive().await?;
            let frame = Frame::parse(&text)?;
            if frame.method.is_some() {
                on_notification(&text);
            } else if frame.id == Some(id) {
                return Ok(text);
            } else {
                bail!("expected the reply to {id}, got `{text:.200}`");
            }
        }
    }

    /// Undoes a small receive buffer, so that catching up runs at full speed.
    pub fn set_receive_buffer(&self, bytes: usize) -> Result<()> {
        rustix::net::sockopt::set_socket_recv_buffer_size(self.socket.get_ref(), bytes)
            .context("could not enlarge the receive buffer")
    }
}

fn new_socket(address: SocketAddr) -> std::io::Result<TcpSocket> {
    if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }
}

async fn connect(
    url: &str,
    new_socket: impl FnOnce(SocketAddr) -> std::io::Result<TcpSocket>,
) -> Result<WebSocketStream<TcpStream>> {
    let request = url.into_client_request()?;
    let host = request.uri().host().context("the URL has no host")?;
    let port = request.uri().port_u16().unwrap_or(80);
    let address = lookup_host((host.trim_matches(['[', ']']), port))
        .await?
        .next()
        .context("the host has no address")?;
    let stream = new_socket(address)?.connect(address).await?;
    stream.set_nodelay(true)?;
    // A host may answer `host.subscribe` with tens of megabytes; how large it was is ours to report, not to refuse.
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(None)
        .max_frame_size(None);
    let (socket, _response) = client_async_with_config(request, stream, Some(config)).await?;
    Ok(socket)
}

type Received = Option<Result<Message, tokio_tungstenite::tungstenite::Error>>;

fn to_text(message: Received) -> Result<Option<Utf8Bytes>> {
    match message {
        Some(Ok(Message::Text(text))) => Ok(Some(text)),
        Some(Ok(Message::Close(frame))) => match frame {
            Some(frame) => bail!("the server closed the connection: {frame}"),
            None => bail!("the server closed the connection"),
        },
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

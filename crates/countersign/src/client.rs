//! The client: one WebSocket connection to a host, over the Unix socket or TCP.
//!
//! Invariants: replies are matched by id; events that arrive in between are kept in order, and
//! a connection that collects more than it may is given up rather than left with a gap.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use countersign_core::limits::TERMINAL_WAIT_MS;
use countersign_protocol::{
    AuthParams, EVENT_NOTIFICATION, ErrorObject, HostEvent, Method, MethodName, Reason,
    VIEWERS_NOTIFICATION, ViewersNotice, method,
};
use futures_util::{SinkExt as _, StreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::error::CliError;

/// How long an ordinary call may take.
const CALL: Duration = Duration::from_secs(15);
/// How long the host waits for output of a terminal before it answers without any.
const WAIT: Duration = Duration::from_millis(TERMINAL_WAIT_MS);
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// The largest frame taken from a host: a snapshot with a full inbox of large inputs.
const FRAME_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Events kept while a call waits for its reply.
const EVENTS_KEPT_MAX: usize = 100_000;

trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Where the host is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostAddress {
    Socket(PathBuf),
    Tcp { url: String, authority: String },
}

impl HostAddress {
    /// Reads `ws://HOST:PORT/`.
    pub(crate) fn parse_url(text: &str) -> Result<Self, CliError> {
        let uri: Option<tungstenite::http::Uri> = text.parse().ok();
        let uri = uri.filter(|uri| uri.scheme_str() == Some("ws"));
        let authority = uri.as_ref().and_then(|uri| uri.authority());
        match (&uri, authority) {
            (Some(uri), Some(authority))
                // Without a port one would have to be guessed. A name or password in an address would
                // be printed with it in messages.
                if authority.port().is_some() && !authority.as_str().contains('@') =>
            {
                Ok(Self::Tcp {
                    url: uri.to_string(),
                    authority: authority.to_string(),
                })
            }
            _ => Err(CliError::usage(format!(
                "`{text}` is not a host's address: use `ws://HOST:PORT/`"
            ))),
        }
    }
}

impl std::fmt::Display for HostAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(path) => write!(out, "{}", path.display()),
            Self::Tcp { url, .. } => out.write_str(url),
        }
    }
}

/// Where the host is, and who we say we are.
#[derive(Clone)]
pub(crate) struct HostEndpoint {
    pub(crate) address: HostAddress,
    /// On the socket the host knows us by our uid, and a token only narrows that.
    pub(crate) token: Option<String>,
}

impl HostEndpoint {
    /// The host of this user, whom the socket alone identifies.
    pub(crate) fn local(socket: &Path) -> Self {
        Self {
            address: HostAddress::Socket(socket.to_owned()),
            token: None,
        }
    }
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("{}", .0.message)]
    Refused(HostRefusal),
    #[error("the connection was lost")]
    Lost(#[source] Box<tungstenite::Error>),
    #[error("no answer to `{method}`")]
    Slow { method: &'static str },
    #[error("the answer to `{method}` was not understood")]
    Unexpected {
        method: &'static str,
        #[source]
        source: serde_json::Error,
    },
}

impl CallError {
    pub(crate) fn reason(&self) -> Option<Reason> {
        match self {
            Self::Refused(refusal) => refusal.reason,
            _ => None,
        }
    }

    /// Whether a new connection may help.
    pub(crate) fn is_connection(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Slow { .. })
            || self.reason() == Some(Reason::ShuttingDown)
    }

    fn closed() -> Self {
        Self::Lost(Box::new(tungstenite::Error::ConnectionClosed))
    }
}

/// The host said no.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostRefusal {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) reason: Option<Reason>,
    pub(crate) data: Value,
}

impl HostRefusal {
    pub(crate) fn new(code: i64, message: String, data: Option<Value>) -> Self {
        let data = data.unwrap_or(Value::Null);
        let reason = data
            .get("reason")
            .and_then(Value::as_str)
            .and_then(Reason::parse);
        Self {
            code,
            message,
            reason,
            data,
        }
    }

    /// Whether an answer that was to be remembered came too late.
    pub(crate) fn saved_no_rule(&self) -> bool {
        self.data
            .get("remembered")
            .is_some_and(|saved| saved.as_array().is_some_and(Vec::is_empty))
    }

    /// The message, with who and when for an answer that came too late.
    pub(crate) fn describe(&self) -> String {
        if self.reason != Some(Reason::AlreadyResolved) {
            return self.message.clone();
        }
        let mut message = self.message.clone();
        if let Some(resolution) = self.text_at("/resolution") {
            let _ = write!(message, "\n  it ended as `{resolution}`");
            let by = self
                .text_at("/approval/resolved_by/name")
                .or_else(|| self.text_at("/resolved_by/name"));
            if let Some(by) = by {
                let _ = write!(message, " by {by}");
            }
            if let Some(at) = self.text_at("/resolved_at") {
                let _ = write!(message, " at {at}");
            }
        }
        message
    }

    fn text_at(&self, pointer: &str) -> Option<&str> {
        self.data.pointer(pointer)?.as_str()
    }
}

#[derive(Serialize)]
struct OutgoingRequest<'a, P: ?Sized> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a P,
}

#[derive(Deserialize)]
struct IncomingMessage<'a> {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    method: Option<String>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<ErrorObject>,
}

pub(crate) struct HostClient {
    socket: WebSocketStream<Box<dyn ByteStream>>,
    next_id: u64,
    events: VecDeque<HostEvent>,
    /// What is open on other screens, if it was not taken yet.
    viewers: Option<ViewersNotice>,
}

impl HostClient {
    /// Connects and, where there is a token, says who we are before anything else.
    pub(crate) async fn connect(endpoint: &HostEndpoint) -> Result<Self, CliError> {
        let address = endpoint.address.to_string();
        let stream = match timeout(CONNECT, open(&endpoint.address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(source)) => return Err(CliError::NoHost { address, source }),
            Err(late) => return Err(CliError::no_answer(address, late)),
        };
        let url = match &endpoint.address {
            // Not resolved: the handshake only needs some name, and the host accepts this one.
            HostAddress::Socket(_) => "ws://localhost/rpc",
            HostAddress::Tcp { url, .. } => url.as_str(),
        };
        let config = WebSocketConfig::default()
            .max_frame_size(Some(FRAME_BYTES_MAX))
            .max_message_size(Some(FRAME_BYTES_MAX));
        let handshake = client_async_with_config(url, stream, Some(config));
        let (socket, _) = match timeout(CONNECT, handshake).await {
            Ok(Ok(upgraded)) => upgraded,
            Ok(Err(error)) => {
                let source = Box::new(error);
                return Err(CliError::Handshake { address, source });
            }
            Err(late) => return Err(CliError::no_answer(address, late)),
        };
        let mut client = Self {
            socket,
            next_id: 0,
            events: VecDeque::new(),
            viewers: None,
        };
        if endpoint.token.is_some() {
            let params = AuthParams {
                token: endpoint.token.clone(),
                ..AuthParams::default()
            };
            client.call::<method::Authenticate>(&params).await?;
        }
        Ok(client)
    }

    /// Sends a request and waits for its reply.
    pub(crate) async fn call<M: Method>(
        &mut self,
        params: &M::Params,
    ) -> Result<M::Result, CallError> {
        self.call_within::<M>(CALL, params).await
    }

    /// The same for a call that the host holds for a while on purpose.
    pub(crate) async fn call_within<M: Method>(
        &mut self,
        limit: Duration,
        params: &M::Params,
    ) -> Result<M::Result, CallError> {
        let reply = self.exchange(M::NAME, limit, params).await?;
        serde_json::from_str(&reply).map_err(|error| unexpected(M::NAME, error))
    }

    /// The same for a method by its name, with parameters and result as JSON.
    pub(crate) async fn call_raw(
        &mut self,
        method: &'static str,
        params: &RawValue,
    ) -> Result<String, CallError> {
        let waits = MethodName::parse(method).is_some_and(MethodName::waits);
        let limit = if waits { CALL + WAIT } else { CALL };
        self.exchange(method, limit, params).await
    }

    async fn exchange<P: Serialize + ?Sized>(
        &mut self,
        method: &'static str,
        limit: Duration,
        params: &P,
    ) -> Result<String, CallError> {
        let id = self.next_id;
        self.next_id += 1;
        let request = OutgoingRequest {
            jsonrpc: "2.0",
            id,
            method,
            params,
        };
        let text = serde_json::to_string(&request).map_err(|error| unexpected(method, error))?;
        let exchange = async {
            self.socket
                .send(Message::text(text))
                .await
                .map_err(|error| CallError::Lost(Box::new(error)))?;
            self.reply(id).await
        };
        timeout(limit, exchange)
            .await
            .map_err(|_| CallError::Slow { method })?
    }

    /// The next event of a subscription. Dropping the future loses nothing.
    pub(crate) async fn next_event(&mut self) -> Result<HostEvent, CallError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let text = self.next_text().await?;
            self.keep_event(&text)?;
        }
    }

    /// The next list of what is open on other screens. Dropping the future loses nothing.
    pub(crate) async fn next_viewers(&mut self) -> Result<ViewersNotice, CallError> {
        loop {
            if let Some(viewers) = self.viewers.take() {
                return Ok(viewers);
            }
            let text = self.next_text().await?;
            self.keep_event(&text)?;
        }
    }

    /// Events that came while a reply was waited for, and were not taken yet.
    pub(crate) fn waiting_events(&self) -> impl Iterator<Item = &HostEvent> {
        self.events.iter()
    }

    async fn reply(&mut self, id: u64) -> Result<String, CallError> {
        loop {
            let text = self.next_text().await?;
            let frame: IncomingMessage<'_> =
                serde_json::from_str(&text).map_err(|error| unexpected("a request", error))?;
            if frame.method.is_some() {
                self.keep_event(&text)?;
            // An error without an id is about a frame that the host could not read, and only one
            // request is open at a time. Other ids belong to calls that were given up.
            } else if frame.id.as_u64() == Some(id) || (frame.id.is_null() && frame.error.is_some())
            {
                return finish(&frame);
            }
        }
    }

    fn keep_event(&mut self, text: &str) -> Result<(), CallError> {
        let frame: IncomingMessage<'_> =
            serde_json::from_str(text).map_err(|error| unexpected(EVENT_NOTIFICATION, error))?;
        let params = match (frame.method.as_deref(), frame.params) {
            (Some(EVENT_NOTIFICATION), Some(params)) => params,
            (Some(VIEWERS_NOTIFICATION), Some(params)) => {
                // Each replaces the one before.
                self.viewers = serde_json::from_str(params.get()).ok();
                return Ok(());
            }
            _ => return Ok(()),
        };
        // Dropping one event would leave a gap that nobody notices. A lost connection is noticed, and
        // read again from the cursor.
        if self.events.len() >= EVENTS_KEPT_MAX {
            return Err(CallError::closed());
        }
        let event = serde_json::from_str(params.get())
            .map_err(|error| unexpected(EVENT_NOTIFICATION, error))?;
        self.events.push_back(event);
        Ok(())
    }

    async fn next_text(&mut self) -> Result<String, CallError> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
                Some(Ok(Message::Close(_))) | None => return Err(CallError::closed()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(CallError::Lost(Box::new(error))),
            }
        }
    }
}

fn unexpected(method: &'static str, source: serde_json::Error) -> CallError {
    CallError::Unexpected { method, source }
}

fn finish(frame: &IncomingMessage<'_>) -> Result<String, CallError> {
    if let Some(error) = &frame.error {
        let data = error
            .data
            .as_ref()
            .and_then(|data| serde_json::from_str(data.text()).ok());
        return Err(CallError::Refused(HostRefusal::new(
            error.code,
            error.message.clone(),
            data,
        )));
    }
    Ok(frame.result.map_or("null", RawValue::get).to_owned())
}

async fn open(address: &HostAddress) -> io::Result<Box<dyn ByteStream>> {
    match address {
        HostAddress::Socket(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        HostAddress::Tcp { authority, .. } => {
            let stream = TcpStream::connect(authority).await?;
            // Requests are small and go one by one: waiting to fill a packet would only delay them.
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_a_name_and_a_port() {
        let parsed = HostAddress::parse_url("ws://127.0.0.1:7766/").unwrap();
        let expected = HostAddress::Tcp {
            url: "ws://127.0.0.1:7766/".into(),
            authority: "127.0.0.1:7766".into(),
        };
        assert_eq!(parsed, expected);
        for wrong in [
            "127.0.0.1:7766",
            "wss://a:1/",
            "ws://a/",
            "ws://user:secret@a:1/",
            "",
        ] {
            assert!(HostAddress::parse_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_late_answer_says_who_and_when() {
        let data = serde_json::json!({
            "reason": "already_resolved", "resolution": "deny", "resolved_at": "2026-11-15T18:31:53Z",
            "approval": {"resolved_by": {"name": "ada", "role": "operator"}},
        });
        let refusal = HostRefusal::new(-32003, "already answered".into(), Some(data));
        assert_eq!(
            refusal.describe(),
            "already answered\n  it ended as `deny` by ada at 2026-11-15T18:31:53Z"
        );
    }
}

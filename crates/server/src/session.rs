//! One WebSocket connection: its identity, its requests, its subscription.
//!
//! Invariants: nothing is sent before the reply to `session.auth`; requests are served concurrently
//! and their number is bounded; no more is read from a peer that does not read, and it delays no
//! other.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use countersign_core::limits::{
    AUTH_MS, CONNECTION_BYTES_MAX, CONNECTION_REQUESTS_MAX, CONNECTION_WAITS_MAX, PING_MS,
    SILENCE_MS, SLOW_READER_MS, WAIT_FRAME_BYTES_MAX,
};
use countersign_core::{Caller, ClientId, Door, Rejection, Seq};
use countersign_daemon::{AskViewer, EventFilter, Subscription, ViewerWatch};
use countersign_protocol::{
    AuthResult, ErrorCode, HandshakeResult, MethodName, OkResult, PROTOCOL_VERSION, Raw, Reason,
    Request, VIEWERS_NOTIFICATION, method,
};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};

use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::{CallerConnection, CallerIdentity, auth_required};
use crate::convert::approvals::RowForm;
use crate::convert::{AgentNames, IntoWire};
use crate::events;
use crate::ops;
use crate::request_log::RequestLog;
use crate::rpc::{RpcCall, failure, notification, serve, unknown_method};

/// How long requests that were begun may still be answered when their token was withdrawn.
const LAST_REPLIES: Duration = Duration::from_secs(1);

type ReplyFuture = Pin<Box<dyn Future<Output = String> + Send>>;

/// Why a connection ended.
enum SessionEnd {
    /// The peer closed the connection, or does not answer.
    Gone,
    /// The host closes it, with this code and message.
    Close(u16, &'static str),
}

struct WebSocketSession {
    state: Arc<ServerState>,
    connection: Arc<CallerConnection>,
    socket: WebSocket,
    client: ClientId,
    door: Door,
    identity: Option<CallerIdentity>,
    serving: FuturesUnordered<ReplyFuture>,
    /// Requests that last until a person answers. Separate from the others, so that they take no
    /// place among the requests that end by themselves.
    waiting: FuturesUnordered<ReplyFuture>,
    /// Bytes of requests since `serving` was last empty: an upper bound of what it holds now.
    served_bytes: usize,
    subscription: Option<Subscription>,
    /// How much of large asks the subscription shows.
    row_form: RowForm,
    /// What is open on other screens, for a client that said what is open on its own.
    viewers: Option<ViewerWatch>,
    last_received: Instant,
}

/// Serves a connection until either side ends it.
pub(crate) async fn run(
    state: Arc<ServerState>,
    connection: Arc<CallerConnection>,
    identity: Option<CallerIdentity>,
    door: Door,
    socket: WebSocket,
) {
    let Ok(client) = state.service.connected().await else {
        return;
    };
    let mut session = WebSocketSession {
        state: state.clone(),
        connection,
        socket,
        client: client.clone(),
        door,
        identity,
        serving: FuturesUnordered::new(),
        waiting: FuturesUnordered::new(),
        served_bytes: 0,
        subscription: None,
        row_form: RowForm::Whole,
        viewers: None,
        last_received: Instant::now(),
    };
    if let Err(SessionEnd::Close(code, reason)) = session.talk().await {
        let frame = CloseFrame {
            code,
            reason: Utf8Bytes::from_static(reason),
        };
        let closing = session.socket.send(Message::Close(Some(frame)));
        // Within a bound, because the peer may be one that has stopped reading.
        drop(tokio::time::timeout(Duration::from_secs(1), closing).await);
    }
    // First what is still being served for the client, then the end of the client: what it owned
    // lapses after a grace time that begins here.
    drop(session);
    state.service.disconnected(client).await;
}

impl WebSocketSession {
    async fn talk(&mut self) -> Result<(), SessionEnd> {
        let state = self.state.clone();
        let ending = state.shutdown.cancelled();
        tokio::pin!(ending);
        let mut revocations = state.service.watch_revocations();
        let mut ping = tokio::time::interval(Duration::from_millis(PING_MS));
        // The first tick would come at once, before the reply to `session.auth`.
        ping.reset();
        let auth_limit = tokio::time::sleep(Duration::from_millis(AUTH_MS));
        tokio::pin!(auth_limit);
        loop {
            if self.serving.is_empty() {
                self.served_bytes = 0;
            }
            let room = self.serving.len() < CONNECTION_REQUESTS_MAX
                && self.served_bytes < CONNECTION_BYTES_MAX;
            // In this order: replies are sent before more requests are read, so that a client which
            // sends without pause gets its replies and holds no more memory than the bounds allow.
            tokio::select! {
                biased;
                () = &mut ending => return Err(SessionEnd::Close(1001, "the host is ending")),
                Ok(()) = revocations.changed() => self.check_token().await?,
                Some(reply) = self.serving.next(), if !self.serving.is_empty() => self.send_replies(reply).await?,
                Some(reply) = self.waiting.next(), if !self.waiting.is_empty() => self.send_waited(reply).await?,
                _ = ping.tick() => self.ping().await?,
                () = &mut auth_limit, if self.identity.is_none() => {
                    tracing::info!("closed a connection that did not say in time who is calling");
                    return Err(SessionEnd::Close(1008, "nobody said who is calling"));
                }
                message = self.socket.recv(), if room => self.receive(message).await?,
                viewers = next_viewers(&mut self.viewers) => self.send_viewers(viewers).await?,
                events = next_events(&mut self.subscription) => self.send_events(events).await?,
            }
        }
    }

    async fn receive(
        &mut self,
        message: Option<Result<Message, axum::Error>>,
    ) -> Result<(), SessionEnd> {
        self.last_received = Instant::now();
        match message {
            Some(Ok(Message::Text(text))) => self.take(text).await,
            // The host wire has them for voice, which there is none of here.
            Some(Ok(Message::Binary(_))) => Err(SessionEnd::Close(1003, "text frames only")),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Close(_))) | None => Err(SessionEnd::Gone),
            Some(Err(error)) => Err(unreadable(&error)),
        }
    }

    /// Serves one frame. `session.auth` is the only method that needs no identity.
    async fn take(&mut self, text: Utf8Bytes) -> Result<(), SessionEnd> {
        let Some(frame) = RequestFrame::parse(text) else {
            let message = "parse error: not a JSON-RPC request";
            let error = ApiError::new(ErrorCode::Parse, Reason::InvalidParams, message);
            let log = RequestLog::begin("(not a request)", false);
            return self.refuse(log, "null", error).await;
        };
        let waits = frame.method.is_some_and(MethodName::waits);
        let log = RequestLog::begin(&frame.method_name, waits);
        match frame.method {
            Some(MethodName::Authenticate) => {
                let call = frame.call(MethodName::Authenticate, false);
                let reply = log.serve(self.authenticate(&call)).await;
                self.send(reply).await
            }
            _ => self.take_authenticated(frame, log).await,
        }
    }

    async fn take_authenticated(
        &mut self,
        frame: RequestFrame,
        log: RequestLog,
    ) -> Result<(), SessionEnd> {
        // Before the method is looked at, so that a stranger does not learn which methods exist.
        // The host wire closes the connection after this error.
        let Some(identity) = &mut self.identity else {
            self.refuse(log, frame.id(), auth_required()).await?;
            return Err(SessionEnd::Close(1008, "auth required"));
        };
        // For each frame: the token may have expired, and the socket may be in another process.
        let refreshed = self
            .state
            .authenticator
            .refresh_identity(&self.connection, identity)
            .await;
        let caller = ops::caller(&identity.principal, Some(&self.client), self.door);
        log.note_principal(&caller.principal);
        if let Err(error) = refreshed {
            self.refuse(log, frame.id(), error).await?;
            return Err(SessionEnd::Close(1008, "auth failed"));
        }
        let Some(method) = frame.method else {
            let error = unknown_method(&frame.method_name);
            return self.refuse(log, frame.id(), error).await;
        };
        let subscribed = self.subscription.is_some();
        // These change the connection itself, so they are served before the next frame is read:
        // what a client sends after them relies on them.
        if matches!(
            method,
            MethodName::Handshake | MethodName::Subscribe | MethodName::Presence
        ) {
            let call = frame.call(method, subscribed);
            let reply = log.serve(self.serve_in_order(&caller, &call)).await;
            return self.send(reply).await;
        }
        if method.waits()
            && let Err(rejection) = self.check_room_to_wait(frame.text.len())
        {
            return self.refuse(log, frame.id(), rejection.into()).await;
        }
        let (state, connection) = (self.state.clone(), self.connection.clone());
        let bytes = frame.text.len();
        let serving: ReplyFuture = Box::pin(log.serve(async move {
            serve(&state, &connection, caller, frame.call(method, subscribed)).await
        }));
        if method.waits() {
            self.waiting.push(serving);
        } else {
            self.served_bytes += bytes;
            self.serving.push(serving);
        }
        Ok(())
    }

    /// Refuses a wait that is too large or one too many: waits are held for as long as a person
    /// takes.
    fn check_room_to_wait(&self, bytes: usize) -> Result<(), Rejection> {
        if bytes > WAIT_FRAME_BYTES_MAX {
            return Err(Rejection::TooLarge {
                what: "a request that waits",
                limit: WAIT_FRAME_BYTES_MAX,
            });
        }
        if self.waiting.len() >= CONNECTION_WAITS_MAX {
            return Err(Rejection::TooMany {
                what: "waits on this connection",
                limit: CONNECTION_WAITS_MAX,
            });
        }
        Ok(())
    }

    async fn refuse(
        &mut self,
        log: RequestLog,
        id: &str,
        error: ApiError,
    ) -> Result<(), SessionEnd> {
        let reply = log.serve(async { failure(id, error) }).await;
        self.send(reply).await
    }

    /// Serves a method that changes the connection itself.
    async fn serve_in_order(&mut self, caller: &Caller, call: &RpcCall<'_>) -> String {
        let served = match call.method {
            MethodName::Subscribe => self.subscribe(caller, call).await,
            MethodName::Presence => self.note_presence(caller, call),
            _ => shake_hands(call),
        };
        served.unwrap_or_else(|error| failure(call.id, error))
    }

    async fn authenticate(&mut self, call: &RpcCall<'_>) -> String {
        let authenticated = self.try_authenticate(call).await;
        authenticated.unwrap_or_else(|error| failure(call.id, error))
    }

    async fn try_authenticate(&mut self, call: &RpcCall<'_>) -> Result<String, ApiError> {
        let params = call.params::<method::Authenticate>()?;
        // The host wire has a second kind of token, for its role `host`. Here it is an operator's
        // token, and only the form of the reply differs.
        let for_host = params.token.is_none() && params.host_token.is_some();
        let token = params.token.or(params.host_token);
        if token.is_none() && !self.connection.is_unix() {
            return Err(ApiError::plain(
                Reason::InvalidParams,
                "session.auth requires { token: string }",
            ));
        }
        let identity = self
            .state
            .authenticator
            .identify(&self.connection, token.map(Arc::from))
            .await;
        let identity = identity.map_err(|error| host_message(error, for_host))?;
        let principal = identity.principal.clone();
        if let Some(wanted) = &params.agent_id
            && principal.agent().map(countersign_core::AgentId::as_str) != Some(wanted)
        {
            // The host wire's text. It does not say which of the two is wrong, so that agents
            // cannot be found by trying ids.
            let message =
                format!("auth failed: agent_id `{wanted}` is not supervised, or token mismatch");
            return Err(ApiError::plain(Reason::AuthFailed, message));
        }
        // Only now: clients try again on the same connection, and a failed attempt changes nothing.
        self.identity = Some(identity);
        let agent_id = principal.agent().map(ToString::to_string);
        let is_agent = agent_id.is_some();
        call.reply::<method::Authenticate>(AuthResult {
            agent_id,
            auth_enabled: true,
            memory_namespace: params.memory_namespace,
            ok: true,
            parslee: (!is_agent && !for_host).then(Raw::null),
            role: (!is_agent && for_host).then(|| "host".to_owned()),
            work_context: is_agent.then(Raw::null),
        })
    }

    async fn subscribe(&mut self, caller: &Caller, call: &RpcCall<'_>) -> Result<String, ApiError> {
        caller.refuse_agents()?;
        let params = call.params::<method::Subscribe>()?;
        let service = &self.state.service;
        // Any kind, because the host wire's clients may name some that there are not.
        let filter = EventFilter {
            kinds: params.kinds,
            ..ops::events::filter(service, caller, None, params.also, params.agent_id).await?
        };
        let agent = filter.agent.clone();
        let (snapshot_form, event_form) = if params.brief {
            (RowForm::Listed, RowForm::Brief)
        } else {
            (RowForm::Whole, RowForm::Whole)
        };
        let after = params.after.map(Seq);
        let (overview, subscription) = service.subscribe(caller, after, filter).await?;
        let snapshot =
            ops::events::snapshot(service, caller, overview, agent.as_ref(), snapshot_form).await?;
        let reply = call.reply::<method::Subscribe>(snapshot.into_wire(AgentNames::of(service)))?;
        self.row_form = event_form;
        // It replaces an earlier one. It begins at the snapshot's last event, so none is lost or
        // sent twice although events can be committed before the reply is sent.
        self.subscription = Some(subscription);
        Ok(reply)
    }

    /// Notes what this screen shows. Only who says it is told what others show, so that clients of
    /// the host wire are never sent a notification they do not know.
    fn note_presence(&mut self, caller: &Caller, call: &RpcCall<'_>) -> Result<String, ApiError> {
        let params = call.params::<method::Presence>()?;
        let service = &self.state.service;
        ops::notify::note_presence(service, caller, &params)?;
        if self.viewers.is_none() {
            self.viewers = Some(service.watch_viewers(caller)?);
        }
        call.reply::<method::Presence>(OkResult { ok: true })
    }

    /// Tells the client what is open on other screens, if it is still an operator's.
    async fn send_viewers(&mut self, viewers: Vec<AskViewer>) -> Result<(), SessionEnd> {
        let Some(identity) = &mut self.identity else {
            return Ok(());
        };
        let authenticator = &self.state.authenticator;
        let may_read = authenticator.may_keep_reading(&self.connection, identity);
        if !may_read.await {
            return Err(SessionEnd::Close(1008, "auth failed"));
        }
        if !identity.principal.is_operator() {
            self.viewers = None;
            return Ok(());
        }
        let notice = ops::notify::viewers_notice(viewers);
        let frame = notification(VIEWERS_NOTIFICATION, &notice);
        let began = Instant::now();
        self.send(frame).await?;
        self.excuse_since(began);
        Ok(())
    }

    /// Sends a reply and all others that are ready, with one flush.
    async fn send_replies(&mut self, first: String) -> Result<(), SessionEnd> {
        let began = Instant::now();
        self.feed(first.into()).await?;
        while let Some(reply) = self.next_ready() {
            self.feed(reply.into()).await?;
        }
        self.flush().await?;
        self.excuse_since(began);
        Ok(())
    }

    fn next_ready(&mut self) -> Option<String> {
        self.serving.next().now_or_never().flatten()
    }

    /// Sends a reply that was waited for, if the same caller is still at the other end.
    async fn send_waited(&mut self, reply: String) -> Result<(), SessionEnd> {
        // The request may be hours old, and no frame has been checked since.
        if let Some(identity) = &mut self.identity {
            let authenticator = &self.state.authenticator;
            let confirmed = authenticator
                .confirm_identity(&self.connection, identity)
                .await;
            confirmed.map_err(|_| SessionEnd::Close(1008, "auth failed"))?;
        }
        self.send_replies(reply).await
    }

    /// Leaves the time since `began` out of the peer's silence.
    fn excuse_since(&mut self, began: Instant) {
        // Nothing is read while something is sent, so a slow reader's pongs were not received.
        self.last_received += began.elapsed();
    }

    async fn send_events(&mut self, events: EventsResult) -> Result<(), SessionEnd> {
        let events = events.map_err(|_| SessionEnd::Close(1001, "the host is ending"))?;
        // A subscriber sends no frames that would be checked, so a revoked token is noticed here.
        if let Some(identity) = &mut self.identity {
            let authenticator = &self.state.authenticator;
            if !authenticator
                .may_keep_reading(&self.connection, identity)
                .await
            {
                return Err(SessionEnd::Close(1008, "auth failed"));
            }
        }
        let began = Instant::now();
        for entry in events {
            let names = AgentNames::of(&self.state.service);
            let frame = events::event_frame(&entry, names, self.row_form);
            let text = Utf8Bytes::try_from(frame)
                .map_err(|_| SessionEnd::Close(1011, "an event is not text"))?;
            self.feed(text).await?;
        }
        self.flush().await?;
        self.excuse_since(began);
        Ok(())
    }

    async fn send(&mut self, frame: String) -> Result<(), SessionEnd> {
        self.feed(frame.into()).await?;
        self.flush().await
    }

    async fn feed(&mut self, text: Utf8Bytes) -> Result<(), SessionEnd> {
        with_send_limit(self.socket.feed(Message::Text(text))).await
    }

    async fn flush(&mut self) -> Result<(), SessionEnd> {
        with_send_limit(self.socket.flush()).await
    }

    /// Ends the connection of a token that was withdrawn or has expired, also if nothing is sent.
    async fn check_token(&mut self) -> Result<(), SessionEnd> {
        let authenticator = &self.state.authenticator;
        let identity = self.identity.as_ref();
        if !identity.is_some_and(|identity| authenticator.has_lost_token(identity)) {
            return Ok(());
        }
        // Who withdraws its own token still learns that it is done.
        let limit = tokio::time::Instant::now() + LAST_REPLIES;
        while let Ok(Some(reply)) = tokio::time::timeout_at(limit, self.serving.next()).await {
            self.send_replies(reply).await?;
        }
        Err(SessionEnd::Close(1008, "auth failed"))
    }

    async fn ping(&mut self) -> Result<(), SessionEnd> {
        self.check_token().await?;
        if self.last_received.elapsed() > Duration::from_millis(SILENCE_MS) {
            return Err(SessionEnd::Gone);
        }
        with_send_limit(self.socket.send(Message::Ping(bytes::Bytes::new()))).await
    }
}

/// One request's frame, and the places of its parts. Places and not references, because the frame
/// is moved into the future that serves it, and nothing is copied.
struct RequestFrame {
    text: Utf8Bytes,
    /// `None` if there is no method of that name.
    method: Option<MethodName>,
    method_name: String,
    params: Option<Range<usize>>,
    id: Option<Range<usize>>,
}

impl RequestFrame {
    fn parse(text: Utf8Bytes) -> Option<Self> {
        let request = serde_json::from_str::<Request<'_>>(text.as_str()).ok()?;
        let params = request
            .params
            .map(|part| range_in(text.as_str(), part.get()));
        let id = request.id.map(|part| range_in(text.as_str(), part.get()));
        Some(Self {
            method: MethodName::parse(&request.method),
            method_name: request.method,
            params,
            id,
            text,
        })
    }

    /// The request's id as JSON text; null where it has none.
    fn id(&self) -> &str {
        self.id
            .clone()
            .map_or("null", |range| &self.text.as_str()[range])
    }

    fn call(&self, method: MethodName, subscribed: bool) -> RpcCall<'_> {
        RpcCall {
            method,
            params: self.params.clone().map(|range| &self.text.as_str()[range]),
            id: self.id(),
            subscribed,
        }
    }
}

/// Where `part`, which was borrowed from `whole`, lies in it.
fn range_in(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

type EventsResult =
    Result<Vec<Arc<countersign_daemon::FeedEntry>>, countersign_daemon::ServiceError>;

async fn next_events(subscription: &mut Option<Subscription>) -> EventsResult {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}

async fn next_viewers(viewers: &mut Option<ViewerWatch>) -> Vec<AskViewer> {
    match viewers {
        Some(viewers) => viewers.next().await,
        None => std::future::pending().await,
    }
}

/// Bounds the time that a peer has to read what it is sent. A subscriber that is closed for it
/// loses nothing: it subscribes again with its cursor.
async fn with_send_limit(
    sending: impl Future<Output = Result<(), axum::Error>>,
) -> Result<(), SessionEnd> {
    match tokio::time::timeout(Duration::from_millis(SLOW_READER_MS), sending).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(SessionEnd::Gone),
        Err(_) => Err(SessionEnd::Close(1008, "nothing was read for too long")),
    }
}

fn unreadable(error: &axum::Error) -> SessionEnd {
    // axum hides the type of the WebSocket library's error, so that only its text can be compared.
    // An error that is not recognised ends the connection as well, without the code.
    let message = error.to_string();
    if message.contains("too long")
        || message.contains("capacity")
        || message.contains("Space limit")
    {
        SessionEnd::Close(1009, "the frame is too large")
    } else {
        SessionEnd::Gone
    }
}

fn host_message(error: ApiError, for_host: bool) -> ApiError {
    // The host wire names the token that did not match.
    if for_host && error.reason == Reason::AuthFailed {
        ApiError::plain(Reason::AuthFailed, "auth failed: host token mismatch")
    } else {
        error
    }
}

/// Protocol version and capabilities, as the host wire negotiates them.
fn shake_hands(call: &RpcCall<'_>) -> Result<String, ApiError> {
    let params = call.params::<method::Handshake>()?;
    let oldest = params
        .protocol_version_min
        .unwrap_or(params.protocol_version);
    if oldest > PROTOCOL_VERSION || params.protocol_version < PROTOCOL_VERSION {
        let message = format!("protocol version mismatch: this host speaks {PROTOCOL_VERSION}");
        return Err(ApiError::new(
            ErrorCode::Version,
            Reason::InvalidParams,
            message,
        ));
    }
    // All are echoed: a client of the host wire gives up if one that it requires is missing, and
    // the names say nothing that this host would serve differently.
    let mut negotiated = params.required_capabilities;
    negotiated.extend(params.optional_capabilities);
    call.reply::<method::Handshake>(HandshakeResult {
        assistant_aliases: Vec::new(),
        assistant_brand: "Countersign".to_owned(),
        assistant_name: "Countersign".to_owned(),
        client_protocol_version: params.protocol_version,
        client_version: params.client_version,
        negotiated_capabilities: negotiated,
        protocol_version: PROTOCOL_VERSION,
        server_protocol_version_max: PROTOCOL_VERSION,
        server_protocol_version_min: PROTOCOL_VERSION,
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

//! One WebSocket connection: who it is, what it asks, what it is told.
//!
//! Invariants: nothing is sent before the reply to `session.auth`; requests are served side by
//! side and their number is bounded; a peer that does not read stops being read from, and holds
//! up nobody else.

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
use countersign_core::{Caller, ClientId, Rejection, Seq};
use countersign_daemon::{EventFilter, Subscription};
use countersign_protocol::{
    AuthResult, ErrorCode, HandshakeResult, MethodName, PROTOCOL_VERSION, Raw, Reason, Request,
    method,
};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};

use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::{CallerConnection, CallerIdentity, auth_required};
use crate::events;
use crate::ops;
use crate::request_log::RequestLog;
use crate::rpc::{Call, failure, serve, unknown_method};

type Serving = Pin<Box<dyn Future<Output = String> + Send>>;

/// Why a connection ended.
enum End {
    /// The peer is gone, or does not take what it is sent.
    Gone,
    /// We close it, with a code and words.
    Close(u16, &'static str),
}

struct Session {
    state: Arc<ServerState>,
    connection: Arc<CallerConnection>,
    socket: WebSocket,
    client: ClientId,
    identity: Option<CallerIdentity>,
    serving: FuturesUnordered<Serving>,
    /// Requests that last until a person answers, apart from those that end by themselves.
    waiting: FuturesUnordered<Serving>,
    /// What was taken since nothing was being served: an upper bound of what is held now.
    served_bytes: usize,
    subscription: Option<Subscription>,
    heard: Instant,
}

/// Serves a connection until either side ends it.
pub(crate) async fn run(
    state: Arc<ServerState>,
    connection: Arc<CallerConnection>,
    identity: Option<CallerIdentity>,
    socket: WebSocket,
) {
    let Ok(client) = state.service.connected().await else {
        return;
    };
    let mut session = Session {
        state: state.clone(),
        connection,
        socket,
        client: client.clone(),
        identity,
        serving: FuturesUnordered::new(),
        waiting: FuturesUnordered::new(),
        served_bytes: 0,
        subscription: None,
        heard: Instant::now(),
    };
    if let Err(End::Close(code, reason)) = session.talk().await {
        let frame = CloseFrame {
            code,
            reason: Utf8Bytes::from_static(reason),
        };
        let closing = session.socket.send(Message::Close(Some(frame)));
        // A peer that does not take even this is gone.
        drop(tokio::time::timeout(Duration::from_secs(1), closing).await);
    }
    drop(session);
    state.service.disconnected(client).await;
}

impl Session {
    async fn talk(&mut self) -> Result<(), End> {
        let state = self.state.clone();
        let ending = state.shutdown.cancelled();
        tokio::pin!(ending);
        let mut ping = tokio::time::interval(Duration::from_millis(PING_MS));
        ping.reset();
        let auth_limit = tokio::time::sleep(Duration::from_millis(AUTH_MS));
        tokio::pin!(auth_limit);
        loop {
            if self.serving.is_empty() {
                self.served_bytes = 0;
            }
            let room = self.serving.len() < CONNECTION_REQUESTS_MAX
                && self.served_bytes < CONNECTION_BYTES_MAX;
            tokio::select! {
                biased;
                () = &mut ending => return Err(End::Close(1001, "the host is ending")),
                Some(reply) = self.serving.next(), if !self.serving.is_empty() => self.send_replies(reply).await?,
                Some(reply) = self.waiting.next(), if !self.waiting.is_empty() => self.send_waited(reply).await?,
                _ = ping.tick() => self.ping().await?,
                () = &mut auth_limit, if self.identity.is_none() => {
                    tracing::info!("closed a connection that did not say in time who is calling");
                    return Err(End::Close(1008, "nobody said who is calling"));
                }
                message = self.socket.recv(), if room => self.hear(message).await?,
                events = next_events(&mut self.subscription) => self.send_events(events).await?,
            }
        }
    }

    async fn hear(&mut self, message: Option<Result<Message, axum::Error>>) -> Result<(), End> {
        self.heard = Instant::now();
        match message {
            Some(Ok(Message::Text(text))) => self.take(text).await,
            Some(Ok(Message::Binary(_))) => Err(End::Close(1003, "text frames only")),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
            Some(Ok(Message::Close(_))) | None => Err(End::Gone),
            Some(Err(error)) => Err(unreadable(&error)),
        }
    }

    /// Takes one frame: the few methods that change the connection itself are served here, in
    /// order; all others side by side.
    async fn take(&mut self, text: Utf8Bytes) -> Result<(), End> {
        let Some(frame) = Frame::parse(text) else {
            let words = "parse error: not a JSON-RPC request";
            let error = ApiError::new(ErrorCode::Parse, Reason::InvalidParams, words);
            let log = RequestLog::begin("(not a request)");
            return self.refuse(log, "null", error).await;
        };
        let log = RequestLog::begin(&frame.method_name);
        match frame.method {
            Some(MethodName::Authenticate) => {
                let call = frame.call(MethodName::Authenticate, false);
                let reply = log.serve(self.authenticate(&call)).await;
                self.send(reply).await
            }
            _ => self.take_authenticated(frame, log).await,
        }
    }

    async fn take_authenticated(&mut self, frame: Frame, log: RequestLog) -> Result<(), End> {
        let Some(identity) = &mut self.identity else {
            self.refuse(log, frame.id(), auth_required()).await?;
            return Err(End::Close(1008, "auth required"));
        };
        let refreshed = self
            .state
            .authenticator
            .refresh_identity(&self.connection, identity)
            .await;
        let caller = ops::caller(&identity.principal, Some(&self.client));
        log.note_principal(&caller.principal);
        if let Err(error) = refreshed {
            self.refuse(log, frame.id(), error).await?;
            return Err(End::Close(1008, "auth failed"));
        }
        let Some(method) = frame.method else {
            let error = unknown_method(&frame.method_name);
            return self.refuse(log, frame.id(), error).await;
        };
        let subscribed = self.subscription.is_some();
        if matches!(method, MethodName::Handshake | MethodName::Subscribe) {
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
        let serving: Serving = Box::pin(log.serve(async move {
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

    /// Requests that wait are held for as long as a person takes, so they are few and small.
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

    async fn refuse(&mut self, log: RequestLog, id: &str, error: ApiError) -> Result<(), End> {
        let reply = log.serve(async { failure(id, error) }).await;
        self.send(reply).await
    }

    /// Serves a method that changes the connection itself.
    async fn serve_in_order(&mut self, caller: &Caller, call: &Call<'_>) -> String {
        let served = if call.method == MethodName::Subscribe {
            self.subscribe(caller, call).await
        } else {
            shake_hands(call)
        };
        served.unwrap_or_else(|error| failure(call.id, error))
    }

    async fn authenticate(&mut self, call: &Call<'_>) -> String {
        match self.try_authenticate(call).await {
            Ok(reply) => reply,
            Err(error) => failure(call.id, error),
        }
    }

    async fn try_authenticate(&mut self, call: &Call<'_>) -> Result<String, ApiError> {
        let params = call.params::<method::Authenticate>()?;
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
        let identity = identity.map_err(|error| host_words(error, for_host))?;
        let principal = identity.principal.clone();
        if let Some(wanted) = &params.agent_id
            && principal.agent().map(countersign_core::AgentId::as_str) != Some(wanted)
        {
            let words =
                format!("auth failed: agent_id `{wanted}` is not supervised, or token mismatch");
            return Err(ApiError::plain(Reason::AuthFailed, words));
        }
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

    async fn subscribe(&mut self, caller: &Caller, call: &Call<'_>) -> Result<String, ApiError> {
        caller.refuse_agents()?;
        let params = call.params::<method::Subscribe>()?;
        let filter = EventFilter {
            kinds: params.kinds,
            agent: None,
        };
        let (overview, subscription) = self
            .state
            .service
            .subscribe(caller, params.after.map(Seq), filter)
            .await?;
        let snapshot = ops::snapshot(&self.state.service, caller, &overview).await?;
        let reply = call.reply::<method::Subscribe>(snapshot)?;
        self.subscription = Some(subscription);
        Ok(reply)
    }

    /// Sends a reply and whatever else is ready by now, in one go.
    async fn send_replies(&mut self, first: String) -> Result<(), End> {
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

    /// Sends a reply that was waited for, if whoever asked is still at the other end.
    async fn send_waited(&mut self, reply: String) -> Result<(), End> {
        if let Some(identity) = &mut self.identity {
            let authenticator = &self.state.authenticator;
            let confirmed = authenticator
                .confirm_identity(&self.connection, identity)
                .await;
            confirmed.map_err(|_| End::Close(1008, "auth failed"))?;
        }
        self.send_replies(reply).await
    }

    /// While we send we do not listen, so a peer that takes its time to read was not silent.
    fn excuse_since(&mut self, began: Instant) {
        self.heard += began.elapsed();
    }

    async fn send_events(&mut self, events: Events) -> Result<(), End> {
        let events = events.map_err(|_| End::Close(1001, "the host is ending"))?;
        if let Some(identity) = &mut self.identity {
            let authenticator = &self.state.authenticator;
            if !authenticator
                .may_keep_reading(&self.connection, identity)
                .await
            {
                return Err(End::Close(1008, "auth failed"));
            }
        }
        let began = Instant::now();
        for entry in events {
            let frame = entry.wire(events::event_frame);
            let text =
                Utf8Bytes::try_from(frame).map_err(|_| End::Close(1011, "an event is not text"))?;
            self.feed(text).await?;
        }
        self.flush().await?;
        self.excuse_since(began);
        Ok(())
    }

    async fn send(&mut self, frame: String) -> Result<(), End> {
        self.feed(frame.into()).await?;
        self.flush().await
    }

    async fn feed(&mut self, text: Utf8Bytes) -> Result<(), End> {
        taken(self.socket.feed(Message::Text(text))).await
    }

    async fn flush(&mut self) -> Result<(), End> {
        taken(self.socket.flush()).await
    }

    async fn ping(&mut self) -> Result<(), End> {
        if self.heard.elapsed() > Duration::from_millis(SILENCE_MS) {
            return Err(End::Gone);
        }
        taken(self.socket.send(Message::Ping(bytes::Bytes::new()))).await
    }
}

/// One request's frame, and where in it the parts lie.
struct Frame {
    text: Utf8Bytes,
    /// None for a name that is no method's.
    method: Option<MethodName>,
    method_name: String,
    params: Option<Range<usize>>,
    id: Option<Range<usize>>,
}

impl Frame {
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

    fn call(&self, method: MethodName, subscribed: bool) -> Call<'_> {
        Call {
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

type Events = Result<Vec<Arc<countersign_daemon::FeedEntry>>, countersign_daemon::ServiceError>;

async fn next_events(subscription: &mut Option<Subscription>) -> Events {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}

/// A peer has this long to take what it is sent; its cursor still holds when it comes back.
async fn taken(sending: impl Future<Output = Result<(), axum::Error>>) -> Result<(), End> {
    match tokio::time::timeout(Duration::from_millis(SLOW_READER_MS), sending).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Gone),
        Err(_) => Err(End::Close(1008, "nothing was read for too long")),
    }
}

fn unreadable(error: &axum::Error) -> End {
    let words = error.to_string();
    if words.contains("too long") || words.contains("capacity") || words.contains("Space limit") {
        End::Close(1009, "the frame is too large")
    } else {
        End::Gone
    }
}

fn host_words(error: ApiError, for_host: bool) -> ApiError {
    if for_host && error.reason == Reason::AuthFailed {
        ApiError::plain(Reason::AuthFailed, "auth failed: host token mismatch")
    } else {
        error
    }
}

/// Protocol version and capabilities, as the host wire negotiates them.
fn shake_hands(call: &Call<'_>) -> Result<String, ApiError> {
    let params = call.params::<method::Handshake>()?;
    let oldest = params
        .protocol_version_min
        .unwrap_or(params.protocol_version);
    if oldest > PROTOCOL_VERSION || params.protocol_version < PROTOCOL_VERSION {
        let words = format!("protocol version mismatch: this host speaks {PROTOCOL_VERSION}");
        return Err(ApiError::new(
            ErrorCode::Version,
            Reason::InvalidParams,
            words,
        ));
    }
    // Capabilities name what a client relies on; everything on this wire is served to everybody.
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

//! Listening: TCP on loopback and the Unix socket, one router behind both.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use countersign_core::Door;
use countersign_core::limits::{
    AUTH_MS, FRAME_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX, LOGIN_FORM_BYTES_MAX,
};
use countersign_daemon::{Service, procfs};
use countersign_protocol::Reason;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api_error::ApiError;
use crate::auth::{Authenticator, CallerConnection, ConnectionPeer, login_name};
use crate::capacity::{ConnectionLimits, ProcessShare, ProcessShares};
use crate::login_tickets::LoginTickets;
use crate::ops::hook::{self, HookWaiters};
use crate::origin_guard::OriginGuard;
use crate::peer::{TcpEnds, TcpPeers};
use crate::recheck_caller::recheck_caller;
use crate::request_length::{LengthLines, WatchedStream};
use crate::request_log::log_request;
use crate::web::{self, deny_link, login};
use crate::web_assets::{self, WebAssets};
use crate::{Server, ServerOpenError, ServerOptions, ServerState, mcp, rest, session};

/// What is read from a WebSocket at a time: most frames fit.
const READ_BUFFER_BYTES: usize = 4096;

/// The response to a process that has too many connections.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// In every response while the record cannot be written: `unavailable` or `lost`.
const RECORD_HEADER: HeaderName = HeaderName::from_static("countersign-record");

pub(crate) async fn open(
    options: ServerOptions,
    service: Service,
    shutdown: CancellationToken,
) -> Result<Server, ServerOpenError> {
    // First, because it says whether a host is already running; on TCP the same situation would
    // only be an address in use.
    let unix = bind_unix(&options.socket)?;
    let tcp = match options.listen {
        Some(address) => Some(bind_tcp(address).await?),
        None => None,
    };
    let address = tcp.as_ref().and_then(|listener| listener.local_addr().ok());
    let uid = rustix::process::getuid().as_raw();
    let authenticator = Authenticator {
        service: service.clone(),
        peers: Arc::new(TcpPeers::default()),
        uid,
        login: login_name(uid),
        unnamed_callers: options.unnamed_callers,
    };
    // Marks survive a restart. Those of processes that ended meanwhile would only fill the list.
    authenticator
        .forget_ended_processes()
        .await
        .map_err(|_| ServerOpenError::Ended)?;
    let limits = ConnectionLimits::of_process();
    let state = Arc::new(ServerState {
        service,
        authenticator,
        guard: OriginGuard::new(
            address.map_or(0, |address| address.port()),
            &options.allow_hosts,
            options.web.public_url.as_ref(),
        ),
        tickets: LoginTickets::default(),
        hook_waiters: HookWaiters::default(),
        shutdown: shutdown.clone(),
        limits,
        tcp_permits: Arc::new(Semaphore::new(limits.tcp)),
        unix_permits: Arc::new(Semaphore::new(limits.unix)),
        address,
        socket: options.socket.clone(),
        database: options.database,
        agents_alone_ms: options.agents_alone_ms,
        web_assets: WebAssets::new(options.web.folder.clone()),
        web: options.web,
        decide_confirm: options.decide_confirm,
        screen_files: options.screen_files,
        agents_ended_by: Arc::default(),
    });
    let agents_ended_by = state.agents_ended_by.clone();
    let shares = Arc::new(ProcessShares::new(limits));
    let router = router(&state);
    let tasks = TaskTracker::new();
    tasks.spawn(hook::watch(state.clone()));
    let door = ConnectionServer {
        router,
        state,
        shares,
        tasks: tasks.clone(),
    };
    tasks.spawn(accept_unix(unix, door.clone()));
    if let Some(listener) = tcp {
        tasks.spawn(accept_tcp(listener, door));
    }
    Ok(Server {
        address,
        shutdown,
        tasks,
        socket: options.socket,
        agents_ended_by,
    })
}

#[derive(Clone)]
struct ConnectionServer {
    router: Router,
    state: Arc<ServerState>,
    shares: Arc<ProcessShares>,
    tasks: TaskTracker,
}

fn router(state: &Arc<ServerState>) -> Router {
    let (rest, _) = rest::router();
    Router::new()
        .route("/", get(web_socket_or_front_page))
        .route("/rpc", get(web_socket))
        .route("/mcp", mcp::route(state))
        .route("/healthz", get(web::health))
        .route("/metrics", get(web::metrics_page))
        .route("/login/{ticket}", login_route())
        .route("/notify/deny/{code}", post(deny_link::deny))
        .route("/api/v1/openapi.json", get(openapi))
        .merge(rest)
        .merge(web_assets::router())
        .fallback(web_assets::file_or_unknown)
        .method_not_allowed_fallback(method_not_allowed)
        // The layer that is added last runs first. The caller is identified only for requests that
        // the guard let pass, and the body limit has to be known when the body is read there.
        .layer(middleware::from_fn_with_state(
            state.clone(),
            recheck_caller,
        ))
        .layer(DefaultBodyLimit::max(FRAME_BYTES_MAX))
        .layer(middleware::from_fn_with_state(state.clone(), guard_request))
        // The outermost layer, so that a request which the guard refuses has an access line too.
        .layer(middleware::from_fn(log_request))
        .with_state(state.clone())
}

fn login_route() -> MethodRouter<Arc<ServerState>> {
    // Bounded for itself, because nobody knows who sends the form.
    get(login::show_form)
        .merge(post(login::log_in).layer(DefaultBodyLimit::max(LOGIN_FORM_BYTES_MAX)))
}

async fn openapi() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "application/json")],
        rest::document::text(),
    )
}

async fn method_not_allowed(method: Method) -> ApiError {
    let message = format!("this path does not take {method}");
    ApiError::plain(Reason::MethodNotAllowed, message)
}

/// The layer that refuses malformed requests and requests of other origins.
async fn guard_request(
    State(state): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response {
    let unix = request
        .extensions()
        .get::<Arc<CallerConnection>>()
        .is_some_and(|connection| connection.is_unix());
    if let Err(error) = check_request(&state.guard, &request, unix) {
        return error.into_response();
    }
    let mut response = next.run(request).await;
    if let Some(mark) = record_header(&state.service) {
        response.headers_mut().insert(RECORD_HEADER, mark);
    }
    response
}

fn check_request(guard: &OriginGuard, request: &Request, is_unix: bool) -> Result<(), ApiError> {
    if let Some(lengths) = request.extensions().get::<Arc<LengthLines>>() {
        lengths.check(request.headers())?;
    }
    guard.check_target(request.uri(), is_unix)?;
    // No browser page reaches the Unix socket, so there is no `Host` or `Origin` to check.
    if is_unix {
        return Ok(());
    }
    guard.check(request.method(), request.uri(), request.headers())
}

fn record_header(service: &Service) -> Option<HeaderValue> {
    service.store_error()?;
    let mark = if service.record_is_lost() {
        "lost"
    } else {
        "unavailable"
    };
    Some(HeaderValue::from_static(mark))
}

async fn web_socket_or_front_page(
    state: State<Arc<ServerState>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    parts: Parts,
) -> Result<Response, ApiError> {
    match upgrade {
        // The host wire has its WebSocket at `/`.
        Ok(upgrade) => web_socket(state, Ok(upgrade), parts).await,
        // A client that wanted an upgrade and did it wrong must not get a page with the status 200.
        Err(refusal) if parts.headers.contains_key(header::UPGRADE) => {
            Err(refuse_upgrade(&refusal))
        }
        Err(_) => Ok(web_assets::page(state, parts.headers).await),
    }
}

fn refuse_upgrade(refusal: &WebSocketUpgradeRejection) -> ApiError {
    ApiError::plain(Reason::InvalidParams, refusal.body_text())
}

/// Upgrades a connection. A caller with a token in the header, or on the Unix socket, needs no
/// `session.auth`.
async fn web_socket(
    State(state): State<Arc<ServerState>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    parts: Parts,
) -> Result<Response, ApiError> {
    let upgrade = upgrade.map_err(|refusal| refuse_upgrade(&refusal))?;
    let connection = rest::connection(&parts)?;
    let shown = rest::shown_token(&parts)?;
    // Clients of the host wire send no header on TCP. They are let in without an identity, and have
    // `AUTH_MS` to send `session.auth`; until then the session serves nothing else.
    let identity = if shown.is_some() || connection.is_unix() {
        Some(
            state
                .authenticator
                .identify(&connection, shown.map(Arc::from))
                .await?,
        )
    } else {
        None
    };
    let door = if connection.is_unix() {
        Door::Socket
    } else {
        rest::door(&parts.headers, Door::Websocket)
    };
    // The library clears the buffer before each read, so a large one costs more than most frames
    // do.
    let upgrade = upgrade
        .read_buffer_size(READ_BUFFER_BYTES)
        .max_message_size(FRAME_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX);
    Ok(upgrade.on_upgrade(move |socket| session::run(state, connection, identity, door, socket)))
}

async fn bind_tcp(address: SocketAddr) -> Result<TcpListener, ServerOpenError> {
    if !address.ip().is_loopback() {
        return Err(ServerOpenError::NotLoopback(address));
    }
    let listening = TcpListener::bind(address).await;
    listening.map_err(|source| ServerOpenError::Listen {
        address: address.to_string(),
        source,
    })
}

fn bind_unix(path: &Path) -> Result<UnixListener, ServerOpenError> {
    // A socket file that nobody listens on was left by a host that was killed. Only a connection
    // attempt tells the two apart.
    if StdUnixStream::connect(path).is_ok() {
        return Err(ServerOpenError::AlreadyRunning(path.to_owned()));
    }
    replace_socket(path).map_err(|source| ServerOpenError::Listen {
        address: path.display().to_string(),
        source,
    })
}

fn replace_socket(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Between the two calls the socket has wider permissions. Other users cannot reach it all the
    // same, because its directory is the user's alone.
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn accept_tcp(listener: TcpListener, door: ConnectionServer) {
    loop {
        let accepted = tokio::select! {
            () = door.state.shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            // Mostly because too many files are open. The connection stays in the queue, so without
            // a pause this would be a busy loop.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(local) = stream.local_addr() else {
            continue;
        };
        // Replies are whole frames; waiting to fill a packet would only delay them.
        drop(stream.set_nodelay(true));
        // Before there is a permit: a client must not be able to pass its connection on, unseen,
        // while it waits in the queue.
        let accepted = door.look_up(ConnectionPeer::Tcp(TcpEnds { peer, local }));
        let Some(permit) = door.acquire_permit(&door.state.tcp_permits).await else {
            return;
        };
        door.serve(stream, accepted, permit, None);
    }
}

async fn accept_unix(listener: UnixListener, door: ConnectionServer) {
    loop {
        let accepted = tokio::select! {
            () = door.state.shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(peer) = stream.peer_cred() else {
            continue;
        };
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
        let Some(share) = door.shares.take(pid) else {
            tracing::info!(pid, "refused a connection: its process has too many");
            // Without waiting: a peer that does not read must not hold up the listener.
            drop(stream.try_write(TOO_MANY));
            continue;
        };
        // The kernel remembers only the number of the process that connected. The start time is
        // read at once, because the number may soon be another's (SECURITY.md, "Reused process
        // ids").
        let process = pid.and_then(procfs::find_key);
        let accepted = door.look_up(ConnectionPeer::Unix {
            uid: peer.uid(),
            process,
        });
        let Some(permit) = door.acquire_permit(&door.state.unix_permits).await else {
            return;
        };
        door.serve(stream, accepted, permit, Some(share));
    }
}

/// A connection that was accepted, and the search for its peer, which has begun.
struct AcceptedConnection {
    connection: Arc<CallerConnection>,
    search: tokio::task::JoinHandle<()>,
}

impl ConnectionServer {
    /// A permit for one more connection; `None` when the host ends.
    async fn acquire_permit(&self, permits: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            () = self.state.shutdown.cancelled() => None,
            permit = permits.clone().acquire_owned() => permit.ok(),
        }
    }

    /// Begins at once to find out who is at the other end.
    fn look_up(&self, peer: ConnectionPeer) -> AcceptedConnection {
        let connection = Arc::new(CallerConnection::new(peer));
        let (state, searched) = (self.state.clone(), connection.clone());
        let search = self.tasks.spawn(async move {
            // What was found, also the reason of a refusal, is kept in the connection.
            drop(state.authenticator.find_peer(&searched).await);
        });
        AcceptedConnection { connection, search }
    }

    fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        AcceptedConnection { connection, search }: AcceptedConnection,
        permit: OwnedSemaphorePermit,
        share: Option<ProcessShare>,
    ) {
        connection.hold_permit(permit);
        let lengths = Arc::new(LengthLines::default());
        let stream = WatchedStream::new(stream, lengths.clone(), share);
        let router = self.router.clone().layer(axum::Extension(connection));
        let router = router.layer(axum::Extension(lengths));
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(AUTH_MS))
            .max_headers(HEADERS_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .max_buf_size(64 * 1024);
        let serving = http
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
            .with_upgrades();
        let shutdown = self.state.shutdown.clone();
        self.tasks.spawn(async move {
            // Nothing is read before the first search has ended: a client that knows that its
            // request was read could pass the connection on before anybody looked.
            drop(search.await);
            tokio::pin!(serving);
            tokio::select! {
                served = serving.as_mut() => drop(served),
                () = shutdown.cancelled() => {
                    // The request that is being served gets its response; no other is read.
                    serving.as_mut().graceful_shutdown();
                    drop(serving.await);
                }
            }
        });
    }
}

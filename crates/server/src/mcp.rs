//! MCP: the tools by which agents ask, notify and steer, as streamable HTTP at `/mcp`.
//!
//! Each request stands alone: there are no sessions, so the next host goes on where this one left off.
//! Invariants: nobody is served before it is known who they are, and on TCP only by a bearer in the
//! header; what a caller may do is decided by the operations, never by what was listed; a refusal of the
//! domain is a result in words, not a protocol error.

mod call;
mod parent;
mod permission;
mod reading;
mod reply;
mod spawning;
mod steering;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};
use countersign_core::limits::{FRAME_BYTES_MAX, MCP_PROGRESS_MS};
use countersign_core::{Caller, Principal};
use countersign_protocol::Reason;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, InitializeResult, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};

use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::{CallerConnection, auth_required};
use crate::ops;
use crate::origin_guard::refuse_query_tokens;
use crate::recheck_caller::read_whole;
use call::Call;

/// What whoever connects is told about the server.
const INSTRUCTIONS: &str = "Countersign is the host you run under. Use ask_orchestrator when you need \
a decision or a fact from whoever gave you your task, and notify_orchestrator to report without waiting.";

/// The header by which the bridge says that it speaks for whoever started it. It takes rights away and
/// gives none, so it need not be believed.
const BRIDGE_HEADER: &str = "countersign-bridge";

/// The door, behind the same guard as everything else.
pub(crate) fn route(state: &Arc<ServerState>) -> MethodRouter<Arc<ServerState>> {
    let shared = state.clone();
    let server = StreamableHttpService::new(
        move || Ok(Tools(shared.clone())),
        Arc::new(NeverSessionManager::default()),
        config(state),
    );
    any(
        move |State(state): State<Arc<ServerState>>, request: Request| {
            let server = server.clone();
            async move { serve(&state, &server, request).await }
        },
    )
}

/// Names and origins were checked by our own guard, which also knows the names that were allowed.
fn config(state: &ServerState) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_sse_retry(None)
        .with_sse_keep_alive(Some(Duration::from_millis(MCP_PROGRESS_MS)))
        .with_max_request_body_bytes(FRAME_BYTES_MAX)
        .with_cancellation_token(state.shutdown.clone())
        .disable_allowed_hosts()
}

async fn serve(
    state: &ServerState,
    server: &StreamableHttpService<Tools, NeverSessionManager>,
    request: Request,
) -> Response {
    match take_whole_request(state, request).await {
        Ok(request) => server.handle(request).await.map(Body::new),
        Err(refusal) => refusal,
    }
}

/// Nobody's body is taken before it is known who they are, and that is found out anew when it has come.
async fn take_whole_request(state: &ServerState, request: Request) -> Result<Request, Response> {
    let (parts, body) = request.into_parts();
    identify(state, &parts).await.map_err(refuse)?;
    let request = read_whole(Request::from_parts(parts, body)).await?;
    let (mut parts, body) = request.into_parts();
    let caller = identify(state, &parts).await.map_err(refuse)?;
    parts.extensions.insert(caller);
    Ok(Request::from_parts(parts, body))
}

/// Who calls. A cookie is a browser's and says nothing here.
async fn identify(state: &ServerState, parts: &Parts) -> Result<Caller, ApiError> {
    refuse_query_tokens(&parts.uri)?;
    let connection = parts.extensions.get::<Arc<CallerConnection>>();
    let connection = connection.ok_or_else(auth_required)?;
    let shown = crate::rest::bearer(&parts.headers)?;
    if shown.is_none() && !connection.is_unix() {
        return Err(auth_required());
    }
    let is_bridge = parts.headers.contains_key(BRIDGE_HEADER) && shown.is_none();
    let identified = state
        .authenticator
        .identify(connection, shown.map(Arc::from))
        .await?;
    if is_bridge && connection.is_unix() && identified.principal.agent().is_none() {
        return find_or_register(state, connection, &identified.principal).await;
    }
    Ok(ops::caller(&identified.principal, None))
}

/// Whoever starts the bridge is an agent, known or new. Only a person who tries it by hand is none.
async fn find_or_register(
    state: &ServerState,
    connection: &Arc<CallerConnection>,
    person: &Arc<Principal>,
) -> Result<Caller, ApiError> {
    match ops::hook::register_mcp_client(state, connection).await {
        Err(error) if error.reason == Reason::AgentNotAllowed => Ok(ops::caller(person, None)),
        registered => registered,
    }
}

/// Clients of MCP look for the header to know that a bearer is wanted.
fn refuse(error: ApiError) -> Response {
    let unknown = matches!(error.reason, Reason::AuthRequired | Reason::AuthFailed);
    let mut response = error.into_response();
    if unknown {
        response.headers_mut().insert(
            header::WWW_AUTHENTICATE,
            HeaderValue::from_static("Bearer realm=\"countersign\""),
        );
    }
    response
}

/// The server as the protocol sees it; one for each request.
struct Tools(Arc<ServerState>);

impl Tools {
    /// Whether this caller is an agent that steers others.
    async fn is_orchestrator(&self, caller: &Caller) -> bool {
        let found = self.0.service.is_orchestrator(caller).await;
        found.unwrap_or(false)
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> InitializeResult {
        let ours = Implementation::new("countersign", env!("CARGO_PKG_VERSION"));
        InitializeResult::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(ours.with_title("Countersign"))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = call::caller(&context)?;
        let is_agent = caller.principal.agent().is_some();
        let steers = self.is_orchestrator(&caller).await;
        Ok(ListToolsResult::with_all_items(tools::listed(
            is_agent, steers,
        )))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = call::caller(&context)?;
        let steers = self.is_orchestrator(&caller).await;
        let log = call::request_log(&context, &request.name);
        log.note_principal(&caller.principal);
        let call = Call::new(&self.0, caller, steers, &context);
        let arguments = request.arguments.unwrap_or_default();
        let serving =
            async { reply::response(tools::perform(&call, &request.name, arguments).await) };
        Box::pin(log.serve(serving)).await
    }
}

//! MCP: the tools with which agents ask, notify and steer, as streamable HTTP at `/mcp`.
//!
//! There are no MCP sessions, so the next host can serve the next request. Invariants: no caller is
//! served before it is identified, on TCP only by a bearer token in the header; what a caller may
//! do is decided by the operations and not by the list of tools; a rejection is a result with text,
//! not a protocol error.

mod call;
mod parent;
mod permission;
mod reading;
mod reply;
mod screen;
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
use countersign_core::{Caller, Door, Principal};
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
use call::ToolCall;

/// What the server says about itself to a model.
const INSTRUCTIONS: &str = "Countersign is the host you run under. Use ask_orchestrator when you need \
a decision or a fact from whoever gave you your task, and notify_orchestrator to report without waiting.";

/// The header with which the bridge (`countersign mcp`) says that it speaks for the process that
/// started it. Anybody may send it: it makes the caller an agent, and so only takes rights away.
const BRIDGE_HEADER: &str = "countersign-bridge";

pub(crate) fn route(state: &Arc<ServerState>) -> MethodRouter<Arc<ServerState>> {
    let shared = state.clone();
    let server = StreamableHttpService::new(
        move || Ok(ToolServer(shared.clone())),
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

fn config(state: &ServerState) -> StreamableHttpServerConfig {
    // The library's check of `Host` is off: `OriginGuard` made it already, and it also knows the
    // names that an operator allowed.
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
    server: &StreamableHttpService<ToolServer, NeverSessionManager>,
    request: Request,
) -> Response {
    match take_whole_request(state, request).await {
        Ok(request) => server.handle(request).await.map(Body::new),
        Err(refusal) => refusal,
    }
}

/// Reads the whole body of an identified caller, and adds the caller to the request's extensions.
async fn take_whole_request(state: &ServerState, request: Request) -> Result<Request, Response> {
    let (parts, body) = request.into_parts();
    // Twice, as in `recheck_caller.rs`: strangers send no bodies, and the process that counts is
    // the one that holds the connection when the body is complete.
    identify(state, &parts).await.map_err(refuse)?;
    let request = read_whole(Request::from_parts(parts, body)).await?;
    let (mut parts, body) = request.into_parts();
    let caller = identify(state, &parts).await.map_err(refuse)?;
    parts.extensions.insert(caller);
    Ok(Request::from_parts(parts, body))
}

/// Identifies the caller by its process or a bearer token. Cookies are ignored: they are for
/// browsers, and people have no tools here.
async fn identify(state: &ServerState, parts: &Parts) -> Result<Caller, ApiError> {
    // The guard does this on TCP only.
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
    Ok(ops::caller(&identified.principal, None, Door::Mcp))
}

/// The agent that started the bridge, which is registered if it is new. A person who tries the
/// bridge by hand stays a person.
async fn find_or_register(
    state: &ServerState,
    connection: &Arc<CallerConnection>,
    person: &Arc<Principal>,
) -> Result<Caller, ApiError> {
    match ops::hook::register_mcp_client(state, connection).await {
        Err(error) if error.reason == Reason::AgentNotAllowed => {
            Ok(ops::caller(person, None, Door::Mcp))
        }
        registered => registered,
    }
}

fn refuse(error: ApiError) -> Response {
    // MCP clients learn from `WWW-Authenticate` that a bearer token is needed.
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

/// The MCP server; one for each request, because there are no sessions.
struct ToolServer(Arc<ServerState>);

impl ToolServer {
    /// Whether this caller is an agent that steers others.
    async fn is_orchestrator(&self, caller: &Caller) -> bool {
        // An error hides the tools of orchestrators. Showing them would allow nothing either: each
        // operation checks its caller again, inside the loop.
        let found = self.0.service.is_orchestrator(caller).await;
        found.unwrap_or(false)
    }
}

impl ServerHandler for ToolServer {
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
        let call = ToolCall::new(&self.0, caller, steers, &context);
        let arguments = request.arguments.unwrap_or_default();
        let serving = async {
            let result = tools::perform(&call, &request.name, arguments).await;
            // A tool may have waited: what it gives must not reach a process that got the connection
            // meanwhile.
            // A failure keeps its own reason: the bridge repeats a call that the end of the host cut off.
            let confirmed = match &result {
                Ok(_) => call::confirm_caller(&self.0, &call.caller, &context).await,
                Err(_) => Ok(()),
            };
            reply::response(confirmed.and(result))
        };
        Box::pin(log.serve(serving)).await
    }
}

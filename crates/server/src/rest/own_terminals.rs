//! A person's own terminals, over REST. For operators alone.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use countersign_protocol as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{AuthenticatedCaller, JsonBody, JsonResult, PathId, QueryParams, WaitQuery, wire_json};
use crate::ServerState;
use crate::api_error::ApiError;
use crate::ops::own_terminals::{self, OwnTerminalPlace};

/// The routes about a person's own terminals.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list_own_terminals, open_terminal))
        .routes(routes!(close_terminal))
        .routes(routes!(own_terminal_output))
        .routes(routes!(write_terminal))
        .routes(routes!(resize_terminal))
}

/// List your own terminals, those whose program has ended among them.
#[utoipa::path(get, path = "/api/v1/terminals",
    responses((status = 200, body = Vec<wire::OwnTerminalRow>), (status = 403, description = "operators only")))]
async fn list_own_terminals(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> JsonResult<Vec<wire::OwnTerminalRow>> {
    own_terminals::list(&state.service, &caller)
        .await
        .map(|result| wire_json(&state, result))
}

/// Open a terminal of your own. It outlives the host.
#[utoipa::path(post, path = "/api/v1/terminals", request_body = wire::OpenTerminalParams,
    responses((status = 200, body = wire::OwnTerminalRow), (status = 403, description = "operators only"),
        (status = 422, description = "there is no such folder or shell")))]
async fn open_terminal(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(params): JsonBody<wire::OpenTerminalParams>,
) -> JsonResult<wire::OwnTerminalRow> {
    own_terminals::open(&state.service, &caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

/// Close a terminal of your own, and end everything that runs in it.
#[utoipa::path(delete, path = "/api/v1/terminals/{id}", params(("id" = String, Path)),
    responses((status = 204, description = "closed"), (status = 403, description = "operators only"),
        (status = 404, description = "unknown terminal")))]
async fn close_terminal(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
) -> Result<StatusCode, ApiError> {
    own_terminals::close(&state.service, &caller, &id)
        .await
        .map(|()| StatusCode::NO_CONTENT)
}

/// Read the output of a terminal of your own from a byte on. With `wait` it returns when there is some, or after at most 25 seconds.
#[utoipa::path(get, path = "/api/v1/terminals/{id}/output",
    params(("id" = String, Path), WaitQuery, wire::TerminalOutputQuery),
    responses((status = 200, body = wire::TerminalOutputResult), (status = 403, description = "operators only"),
        (status = 404, description = "unknown terminal")))]
async fn own_terminal_output(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    QueryParams(wait): QueryParams<WaitQuery>,
    QueryParams(query): QueryParams<wire::TerminalOutputQuery>,
) -> JsonResult<wire::TerminalOutputResult> {
    let wait_ms = wait.limit()?.map_or(0, |limit| {
        u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
    });
    let place = OwnTerminalPlace {
        terminal: id,
        after: query.after.unwrap_or_default(),
        wait_ms,
    };
    own_terminals::read(&state.service, &caller, place)
        .await
        .map(|result| wire_json(&state, result))
}

/// Type into a terminal of your own. The reply says how many bytes were taken: send the rest again.
#[utoipa::path(post, path = "/api/v1/terminals/{id}/input", params(("id" = String, Path)),
    request_body = wire::WriteTerminalBody,
    responses((status = 200, body = wire::WrittenTerminal), (status = 403, description = "operators only"),
        (status = 404, description = "unknown terminal"), (status = 413, description = "more than 64 KB")))]
async fn write_terminal(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(terminal_id): PathId,
    JsonBody(body): JsonBody<wire::WriteTerminalBody>,
) -> JsonResult<wire::WrittenTerminal> {
    let params = wire::WriteTerminalParams {
        terminal_id,
        data: body.data,
    };
    own_terminals::write(&state.service, &caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

/// Change the size of a terminal of your own.
#[utoipa::path(put, path = "/api/v1/terminals/{id}/size", params(("id" = String, Path)),
    request_body = wire::ResizeTerminalBody,
    responses((status = 204, description = "done"), (status = 403, description = "operators only"),
        (status = 404, description = "unknown terminal"), (status = 422, description = "no size of a terminal")))]
async fn resize_terminal(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(terminal_id): PathId,
    JsonBody(body): JsonBody<wire::ResizeTerminalBody>,
) -> Result<StatusCode, ApiError> {
    let params = wire::ResizeTerminalParams {
        terminal_id,
        columns: body.columns,
        rows: body.rows,
    };
    own_terminals::resize(&state.service, &caller, params)
        .await
        .map(|()| StatusCode::NO_CONTENT)
}

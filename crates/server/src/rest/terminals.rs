//! Terminals of agents, over REST.

use std::sync::Arc;

use axum::extract::State;
use countersign_protocol as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{AuthenticatedCaller, JsonResult, PathId, PathIds, QueryParams, WaitQuery, wire_json};
use crate::ServerState;
use crate::ops::terminals::{self, TerminalPlace};

/// The routes about terminals.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list_terminals))
        .routes(routes!(terminal_output))
}

/// List the terminals of an agent that runs: those that are open, and the newest that were released.
#[utoipa::path(get, path = "/api/v1/agents/{id}/terminals", params(("id" = String, Path)),
    responses((status = 200, body = Vec<wire::TerminalRow>), (status = 403, description = "not for agents"),
        (status = 404, description = "unknown agent")))]
async fn list_terminals(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
) -> JsonResult<Vec<wire::TerminalRow>> {
    terminals::list(&state.service, &caller, &id)
        .await
        .map(|result| wire_json(&state, result))
}

/// Read the output of a terminal from a byte on. With `wait` it returns when there is some, or after at most 25 seconds.
#[utoipa::path(get, path = "/api/v1/agents/{id}/terminals/{terminal}/output",
    params(("id" = String, Path), ("terminal" = String, Path), WaitQuery, wire::TerminalOutputQuery),
    responses((status = 200, body = wire::TerminalOutputResult), (status = 403, description = "not for agents"),
        (status = 404, description = "unknown agent, or the output was lost with the agent's runner")))]
async fn terminal_output(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathIds(agent, terminal): PathIds,
    QueryParams(wait): QueryParams<WaitQuery>,
    QueryParams(query): QueryParams<wire::TerminalOutputQuery>,
) -> JsonResult<wire::TerminalOutputResult> {
    let wait_ms = wait.limit()?.map_or(0, |limit| {
        u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
    });
    let place = TerminalPlace {
        agent,
        terminal,
        after: query.after.unwrap_or_default(),
        wait_ms,
    };
    terminals::read(&state.service, &caller, place)
        .await
        .map(|result| wire_json(&state, result))
}

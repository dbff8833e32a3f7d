//! Searching transcripts over REST.

use std::sync::Arc;

use axum::extract::State;
use countersign_protocol as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{AuthenticatedCaller, JsonResult, QueryParams, wire_json};
use crate::ServerState;
use crate::ops;

/// The route of the search.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new().routes(routes!(search))
}

/// Search the transcripts of agents for words, newest hit first.
#[utoipa::path(get, path = "/api/v1/search", params(wire::SearchParams),
    responses((status = 200, body = wire::SearchResult),
        (status = 403, description = "an agent finds only what it said itself and what its descendants said"),
        (status = 409, description = "`agent_id` fits more than one agent")))]
async fn search(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    QueryParams(params): QueryParams<wire::SearchParams>,
) -> JsonResult<wire::SearchResult> {
    ops::search::search(&state.service, &caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

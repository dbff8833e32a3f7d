//! The list of agents, over REST.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use countersign_protocol as wire;
use countersign_protocol::HostAgent;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Authenticated, JsonBody, JsonResult, PathId};
use crate::ServerState;
use crate::api_error::ApiError;
use crate::ops;

/// The routes about agents.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list_agents, register_agent))
        .routes(routes!(get_agent, unregister_agent))
        .routes(routes!(set_status))
}

/// All agents, by name.
#[utoipa::path(get, path = "/api/v1/agents", responses((status = 200, body = Vec<HostAgent>)))]
async fn list_agents(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
) -> JsonResult<Vec<HostAgent>> {
    ops::agents(&state.service, &caller).await.map(Json)
}

/// Register an agent.
#[utoipa::path(post, path = "/api/v1/agents", request_body = wire::RegisterAgentParams,
    responses((status = 200, body = HostAgent), (status = 409, description = "owned by another connection")))]
async fn register_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    JsonBody(params): JsonBody<wire::RegisterAgentParams>,
) -> JsonResult<HostAgent> {
    ops::register_agent(&state.service, caller, params)
        .await
        .map(Json)
}

/// One agent.
#[utoipa::path(get, path = "/api/v1/agents/{id}", params(("id" = String, Path)),
    responses((status = 200, body = HostAgent), (status = 404, description = "unknown agent")))]
async fn get_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
) -> JsonResult<HostAgent> {
    ops::agent(&state.service, &caller, id).await.map(Json)
}

/// Take an agent off the list.
#[utoipa::path(delete, path = "/api/v1/agents/{id}", params(("id" = String, Path)),
    responses((status = 204, description = "gone"), (status = 404, description = "unknown agent")))]
async fn unregister_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
) -> Result<StatusCode, ApiError> {
    ops::unregister_agent(&state.service, caller, id)
        .await
        .map(|()| StatusCode::NO_CONTENT)
}

/// Say what an agent does.
#[utoipa::path(put, path = "/api/v1/agents/{id}/status", params(("id" = String, Path)), request_body = wire::StatusBody,
    responses((status = 200, body = HostAgent), (status = 404, description = "unknown agent")))]
async fn set_status(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::StatusBody>,
) -> JsonResult<HostAgent> {
    ops::set_status(&state.service, caller, id, body)
        .await
        .map(Json)
}

//! The list of agents, over REST.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use countersign_protocol as wire;
use countersign_protocol::HostAgent;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{AuthenticatedCaller, JsonBody, JsonResult, PathId, wire_json};
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

/// List all agents, by name.
#[utoipa::path(get, path = "/api/v1/agents", responses((status = 200, body = Vec<HostAgent>)))]
async fn list_agents(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> JsonResult<Vec<HostAgent>> {
    ops::agents::list(&state.service, &caller)
        .await
        .map(|result| wire_json(&state, result))
}

/// Register an agent.
#[utoipa::path(post, path = "/api/v1/agents", request_body = wire::RegisterAgentParams,
    responses((status = 200, body = HostAgent), (status = 409, description = "owned by another connection")))]
async fn register_agent(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(params): JsonBody<wire::RegisterAgentParams>,
) -> JsonResult<HostAgent> {
    ops::agents::register(&state.service, caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

/// Get an agent.
#[utoipa::path(get, path = "/api/v1/agents/{id}", params(("id" = String, Path)),
    responses((status = 200, body = HostAgent), (status = 404, description = "unknown agent")))]
async fn get_agent(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
) -> JsonResult<HostAgent> {
    ops::agents::load(&state.service, &caller, id)
        .await
        .map(|result| wire_json(&state, result))
}

/// Unregister an agent.
#[utoipa::path(delete, path = "/api/v1/agents/{id}", params(("id" = String, Path)),
    responses((status = 204, description = "gone"), (status = 404, description = "unknown agent")))]
async fn unregister_agent(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
) -> Result<StatusCode, ApiError> {
    ops::agents::unregister(&state.service, caller, id)
        .await
        .map(|()| StatusCode::NO_CONTENT)
}

/// Set an agent's status.
#[utoipa::path(put, path = "/api/v1/agents/{id}/status", params(("id" = String, Path)), request_body = wire::StatusBody,
    responses((status = 200, body = HostAgent), (status = 404, description = "unknown agent")))]
async fn set_status(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::StatusBody>,
) -> JsonResult<HostAgent> {
    ops::agents::set_status(&state.service, caller, id, body)
        .await
        .map(|result| wire_json(&state, result))
}

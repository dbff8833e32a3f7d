//! Files in the folders of agents, over REST.

use std::sync::Arc;

use axum::extract::State;
use countersign_protocol as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{AuthenticatedCaller, JsonBody, JsonResult, PathId, QueryParams, wire_json};
use crate::ServerState;
use crate::ops::agent_files;

/// The routes about files of agents.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list_files))
        .routes(routes!(read_file, write_file))
}

/// List a folder inside an agent's folder, or all files below it.
#[utoipa::path(get, path = "/api/v1/agents/{id}/files", params(("id" = String, Path), wire::ListFilesQuery),
    responses((status = 200, body = wire::ListedFiles), (status = 403, description = "not for agents, or outside the agent's folder"),
        (status = 404, description = "unknown agent or folder"), (status = 409, description = "the host did not start the agent")))]
async fn list_files(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    QueryParams(query): QueryParams<wire::ListFilesQuery>,
) -> JsonResult<wire::ListedFiles> {
    agent_files::list(&state.service, &caller, &id, query)
        .await
        .map(|result| wire_json(&state, result))
}

/// Read a piece of a file inside an agent's folder. Binary files are named as such and come without content.
#[utoipa::path(get, path = "/api/v1/agents/{id}/file", params(("id" = String, Path), wire::ReadFileQuery),
    responses((status = 200, body = wire::FilePage), (status = 403, description = "not for agents, or outside the agent's folder"),
        (status = 404, description = "unknown agent or file"), (status = 409, description = "the host did not start the agent")))]
async fn read_file(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    QueryParams(query): QueryParams<wire::ReadFileQuery>,
) -> JsonResult<wire::FilePage> {
    agent_files::read(&state.service, &caller, &id, query)
        .await
        .map(|result| wire_json(&state, result))
}

/// Write a file inside an agent's folder as a whole, if it is still what you read: `if_digest` is the digest that came with it.
#[utoipa::path(put, path = "/api/v1/agents/{id}/file", params(("id" = String, Path)),
    request_body = wire::WriteFileBody,
    responses((status = 200, body = wire::SavedFile), (status = 403, description = "operators only, or outside the agent's folder"),
        (status = 404, description = "unknown agent"), (status = 409, description = "the file was changed since; `data.digest` is of what is there"),
        (status = 413, description = "more than 1048576 bytes")))]
async fn write_file(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::WriteFileBody>,
) -> JsonResult<wire::SavedFile> {
    agent_files::write(&state.service, &caller, &id, body)
        .await
        .map(|result| wire_json(&state, result))
}

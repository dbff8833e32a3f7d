//! Agents that the host runs, over REST.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use countersign_protocol as wire;
use countersign_protocol::HostAgent;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Authenticated, JsonBody, JsonResult, PathId, QueryParams, WaitQuery};
use crate::ServerState;
use crate::ops::managed;

/// The routes about agents that the host runs.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(spawn_agent))
        .routes(routes!(prompt_agent))
        .routes(routes!(interrupt_agent))
        .routes(routes!(kill_agent))
        .routes(routes!(set_ceiling))
        .routes(routes!(resume_agent))
        .routes(routes!(fork_agent))
        .routes(routes!(archive_agent))
        .routes(routes!(rename_agent))
        .routes(routes!(configure_agent))
        .routes(routes!(wait_idle))
        .routes(routes!(transcript))
        .routes(routes!(diff))
        .routes(routes!(remove_worktree))
        .routes(routes!(catalog))
}

/// Start an agent. It is listed at once, and ready some time later.
#[utoipa::path(post, path = "/api/v1/agents/spawn", request_body = wire::SpawnAgentParams,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 409, description = "another agent has the name")))]
async fn spawn_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    JsonBody(params): JsonBody<wire::SpawnAgentParams>,
) -> JsonResult<HostAgent> {
    managed::spawn(&state.service, &caller, params)
        .await
        .map(Json)
}

/// Tell an agent something. It waits while a turn runs, and wakes an agent that ended.
#[utoipa::path(post, path = "/api/v1/agents/{id}/prompt", params(("id" = String, Path)), request_body = wire::PromptBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "the host does not run it")))]
async fn prompt_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::PromptBody>,
) -> JsonResult<HostAgent> {
    managed::prompt(&state.service, &caller, id, body)
        .await
        .map(Json)
}

/// End an agent's turn.
#[utoipa::path(post, path = "/api/v1/agents/{id}/interrupt", params(("id" = String, Path)), request_body = wire::InterruptBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "no turn runs")))]
async fn interrupt_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::InterruptBody>,
) -> JsonResult<HostAgent> {
    managed::interrupt(&state.service, &caller, id, body)
        .await
        .map(Json)
}

/// End an agent and everything it started.
#[utoipa::path(post, path = "/api/v1/agents/{id}/kill", params(("id" = String, Path), ("children" = Option<wire::ChildrenFate>, Query, description = "`end` or `keep`: what becomes of agents below it that run")),
    responses((status = 200, body = HostAgent), (status = 403, description = "operators, and orchestrators above it"),
        (status = 404, description = "unknown agent"), (status = 409, description = "agents below it run, and it was not said what becomes of them")))]
async fn kill_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    QueryParams(body): QueryParams<wire::KillBody>,
) -> JsonResult<HostAgent> {
    managed::kill(&state.service, &caller, id, body)
        .await
        .map(Json)
}

/// Say what an orchestrator may settle for those below it.
#[utoipa::path(put, path = "/api/v1/agents/{id}/ceiling", params(("id" = String, Path)), request_body = wire::CeilingBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "no orchestrator"), (status = 422, description = "a rule that cannot be read")))]
async fn set_ceiling(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::CeilingBody>,
) -> JsonResult<HostAgent> {
    managed::set_ceiling(&state.service, &caller, id, body)
        .await
        .map(Json)
}

/// Start an agent again where it was.
#[utoipa::path(post, path = "/api/v1/agents/{id}/resume", params(("id" = String, Path)),
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "it kept no session")))]
async fn resume_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
) -> JsonResult<HostAgent> {
    managed::resume(&state.service, &caller, id).await.map(Json)
}

/// Start a second agent that goes on from where this one stands.
#[utoipa::path(post, path = "/api/v1/agents/{id}/fork", params(("id" = String, Path)), request_body = wire::ForkBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "no other can begin from its session")))]
async fn fork_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::ForkBody>,
) -> JsonResult<HostAgent> {
    managed::fork(&state.service, &caller, id, body)
        .await
        .map(Json)
}

/// Archive an agent, or take it out of the archive.
#[utoipa::path(put, path = "/api/v1/agents/{id}/archived", params(("id" = String, Path)), request_body = wire::ArchiveBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent")))]
async fn archive_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::ArchiveBody>,
) -> JsonResult<HostAgent> {
    managed::archive(&state.service, &caller, id, body)
        .await
        .map(Json)
}

/// Give an agent another name.
#[utoipa::path(put, path = "/api/v1/agents/{id}/name", params(("id" = String, Path)), request_body = wire::RenameBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "another agent has the name")))]
async fn rename_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::RenameBody>,
) -> JsonResult<HostAgent> {
    managed::rename(&state.service, &caller, id, body)
        .await
        .map(Json)
}

/// Give an agent another mode or model, now and whenever it is started again.
#[utoipa::path(put, path = "/api/v1/agents/{id}/configuration", params(("id" = String, Path)), request_body = wire::ConfigureBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent")))]
async fn configure_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::ConfigureBody>,
) -> JsonResult<HostAgent> {
    managed::configure(&state.service, &caller, id, body)
        .await
        .map(Json)
}

/// Wait until an agent has nothing to do. Without `wait`, as long as it takes.
#[utoipa::path(get, path = "/api/v1/agents/{id}/idle", params(("id" = String, Path), WaitQuery),
    responses((status = 200, body = wire::WaitIdleResult), (status = 403, description = "not for agents"),
        (status = 404, description = "unknown agent")))]
async fn wait_idle(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    QueryParams(query): QueryParams<WaitQuery>,
) -> JsonResult<wire::WaitIdleResult> {
    let limit = query.limit()?;
    let timeout_ms = limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    let params = wire::WaitIdleParams {
        agent_id: Some(id),
        agent_ids: None,
        timeout_ms,
    };
    managed::wait_idle(&state.service, &caller, params)
        .await
        .map(Json)
}

/// What an agent said and did, oldest first.
#[utoipa::path(get, path = "/api/v1/agents/{id}/transcript", params(("id" = String, Path), wire::TranscriptQuery),
    responses((status = 200, body = wire::TranscriptResult), (status = 403, description = "not for agents"),
        (status = 404, description = "unknown agent")))]
async fn transcript(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    QueryParams(query): QueryParams<wire::TranscriptQuery>,
) -> JsonResult<wire::TranscriptResult> {
    managed::transcript(&state.service, &caller, id, query)
        .await
        .map(Json)
}

/// What an agent changed since its worktree was made.
#[utoipa::path(get, path = "/api/v1/agents/{id}/diff", params(("id" = String, Path)),
    responses((status = 200, body = wire::AgentDiff), (status = 403, description = "not for agents"),
        (status = 404, description = "unknown agent"), (status = 409, description = "it has no worktree")))]
async fn diff(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
) -> JsonResult<wire::AgentDiff> {
    managed::diff(&state.service, &caller, id).await.map(Json)
}

/// Clear an agent's worktree away. Work that is not committed keeps it, unless `discard` is true.
#[utoipa::path(delete, path = "/api/v1/agents/{id}/worktree", params(("id" = String, Path), wire::RemoveWorktreeQuery),
    responses((status = 200, body = wire::RemovedWorktree), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "it still runs, or has no worktree")))]
async fn remove_worktree(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    QueryParams(query): QueryParams<wire::RemoveWorktreeQuery>,
) -> JsonResult<wire::RemovedWorktree> {
    managed::remove_worktree(&state.service, &caller, id, &query)
        .await
        .map(Json)
}

/// The agents that are known, and which of them can be started here.
#[utoipa::path(get, path = "/api/v1/catalog",
    responses((status = 200, body = Vec<wire::CatalogRow>), (status = 403, description = "not for agents")))]
async fn catalog(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
) -> JsonResult<Vec<wire::CatalogRow>> {
    managed::catalog(&state.service, &caller).map(Json)
}

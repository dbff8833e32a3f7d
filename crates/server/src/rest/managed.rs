//! Agents that the host runs, over REST.

use std::sync::Arc;

use axum::extract::State;
use countersign_protocol as wire;
use countersign_protocol::{HostAgent, Reason};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{
    AuthenticatedCaller, JsonBody, JsonResult, PathId, PathIds, QueryParams, WaitQuery, wire_json,
};
use crate::ServerState;
use crate::api_error::ApiError;
use crate::ops::managed;

/// The routes about agents that the host runs.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(spawn_agent))
        .routes(routes!(prompt_agent))
        .routes(routes!(queued_messages))
        .routes(routes!(withdraw_message))
        .routes(routes!(interrupt_agent))
        .routes(routes!(kill_agent))
        .routes(routes!(set_ceiling))
        .routes(routes!(resume_agent))
        .routes(routes!(fork_agent))
        .routes(routes!(archive_agent))
        .routes(routes!(rename_agent))
        .routes(routes!(configure_agent))
        .routes(routes!(wait_agent))
        .routes(routes!(transcript))
        .routes(routes!(diff))
        .routes(routes!(remove_worktree))
        .routes(routes!(merge_worktree))
        .routes(routes!(catalog))
}

/// Start an agent. It is listed at once and becomes ready later.
#[utoipa::path(post, path = "/api/v1/agents/spawn", request_body = wire::SpawnAgentParams,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 409, description = "another agent has the name")))]
async fn spawn_agent(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(params): JsonBody<wire::SpawnAgentParams>,
) -> JsonResult<HostAgent> {
    managed::spawn(&state.service, &caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

/// Send a message to an agent. It is queued while a turn runs, and restarts an agent that ended.
#[utoipa::path(post, path = "/api/v1/agents/{id}/prompt", params(("id" = String, Path)), request_body = wire::PromptBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "the host does not run it")))]
async fn prompt_agent(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::PromptBody>,
) -> JsonResult<HostAgent> {
    managed::prompt(&state.service, &caller, id, body)
        .await
        .map(|result| wire_json(&state, result))
}

/// List the messages that wait for an agent, oldest first. A long text is cut.
#[utoipa::path(get, path = "/api/v1/agents/{id}/messages", params(("id" = String, Path)),
    responses((status = 200, body = Vec<wire::QueuedMessageRow>), (status = 403, description = "not for agents, except its orchestrators"),
        (status = 404, description = "unknown agent"), (status = 409, description = "the host does not run it")))]
async fn queued_messages(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
) -> JsonResult<Vec<wire::QueuedMessageRow>> {
    managed::queued_messages(&state.service, &caller, &id)
        .await
        .map(|result| wire_json(&state, result))
}

/// Withdraw a message that waits for an agent. Once a turn has it, it cannot be withdrawn.
#[utoipa::path(delete, path = "/api/v1/agents/{id}/messages/{number}", params(("id" = String, Path), ("number" = u64, Path)),
    responses((status = 200, body = wire::WithdrawnMessage), (status = 403, description = "only for operators, and for the orchestrator that sent it"),
        (status = 404, description = "unknown agent"), (status = 409, description = "it no longer waits, or is not the caller's to withdraw")))]
async fn withdraw_message(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathIds(id, number): PathIds,
) -> JsonResult<wire::WithdrawnMessage> {
    let number = number.parse();
    let number = number.map_err(|_| {
        ApiError::plain(
            Reason::InvalidParams,
            "the message must be given by its number",
        )
    })?;
    managed::withdraw_message(&state.service, &caller, &id, number)
        .await
        .map(|result| wire_json(&state, result))
}

/// End an agent's turn.
#[utoipa::path(post, path = "/api/v1/agents/{id}/interrupt", params(("id" = String, Path)), request_body = wire::InterruptBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "no turn is running")))]
async fn interrupt_agent(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::InterruptBody>,
) -> JsonResult<HostAgent> {
    managed::interrupt(&state.service, &caller, id, body)
        .await
        .map(|result| wire_json(&state, result))
}

/// End an agent and everything it started.
#[utoipa::path(post, path = "/api/v1/agents/{id}/kill", params(("id" = String, Path), ("children" = Option<wire::ChildrenFate>, Query, description = "`end` or `keep`: what happens to running descendants")),
    responses((status = 200, body = HostAgent), (status = 403, description = "only for operators and its orchestrators"),
        (status = 404, description = "unknown agent"), (status = 409, description = "descendants of it run, and `children` is missing")))]
async fn kill_agent(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    QueryParams(body): QueryParams<wire::KillBody>,
) -> JsonResult<HostAgent> {
    managed::kill(&state.service, &caller, id, body)
        .await
        .map(|result| wire_json(&state, result))
}

/// Let an orchestrator approve some asks of its descendants.
#[utoipa::path(put, path = "/api/v1/agents/{id}/ceiling", params(("id" = String, Path)), request_body = wire::CeilingBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "it is not an orchestrator"), (status = 422, description = "a rule that cannot be read")))]
async fn set_ceiling(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::CeilingBody>,
) -> JsonResult<HostAgent> {
    managed::set_ceiling(&state.service, &caller, id, body)
        .await
        .map(|result| wire_json(&state, result))
}

/// Start an ended agent again in its session.
#[utoipa::path(post, path = "/api/v1/agents/{id}/resume", params(("id" = String, Path)),
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "it has no session to resume")))]
async fn resume_agent(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
) -> JsonResult<HostAgent> {
    managed::resume(&state.service, &caller, id)
        .await
        .map(|result| wire_json(&state, result))
}

/// Start a second agent from a copy of this one's session.
#[utoipa::path(post, path = "/api/v1/agents/{id}/fork", params(("id" = String, Path)), request_body = wire::ForkBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "its session cannot be copied")))]
async fn fork_agent(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::ForkBody>,
) -> JsonResult<HostAgent> {
    managed::fork(&state.service, &caller, id, body)
        .await
        .map(|result| wire_json(&state, result))
}

/// Archive an agent, or restore it.
#[utoipa::path(put, path = "/api/v1/agents/{id}/archived", params(("id" = String, Path)), request_body = wire::ArchiveBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent")))]
async fn archive_agent(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::ArchiveBody>,
) -> JsonResult<HostAgent> {
    managed::archive(&state.service, &caller, id, body)
        .await
        .map(|result| wire_json(&state, result))
}

/// Rename an agent.
#[utoipa::path(put, path = "/api/v1/agents/{id}/name", params(("id" = String, Path)), request_body = wire::RenameBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "another agent has the name")))]
async fn rename_agent(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::RenameBody>,
) -> JsonResult<HostAgent> {
    managed::rename(&state.service, &caller, id, body)
        .await
        .map(|result| wire_json(&state, result))
}

/// Change an agent's mode or model, now and for later runs.
#[utoipa::path(put, path = "/api/v1/agents/{id}/configuration", params(("id" = String, Path)), request_body = wire::ConfigureBody,
    responses((status = 200, body = HostAgent), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent")))]
async fn configure_agent(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::ConfigureBody>,
) -> JsonResult<HostAgent> {
    managed::configure(&state.service, &caller, id, body)
        .await
        .map(|result| wire_json(&state, result))
}

/// Wait until an agent is idle, has started, has ended, or has finished a turn. Without `wait` there is no time limit.
#[utoipa::path(get, path = "/api/v1/agents/{id}/wait", params(("id" = String, Path), WaitQuery, wire::WaitGoalQuery),
    responses((status = 200, body = wire::WaitAgentsResult), (status = 403, description = "not for agents"),
        (status = 404, description = "unknown agent")))]
async fn wait_agent(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    QueryParams(query): QueryParams<WaitQuery>,
    QueryParams(goal): QueryParams<wire::WaitGoalQuery>,
) -> JsonResult<wire::WaitAgentsResult> {
    let limit = query.limit()?;
    let timeout_ms = limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    let params = wire::WaitAgentsParams {
        agent_id: Some(id),
        agent_ids: None,
        until: goal.until,
        turn: goal.turn,
        run: goal.run,
        timeout_ms,
    };
    managed::wait(&state.service, &caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

/// Read an agent's transcript, oldest entry first.
#[utoipa::path(get, path = "/api/v1/agents/{id}/transcript", params(("id" = String, Path), wire::TranscriptQuery),
    responses((status = 200, body = wire::TranscriptResult), (status = 403, description = "not for agents"),
        (status = 404, description = "unknown agent")))]
async fn transcript(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    QueryParams(query): QueryParams<wire::TranscriptQuery>,
) -> JsonResult<wire::TranscriptResult> {
    managed::transcript(&state.service, &caller, id, query)
        .await
        .map(|result| wire_json(&state, result))
}

/// Show what an agent changed since its worktree was created, as text or as hunks.
#[utoipa::path(get, path = "/api/v1/agents/{id}/diff", params(("id" = String, Path), wire::DiffQuery),
    responses((status = 200, body = wire::AgentDiff), (status = 403, description = "not for agents"),
        (status = 404, description = "unknown agent"), (status = 409, description = "it has no worktree")))]
async fn diff(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    QueryParams(query): QueryParams<wire::DiffQuery>,
) -> JsonResult<wire::AgentDiff> {
    managed::diff(&state.service, &caller, id, query)
        .await
        .map(|result| wire_json(&state, result))
}

/// Remove an agent's worktree. A worktree with uncommitted work is kept, unless `discard` is true.
#[utoipa::path(delete, path = "/api/v1/agents/{id}/worktree", params(("id" = String, Path), wire::RemoveWorktreeQuery),
    responses((status = 200, body = wire::RemovedWorktree), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "it is still running, or has no worktree")))]
async fn remove_worktree(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    QueryParams(query): QueryParams<wire::RemoveWorktreeQuery>,
) -> JsonResult<wire::RemovedWorktree> {
    managed::remove_worktree(&state.service, &caller, id, &query)
        .await
        .map(|result| wire_json(&state, result))
}

/// Merge what an agent committed in its worktree into another branch. With conflicts nothing is changed.
#[utoipa::path(post, path = "/api/v1/agents/{id}/worktree/merge", params(("id" = String, Path)),
    request_body = wire::MergeWorktreeBody,
    responses((status = 200, body = wire::MergedWorktree), (status = 403, description = "operators only"),
        (status = 404, description = "unknown agent"), (status = 409, description = "it has no worktree")))]
async fn merge_worktree(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::MergeWorktreeBody>,
) -> JsonResult<wire::MergedWorktree> {
    managed::merge_worktree(&state.service, &caller, id, body)
        .await
        .map(|result| wire_json(&state, result))
}

/// List the known kinds of agent, and which of them are installed.
#[utoipa::path(get, path = "/api/v1/catalog",
    responses((status = 200, body = Vec<wire::CatalogRow>), (status = 403, description = "not for agents")))]
async fn catalog(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> JsonResult<Vec<wire::CatalogRow>> {
    managed::catalog(&state.service, &caller).map(|result| wire_json(&state, result))
}

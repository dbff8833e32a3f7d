//! Approvals, over REST.

use std::sync::Arc;

use axum::extract::State;
use countersign_protocol as wire;
use countersign_protocol::HostApproval;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{AuthenticatedCaller, JsonBody, JsonResult, PathId, QueryParams, WaitQuery, wire_json};
use crate::ServerState;
use crate::ops;
use crate::ops::approvals::AskerReply;

/// The routes about approvals.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list_approvals, request_approval))
        .routes(routes!(get_approval))
        .routes(routes!(resolve_approval))
        .routes(routes!(resolve_approvals))
        .routes(routes!(cancel_approval))
        .routes(routes!(dismiss_approval))
}

/// List approvals, newest first. Without filters: all that are pending and the newest that ended.
#[utoipa::path(get, path = "/api/v1/approvals", params(wire::ListParams),
    responses((status = 200, body = Vec<HostApproval>), (status = 404, description = "`after` is not the id of an approval"),
        (status = 409, description = "`agent_id` fits more than one agent")))]
async fn list_approvals(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    QueryParams(query): QueryParams<wire::ListParams>,
) -> JsonResult<Vec<HostApproval>> {
    ops::approvals::list(&state.service, &caller, query)
        .await
        .map(|result| wire_json(&state, result))
}

/// Get an approval by its id or an unambiguous abbreviation. With `wait`, the reply comes when it has ended.
#[utoipa::path(get, path = "/api/v1/approvals/{id}", params(("id" = String, Path), WaitQuery),
    responses((status = 200, body = HostApproval), (status = 404, description = "unknown approval")))]
async fn get_approval(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    QueryParams(query): QueryParams<WaitQuery>,
) -> JsonResult<HostApproval> {
    let approval = match query.limit()? {
        None => ops::approvals::load(&state.service, &caller, id).await?,
        limit => ops::approvals::wait(&state.service, &caller, id, limit).await?,
    };
    Ok(wire_json(&state, approval))
}

/// Ask for permission. With `wait`, the reply contains the answer if it is given in time.
#[utoipa::path(post, path = "/api/v1/approvals", params(WaitQuery), request_body = wire::RequestApprovalParams,
    responses((status = 200, body = HostApproval), (status = 409, description = "the key was used for another request"),
        (status = 413, description = "too large"), (status = 429, description = "too many are open")))]
async fn request_approval(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    QueryParams(query): QueryParams<WaitQuery>,
    JsonBody(params): JsonBody<wire::RequestApprovalParams>,
) -> JsonResult<HostApproval> {
    let limit = query.limit()?;
    let approval = ops::approvals::request(&state.service, caller.clone(), params).await?;
    if limit.is_none() || !approval.is_pending() {
        return Ok(wire_json(&state, AskerReply(approval)));
    }
    let id = approval.ask.id.to_string();
    ops::approvals::wait(&state.service, &caller, id, limit)
        .await
        .map(|result| wire_json(&state, AskerReply(result)))
}

/// Answer an ask. Repeating the same answer succeeds; a different one is refused with who answered, and when.
#[utoipa::path(post, path = "/api/v1/approvals/{id}/resolution", params(("id" = String, Path)),
    request_body = wire::ResolutionBody,
    responses((status = 200, body = HostApproval), (status = 403, description = "agents and observers cannot answer"),
        (status = 404, description = "unknown approval"), (status = 409, description = "already resolved, or its owner is not connected"),
        (status = 422, description = "not one of the options")))]
async fn resolve_approval(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::ResolutionBody>,
) -> JsonResult<HostApproval> {
    ops::approvals::resolve(&state.service, caller, id, body)
        .await
        .map(|result| wire_json(&state, result))
}

/// Answer several asks. Each answer is a decision of its own and has a result of its own.
#[utoipa::path(post, path = "/api/v1/approvals/resolutions", request_body = wire::AnswerApprovalsParams,
    responses((status = 200, body = wire::AnsweredApprovals), (status = 429, description = "too many answers")))]
async fn resolve_approvals(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(params): JsonBody<wire::AnswerApprovalsParams>,
) -> JsonResult<wire::AnsweredApprovals> {
    ops::approvals::resolve_all(&state.service, caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

/// Withdraw an ask.
#[utoipa::path(post, path = "/api/v1/approvals/{id}/cancel", params(("id" = String, Path)),
    responses((status = 200, body = HostApproval), (status = 403, description = "not yours"),
        (status = 404, description = "unknown approval")))]
async fn cancel_approval(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
) -> JsonResult<HostApproval> {
    ops::approvals::cancel(&state.service, caller, id, None)
        .await
        .map(|result| wire_json(&state, result))
}

/// Remove an ended ask from the list.
#[utoipa::path(post, path = "/api/v1/approvals/{id}/dismissal", params(("id" = String, Path)),
    responses((status = 200, body = HostApproval), (status = 409, description = "still pending")))]
async fn dismiss_approval(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
) -> JsonResult<HostApproval> {
    ops::approvals::dismiss(&state.service, caller, id)
        .await
        .map(|result| wire_json(&state, result))
}

//! Approvals, over REST.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use countersign_protocol as wire;
use countersign_protocol::{HostApproval, HostApprovalState};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Authenticated, JsonBody, JsonResult, PathId, QueryParams, WaitQuery};
use crate::ServerState;
use crate::ops;

/// The routes about approvals.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list_approvals, request_approval))
        .routes(routes!(get_approval))
        .routes(routes!(resolve_approval))
        .routes(routes!(cancel_approval))
        .routes(routes!(dismiss_approval))
}

/// Approvals, newest first: all that are pending and the newest that ended, or what the query names.
#[utoipa::path(get, path = "/api/v1/approvals", params(wire::ListParams),
    responses((status = 200, body = Vec<HostApproval>), (status = 404, description = "`after` names no approval")))]
async fn list_approvals(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    QueryParams(query): QueryParams<wire::ListParams>,
) -> JsonResult<Vec<HostApproval>> {
    ops::approvals(&state.service, &caller, query)
        .await
        .map(Json)
}

/// One approval, by its id or an unambiguous abbreviation; with `wait`, when it has ended.
#[utoipa::path(get, path = "/api/v1/approvals/{id}", params(("id" = String, Path), WaitQuery),
    responses((status = 200, body = HostApproval), (status = 404, description = "unknown approval")))]
async fn get_approval(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    QueryParams(query): QueryParams<WaitQuery>,
) -> JsonResult<HostApproval> {
    match query.limit()? {
        None => ops::approval(&state.service, &caller, id).await.map(Json),
        limit => ops::wait_approval(&state.service, &caller, id, limit)
            .await
            .map(Json),
    }
}

/// Ask for permission. With `wait`, the answer comes in the same reply if it is given in time.
#[utoipa::path(post, path = "/api/v1/approvals", params(WaitQuery), request_body = wire::RequestApprovalParams,
    responses((status = 200, body = HostApproval), (status = 409, description = "the key was used for another request"),
        (status = 413, description = "too large"), (status = 429, description = "too many are open")))]
async fn request_approval(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    QueryParams(query): QueryParams<WaitQuery>,
    JsonBody(params): JsonBody<wire::RequestApprovalParams>,
) -> JsonResult<HostApproval> {
    let limit = query.limit()?;
    let row = ops::request_approval(&state.service, caller.clone(), None, params).await?;
    if limit.is_none() || row.state != HostApprovalState::Pending {
        return Ok(Json(row));
    }
    ops::wait_approval(&state.service, &caller, row.id, limit)
        .await
        .map(Json)
}

/// Answer an ask. The same answer twice is a success; a different one is refused with who and when.
#[utoipa::path(post, path = "/api/v1/approvals/{id}/resolution", params(("id" = String, Path)),
    request_body = wire::ResolutionBody,
    responses((status = 200, body = HostApproval), (status = 403, description = "agents and observers cannot answer"),
        (status = 404, description = "unknown approval"), (status = 409, description = "already resolved, or its owner is away"),
        (status = 422, description = "not one of the options")))]
async fn resolve_approval(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::ResolutionBody>,
) -> JsonResult<HostApproval> {
    ops::resolve_approval(&state.service, caller, id, body)
        .await
        .map(Json)
}

/// Take an ask back.
#[utoipa::path(post, path = "/api/v1/approvals/{id}/cancel", params(("id" = String, Path)),
    responses((status = 200, body = HostApproval), (status = 403, description = "not yours"),
        (status = 404, description = "unknown approval")))]
async fn cancel_approval(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
) -> JsonResult<HostApproval> {
    ops::cancel_approval(&state.service, caller, id, None)
        .await
        .map(Json)
}

/// Take an ended ask off the list.
#[utoipa::path(post, path = "/api/v1/approvals/{id}/dismissal", params(("id" = String, Path)),
    responses((status = 200, body = HostApproval), (status = 409, description = "still pending")))]
async fn dismiss_approval(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
) -> JsonResult<HostApproval> {
    ops::dismiss_approval(&state.service, caller, id)
        .await
        .map(Json)
}

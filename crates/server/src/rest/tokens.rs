//! Tokens, over REST.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use countersign_protocol as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{AuthenticatedCaller, JsonBody, JsonResult, PathId, wire_json};
use crate::ServerState;
use crate::api_error::ApiError;
use crate::ops;

/// The routes about tokens.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list_tokens, create_token))
        .routes(routes!(revoke_token))
}

/// List valid tokens.
#[utoipa::path(get, path = "/api/v1/tokens", responses((status = 200, body = Vec<wire::TokenRow>)))]
async fn list_tokens(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> JsonResult<Vec<wire::TokenRow>> {
    ops::tokens::list(&state.service, &caller)
        .await
        .map(|result| wire_json(&state, result))
}

/// Create a token. It is shown only in this reply and expires after an hour, or after `ttl_ms` (at most 90 days).
#[utoipa::path(post, path = "/api/v1/tokens", request_body = wire::CreateTokenParams,
    responses((status = 200, body = wire::NewToken),
        (status = 400, description = "an unknown role, or a time that is zero or beyond 90 days"),
        (status = 403, description = "operators only")))]
async fn create_token(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(params): JsonBody<wire::CreateTokenParams>,
) -> JsonResult<wire::NewToken> {
    ops::tokens::create(&state.service, caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

/// Revoke a token.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", params(("id" = String, Path)),
    responses((status = 204, description = "gone"), (status = 404, description = "unknown token")))]
async fn revoke_token(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    PathId(id): PathId,
) -> Result<StatusCode, ApiError> {
    ops::tokens::revoke(&state.service, caller, id)
        .await
        .map(|()| StatusCode::NO_CONTENT)
}

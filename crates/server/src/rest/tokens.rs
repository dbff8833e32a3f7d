//! Tokens, over REST.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use countersign_protocol as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Authenticated, JsonBody, JsonResult, PathId};
use crate::ServerState;
use crate::api_error::ApiError;
use crate::ops;

/// The routes about tokens.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new()
        .routes(routes!(list_tokens, create_token))
        .routes(routes!(revoke_token))
}

/// Tokens that are valid.
#[utoipa::path(get, path = "/api/v1/tokens", responses((status = 200, body = Vec<wire::TokenRow>)))]
async fn list_tokens(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
) -> JsonResult<Vec<wire::TokenRow>> {
    ops::tokens(&state.service, &caller).await.map(Json)
}

/// Make a token. It is shown this once, and it ends: after an hour, or `ttl_ms` of at most 90 days.
#[utoipa::path(post, path = "/api/v1/tokens", request_body = wire::CreateTokenParams,
    responses((status = 200, body = wire::NewToken),
        (status = 400, description = "an unknown role, or a time that is zero or beyond 90 days"),
        (status = 403, description = "operators only")))]
async fn create_token(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    JsonBody(params): JsonBody<wire::CreateTokenParams>,
) -> JsonResult<wire::NewToken> {
    ops::create_token(&state.service, caller, params)
        .await
        .map(Json)
}

/// Withdraw a token.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", params(("id" = String, Path)),
    responses((status = 204, description = "gone"), (status = 404, description = "unknown token")))]
async fn revoke_token(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
) -> Result<StatusCode, ApiError> {
    ops::revoke_token(&state.service, caller, id)
        .await
        .map(|()| StatusCode::NO_CONTENT)
}

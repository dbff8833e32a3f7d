//! Hooks over REST, on the Unix socket alone.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use countersign_protocol as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{JsonBody, JsonResult, PathId, check_shape, connection, shown_token};
use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::{CallerConnection, auth_required};
use crate::ops::hook;
use crate::strict;

/// The routes about hooks.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new().routes(routes!(serve_hook))
}

/// A connection on the Unix socket. Others are sent away before anything of theirs is read.
struct UnixConnection(Arc<CallerConnection>);

impl<S: Send + Sync> FromRequestParts<S> for UnixConnection {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let connection = connection(parts)?;
        if connection.is_unix() {
            check_shape(parts)?;
            return Ok(Self(connection));
        }
        match shown_token(parts)? {
            None => Err(auth_required()),
            Some(_) => Err(hook::by_the_socket_alone()),
        }
    }
}

/// One event of a session that the host did not start, from a hook of its tool. An ask is answered
/// when a rule or a person has decided, or when the hook's time is over.
#[utoipa::path(post, path = "/api/v1/hooks/{tool}", params(("tool" = String, Path, description = "`claude`")),
    request_body = wire::HookParams,
    responses((status = 200, body = wire::HookResult), (status = 401, description = "not by the Unix socket"),
        (status = 403, description = "no agent runs this hook"), (status = 413, description = "too large"),
        (status = 429, description = "too many are open"), (status = 503, description = "the host is ending")))]
async fn serve_hook(
    State(state): State<Arc<ServerState>>,
    UnixConnection(connection): UnixConnection,
    PathId(tool): PathId,
    JsonBody(mut params): JsonBody<wire::HookParams>,
) -> JsonResult<wire::HookResult> {
    if params.hook.replace(tool).is_some() {
        return Err(strict::unknown_field("hook"));
    }
    hook::hook(&state, &connection, params).await.map(Json)
}

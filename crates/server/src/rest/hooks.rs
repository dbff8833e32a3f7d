//! Hooks over REST, only on the Unix socket.

use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use countersign_protocol as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{JsonBody, JsonResult, PathId, check_shape, connection, shown_token, wire_json};
use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::{CallerConnection, auth_required};
use crate::ops::hook;
use crate::strict;

/// The routes about hooks.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new().routes(routes!(serve_hook))
}

/// Extracts a connection on the Unix socket, and refuses others before their body is parsed.
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

/// Report an event of a session that the host did not start. An ask is answered
/// when a rule or a person has decided, or when the hook's time is over.
#[utoipa::path(post, path = "/api/v1/hooks/{tool}", params(("tool" = String, Path, description = "`claude`")),
    request_body = wire::HookParams,
    responses((status = 200, body = wire::HookResult), (status = 401, description = "not over the Unix socket"),
        (status = 403, description = "not run by an agent"), (status = 413, description = "too large"),
        (status = 429, description = "too many are open"), (status = 503, description = "the host is ending")))]
async fn serve_hook(
    State(state): State<Arc<ServerState>>,
    UnixConnection(connection): UnixConnection,
    PathId(tool): PathId,
    JsonBody(mut params): JsonBody<wire::HookParams>,
) -> JsonResult<wire::HookResult> {
    // The path says which tool it is; a second name in the body could differ.
    if params.hook.replace(tool).is_some() {
        return Err(strict::unknown_field("hook"));
    }
    let result = hook::hook(&state, &connection, params).await?;
    // It may have waited, and the answer is for the agent that asked. A first hook comes from a
    // process that was no agent yet, so the agent is compared and not the caller.
    let authenticator = &state.authenticator;
    authenticator
        .confirm_agent(&connection, &result.agent_id)
        .await?;
    Ok(wire_json(&state, result))
}

//! Hooks over REST, on the Unix socket alone.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use countersign_protocol as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Answer, Body, CallerOnConnection};
use crate::Doors;
use crate::ops::hook;

/// The routes about hooks.
pub(super) fn router() -> OpenApiRouter<Arc<Doors>> {
    OpenApiRouter::new().routes(routes!(serve_hook))
}

/// One event of a session that the host did not start, from a hook of its tool. An ask is answered
/// when a rule or a person has decided, or when the hook's time is over.
#[utoipa::path(post, path = "/api/v1/hooks/{tool}", params(("tool" = String, Path, description = "`claude`")),
    request_body = wire::HookParams,
    responses((status = 200, body = wire::HookResult), (status = 401, description = "not by the Unix socket"),
        (status = 403, description = "no agent runs this hook"), (status = 413, description = "too large"),
        (status = 429, description = "too many are open"), (status = 503, description = "the host is ending")))]
async fn serve_hook(
    State(doors): State<Arc<Doors>>,
    CallerOnConnection(connection): CallerOnConnection,
    Path(tool): Path<String>,
    Body(params): Body<wire::HookParams>,
) -> Answer<wire::HookResult> {
    hook::hook(&doors, &connection, &tool, params)
        .await
        .map(Json)
}

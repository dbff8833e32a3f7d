//! REST under `/api/v1`, described by the document it generates, with events by SSE.

mod agent_files;
mod agents;
mod approvals;
mod caller;
pub(crate) mod document;
mod events;
mod extract;
mod hooks;
mod managed;
mod own_terminals;
mod questions;
mod rules;
mod search;
mod terminals;
mod tokens;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use countersign_protocol as wire;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use caller::{AuthenticatedCaller, AuthenticatedReader};
pub(crate) use caller::{RequestConnection, bearer, connection, door, shown_token};
use extract::{JsonBody, PathIds, QueryParams, WaitQuery, check_shape};
pub(crate) use extract::{PathId, refuse_body};

use crate::ServerState;
use crate::api_error::ApiError;
use crate::convert::{AgentNames, IntoWire};
use crate::ops;

#[derive(OpenApi)]
#[openapi(
    info(title = "Countersign", description = "One host for many AI agents: asks, answers, events."),
    modifiers(&BearerScheme),
    // The last three are only sent over the socket; who writes a client of it finds them here as well.
    components(schemas(wire::ErrorBody, wire::ChildrenFate, wire::AskViewerRow, wire::HostSnapshot, wire::NotifyStatus))
)]
struct RestApi;

/// The security scheme in the document. The cookie of browsers is not part of the API.
struct BearerScheme;

impl utoipa::Modify for BearerScheme {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        use utoipa::openapi::security::{
            HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
        };
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        document.security = Some(vec![SecurityRequirement::new(
            "bearer",
            Vec::<String>::new(),
        )]);
    }
}

/// The routes and the document that describes them, from one place.
pub(crate) fn router() -> (axum::Router<Arc<ServerState>>, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(RestApi::openapi())
        .routes(routes!(get_status))
        .routes(routes!(stop_all))
        .merge(agents::router())
        .merge(approvals::router())
        .merge(questions::router())
        .merge(events::router())
        .merge(tokens::router())
        .merge(rules::router())
        .merge(managed::router())
        .merge(search::router())
        .merge(terminals::router())
        .merge(agent_files::router())
        .merge(own_terminals::router())
        .merge(hooks::router())
        .split_for_parts()
}

type JsonResult<T> = Result<Json<T>, ApiError>;

/// The body of a reply: the result of an operation, in its form on the wire.
fn wire_json<T: IntoWire>(state: &ServerState, result: T) -> Json<T::Wire> {
    Json(result.into_wire(AgentNames::of(&state.service)))
}

/// Get the status of the host.
#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = wire::HostStatus)))]
async fn get_status(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> JsonResult<wire::HostStatus> {
    state
        .status(&caller)
        .await
        .map(|result| wire_json(&state, result))
}

/// Deny everything open and interrupt every agent.
#[utoipa::path(post, path = "/api/v1/stop", responses((status = 200, body = wire::StopAllResult)))]
async fn stop_all(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
) -> JsonResult<wire::StopAllResult> {
    ops::approvals::stop_all(&state.service, caller)
        .await
        .map(|result| wire_json(&state, result))
}

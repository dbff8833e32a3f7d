//! REST under `/api/v1`, described by the document it generates, with events by SSE.

pub(crate) mod document;
mod extract;
mod hooks;
mod managed;
mod rules;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{FromRef, FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use countersign_core::{AgentId, Caller, Seq};
use countersign_daemon::{EventFilter, Subscription};
use countersign_protocol as wire;
use countersign_protocol::{HostAgent, HostApproval, HostEvent, HostQuestion, Reason};
use futures_util::StreamExt as _;
use futures_util::stream;
use serde::Deserialize;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use extract::{JsonBody, QueryParams, check_shape};
pub(crate) use extract::{PathId, refuse_body};

use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::{CallerConnection, CallerIdentity};
use crate::events;
use crate::ops;
use crate::origin_guard::require_own_page;
use crate::recheck_caller::RequestIdentity;
use crate::web::COOKIE;

#[derive(OpenApi)]
#[openapi(
    info(title = "Countersign", description = "One host for many AI agents: asks, answers, events."),
    modifiers(&BearerScheme),
    components(schemas(wire::ErrorBody, wire::ChildrenFate))
)]
struct RestApi;

/// The one way in that scripts use; the browser's cookie is its own affair.
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
        .routes(routes!(list_agents, register_agent))
        .routes(routes!(get_agent, unregister_agent))
        .routes(routes!(set_status))
        .routes(routes!(list_approvals, request_approval))
        .routes(routes!(get_approval))
        .routes(routes!(resolve_approval))
        .routes(routes!(cancel_approval))
        .routes(routes!(dismiss_approval))
        .routes(routes!(list_questions, ask_question))
        .routes(routes!(get_question))
        .routes(routes!(answer_question))
        .routes(routes!(list_events, notify))
        .routes(routes!(list_tokens, create_token))
        .routes(routes!(revoke_token))
        .routes(routes!(get_status))
        .routes(routes!(stop_all))
        .merge(rules::router())
        .merge(managed::router())
        .merge(hooks::router())
        .split_for_parts()
}

/// A caller that has shown who it is.
pub(crate) struct Authenticated(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for Authenticated
where
    Arc<ServerState>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let reader = AuthenticatedReader::from_request_parts(parts, state).await?;
        Ok(Self(reader.caller()))
    }
}

/// A caller and what it takes to find out later whether it may still read.
struct AuthenticatedReader {
    connection: Arc<CallerConnection>,
    identity: CallerIdentity,
}

impl AuthenticatedReader {
    fn caller(&self) -> Caller {
        ops::caller(&self.identity.principal, None)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AuthenticatedReader
where
    Arc<ServerState>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let state = Arc::<ServerState>::from_ref(state);
        let connection = connection(parts)?;
        let shown = shown_token(parts)?;
        let identity = state
            .authenticator
            .identify(&connection, shown.map(Arc::from))
            .await?;
        if let Some(kept) = parts.extensions.get::<RequestIdentity>() {
            kept.set(&identity);
        }
        check_shape(parts)?;
        Ok(Self {
            connection,
            identity,
        })
    }
}

/// The connection a request came through, whoever is at its other end.
pub(crate) struct RequestConnection(pub(crate) Arc<CallerConnection>);

impl<S: Send + Sync> FromRequestParts<S> for RequestConnection {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        connection(parts).map(Self)
    }
}

pub(crate) fn connection(parts: &Parts) -> Result<Arc<CallerConnection>, ApiError> {
    let connection = parts.extensions.get::<Arc<CallerConnection>>().cloned();
    connection.ok_or_else(|| ApiError::plain(Reason::AuthFailed, "the connection is not known"))
}

/// The token in the header, or in our cookie if the request comes from our own page.
pub(crate) fn shown_token(parts: &Parts) -> Result<Option<String>, ApiError> {
    if let Some(token) = bearer(&parts.headers)? {
        return Ok(Some(token));
    }
    let cookie = cookie(&parts.headers);
    if cookie.is_some() {
        require_own_page(&parts.method, &parts.headers)?;
    }
    Ok(cookie)
}

/// The token in the header.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Ok(None);
    };
    let bearer = value
        .to_str()
        .ok()
        .and_then(|value| value.strip_prefix("Bearer "));
    let words = "auth failed: the `Authorization` header must be `Bearer TOKEN`";
    bearer
        .map(|token| Some(token.trim().to_owned()))
        .ok_or_else(|| ApiError::plain(Reason::AuthFailed, words))
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let cookies = headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut pairs = cookies
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value.to_owned())
}

type JsonResult<T> = Result<Json<T>, ApiError>;

/// All agents, by name.
#[utoipa::path(get, path = "/api/v1/agents", responses((status = 200, body = Vec<HostAgent>)))]
async fn list_agents(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
) -> JsonResult<Vec<HostAgent>> {
    ops::agents(&state.service, &caller).await.map(Json)
}

/// Register an agent.
#[utoipa::path(post, path = "/api/v1/agents", request_body = wire::RegisterAgentParams,
    responses((status = 200, body = HostAgent), (status = 409, description = "owned by another connection")))]
async fn register_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    JsonBody(params): JsonBody<wire::RegisterAgentParams>,
) -> JsonResult<HostAgent> {
    ops::register_agent(&state.service, caller, params)
        .await
        .map(Json)
}

/// One agent.
#[utoipa::path(get, path = "/api/v1/agents/{id}", params(("id" = String, Path)),
    responses((status = 200, body = HostAgent), (status = 404, description = "unknown agent")))]
async fn get_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
) -> JsonResult<HostAgent> {
    ops::agent(&state.service, &caller, id).await.map(Json)
}

/// Take an agent off the list.
#[utoipa::path(delete, path = "/api/v1/agents/{id}", params(("id" = String, Path)),
    responses((status = 204, description = "gone"), (status = 404, description = "unknown agent")))]
async fn unregister_agent(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
) -> Result<StatusCode, ApiError> {
    ops::unregister_agent(&state.service, caller, id)
        .await
        .map(|()| StatusCode::NO_CONTENT)
}

/// Say what an agent does.
#[utoipa::path(put, path = "/api/v1/agents/{id}/status", params(("id" = String, Path)), request_body = wire::StatusBody,
    responses((status = 200, body = HostAgent), (status = 404, description = "unknown agent")))]
async fn set_status(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::StatusBody>,
) -> JsonResult<HostAgent> {
    ops::set_status(&state.service, caller, id, body)
        .await
        .map(Json)
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

/// How long to wait: `30`, `30s`, `500ms`, `5m`.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct WaitQuery {
    /// Wait until it ends, at most this long; then it is given as it is.
    #[serde(default)]
    #[param(pattern = "^[0-9]+(ms|s|m|h)?$")]
    wait: Option<String>,
}

impl WaitQuery {
    fn limit(&self) -> Result<Option<Duration>, ApiError> {
        let Some(text) = self.wait.as_deref() else {
            return Ok(None);
        };
        let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
        let unit = match &text[digits.len()..] {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => 0,
        };
        let limit = digits
            .parse::<u64>()
            .ok()
            .filter(|_| unit > 0 && digits.bytes().all(|digit| digit.is_ascii_digit()))
            .and_then(|number| number.checked_mul(unit));
        let words = "`wait` is a time like 30s, 500ms or 5m";
        limit
            .map(|ms| Some(Duration::from_millis(ms)))
            .ok_or_else(|| ApiError::plain(Reason::InvalidParams, words))
    }
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
    if limit.is_none() || row.status != "pending" {
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

/// Questions, newest first.
#[utoipa::path(get, path = "/api/v1/questions", params(wire::ListParams),
    responses((status = 200, body = Vec<HostQuestion>), (status = 404, description = "`after` names no question")))]
async fn list_questions(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    QueryParams(query): QueryParams<wire::ListParams>,
) -> JsonResult<Vec<HostQuestion>> {
    ops::questions(&state.service, &caller, query)
        .await
        .map(Json)
}

/// Ask a question.
#[utoipa::path(post, path = "/api/v1/questions", request_body = wire::AskQuestionParams,
    responses((status = 200, body = HostQuestion), (status = 429, description = "too many are open")))]
async fn ask_question(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    JsonBody(params): JsonBody<wire::AskQuestionParams>,
) -> JsonResult<HostQuestion> {
    ops::ask_question(&state.service, caller, params)
        .await
        .map(Json)
}

/// One question; with `wait`, when it has ended.
#[utoipa::path(get, path = "/api/v1/questions/{id}", params(("id" = String, Path), WaitQuery),
    responses((status = 200, body = HostQuestion), (status = 404, description = "unknown question")))]
async fn get_question(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    QueryParams(query): QueryParams<WaitQuery>,
) -> JsonResult<HostQuestion> {
    match query.limit()? {
        None => ops::question(&state.service, &caller, id).await.map(Json),
        limit => ops::wait_question(&state.service, &caller, id, limit)
            .await
            .map(Json),
    }
}

/// Answer a question.
#[utoipa::path(post, path = "/api/v1/questions/{id}/answer", params(("id" = String, Path)),
    request_body = wire::AnswerBody,
    responses((status = 200, body = HostQuestion), (status = 403, description = "agents cannot answer"),
        (status = 404, description = "unknown question"), (status = 409, description = "already answered")))]
async fn answer_question(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::AnswerBody>,
) -> JsonResult<HostQuestion> {
    ops::answer_question(&state.service, caller, id, body.answer)
        .await
        .map(Json)
}

/// Events: as a list, or with `Accept: text/event-stream` live, going on after `Last-Event-ID`.
#[utoipa::path(get, path = "/api/v1/events", params(wire::EventsParams, ("Last-Event-ID" = Option<u64>, Header)),
    responses((status = 200, content((Vec<HostEvent> = "application/json"), (String = "text/event-stream")))))]
async fn list_events(
    State(state): State<Arc<ServerState>>,
    reader: AuthenticatedReader,
    headers: HeaderMap,
    QueryParams(params): QueryParams<wire::EventsParams>,
) -> Result<Response, ApiError> {
    let last = last_event(&headers)?;
    let caller = reader.caller();
    let streams = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    if streams.is_some_and(|accept| accept.contains("text/event-stream")) {
        let last = last.or(params.after);
        let after = last.map_or_else(|| state.service.head(), Seq);
        let filter = EventFilter {
            kinds: params.kinds.map(|kinds| kinds.0),
            agent: params.agent_id.map(AgentId::new),
        };
        let subscription = state.service.subscription(&caller, after, filter)?;
        return Ok(stream_events(state, reader, subscription).into_response());
    }
    ops::events(&state.service, &caller, params)
        .await
        .map(|events| Json(events).into_response())
}

/// The event after which a reader goes on.
fn last_event(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = value.to_str().ok().map(str::trim);
    let number = number.and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| {
        let message = "`Last-Event-ID` is the number of an event";
        ApiError::plain(Reason::InvalidParams, message)
    })
}

fn stream_events(
    state: Arc<ServerState>,
    reader: AuthenticatedReader,
    subscription: Subscription,
) -> Sse<impl futures_util::Stream<Item = Result<Event, Infallible>> + use<>> {
    let shutdown = state.shutdown.clone();
    let reading = EventPages {
        state,
        reader,
        subscription,
    };
    let pages = stream::unfold(reading, next_page);
    let events = pages
        .flat_map(stream::iter)
        .take_until(shutdown.cancelled_owned());
    Sse::new(events).keep_alive(KeepAlive::default())
}

/// A stream of events while it is read.
struct EventPages {
    state: Arc<ServerState>,
    reader: AuthenticatedReader,
    subscription: Subscription,
}

/// The next events; nothing, and with it the end, once the reader may not have them any more.
async fn next_page(
    mut reading: EventPages,
) -> Option<(Vec<Result<Event, Infallible>>, EventPages)> {
    let page = reading.subscription.next().await.ok()?;
    let AuthenticatedReader {
        connection,
        identity,
    } = &mut reading.reader;
    if !reading
        .state
        .authenticator
        .may_keep_reading(connection, identity)
        .await
    {
        return None;
    }
    let events = page.iter().map(|entry| {
        let json = events::event_json(&entry.wire(events::event_frame));
        let text = String::from_utf8_lossy(&json).into_owned();
        Ok(Event::default()
            .id(entry.committed.seq.to_string())
            .data(text))
    });
    Some((events.collect(), reading))
}

/// Tell everybody something.
#[utoipa::path(post, path = "/api/v1/events", request_body = wire::NotifyParams,
    responses((status = 200, body = HostEvent), (status = 403, description = "a kind of the host's own")))]
async fn notify(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
    JsonBody(params): JsonBody<wire::NotifyParams>,
) -> JsonResult<HostEvent> {
    ops::notify(&state.service, caller, params).await.map(Json)
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

/// The host at a glance.
#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = wire::HostStatus)))]
async fn get_status(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
) -> JsonResult<wire::HostStatus> {
    state.status(&caller).await.map(Json)
}

/// Deny everything open and interrupt every agent.
#[utoipa::path(post, path = "/api/v1/stop", responses((status = 200, body = wire::StopAllResult)))]
async fn stop_all(
    State(state): State<Arc<ServerState>>,
    Authenticated(caller): Authenticated,
) -> JsonResult<wire::StopAllResult> {
    ops::stop_all(&state.service, caller).await.map(Json)
}

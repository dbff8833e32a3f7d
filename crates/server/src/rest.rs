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
use countersign_daemon::{Filter, Subscription};
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

use crate::Doors;
use crate::auth::{Connection, Identity};
use crate::events;
use crate::fault::Fault;
use crate::guard::require_own_page;
use crate::look_again::RequestIdentity;
use crate::ops;
use crate::web::COOKIE;

#[derive(OpenApi)]
#[openapi(
    info(title = "Countersign", description = "One host for many AI agents: asks, answers, events."),
    modifiers(&Bearer),
    components(schemas(wire::ErrorBody, wire::ChildrenFate))
)]
struct Document;

/// The one way in that scripts use; the browser's cookie is its own affair.
struct Bearer;

impl utoipa::Modify for Bearer {
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
pub(crate) fn router() -> (axum::Router<Arc<Doors>>, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(Document::openapi())
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
pub(crate) struct Known(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for Known
where
    Arc<Doors>: FromRef<S>,
{
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let reader = Reader::from_request_parts(parts, state).await?;
        Ok(Self(reader.caller()))
    }
}

/// A caller and what it takes to find out later whether it may still read.
struct Reader {
    connection: Arc<Connection>,
    identity: Identity,
}

impl Reader {
    fn caller(&self) -> Caller {
        ops::caller(&self.identity.principal, None)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Reader
where
    Arc<Doors>: FromRef<S>,
{
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let doors = Arc::<Doors>::from_ref(state);
        let connection = connection(parts)?;
        let shown = shown_token(parts)?;
        let identity = doors
            .doorkeeper
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
pub(crate) struct CallerOnConnection(pub(crate) Arc<Connection>);

impl<S: Send + Sync> FromRequestParts<S> for CallerOnConnection {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Fault> {
        connection(parts).map(Self)
    }
}

pub(crate) fn connection(parts: &Parts) -> Result<Arc<Connection>, Fault> {
    let connection = parts.extensions.get::<Arc<Connection>>().cloned();
    connection.ok_or_else(|| Fault::plain(Reason::AuthFailed, "the connection is not known"))
}

/// The token in the header, or in our cookie if the request comes from our own page.
pub(crate) fn shown_token(parts: &Parts) -> Result<Option<String>, Fault> {
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
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<String>, Fault> {
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
        .ok_or_else(|| Fault::plain(Reason::AuthFailed, words))
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

type Answer<T> = Result<Json<T>, Fault>;

/// All agents, by name.
#[utoipa::path(get, path = "/api/v1/agents", responses((status = 200, body = Vec<HostAgent>)))]
async fn list_agents(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
) -> Answer<Vec<HostAgent>> {
    ops::agents(&doors.service, &caller).await.map(Json)
}

/// Register an agent.
#[utoipa::path(post, path = "/api/v1/agents", request_body = wire::RegisterAgentParams,
    responses((status = 200, body = HostAgent), (status = 409, description = "owned by another connection")))]
async fn register_agent(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    JsonBody(params): JsonBody<wire::RegisterAgentParams>,
) -> Answer<HostAgent> {
    ops::register_agent(&doors.service, caller, params)
        .await
        .map(Json)
}

/// One agent.
#[utoipa::path(get, path = "/api/v1/agents/{id}", params(("id" = String, Path)),
    responses((status = 200, body = HostAgent), (status = 404, description = "unknown agent")))]
async fn get_agent(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    PathId(id): PathId,
) -> Answer<HostAgent> {
    ops::agent(&doors.service, &caller, id).await.map(Json)
}

/// Take an agent off the list.
#[utoipa::path(delete, path = "/api/v1/agents/{id}", params(("id" = String, Path)),
    responses((status = 204, description = "gone"), (status = 404, description = "unknown agent")))]
async fn unregister_agent(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    PathId(id): PathId,
) -> Result<StatusCode, Fault> {
    ops::unregister_agent(&doors.service, caller, id)
        .await
        .map(|()| StatusCode::NO_CONTENT)
}

/// Say what an agent does.
#[utoipa::path(put, path = "/api/v1/agents/{id}/status", params(("id" = String, Path)), request_body = wire::StatusBody,
    responses((status = 200, body = HostAgent), (status = 404, description = "unknown agent")))]
async fn set_status(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::StatusBody>,
) -> Answer<HostAgent> {
    ops::set_status(&doors.service, caller, id, body)
        .await
        .map(Json)
}

/// Approvals, newest first: all that are pending and the newest that ended, or what the query names.
#[utoipa::path(get, path = "/api/v1/approvals", params(wire::ListParams),
    responses((status = 200, body = Vec<HostApproval>), (status = 404, description = "`after` names no approval")))]
async fn list_approvals(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    QueryParams(query): QueryParams<wire::ListParams>,
) -> Answer<Vec<HostApproval>> {
    ops::approvals(&doors.service, &caller, query)
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
    fn limit(&self) -> Result<Option<Duration>, Fault> {
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
            .ok_or_else(|| Fault::plain(Reason::InvalidParams, words))
    }
}

/// One approval, by its id or an unambiguous abbreviation; with `wait`, when it has ended.
#[utoipa::path(get, path = "/api/v1/approvals/{id}", params(("id" = String, Path), WaitQuery),
    responses((status = 200, body = HostApproval), (status = 404, description = "unknown approval")))]
async fn get_approval(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    PathId(id): PathId,
    QueryParams(query): QueryParams<WaitQuery>,
) -> Answer<HostApproval> {
    match query.limit()? {
        None => ops::approval(&doors.service, &caller, id).await.map(Json),
        limit => ops::wait_approval(&doors.service, &caller, id, limit)
            .await
            .map(Json),
    }
}

/// Ask for permission. With `wait`, the answer comes in the same reply if it is given in time.
#[utoipa::path(post, path = "/api/v1/approvals", params(WaitQuery), request_body = wire::RequestApprovalParams,
    responses((status = 200, body = HostApproval), (status = 409, description = "the key was used for another request"),
        (status = 413, description = "too large"), (status = 429, description = "too many are open")))]
async fn request_approval(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    QueryParams(query): QueryParams<WaitQuery>,
    JsonBody(params): JsonBody<wire::RequestApprovalParams>,
) -> Answer<HostApproval> {
    let limit = query.limit()?;
    let row = ops::request_approval(&doors.service, caller.clone(), None, params).await?;
    if limit.is_none() || row.status != "pending" {
        return Ok(Json(row));
    }
    ops::wait_approval(&doors.service, &caller, row.id, limit)
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
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::ResolutionBody>,
) -> Answer<HostApproval> {
    ops::resolve_approval(&doors.service, caller, id, body)
        .await
        .map(Json)
}

/// Take an ask back.
#[utoipa::path(post, path = "/api/v1/approvals/{id}/cancel", params(("id" = String, Path)),
    responses((status = 200, body = HostApproval), (status = 403, description = "not yours"),
        (status = 404, description = "unknown approval")))]
async fn cancel_approval(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    PathId(id): PathId,
) -> Answer<HostApproval> {
    ops::cancel_approval(&doors.service, caller, id, None)
        .await
        .map(Json)
}

/// Take an ended ask off the list.
#[utoipa::path(post, path = "/api/v1/approvals/{id}/dismissal", params(("id" = String, Path)),
    responses((status = 200, body = HostApproval), (status = 409, description = "still pending")))]
async fn dismiss_approval(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    PathId(id): PathId,
) -> Answer<HostApproval> {
    ops::dismiss_approval(&doors.service, caller, id)
        .await
        .map(Json)
}

/// Questions, newest first.
#[utoipa::path(get, path = "/api/v1/questions", params(wire::ListParams),
    responses((status = 200, body = Vec<HostQuestion>), (status = 404, description = "`after` names no question")))]
async fn list_questions(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    QueryParams(query): QueryParams<wire::ListParams>,
) -> Answer<Vec<HostQuestion>> {
    ops::questions(&doors.service, &caller, query)
        .await
        .map(Json)
}

/// Ask a question.
#[utoipa::path(post, path = "/api/v1/questions", request_body = wire::AskQuestionParams,
    responses((status = 200, body = HostQuestion), (status = 429, description = "too many are open")))]
async fn ask_question(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    JsonBody(params): JsonBody<wire::AskQuestionParams>,
) -> Answer<HostQuestion> {
    ops::ask_question(&doors.service, caller, params)
        .await
        .map(Json)
}

/// One question; with `wait`, when it has ended.
#[utoipa::path(get, path = "/api/v1/questions/{id}", params(("id" = String, Path), WaitQuery),
    responses((status = 200, body = HostQuestion), (status = 404, description = "unknown question")))]
async fn get_question(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    PathId(id): PathId,
    QueryParams(query): QueryParams<WaitQuery>,
) -> Answer<HostQuestion> {
    match query.limit()? {
        None => ops::question(&doors.service, &caller, id).await.map(Json),
        limit => ops::wait_question(&doors.service, &caller, id, limit)
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
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    PathId(id): PathId,
    JsonBody(body): JsonBody<wire::AnswerBody>,
) -> Answer<HostQuestion> {
    ops::answer_question(&doors.service, caller, id, body.answer)
        .await
        .map(Json)
}

/// Events: as a list, or with `Accept: text/event-stream` live, going on after `Last-Event-ID`.
#[utoipa::path(get, path = "/api/v1/events", params(wire::EventsParams, ("Last-Event-ID" = Option<u64>, Header)),
    responses((status = 200, content((Vec<HostEvent> = "application/json"), (String = "text/event-stream")))))]
async fn list_events(
    State(doors): State<Arc<Doors>>,
    reader: Reader,
    headers: HeaderMap,
    QueryParams(params): QueryParams<wire::EventsParams>,
) -> Result<Response, Fault> {
    let last = last_event(&headers)?;
    let caller = reader.caller();
    let streams = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    if streams.is_some_and(|accept| accept.contains("text/event-stream")) {
        ops::refuse_agents(&caller)?;
        return Ok(stream_events(doors, reader, last, params).into_response());
    }
    ops::events(&doors.service, &caller, params)
        .await
        .map(|events| Json(events).into_response())
}

/// The event after which a reader goes on.
fn last_event(headers: &HeaderMap) -> Result<Option<u64>, Fault> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = value.to_str().ok().map(str::trim);
    let number = number.and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| {
        let message = "`Last-Event-ID` is the number of an event";
        Fault::plain(Reason::InvalidParams, message)
    })
}

fn stream_events(
    doors: Arc<Doors>,
    reader: Reader,
    last: Option<u64>,
    params: wire::EventsParams,
) -> Sse<impl futures_util::Stream<Item = Result<Event, Infallible>> + use<>> {
    let last = last.or(params.after);
    let after = last.map_or_else(|| doors.service.head(), Seq);
    let filter = Filter {
        kinds: params.kinds.map(|kinds| kinds.0),
        agent: params.agent_id.map(AgentId::new),
    };
    let subscription = doors.service.subscription(after, filter);
    let ending = doors.ending.clone();
    let reading = Reading {
        doors,
        reader,
        subscription,
    };
    let pages = stream::unfold(reading, next_page);
    let events = pages
        .flat_map(stream::iter)
        .take_until(ending.cancelled_owned());
    Sse::new(events).keep_alive(KeepAlive::default())
}

/// A stream of events while it is read.
struct Reading {
    doors: Arc<Doors>,
    reader: Reader,
    subscription: Subscription,
}

/// The next events; nothing, and with it the end, once the reader may not have them any more.
async fn next_page(mut reading: Reading) -> Option<(Vec<Result<Event, Infallible>>, Reading)> {
    let page = reading.subscription.next().await.ok()?;
    let Reader {
        connection,
        identity,
    } = &mut reading.reader;
    if !reading
        .doors
        .doorkeeper
        .may_read_on(connection, identity)
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
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    JsonBody(params): JsonBody<wire::NotifyParams>,
) -> Answer<HostEvent> {
    ops::notify(&doors.service, caller, params).await.map(Json)
}

/// Tokens that are valid.
#[utoipa::path(get, path = "/api/v1/tokens", responses((status = 200, body = Vec<wire::TokenRow>)))]
async fn list_tokens(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
) -> Answer<Vec<wire::TokenRow>> {
    ops::tokens(&doors.service, &caller).await.map(Json)
}

/// Make a token. It is shown this once, and it ends: after an hour, or `ttl_ms` of at most 90 days.
#[utoipa::path(post, path = "/api/v1/tokens", request_body = wire::CreateTokenParams,
    responses((status = 200, body = wire::NewToken),
        (status = 400, description = "an unknown role, or a time that is zero or beyond 90 days"),
        (status = 403, description = "operators only")))]
async fn create_token(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    JsonBody(params): JsonBody<wire::CreateTokenParams>,
) -> Answer<wire::NewToken> {
    ops::create_token(&doors.service, caller, params)
        .await
        .map(Json)
}

/// Withdraw a token.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", params(("id" = String, Path)),
    responses((status = 204, description = "gone"), (status = 404, description = "unknown token")))]
async fn revoke_token(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
    PathId(id): PathId,
) -> Result<StatusCode, Fault> {
    ops::revoke_token(&doors.service, caller, id)
        .await
        .map(|()| StatusCode::NO_CONTENT)
}

/// The host at a glance.
#[utoipa::path(get, path = "/api/v1/status", responses((status = 200, body = wire::HostStatus)))]
async fn get_status(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
) -> Answer<wire::HostStatus> {
    doors.status(&caller).await.map(Json)
}

/// Deny everything open and interrupt every agent.
#[utoipa::path(post, path = "/api/v1/stop", responses((status = 200, body = wire::StopAllResult)))]
async fn stop_all(
    State(doors): State<Arc<Doors>>,
    Known(caller): Known,
) -> Answer<wire::StopAllResult> {
    ops::stop_all(&doors.service, caller).await.map(Json)
}

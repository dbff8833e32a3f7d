//! Events over REST: as a list, or live by SSE.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use countersign_core::Seq;
use countersign_daemon::{FeedEntry, Subscription};
use countersign_protocol as wire;
use countersign_protocol::{HostEvent, Reason};
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::sync::watch;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{
    AuthenticatedCaller, AuthenticatedReader, JsonBody, JsonResult, QueryParams, wire_json,
};
use crate::ServerState;
use crate::api_error::ApiError;
use crate::convert::AgentNames;
use crate::convert::approvals::RowForm;
use crate::events;
use crate::ops;

/// The routes about events.
pub(super) fn router() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new().routes(routes!(list_events, notify))
}

/// List events, or stream them live with `Accept: text/event-stream`, starting after `Last-Event-ID`.
#[utoipa::path(get, path = "/api/v1/events", params(wire::EventsParams, ("Last-Event-ID" = Option<u64>, Header)),
    responses((status = 200, content((Vec<HostEvent> = "application/json"), (String = "text/event-stream"))),
        (status = 409, description = "`agent_id` fits more than one agent")))]
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
        // The header first: a browser that reconnects repeats the address with its old `after`.
        let last = last.or(params.after);
        let after = last.map_or_else(|| state.service.head(), Seq);
        let filter = ops::events::filter(
            &state.service,
            &caller,
            params.kinds,
            Vec::new(),
            params.agent_id,
        )
        .await?;
        let subscription = state.service.subscription(&caller, after, filter)?;
        return Ok(stream_events(state, reader, subscription).into_response());
    }
    ops::events::list(&state.service, &caller, params)
        .await
        .map(|events| wire_json(&state, events).into_response())
}

/// The event after which a reader continues.
fn last_event(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    // One that cannot be read is refused: ignoring it would silently skip events.
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = value.to_str().ok().map(str::trim);
    let number = number.and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| {
        let message = "`Last-Event-ID` must be the number of an event";
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
        revocations: state.service.watch_revocations(),
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
    revocations: watch::Receiver<()>,
}

impl EventPages {
    /// Waits for events; `None` if the host ends or the reader's token was withdrawn.
    async fn wait_for_events(&mut self) -> Option<Vec<Arc<FeedEntry>>> {
        loop {
            tokio::select! {
                page = self.subscription.next() => return page.ok(),
                Ok(()) = self.revocations.changed() => {
                    if self.state.authenticator.has_lost_token(&self.reader.identity) {
                        return None;
                    }
                }
            }
        }
    }
}

/// The next events; `None` ends the stream, because the reader may not have them any more.
async fn next_page(
    mut reading: EventPages,
) -> Option<(Vec<Result<Event, Infallible>>, EventPages)> {
    let page = reading.wait_for_events().await?;
    // After the wait for events and before they are sent: the token may have been revoked
    // meanwhile.
    let AuthenticatedReader {
        connection,
        identity,
        ..
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
        let names = AgentNames::of(&reading.state.service);
        let json = events::event_json(&events::event_frame(entry, names, RowForm::Whole));
        let text = String::from_utf8_lossy(&json).into_owned();
        Ok(Event::default()
            .id(entry.committed.seq.to_string())
            .data(text))
    });
    Some((events.collect(), reading))
}

/// Send a notification to all subscribers.
#[utoipa::path(post, path = "/api/v1/events", request_body = wire::NotifyParams,
    responses((status = 200, body = HostEvent), (status = 403, description = "only the host may send this kind")))]
async fn notify(
    State(state): State<Arc<ServerState>>,
    AuthenticatedCaller(caller): AuthenticatedCaller,
    JsonBody(params): JsonBody<wire::NotifyParams>,
) -> JsonResult<HostEvent> {
    ops::events::notify(&state.service, caller, params)
        .await
        .map(|result| wire_json(&state, result))
}

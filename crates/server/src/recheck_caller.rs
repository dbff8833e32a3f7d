//! The second check of who calls. A request takes time, and a connection can be passed to another
//! process meanwhile. So the caller is identified again when the whole body has arrived, and before
//! the response to a read or to a request that waited is sent.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest as _, Query, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::{CallerConnection, CallerIdentity};
use crate::rest;

/// The identity of a request's caller, which the extractor leaves here for the layer around it.
#[derive(Clone, Default)]
pub(crate) struct RequestIdentity(Arc<Mutex<Option<CallerIdentity>>>);

impl RequestIdentity {
    pub(crate) fn set(&self, identity: &CallerIdentity) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(identity.clone());
    }

    fn take(&self) -> Option<CallerIdentity> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take()
    }
}

/// The layer around every route.
pub(crate) async fn recheck_caller(
    State(state): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let served = if reads {
        // What a read shows must not reach a process that got the connection after the request.
        confirm_response(&state, request, next).await
    } else if request.uri().path().starts_with("/api/") {
        // What a request changes must be decided for the process that sent its last byte.
        serve_whole_request(&state, request, next).await
    } else {
        // MCP does the same in `mcp.rs`: it accepts no cookies, and registers agents it meets.
        Ok(next.run(request).await)
    };
    served.unwrap_or_else(IntoResponse::into_response)
}

async fn confirm_response(
    state: &ServerState,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let connection = request.extensions().get::<Arc<CallerConnection>>().cloned();
    let identity = RequestIdentity::default();
    request.extensions_mut().insert(identity.clone());
    let response = next.run(request).await;
    // There is no identity for paths that are open to everybody, as `/healthz`.
    if let (Some(connection), Some(mut identity)) = (connection, identity.take()) {
        state
            .authenticator
            .confirm_identity(&connection, &mut identity)
            .await?;
    }
    Ok(response)
}

/// Reads the whole body, for identified callers only.
async fn serve_whole_request(
    state: &ServerState,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let connection = rest::connection(&parts)?;
    let shown = rest::shown_token(&parts)?.map(Arc::from);
    // The result is dropped on purpose: it only keeps strangers from sending bodies. The extractor
    // in the handler identifies the caller again, now that the body is complete.
    state.authenticator.identify(&connection, shown).await?;
    let request = Request::from_parts(parts, body);
    let request = match read_whole(request).await {
        Ok(request) => request,
        Err(refusal) => return Ok(refusal),
    };
    if may_wait(&request) {
        // The answer that it waited for must not reach a process that got the connection meanwhile.
        confirm_response(state, request, next).await
    } else {
        Ok(next.run(request).await)
    }
}

/// Whether a change may take as long as a person needs to answer.
fn may_wait(request: &Request) -> bool {
    let uri = request.uri();
    // Decoded: `%77ait` is `wait` as well.
    let query = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let has_wait = query.is_ok_and(|Query(query)| query.iter().any(|(name, _)| name == "wait"));
    has_wait || uri.path().ends_with("/resume")
}

/// The request with all of its body in memory.
pub(crate) async fn read_whole(request: Request) -> Result<Request, Response> {
    let (parts, body) = request.into_parts();
    // The parts are needed twice: `Bytes` consumes the request, and reads the limit of bodies from
    // its extensions.
    let reading = Request::from_parts(parts.clone(), body);
    match Bytes::from_request(reading, &()).await {
        Ok(bytes) => Ok(Request::from_parts(parts, Body::from(bytes))),
        Err(rejection) => Err(rest::refuse_body(&rejection).into_response()),
    }
}

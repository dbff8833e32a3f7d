//! The second check of who calls. A request takes time, and a connection can be handed to another process meanwhile, so
//! the caller is found out again when the whole body has arrived, and before a response is sent that was waited for.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest as _, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::{CallerConnection, CallerIdentity};
use crate::rest;

/// Where a request's handler leaves who its caller was found to be.
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
        confirm_response(&state, request, next).await
    } else if request.uri().path().starts_with("/api/") {
        serve_whole_request(&state, request, next).await
    } else {
        // MCP sees to it by itself: it knows other callers.
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
    if let (Some(connection), Some(mut identity)) = (connection, identity.take()) {
        state
            .authenticator
            .confirm_identity(&connection, &mut identity)
            .await?;
    }
    Ok(response)
}

/// Reads a body only for a caller that is known. The handler finds out again who that is.
async fn serve_whole_request(
    state: &ServerState,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let connection = rest::connection(&parts)?;
    let shown = rest::shown_token(&parts)?;
    let shown = shown.map(Arc::from);
    state.authenticator.identify(&connection, shown).await?;
    let request = Request::from_parts(parts, body);
    match read_whole(request).await {
        Ok(request) => Ok(next.run(request).await),
        Err(refusal) => Ok(refusal),
    }
}

/// The request with all of its body in memory.
pub(crate) async fn read_whole(request: Request) -> Result<Request, Response> {
    let (parts, body) = request.into_parts();
    // The limit on bodies is in the extensions, and these are read from a request.
    let reading = Request::from_parts(parts.clone(), body);
    match Bytes::from_request(reading, &()).await {
        Ok(bytes) => Ok(Request::from_parts(parts, Body::from(bytes))),
        Err(rejection) => Err(rest::refuse_body(&rejection).into_response()),
    }
}

//! The few pages around the API: health, metrics, the login link, and what is shown instead of a web
//! page that was not built.

pub(crate) mod deny_link;
pub(crate) mod login;
mod plain_page;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::ServerState;
use crate::api_error::ApiError;
use crate::metrics;

/// The name of the cookie that holds a browser's token.
pub(crate) const COOKIE: &str = "countersign_session";

/// What the addresses of the web page give if this host was built without it.
pub(crate) fn not_built_page() -> Response {
    plain_page::respond(
        "Countersign",
        "<p>The host is running, but it was built without the web page. Build it with \
         <code>make web</code>, build the host again, and restart it.</p>\
         <p>Until then answer asks with <code>countersign watch</code> or \
         <code>countersign inbox</code>.</p>\
         <p>The API is under <code>/api/v1</code>, described by \
         <a href=\"/api/v1/openapi.json\">/api/v1/openapi.json</a>.</p>",
    )
}

pub(crate) async fn health(State(state): State<Arc<ServerState>>) -> Response {
    if state.service.store_error().is_none() {
        // The record is checked with each command. If none came for long, a lost record would go
        // unnoticed, and this answer would be wrong.
        state.service.check_record().await;
    }
    match state.service.store_error() {
        None => (StatusCode::OK, "ok\n").into_response(),
        Some(trouble) => (StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")).into_response(),
    }
}

pub(crate) async fn metrics_page(
    State(state): State<Arc<ServerState>>,
) -> Result<Response, ApiError> {
    let text = metrics::render(&state).await?;
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

//! The address in a notification that denies one ask.
//!
//! Invariants: it works without a cookie and can do nothing but deny the ask it was made for; only a
//! `POST` denies, so that the preview of a link does not; an agent's process is refused.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use countersign_protocol::Reason;

use crate::ServerState;
use crate::api_error::ApiError;
use crate::rest::{PathId, RequestConnection};

pub(crate) async fn deny(
    State(state): State<Arc<ServerState>>,
    RequestConnection(connection): RequestConnection,
    PathId(code): PathId,
) -> Result<Response, ApiError> {
    // An agent may have read the message; it still cannot answer, not even with a denial.
    state.authenticator.refuse_agents(&connection).await?;
    if state.service.deny_by_code(&code).await?.is_some() {
        return Ok("denied\n".into_response());
    }
    let message = "this address denies nothing: it was changed, or another host made it";
    Err(ApiError::plain(Reason::UnknownPath, message))
}

//! Who calls over HTTP: the token that a request shows, and the caller it belongs to.

use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use countersign_core::{Caller, Door};
use countersign_protocol::Reason;

use super::check_shape;
use crate::ServerState;
use crate::api_error::ApiError;
use crate::auth::{CallerConnection, CallerIdentity};
use crate::ops;
use crate::origin_guard::require_own_page;
use crate::recheck_caller::RequestIdentity;
use crate::web::COOKIE;

/// Extracts the caller of a request, and refuses one that cannot be authenticated.
pub(crate) struct AuthenticatedCaller(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for AuthenticatedCaller
where
    Arc<ServerState>: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let reader = AuthenticatedReader::from_request_parts(parts, state).await?;
        Ok(Self(reader.caller()))
    }
}

/// The same with the connection and identity, which a stream of events checks again and again.
pub(super) struct AuthenticatedReader {
    pub(super) connection: Arc<CallerConnection>,
    pub(super) identity: CallerIdentity,
    door: Door,
}

impl AuthenticatedReader {
    pub(super) fn caller(&self) -> Caller {
        ops::caller(&self.identity.principal, None, self.door)
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
        // After the caller is known: strangers do not learn what an operation takes.
        check_shape(parts)?;
        Ok(Self {
            connection,
            identity,
            door: door(&parts.headers, Door::Rest),
        })
    }
}

/// The connection of a request, without identifying its caller.
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
    // A header that is wrong is an error, and not a reason to look for a cookie.
    if let Some(token) = bearer(&parts.headers)? {
        return Ok(Some(token));
    }
    let cookie = cookie(&parts.headers);
    if cookie.is_some() {
        // A browser sends the cookie whoever made the request; a bearer is put in by its program.
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
    let message = "auth failed: the `Authorization` header must be `Bearer TOKEN`";
    bearer
        .map(|token| Some(token.trim().to_owned()))
        .ok_or_else(|| ApiError::plain(Reason::AuthFailed, message))
}

/// How a request came in: by the host's own page, if our cookie authenticates it.
pub(crate) fn door(headers: &HeaderMap, otherwise: Door) -> Door {
    if headers.contains_key(header::AUTHORIZATION) || cookie(headers).is_none() {
        otherwise
    } else {
        Door::Web
    }
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

//! Extractors for the parts of a REST request, with errors in the form of [`ApiError`].

use std::time::Duration;

use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use countersign_protocol::Reason;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::document;
use crate::api_error::ApiError;
use crate::strict;

/// The longest body of an operation that takes none: some clients always send `{}`, which has no field.
const EMPTY_OBJECT_BYTES: u64 = 2;

/// A JSON body without unknown fields.
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        // Required: a form of another site can send a body without asking first, but not as JSON.
        if !is_json(request.headers()) {
            return Err(ApiError::plain(
                Reason::UnsupportedMediaType,
                "the body must be JSON: send `Content-Type: application/json`",
            ));
        }
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|rejection| refuse_body(&rejection))?;
        strict::read_object(&bytes).map(Self)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let Some(value) = value.and_then(|value| value.to_str().ok()) else {
        return false;
    };
    let kind = value.split(';').next().unwrap_or_default().trim();
    let kind = kind.to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// A body that could not be read whole.
pub(crate) fn refuse_body(rejection: &BytesRejection) -> ApiError {
    let reason = match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Reason::TooLarge,
        _ => Reason::InvalidParams,
    };
    ApiError::plain(reason, rejection.body_text())
}

/// The query, as the operation reads it. Names that it does not know were refused by [`check_shape`].
pub(super) struct QueryParams<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let read = Query::<T>::try_from_uri(&parts.uri);
        read.map(|Query(params)| Self(params))
            .map_err(|error| ApiError::plain(Reason::InvalidParams, error.body_text()))
    }
}

/// How long to wait: `30`, `30s`, `500ms`, `5m`.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitQuery {
    /// Wait until it ends, at most this long; then it is given as it is.
    #[serde(default)]
    #[param(pattern = "^[0-9]+(ms|s|m|h)?$")]
    wait: Option<String>,
}

impl WaitQuery {
    pub(super) fn limit(&self) -> Result<Option<Duration>, ApiError> {
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
            // `parse` also accepts a plus sign, which the document does not have.
            .filter(|_| unit > 0 && digits.bytes().all(|digit| digit.is_ascii_digit()))
            .and_then(|number| number.checked_mul(unit));
        let message = "`wait` must be a duration like 30s, 500ms or 5m";
        limit
            .map(|ms| Some(Duration::from_millis(ms)))
            .ok_or_else(|| ApiError::plain(Reason::InvalidParams, message))
    }
}

/// The one variable part of a path.
pub(crate) struct PathId(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = Path::<String>::from_request_parts(parts, state).await;
        read.map(|Path(id)| Self(id))
            .map_err(|_| ApiError::plain(Reason::InvalidParams, "the path is not UTF-8 text"))
    }
}

/// The two variable parts of a path.
pub(super) struct PathIds(pub(super) String, pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for PathIds {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read = Path::<(String, String)>::from_request_parts(parts, state).await;
        read.map(|Path((first, second))| Self(first, second))
            .map_err(|_| ApiError::plain(Reason::InvalidParams, "the path is not UTF-8 text"))
    }
}

/// Refuses names in the query that the document does not list for this operation, and a body if it lists
/// none.
pub(super) fn check_shape(parts: &Parts) -> Result<(), ApiError> {
    let path = parts.extensions.get::<MatchedPath>();
    let operation = path.and_then(|path| document::operation(path.as_str(), &parts.method));
    // An operation that is not in the document takes nothing.
    let operation = operation.unwrap_or(&document::NOTHING);
    if !operation.takes_body && has_body(&parts.headers) {
        let message = "this operation takes no body";
        return Err(ApiError::plain(Reason::InvalidParams, message));
    }
    let names = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
    let Query(names) =
        names.map_err(|error| ApiError::plain(Reason::InvalidParams, error.body_text()))?;
    let unknown = names
        .iter()
        .find(|(name, _)| !operation.query_names.contains(name));
    unknown.map_or(Ok(()), |(name, _)| Err(strict::unknown_field(name)))
}

fn has_body(headers: &HeaderMap) -> bool {
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    // A body in chunks may be empty, but its length is not known yet.
    headers.contains_key(header::TRANSFER_ENCODING)
        || length.is_some_and(|length| length > EMPTY_OBJECT_BYTES)
}

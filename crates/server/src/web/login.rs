//! The login link: a page with a form, whose answer logs the browser in.
//!
//! Invariants: only the answer uses the link up, so that the preview of a link in a chat does not;
//! an agent's process gets neither the form nor a cookie, whatever link it holds.

use std::sync::Arc;
use std::time::Duration;

use axum::Form;
use axum::extract::{FromRequest as _, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use countersign_core::limits::{AUTH_MS, DEVICE_RENEWAL_MS};
use countersign_protocol::Reason;
use serde::Deserialize;

use super::{COOKIE, plain_page};
use crate::ServerState;
use crate::api_error::ApiError;
use crate::rest::{PathId, RequestConnection};

/// As long as browsers keep a cookie. How long it counts is decided here and not in the browser.
const COOKIE_DAYS: u64 = 400;

/// What the form sends.
#[derive(Deserialize)]
pub(crate) struct LoginForm {
    #[serde(default)]
    device: String,
}

/// Shows the form. The link is not used up by that.
pub(crate) async fn show_form(
    State(state): State<Arc<ServerState>>,
    RequestConnection(connection): RequestConnection,
    PathId(ticket): PathId,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    state.authenticator.refuse_agents(&connection).await?;
    if !state.tickets.is_valid(&ticket, state.service.now()) {
        return Ok(invalid_link());
    }
    let days = state.web.session_ms / DEVICE_RENEWAL_MS;
    let device = describe_browser(&headers);
    let mut response = plain_page::respond(
        "Log in to Countersign",
        &format!(
            "<p>Whoever continues can answer the asks of your agents from this device. It stays \
             logged in until it has not been used for {days} days; you can log it out in the settings \
             or with <code>countersign token revoke</code>.</p>\
             <form method=\"post\"><label for=\"device\">Name of this device</label>\
             <input id=\"device\" name=\"device\" maxlength=\"100\" autocomplete=\"off\" \
             value=\"{device}\"><button>Continue on this device</button></form>"
        ),
    );
    // With `no-referrer` a browser would send the form with the origin `null`.
    response.headers_mut().insert(
        HeaderName::from_static("referrer-policy"),
        HeaderValue::from_static("same-origin"),
    );
    Ok(response)
}

/// Uses the link up and logs the browser in.
pub(crate) async fn log_in(
    State(state): State<Arc<ServerState>>,
    RequestConnection(connection): RequestConnection,
    PathId(ticket): PathId,
    request: Request,
) -> Result<Response, ApiError> {
    let headers = request.headers().clone();
    state.authenticator.refuse_agents(&connection).await?;
    let form = read_form(request).await?;
    // Again, because the connection could be passed on meanwhile, and before the ticket is
    // redeemed, so that an agent cannot use up a person's link.
    state.authenticator.refuse_agents(&connection).await?;
    let Some(name) = state.tickets.redeem(&ticket, state.service.now()) else {
        return Ok(invalid_link());
    };
    let device = match form.device.trim() {
        "" => describe_browser(&headers),
        device => device.to_owned(),
    };
    // The ticket was issued to an operator and has been used up, so the token is the host's to
    // make.
    let (secret, _) = state
        .service
        .log_in_device(name.to_string(), device, state.web.session_ms)
        .await?;
    let cookie = format_cookie(&secret, state.web.is_secure(&headers));
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

/// The form, within a bound of time: nobody knows yet who sends it.
async fn read_form(request: Request) -> Result<LoginForm, ApiError> {
    let reading = Form::<LoginForm>::from_request(request, &());
    let read = tokio::time::timeout(Duration::from_millis(AUTH_MS), reading).await;
    let read = read
        .map_err(|_| ApiError::plain(Reason::InvalidParams, "the form did not arrive in time"))?;
    read.map(|Form(form)| form)
        .map_err(|error| ApiError::plain(Reason::InvalidParams, error.body_text()))
}

fn format_cookie(secret: &str, is_secure: bool) -> String {
    let seconds = COOKIE_DAYS * 24 * 3600;
    // Not `Secure` where the host is reached over plain HTTP on loopback: not every browser would
    // keep it then.
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{COOKIE}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}{secure}")
}

fn invalid_link() -> Response {
    let mut response = plain_page::respond(
        "This link does not work",
        "<p>It was used already, or is too old. Make a new one with <code>countersign open</code> \
         or, for a phone, with <code>countersign open --phone</code>.</p>",
    );
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response
}

fn first_named(text: &str, names: &[(&str, &'static str)]) -> Option<&'static str> {
    let found = names.iter().find(|(mark, _)| text.contains(mark));
    found.map(|(_, name)| *name)
}

/// What a browser says it is, in words of ours: nothing of its header is repeated.
fn describe_browser(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT);
    let agent = agent
        .and_then(|agent| agent.to_str().ok())
        .unwrap_or_default();
    // The order matters: Edge also says that it is Chrome, and Chrome that it is Safari.
    let browser = first_named(
        agent,
        &[
            ("Firefox/", "Firefox"),
            ("FxiOS/", "Firefox"),
            ("Edg", "Edge"),
            ("CriOS/", "Chrome"),
            ("Chrome/", "Chrome"),
            ("Safari/", "Safari"),
        ],
    );
    let system = first_named(
        agent,
        &[
            ("iPhone", "iPhone"),
            ("iPad", "iPad"),
            ("Android", "Android"),
            ("Windows", "Windows"),
            ("Mac OS X", "Mac"),
            ("Linux", "Linux"),
        ],
    );
    match (browser, system) {
        (Some(browser), Some(system)) => format!("{browser} on {system}"),
        (Some(name), None) | (None, Some(name)) => name.to_owned(),
        (None, None) => "a browser".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_named_by_what_it_says_it_is() {
        for (agent, expected) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
                "Firefox on Linux",
            ),
            (
                "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36",
                "Chrome on Android",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
                "Safari on iPhone",
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36 Edg/141.0.0.0",
                "Edge on Windows",
            ),
            ("\"><script>", "a browser"),
            ("", "a browser"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::USER_AGENT, agent.parse().unwrap());
            assert_eq!(describe_browser(&headers), expected, "{agent}");
        }
    }
}

//! Small pages without script, which are part of the host and not of the web page.

use std::sync::LazyLock;

use axum::http::{HeaderValue, header};
use axum::response::{Html, IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::web_assets::add_security_headers;

/// Readable on a phone, in light and dark.
const STYLE: &str = "\
:root{color-scheme:light dark;font:1rem/1.5 system-ui,sans-serif}\
body{max-width:34rem;margin:0 auto;padding:1.5rem 1rem}\
code{font-family:ui-monospace,monospace}\
label{display:block;margin:1rem 0 .25rem}\
input,button{box-sizing:border-box;width:100%;min-height:2.75rem;padding:.5rem .75rem;font:inherit;border:1px solid #8a93a0;border-radius:.5rem}\
button{margin-top:1rem;border:0;background:#1f5a9e;color:#fff;font-weight:600;cursor:pointer}";

/// Nothing but our own style, by its hash, and forms that are sent to this host.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'self'; \
         frame-ancestors 'none'"
    )
});

/// A page with this title as its heading. `body` is HTML, so text of others in it must be escaped.
pub(super) fn respond(title: &str, body: &str) -> Response {
    let mut response = Html(format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><style>{STYLE}</style></head>\
         <body><main><h1>{title}</h1>{body}</main></body></html>"
    ))
    .into_response();
    let headers = response.headers_mut();
    add_security_headers(headers, &POLICY, "same-origin");
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

//! The response to a request for a file: its form, how long it may be kept, and its policies.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;

use super::{FRAME_FOLDER, WebAsset, WebAssets};

/// A name with a hash never changes its content.
const KEEP_FOR_EVER: &str = "public, max-age=31536000, immutable";
/// May be kept, but the host is asked each time whether it changed.
const ASK_FIRST: &str = "no-cache";

/// What a document may load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentPolicy {
    /// The page, its workers and its service worker.
    Page,
    /// The terminal. It gets no origin, so whatever an agent's output makes of it reaches nothing.
    TerminalFrame,
}

impl ContentPolicy {
    fn of(name: &str) -> Self {
        if name.starts_with(FRAME_FOLDER) {
            Self::TerminalFrame
        } else {
            Self::Page
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Page => {
                "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                 font-src 'self'; connect-src 'self'; frame-src 'self'; worker-src 'self'; \
                 manifest-src 'self'; base-uri 'none'; form-action 'self'; \
                 frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types own"
            }
            Self::TerminalFrame => {
                "sandbox allow-scripts; default-src 'none'; script-src 'self'; \
                 style-src 'self' 'unsafe-inline'; frame-ancestors 'self'"
            }
        }
    }

    /// Who may load it. A document without an origin is foreign even to the host that served it.
    fn resource_policy(self) -> &'static str {
        match self {
            Self::Page => "same-origin",
            Self::TerminalFrame => "cross-origin",
        }
    }
}

/// Adds what every file and page has: no guessing of types, no referrer, no foreign embedding.
pub(crate) fn add_security_headers(
    headers: &mut HeaderMap,
    policy: &str,
    resource_policy: &'static str,
) {
    // A policy is a constant or has a hash of ours in it, so it is always a valid value.
    if let Ok(policy) = HeaderValue::from_str(policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        ("cross-origin-resource-policy", resource_policy),
        ("cross-origin-opener-policy", "same-origin"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
    ] {
        let name = HeaderName::from_static(name);
        headers.insert(name, HeaderValue::from_static(value));
    }
}

pub(super) fn file_response(
    assets: &WebAssets,
    name: &str,
    headers: &HeaderMap,
) -> Option<Response> {
    let compressed = assets.find_compressed(name);
    let varies = compressed.is_some();
    let (asset, is_gzip) = match compressed {
        Some(compressed) if accepts_gzip(headers) => (compressed, true),
        // A folder has the plain form as well; the binary has it only if there is no compressed one.
        Some(compressed) => {
            let plain = assets.find(name);
            (plain.or_else(|| compressed.decompress())?, false)
        }
        None => (assets.find(name)?, false),
    };
    let tag = entity_tag(&asset);
    let is_known = has_tag(headers, &tag);
    let mut response = Response::new(if is_known {
        Body::empty()
    } else {
        Body::from(asset.bytes)
    });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let fields = response.headers_mut();
    let policy = ContentPolicy::of(name);
    add_security_headers(fields, policy.text(), policy.resource_policy());
    fields.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(content_type(name)),
    );
    let keep = if has_hash(name) {
        KEEP_FOR_EVER
    } else {
        ASK_FIRST
    };
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(keep));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        fields.insert(header::ETAG, tag);
    }
    if varies {
        let value = HeaderValue::from_static("accept-encoding");
        fields.insert(header::VARY, value);
    }
    if is_gzip {
        let value = HeaderValue::from_static("gzip");
        fields.insert(header::CONTENT_ENCODING, value);
    }
    Some(response)
}

/// The tag of these bytes. A compressed form has other bytes, and so a tag of its own.
fn entity_tag(asset: &WebAsset) -> String {
    use std::fmt::Write as _;
    let mut tag = String::from("\"");
    for byte in &asset.hash[..16] {
        // Writing to a string cannot fail.
        write!(tag, "{byte:02x}").ok();
    }
    tag.push('"');
    tag
}

fn has_tag(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    known
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        // A proxy that compressed the file itself marks the tag as weak.
        .map(|known| known.trim().trim_start_matches("W/"))
        .any(|known| known == tag || known == "*")
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|coding| {
            let mut parts = coding.split(';').map(str::trim);
            let is_gzip = parts
                .next()
                .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            is_gzip && weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|q| q > 0.0))
        })
}

/// Whether a name carries the hash of its content, as `app-4FJ2KQZX.js` does.
fn has_hash(name: &str) -> bool {
    const HASH_CHARS_MIN: usize = 8;
    let file = name.rsplit('/').next().unwrap_or(name);
    // After the last dash, because `text.worker-HASH.js` has a dot before it.
    let Some((_, rest)) = file.rsplit_once('-') else {
        return false;
    };
    let hash = rest.split('.').next().unwrap_or(rest);
    // A bundler writes hashes in base 32 or in hexadecimal; a word of lower case letters is none.
    hash.len() >= HASH_CHARS_MIN
        && (hash
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
            || hash
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "webmanifest" => "application/manifest+json",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_with_a_hash_are_kept_for_ever() {
        for (name, expected) in [
            ("app-4FJ2KQZX.js", true),
            ("text.worker-4FJ2KQZX.js", true),
            ("term/frame-0123abcd4567.css", true),
            ("app-4FJ2KQZX.js.map", true),
            ("index.html", false),
            ("sw.js", false),
            ("manifest.webmanifest", false),
            ("icons/maskable-512.png", false),
            ("a-settings.js", false),
            ("term/frame.html", false),
        ] {
            assert_eq!(has_hash(name), expected, "{name}");
        }
    }

    #[test]
    fn gzip_is_sent_only_if_accepted() {
        for (value, expected) in [
            ("gzip, deflate, br, zstd", true),
            ("br;q=1.0, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("br", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, value.parse().unwrap());
            assert_eq!(accepts_gzip(&headers), expected, "{value}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}

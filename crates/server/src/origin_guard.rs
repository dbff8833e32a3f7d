//! Checks of `Host`, `Origin` and the query string that every request on TCP has to pass.
//!
//! Invariant: a page of another origin, or one that reaches the host under a name that is not its
//! own, gets nothing but a refusal, on HTTP and on WebSocket alike. It may lead a person here by a
//! link, and then sees nothing of what the person gets.

use axum::http::{HeaderMap, Method, Uri, header};
use countersign_protocol::Reason;

use crate::api_error::ApiError;
use crate::web_assets;
use crate::web_options::PublicUrl;

/// Names under which this host may be addressed.
#[derive(Clone, Debug, Default)]
pub(crate) struct OriginGuard {
    hosts: Vec<String>,
}

impl OriginGuard {
    /// The loopback names with the port, every name an operator allowed, with and without it, and
    /// the public address as it is.
    pub(crate) fn new(port: u16, allowed: &[String], public_url: Option<&PublicUrl>) -> Self {
        let mut hosts: Vec<String> = ["127.0.0.1", "localhost", "[::1]"]
            .iter()
            .map(|name| format!("{name}:{port}"))
            .collect();
        for name in allowed {
            let name = name.trim().to_ascii_lowercase();
            // A tunnel may listen on our port or on the default one, which browsers leave out.
            hosts.push(format!("{name}:{port}"));
            hosts.push(name);
        }
        hosts.extend(public_url.map(|url| url.host().to_owned()));
        Self { hosts }
    }

    /// Refuses a target that names another host, as a request to a proxy does. The Unix socket has
    /// no name; its clients say `localhost`.
    pub(crate) fn check_target(&self, uri: &Uri, is_unix: bool) -> Result<(), ApiError> {
        let Some(authority) = uri.authority() else {
            return Ok(());
        };
        let name = authority.as_str();
        if self.is_ours(name) || (is_unix && name.eq_ignore_ascii_case("localhost")) {
            Ok(())
        } else {
            Err(wrong_origin(format!("`{name}` is not a name of this host")))
        }
    }

    /// Refuses a request that was addressed to another name, or that a page of another origin made.
    pub(crate) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), ApiError> {
        refuse_query_tokens(uri)?;
        // Against DNS rebinding: a page whose name was made to resolve to loopback is of the same
        // origin to its browser, but the name is still in `Host`.
        let host = single_header(headers, &header::HOST)?
            .ok_or_else(|| wrong_origin("a `Host` header is required"))?;
        if !self.is_ours(host) {
            return Err(wrong_origin(format!(
                "`{host}` is not a name of this host; allow it with `--allow-host`"
            )));
        }
        let path = uri.path();
        let is_frame_file = is_frame_file(method, path, headers);
        // Only browsers send it. Other clients have no ambient credentials that a page could
        // misuse.
        let origin = single_header(headers, &header::ORIGIN)?;
        // The terminal's frame has no origin, and says so.
        if let Some(origin) = origin.filter(|origin| !(is_frame_file && *origin == "null")) {
            self.check_origin(origin)?;
        }
        // Browsers send no `Origin` with some reads. `same-site` is refused as well, because
        // another port of localhost is the same site. `none` is an address that a person typed.
        let cross_site = headers
            .get("sec-fetch-site")
            .is_some_and(|site| site == "cross-site" || site == "same-site");
        if !cross_site || is_followed_link(method, path, headers) || is_frame_file {
            Ok(())
        } else {
            Err(wrong_origin(
                "requests from pages of other sites are refused",
            ))
        }
    }

    fn check_origin(&self, origin: &str) -> Result<(), ApiError> {
        // `https` too: a tunnel in front may speak TLS. The origin `null`, of sandboxed frames and
        // files, has no scheme and is refused.
        let host = origin
            .strip_prefix("http://")
            .or_else(|| origin.strip_prefix("https://"));
        if host.is_some_and(|host| self.is_ours(host)) {
            Ok(())
        } else {
            Err(wrong_origin(format!(
                "`{origin}` is not an origin of this host"
            )))
        }
    }

    fn is_ours(&self, host: &str) -> bool {
        self.hosts
            .iter()
            .any(|ours| ours.eq_ignore_ascii_case(host))
    }
}

/// Whether a person follows a link on another site, as in a chat. The browser then shows our page in
/// a window of its own, without our cookie, and the other site reads nothing of it.
fn is_followed_link(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    method == Method::GET
        && has_value(headers, "sec-fetch-mode", &["navigate"])
        // Not a frame: those are `iframe`, `frame`, `embed` or `object`.
        && has_value(headers, "sec-fetch-dest", &["document"])
        && (web_assets::is_page(path) || path.starts_with("/login/"))
}

/// Whether the terminal's frame loads its script or style. It has no origin, so its own host is
/// another site to it. The files hold nothing about anybody.
fn is_frame_file(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    method == Method::GET
        && has_value(headers, "sec-fetch-mode", &["no-cors"])
        && has_value(headers, "sec-fetch-dest", &["script", "style"])
        && web_assets::is_frame_file(path)
}

/// Whether a header is there once, with one of these values.
fn has_value(headers: &HeaderMap, name: &str, expected: &[&str]) -> bool {
    let mut values = headers.get_all(name).iter();
    let found = values.next().and_then(|value| value.to_str().ok());
    values.next().is_none() && found.is_some_and(|found| expected.contains(&found))
}

/// Refuses a change that is authenticated by a cookie and does not come from the host's own page.
pub(crate) fn require_own_page(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    // The browser adds the cookie by itself, so there has to be proof of the page that asked. The
    // value of `Origin` was checked by the guard. Reads are covered by `SameSite=Strict`, and
    // browsers leave the header out of them.
    let reads = method == Method::GET || method == Method::HEAD;
    if reads || headers.contains_key(header::ORIGIN) {
        Ok(())
    } else {
        Err(wrong_origin(
            "a request with a cookie needs an `Origin` header",
        ))
    }
}

/// Refuses a token in the address.
pub(crate) fn refuse_query_tokens(uri: &Uri) -> Result<(), ApiError> {
    let query = uri.query().unwrap_or_default().to_ascii_lowercase();
    let names = query.split('&').filter_map(|pair| pair.split('=').next());
    for name in names {
        if matches!(
            name,
            "token" | "access_token" | "auth" | "authorization" | "api_key" | "key" | "bearer"
        ) {
            return Err(ApiError::plain(
                Reason::AuthFailed,
                "a token in the address would end up in logs: send it in an `Authorization: Bearer` header",
            ));
        }
    }
    Ok(())
}

fn single_header<'a>(
    headers: &'a HeaderMap,
    name: &header::HeaderName,
) -> Result<Option<&'a str>, ApiError> {
    // Two values would let a proxy in front check one of them and us the other.
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(wrong_origin(format!("more than one `{name}` header")));
    }
    first
        .map(|value| {
            value
                .to_str()
                .map_err(|_| wrong_origin(format!("`{name}` is not text")))
        })
        .transpose()
}

fn wrong_origin(message: impl Into<String>) -> ApiError {
    ApiError::refused(Reason::WrongOrigin, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(&'static str, &str)]) -> bool {
        let guard = OriginGuard::new(7766, &["box.example".to_owned()], None);
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        guard
            .check(&Method::GET, &Uri::from_static("/api/v1/agents"), &headers)
            .is_ok()
    }

    #[test]
    fn a_link_on_another_site_leads_to_the_page_and_nowhere_else() {
        let guard = OriginGuard::new(7766, &[], None);
        let passes = |method: Method, path: &str, mode: &str, dest: &str, site: &str| {
            let mut headers = HeaderMap::new();
            for (name, value) in [
                ("host", "localhost:7766"),
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", dest),
            ] {
                headers.append(name, value.parse().unwrap());
            }
            guard
                .check(&method, &path.parse().unwrap(), &headers)
                .is_ok()
        };
        for site in ["cross-site", "same-site"] {
            for path in [
                "/",
                "/ask/1",
                "/agents",
                "/agents/a/diff",
                "/settings",
                "/login/t",
            ] {
                assert!(
                    passes(Method::GET, path, "navigate", "document", site),
                    "{path}"
                );
                assert!(
                    !passes(Method::POST, path, "navigate", "document", site),
                    "{path}"
                );
                assert!(
                    !passes(Method::GET, path, "navigate", "iframe", site),
                    "{path}"
                );
                assert!(!passes(Method::GET, path, "cors", "empty", site), "{path}");
                assert!(
                    !passes(Method::GET, path, "no-cors", "script", site),
                    "{path}"
                );
                assert!(
                    !passes(Method::GET, path, "websocket", "websocket", site),
                    "{path}"
                );
            }
            for path in [
                "/api/v1/agents",
                "/rpc",
                "/mcp",
                "/metrics",
                "/ask/",
                "/sw.js",
            ] {
                assert!(
                    !passes(Method::GET, path, "navigate", "document", site),
                    "{path}"
                );
            }
            let script = "/term/frame-0123456789ab.js";
            assert!(passes(Method::GET, script, "no-cors", "script", site));
            assert!(!passes(Method::GET, script, "cors", "script", site));
            assert!(!passes(
                Method::GET,
                "/app-0123456789ab.js",
                "no-cors",
                "script",
                site
            ));
        }
    }

    #[test]
    fn a_frame_without_an_origin_gets_the_terminals_files_alone() {
        let guard = OriginGuard::new(7766, &[], None);
        let passes = |path: &str, origin: &str, mode: &str| {
            let mut headers = HeaderMap::new();
            for (name, value) in [
                ("host", "localhost:7766"),
                ("origin", origin),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", "script"),
            ] {
                headers.append(name, value.parse().unwrap());
            }
            let uri = path.parse().unwrap();
            guard.check(&Method::GET, &uri, &headers).is_ok()
        };
        let script = "/term/frame-0123456789ab.js";
        assert!(passes(script, "null", "no-cors"));
        assert!(!passes(script, "https://elsewhere.example", "no-cors"));
        assert!(!passes(script, "null", "cors"));
        assert!(!passes("/app-0123456789ab.js", "null", "no-cors"));
        assert!(!passes("/api/v1/agents", "null", "no-cors"));
    }

    #[test]
    fn only_our_own_names_and_pages_pass() {
        for host in [
            "127.0.0.1:7766",
            "localhost:7766",
            "LOCALHOST:7766",
            "[::1]:7766",
            "box.example",
            "box.example:7766",
        ] {
            assert!(check(&[("host", host)]), "{host}");
        }
        for host in [
            "127.0.0.1",
            "localhost",
            "127.0.0.1:80",
            "evil.example:7766",
            "127.attacker.example:7766",
            "localhost:7766.evil",
            "",
        ] {
            assert!(!check(&[("host", host)]), "{host}");
        }
        let host = ("host", "localhost:7766");
        for origin in [
            "http://localhost:7766",
            "http://127.0.0.1:7766",
            "https://box.example",
        ] {
            assert!(check(&[host, ("origin", origin)]), "{origin}");
        }
        for origin in [
            "null",
            "http://evil.example",
            "http://localhost",
            "http://localhost:7766.evil",
            "localhost:7766",
            "file://",
            "http://user@localhost:7766",
        ] {
            assert!(!check(&[host, ("origin", origin)]), "{origin}");
        }
        assert!(!check(&[]));
        assert!(!check(&[host, ("host", "localhost:7766")]));
        assert!(!check(&[host, ("sec-fetch-site", "cross-site")]));
    }

    #[test]
    fn a_target_must_not_name_another_host() {
        let guard = OriginGuard::new(7766, &["box.example".to_owned()], None);
        for (uri, on_tcp, on_unix) in [
            ("/api/v1/status", true, true),
            ("http://localhost:7766/api/v1/status", true, true),
            ("http://box.example/", true, true),
            ("http://localhost/", false, true),
            ("http://evil.example/api/v1/status", false, false),
            ("http://user@localhost:7766/", false, false),
            ("evil.example:443", false, false),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let found = [false, true].map(|is_unix| guard.check_target(&uri, is_unix).is_ok());
            assert_eq!(found, [on_tcp, on_unix], "{uri}");
        }
    }

    #[test]
    fn tokens_in_the_address_are_refused() {
        let guard = OriginGuard::new(7766, &[], None);
        let mut headers = HeaderMap::new();
        headers.insert("host", "localhost:7766".parse().unwrap());
        for (uri, passes) in [
            ("/?a=b", true),
            ("/?token=x", false),
            ("/?a=1&Access_Token=x", false),
            ("/?tokens=x", true),
        ] {
            assert_eq!(
                guard
                    .check(&Method::GET, &uri.parse().unwrap(), &headers)
                    .is_ok(),
                passes,
                "{uri}"
            );
        }
    }
}

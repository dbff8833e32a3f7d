//! How the web page is served, and under which address other machines reach it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use axum::http::{HeaderMap, Uri, header};
use countersign_core::limits::DEVICE_SESSION_MS;

/// How the web page is served.
#[derive(Clone, Debug)]
pub struct WebOptions {
    /// A folder to read the page from, while it is developed; `None` for the files in the binary.
    pub folder: Option<PathBuf>,
    /// Where other machines reach the host.
    pub public_url: Option<PublicUrl>,
    /// How long a device stays logged in without being used.
    pub session_ms: u64,
}

impl Default for WebOptions {
    fn default() -> Self {
        Self {
            folder: None,
            public_url: None,
            session_ms: DEVICE_SESSION_MS,
        }
    }
}

impl WebOptions {
    /// Whether a request came to the public address by TLS, so that its cookie never has to travel
    /// without.
    pub(crate) fn is_secure(&self, headers: &HeaderMap) -> bool {
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        self.public_url.as_ref().is_some_and(|url| {
            url.is_https && host.is_some_and(|host| host.eq_ignore_ascii_case(&url.host))
        })
    }
}

/// An address like `https://box.example`: a scheme and a host, perhaps with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    is_https: bool,
    /// As browsers send it: in lower case, without the scheme's own port.
    host: String,
}

impl PublicUrl {
    /// The name in the `Host` header of requests to it.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(out, "{scheme}://{}", self.host)
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not an address like `https://box.example`, without a path");
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?.as_str();
        if authority.contains('@') || uri.path() != "/" || uri.query().is_some() {
            return Err(wrong());
        }
        let own_port = if is_https { ":443" } else { ":80" };
        let host = authority.strip_suffix(own_port).unwrap_or(authority);
        Ok(Self {
            is_https,
            host: host.to_ascii_lowercase(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_and_a_host() {
        for (text, expected) in [
            ("https://box.example", Some("https://box.example")),
            ("https://Box.Example:443/", Some("https://box.example")),
            ("http://box.example:80", Some("http://box.example")),
            ("https://box.example:8443", Some("https://box.example:8443")),
            ("box.example", None),
            ("ftp://box.example", None),
            ("https://ann@box.example", None),
            ("https://box.example/countersign", None),
            ("https://box.example/?a=b", None),
            ("https://", None),
        ] {
            let read: Result<PublicUrl, _> = text.parse();
            assert_eq!(
                read.ok().map(|url| url.to_string()).as_deref(),
                expected,
                "{text}"
            );
        }
    }
}

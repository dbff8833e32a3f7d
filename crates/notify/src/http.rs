//! The one HTTP client of the channels: blocking, bounded in time, without redirects.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use countersign_core::limits::{NOTIFY_REPLY_BYTES_MAX, NOTIFY_SEND_MS};
use countersign_core::{TextLayout, truncate_with_ellipsis, visible};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

/// Why a message did not arrive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// It may arrive later.
    #[error("{0}")]
    Later(String),
    /// The receiver will never take this message.
    #[error("{0}")]
    Refused(String),
    /// The receiver is gone for good.
    #[error("{0}")]
    Gone(String),
}

/// Where systems keep the certificates that they trust.
const ROOT_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// One request.
pub(crate) struct OutgoingPost<'a> {
    pub(crate) url: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a [u8],
}

impl OutgoingPost<'_> {
    /// Sends it and returns if the server accepted it.
    pub(crate) fn send(&self) -> Result<(), SendError> {
        let mut request = client().post(self.url);
        for (name, value) in self.headers {
            request = request.header(*name, *value);
        }
        // An error can name the address, which may contain a secret; it is for the user alone.
        let reply = request.send(self.body);
        let mut reply = reply.map_err(|error| SendError::Later(error.to_string()))?;
        let status = reply.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(());
        }
        let body = reply.body_mut().with_config().limit(NOTIFY_REPLY_BYTES_MAX);
        let body = body.read_to_string().unwrap_or_default();
        let shown = truncate_with_ellipsis(body.trim(), 200);
        let message = format!(
            "the server said {status} {}",
            visible(&shown, TextLayout::Line)
        );
        Err(match status {
            404 | 410 => SendError::Gone(message.trim_end().to_owned()),
            400 | 413 | 415 | 422 => SendError::Refused(message.trim_end().to_owned()),
            _ => SendError::Later(message.trim_end().to_owned()),
        })
    }
}

fn client() -> &'static ureq::Agent {
    static CLIENT: OnceLock<ureq::Agent> = OnceLock::new();
    CLIENT.get_or_init(|| {
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .root_certs(RootCerts::from(system_roots().into_iter()))
            .build();
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(Duration::from_millis(NOTIFY_SEND_MS)))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("countersign/", env!("CARGO_PKG_VERSION")))
            .build();
        config.new_agent()
    })
}

/// The certificates that this system trusts. Without any, no encrypted connection succeeds.
fn system_roots() -> Vec<Certificate<'static>> {
    let chosen = std::env::var("SSL_CERT_FILE").ok();
    let files = chosen.iter().map(String::as_str).chain(ROOT_FILES);
    let mut bundles = files.filter_map(|file| std::fs::read(file).ok());
    let bundle = bundles.next().unwrap_or_default();
    ureq::tls::parse_pem(&bundle)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use super::*;

    /// A server that takes one request, answers with `status`, and gives the request back.
    pub(crate) fn serve_once(status: u16, body: &'static str) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = Vec::new();
            let mut buffer = [0; 4096];
            while !is_complete(&bytes) {
                let read = stream.read(&mut buffer).unwrap();
                bytes.extend_from_slice(&buffer[..read]);
            }
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            )
            .unwrap();
            // Bodies of web push are not text; these tests look at heads and JSON only.
            String::from_utf8_lossy(&bytes).into_owned()
        });
        (address, served)
    }

    fn is_complete(bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
        let Some(head) = text.find("\r\n\r\n") else {
            return false;
        };
        let length = text[..head]
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"))
            .map_or(0, |length| length.trim().parse().unwrap());
        bytes.len() >= head + 4 + length
    }

    fn post(status: u16, body: &'static str) -> Result<(), SendError> {
        let (url, served) = serve_once(status, body);
        let request = OutgoingPost {
            url: &url,
            headers: &[],
            body: b"{}",
        };
        let sent = request.send();
        served.join().unwrap();
        sent
    }

    #[test]
    fn what_the_server_says_decides_whether_a_message_is_sent_again() {
        assert_eq!(post(200, ""), Ok(()));
        assert_eq!(post(204, ""), Ok(()));
        let later = SendError::Later("the server said 503 try later\\u{7}".to_owned());
        assert_eq!(post(503, "try later\u{7}"), Err(later));
        let refused = SendError::Refused("the server said 400 bad".to_owned());
        assert_eq!(post(400, "bad"), Err(refused));
        let gone = SendError::Gone("the server said 410".to_owned());
        assert_eq!(post(410, ""), Err(gone));
        // A redirect is not followed: it would carry the token elsewhere.
        let redirect = SendError::Later("the server said 302".to_owned());
        assert_eq!(post(302, ""), Err(redirect));
    }

    #[test]
    fn a_server_that_is_not_there_is_tried_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let request = OutgoingPost {
            url: &url,
            headers: &[],
            body: b"",
        };
        assert!(matches!(request.send(), Err(SendError::Later(_))));
    }
}

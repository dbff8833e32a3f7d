//! Webhooks, signed as Standard Webhooks says: `webhook-id`, `webhook-timestamp` and an HMAC over both
//! and the body in `webhook-signature`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use countersign_core::Timestamp;
use ring::hmac;
use serde::Serialize;

use crate::http::OutgoingPost;
use crate::{NotifyMessage, SendError};

/// The prefix of a secret that is written in base64.
const SECRET_PREFIX: &str = "whsec_";
const SECRET_BYTES_MIN: usize = 24;
const SECRET_BYTES_MAX: usize = 64;

/// An address that is posted to.
#[derive(Clone)]
pub struct WebhookChannel {
    url: String,
    key: Option<hmac::Key>,
}

/// Why a secret cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookSecretError {
    #[error("what follows `whsec_` is not base64")]
    NotBase64,
    #[error("a secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes, this one has {0}")]
    Length(usize),
}

#[derive(Serialize)]
struct WebhookBody<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    timestamp: String,
    data: WebhookData<'a>,
}

#[derive(Serialize)]
struct WebhookData<'a> {
    title: &'a str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deny_url: Option<String>,
}

impl WebhookChannel {
    /// A secret is `whsec_` and base64, or any text that is long enough. Without one, messages are not
    /// signed.
    pub fn new(url: String, secret: Option<&str>) -> Result<Self, WebhookSecretError> {
        let key = secret.map(parse_secret).transpose()?;
        Ok(Self { url, key })
    }

    /// `now` is the time of this attempt, which the signature covers.
    pub fn send(&self, message: &NotifyMessage, now: Timestamp) -> Result<(), SendError> {
        let body = body(message)?;
        let seconds = (now.0 / 1_000_000).to_string();
        let signature = self.sign(&message.id, &seconds, &body);
        let mut headers = vec![
            ("content-type", "application/json"),
            ("webhook-id", message.id.as_str()),
            ("webhook-timestamp", seconds.as_str()),
        ];
        headers.extend(
            signature
                .iter()
                .map(|value| ("webhook-signature", value.as_str())),
        );
        let request = OutgoingPost {
            url: &self.url,
            headers: &headers,
            body: &body,
        };
        // The address stays in the configuration: it may be served again.
        request.send().map_err(|error| match error {
            SendError::Gone(text) => SendError::Later(text),
            other => other,
        })
    }

    fn sign(&self, id: &str, seconds: &str, body: &[u8]) -> Option<String> {
        let mut signed = hmac::Context::with_key(self.key.as_ref()?);
        signed.update(format!("{id}.{seconds}.").as_bytes());
        signed.update(body);
        Some(format!("v1,{}", STANDARD.encode(signed.sign())))
    }
}

fn parse_secret(text: &str) -> Result<hmac::Key, WebhookSecretError> {
    let bytes = match text.strip_prefix(SECRET_PREFIX) {
        Some(encoded) => STANDARD
            .decode(encoded)
            .map_err(|_| WebhookSecretError::NotBase64)?,
        None => text.as_bytes().to_vec(),
    };
    if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&bytes.len()) {
        return Err(WebhookSecretError::Length(bytes.len()));
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

fn body(message: &NotifyMessage) -> Result<Vec<u8>, SendError> {
    let body = WebhookBody {
        kind: message.kind,
        timestamp: message.time(),
        data: WebhookData {
            title: &message.title,
            text: &message.text,
            agent: message.agent.as_deref(),
            id: message.subject.as_deref(),
            url: message.url(),
            deny_url: message.deny_url(),
        },
    };
    serde_json::to_vec(&body).map_err(|error| SendError::Refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::tests::serve_once;
    use crate::message::sample;

    /// The example of the Standard Webhooks specification's libraries.
    #[test]
    fn the_signature_is_that_of_the_specification() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let channel = WebhookChannel::new(String::new(), Some(secret)).unwrap();
        let body = br#"{"test": 2432232314}"#;
        let signature = channel.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature.as_deref(), Some(expected));
    }

    #[test]
    fn a_message_is_posted_with_its_id_and_the_time_of_the_attempt() {
        let (url, served) = serve_once(200, "");
        let channel = WebhookChannel::new(url, Some("a secret of twenty-four bytes")).unwrap();
        channel
            .send(&sample(), Timestamp(1_700_000_009_000_000))
            .unwrap();
        let request = served.join().unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let signed = channel.sign("evt_7_1700000000000000", "1700000009", body.as_bytes());
        for header in [
            "webhook-id: evt_7_1700000000000000".to_owned(),
            "webhook-timestamp: 1700000009".to_owned(),
            format!("webhook-signature: {}", signed.unwrap()),
        ] {
            assert!(head.contains(&header), "{header} in {head}");
        }
        let expected = serde_json::json!({
            "type": "approval.requested",
            "timestamp": "2023-11-14T22:13:20Z",
            "data": {
                "title": "fix asks: Bash",
                "text": "cargo test",
                "agent": "fix",
                "id": "approval-1",
                "url": "https://box.example/ask/approval-1",
                "deny_url": "https://box.example/notify/deny/SECRET",
            },
        });
        let sent: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(sent, expected);
    }

    #[test]
    fn a_secret_that_is_too_short_or_not_base64_is_refused() {
        let error = |secret: &str| WebhookChannel::new(String::new(), Some(secret)).err();
        assert_eq!(error("short"), Some(WebhookSecretError::Length(5)));
        assert_eq!(error("whsec_!"), Some(WebhookSecretError::NotBase64));
    }
}

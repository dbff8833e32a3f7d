//! Web Push: a message encrypted to one browser (RFC 8291), sent to its push service in the name of this
//! host (VAPID, RFC 8292).

mod encryption;
mod vapid;

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use countersign_core::Timestamp;
use ring::digest;
use serde::{Deserialize, Serialize};

use crate::http::OutgoingPost;
use crate::{AddressError, NotifyKeys, NotifyMessage, SendError, check_address};
use encryption::{AUTH_SECRET_BYTES, PUBLIC_KEY_BYTES, encrypt};

/// How long a push service keeps a message for a browser that is not reachable: an ask that old has
/// ended or is on the page.
const TTL_SECONDS: &str = "14400";

/// A browser that wants to be told, as it described itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushSubscription {
    /// The address at its push service. Whoever knows it and the keys can only send to this browser.
    pub endpoint: String,
    /// Its public key, in base64.
    pub p256dh: String,
    /// Its secret for authentication, in base64.
    pub auth: String,
    /// What its user calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// Why a subscription cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionError {
    #[error("the endpoint is not usable: {0}")]
    Endpoint(#[from] AddressError),
    #[error("the endpoint must begin with `https://`")]
    NotHttps,
    #[error("`p256dh` is not the public key of a browser")]
    PublicKey,
    #[error("`auth` is not the secret of a browser")]
    AuthSecret,
}

impl PushSubscription {
    /// Refuses what no browser sends.
    pub fn check(&self) -> Result<(), SubscriptionError> {
        if check_address(&self.endpoint)?.scheme() != "https" {
            return Err(SubscriptionError::NotHttps);
        }
        self.keys().map(drop)
    }

    fn keys(&self) -> Result<BrowserKeys, SubscriptionError> {
        let public = decode(&self.p256dh).and_then(|key| key.try_into().ok());
        let public: [u8; PUBLIC_KEY_BYTES] = public.ok_or(SubscriptionError::PublicKey)?;
        // An uncompressed point: the only form that browsers have.
        if public[0] != 4 {
            return Err(SubscriptionError::PublicKey);
        }
        let auth = decode(&self.auth).and_then(|secret| secret.try_into().ok());
        let auth = auth.ok_or(SubscriptionError::AuthSecret)?;
        Ok(BrowserKeys { public, auth })
    }
}

/// What a message is encrypted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BrowserKeys {
    public: [u8; PUBLIC_KEY_BYTES],
    auth: [u8; AUTH_SECRET_BYTES],
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let decoded = URL_SAFE_NO_PAD.decode(text);
    decoded.or_else(|_| URL_SAFE.decode(text)).ok()
}

/// What the service worker of the page gets.
#[derive(Serialize)]
struct PushBody<'a> {
    id: &'a str,
    kind: &'a str,
    title: &'a str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deny_path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    waits: bool,
}

/// One browser and the host's own keys.
#[derive(Clone)]
pub struct PushChannel {
    pub subscription: PushSubscription,
    pub keys: std::sync::Arc<NotifyKeys>,
}

impl PushChannel {
    pub fn send(&self, message: &NotifyMessage, now: Timestamp) -> Result<(), SendError> {
        let subscription = &self.subscription;
        let browser = subscription.keys();
        let browser = browser.map_err(|error| SendError::Gone(error.to_string()))?;
        let body = PushBody {
            id: &message.id,
            kind: message.kind,
            title: &message.title,
            text: &message.text,
            path: message.path.as_deref(),
            deny_path: message.deny_path.as_deref(),
            subject: message.subject.as_deref(),
            waits: message.waits,
        };
        let body =
            serde_json::to_vec(&body).map_err(|error| SendError::Refused(error.to_string()))?;
        let body = encrypt(&browser, &body)
            .map_err(|_| SendError::Gone("the browser's key is not valid".to_owned()))?;
        let contact = message.public_url.as_deref();
        let authorization = vapid::authorization(&self.keys, &subscription.endpoint, contact, now)?;
        let request = OutgoingPost {
            url: &subscription.endpoint,
            headers: &[
                ("authorization", &authorization),
                ("content-encoding", "aes128gcm"),
                ("content-type", "application/octet-stream"),
                ("ttl", TTL_SECONDS),
                ("urgency", if message.waits { "high" } else { "normal" }),
                ("topic", &topic(&message.id)),
            ],
            body: &body,
        };
        request.send()
    }
}

/// A message that the push service still has is replaced by one with the same topic: 32 characters.
fn topic(id: &str) -> String {
    let hash = digest::digest(&digest::SHA256, id.as_bytes());
    URL_SAFE_NO_PAD.encode(&hash.as_ref()[..24])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::http::tests::serve_once;
    use crate::message::sample;

    /// The browser of RFC 8291, appendix A.
    fn subscription(endpoint: &str) -> PushSubscription {
        PushSubscription {
            endpoint: endpoint.to_owned(),
            p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
                .to_owned(),
            auth: "BTBZMqHH6r4Tts7J_aSIgg".to_owned(),
            device: Some("phone".to_owned()),
        }
    }

    #[test]
    fn a_message_is_sent_encrypted_and_with_the_name_of_the_host() {
        let (endpoint, served) = serve_once(201, "");
        let channel = PushChannel {
            subscription: subscription(&endpoint),
            keys: Arc::new(NotifyKeys::generate().unwrap()),
        };
        channel
            .send(&sample(), Timestamp(1_700_000_000_000_000))
            .unwrap();
        let request = served.join().unwrap();
        for header in [
            "authorization: vapid t=",
            "content-encoding: aes128gcm",
            "urgency: high",
        ] {
            assert!(request.contains(header), "{header} in {request}");
        }
        assert!(!request.contains("cargo test"), "{request}");
    }

    #[test]
    fn a_subscription_that_ended_is_reported_as_gone() {
        let (endpoint, served) = serve_once(410, "");
        let channel = PushChannel {
            subscription: subscription(&endpoint),
            keys: Arc::new(NotifyKeys::generate().unwrap()),
        };
        let gone = SendError::Gone("the server said 410".to_owned());
        assert_eq!(channel.send(&sample(), Timestamp(0)), Err(gone));
        served.join().unwrap();
    }

    #[test]
    fn only_what_a_browser_sends_is_accepted() {
        let good = subscription("https://push.example/abc");
        assert_eq!(good.check(), Ok(()));
        let padded = PushSubscription {
            auth: format!("{}==", good.auth),
            ..good.clone()
        };
        assert_eq!(padded.check(), Ok(()));
        let local = subscription("http://127.0.0.1/abc");
        assert_eq!(local.check(), Err(SubscriptionError::NotHttps));
        let short = PushSubscription {
            p256dh: "BCVx".to_owned(),
            ..good.clone()
        };
        assert_eq!(short.check(), Err(SubscriptionError::PublicKey));
        let wrong = PushSubscription {
            auth: "?".to_owned(),
            ..good
        };
        assert_eq!(wrong.check(), Err(SubscriptionError::AuthSecret));
    }
}

//! VAPID (RFC 8292): a signed word for the push service that says which server sends.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use countersign_core::Timestamp;
use url::Url;

use crate::{NotifyKeys, SendError};

/// How long the word is valid: push services accept a day at most.
const VALID_SECONDS: u64 = 12 * 3600;

/// Whom a push service may turn to if the host has no public address.
const NO_CONTACT: &str = "https://localhost";

/// The value of the `authorization` header for one endpoint.
pub(super) fn authorization(
    keys: &NotifyKeys,
    endpoint: &str,
    contact: Option<&str>,
    now: Timestamp,
) -> Result<String, SendError> {
    let address = Url::parse(endpoint).map_err(|error| SendError::Gone(error.to_string()))?;
    let claims = serde_json::json!({
        "aud": address.origin().ascii_serialization(),
        "exp": now.0 / 1_000_000 + VALID_SECONDS,
        "sub": contact.unwrap_or(NO_CONTACT),
    });
    let header = URL_SAFE_NO_PAD.encode(r#"{"typ":"JWT","alg":"ES256"}"#);
    let unsigned = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let signature = keys.sign(unsigned.as_bytes());
    let signature = signature.map_err(|error| SendError::Later(error.to_string()))?;
    let signature = URL_SAFE_NO_PAD.encode(signature);
    Ok(format!(
        "vapid t={unsigned}.{signature}, k={}",
        keys.public_key()
    ))
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    #[test]
    fn the_word_is_signed_for_the_origin_of_the_endpoint() {
        let keys = NotifyKeys::generate().unwrap();
        let endpoint = "https://push.example:8443/send/abc?x=1";
        let value = authorization(
            &keys,
            endpoint,
            Some("https://box.example"),
            Timestamp(5_000_000),
        );
        let value = value.unwrap();
        let (token, key) = value.split_once(", k=").unwrap();
        let (unsigned, signature) = token
            .strip_prefix("vapid t=")
            .unwrap()
            .rsplit_once('.')
            .unwrap();
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, decode(key))
            .verify(unsigned.as_bytes(), &decode(signature))
            .unwrap();
        let (_, claims) = unsigned.split_once('.').unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&decode(claims)).unwrap();
        let expected = serde_json::json!({
            "aud": "https://push.example:8443",
            "exp": 43_205,
            "sub": "https://box.example",
        });
        assert_eq!(claims, expected);
    }
}

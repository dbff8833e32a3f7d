//! Encryption of a message to one browser: RFC 8291 over the content coding of RFC 8188.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral};
use ring::error::Unspecified;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::BrowserKeys;

pub(super) const PUBLIC_KEY_BYTES: usize = 65;
pub(super) const AUTH_SECRET_BYTES: usize = 16;
const SALT_BYTES: usize = 16;

/// The size of a record, which one message always fits into.
const RECORD_BYTES: u32 = 4096;

/// What marks the end of the last record.
const LAST_RECORD: u8 = 2;

/// What one message is encrypted with besides the browser's keys. Used once.
struct SenderSecrets {
    public: [u8; PUBLIC_KEY_BYTES],
    /// What the sender's private key and the browser's public key agree on.
    shared: Vec<u8>,
    salt: [u8; SALT_BYTES],
}

/// Encrypts a message that is shorter than a record. Fails if the browser's key is not a point of the
/// curve.
pub(super) fn encrypt(browser: &BrowserKeys, message: &[u8]) -> Result<Vec<u8>, Unspecified> {
    let random = SystemRandom::new();
    let private = EphemeralPrivateKey::generate(&ECDH_P256, &random)?;
    let public = private.compute_public_key()?;
    let mut salt = [0; SALT_BYTES];
    random.fill(&mut salt)?;
    let peer = UnparsedPublicKey::new(&ECDH_P256, browser.public);
    let shared = agree_ephemeral(private, &peer, <[u8]>::to_vec)?;
    let secrets = SenderSecrets {
        public: public.as_ref().try_into().map_err(|_| Unspecified)?,
        shared,
        salt,
    };
    encrypt_with(&secrets, browser, message)
}

fn encrypt_with(
    secrets: &SenderSecrets,
    browser: &BrowserKeys,
    message: &[u8],
) -> Result<Vec<u8>, Unspecified> {
    let (key, nonce) = derive_key(secrets, browser)?;
    let mut record = message.to_vec();
    record.push(LAST_RECORD);
    key.seal_in_place_append_tag(nonce, Aad::empty(), &mut record)?;
    let key_length = u8::try_from(PUBLIC_KEY_BYTES).map_err(|_| Unspecified)?;
    let mut body = secrets.salt.to_vec();
    body.extend_from_slice(&RECORD_BYTES.to_be_bytes());
    body.push(key_length);
    body.extend_from_slice(&secrets.public);
    body.extend_from_slice(&record);
    Ok(body)
}

/// Key and nonce as RFC 8291, section 3.4, derives them.
fn derive_key(
    secrets: &SenderSecrets,
    browser: &BrowserKeys,
) -> Result<(LessSafeKey, Nonce), Unspecified> {
    let key_info = [
        b"WebPush: info\0".as_slice(),
        &browser.public,
        &secrets.public,
    ]
    .concat();
    let input = expand(&extract(&browser.auth, &secrets.shared), &key_info);
    let derived = extract(&secrets.salt, input.as_ref());
    let key = expand(&derived, b"Content-Encoding: aes128gcm\0");
    let nonce = expand(&derived, b"Content-Encoding: nonce\0");
    let key = UnboundKey::new(&AES_128_GCM, &key.as_ref()[..16])?;
    let nonce = Nonce::try_assume_unique_for_key(&nonce.as_ref()[..12])?;
    Ok((LessSafeKey::new(key), nonce))
}

/// HKDF-Extract (RFC 5869).
fn extract(salt: &[u8], input: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, salt), input)
}

/// The first block of HKDF-Expand, which is all that is needed here.
fn expand(key: &hmac::Tag, info: &[u8]) -> hmac::Tag {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_ref());
    hmac::sign(&key, &[info, &[1]].concat())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn decode(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    fn array<const BYTES: usize>(text: &str) -> [u8; BYTES] {
        decode(text).try_into().unwrap()
    }

    /// The vectors of RFC 8291, section 5 and appendix A.
    #[test]
    fn the_example_of_the_rfc_comes_out_to_the_byte() {
        let browser = BrowserKeys {
            public: array(
                "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            ),
            auth: array("BTBZMqHH6r4Tts7J_aSIgg"),
        };
        let secrets = SenderSecrets {
            public: array(
                "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8",
            ),
            shared: decode("kyrL1jIIOHEzg3sM2ZWRHDRB62YACZhhSlknJ672kSs"),
            salt: array("DGv6ra1nlYgDCS1FRnbzlw"),
        };
        let body = encrypt_with(
            &secrets,
            &browser,
            b"When I grow up, I want to be a watermelon",
        );
        let expected = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLoc\
            InmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Q\
            ulcy4a-fN";
        assert_eq!(URL_SAFE_NO_PAD.encode(body.unwrap()), expected);
    }

    /// The other side of [`encrypt`], as a browser has it.
    fn decrypt(private: EphemeralPrivateKey, browser: &BrowserKeys, body: &[u8]) -> Vec<u8> {
        let (salt, rest) = body.split_first_chunk().unwrap();
        let (sender, record) = rest[5..].split_first_chunk().unwrap();
        let peer = UnparsedPublicKey::new(&ECDH_P256, sender);
        let secrets = SenderSecrets {
            public: *sender,
            shared: agree_ephemeral(private, &peer, <[u8]>::to_vec).unwrap(),
            salt: *salt,
        };
        let (key, nonce) = derive_key(&secrets, browser).unwrap();
        let mut record = record.to_vec();
        let opened = key.open_in_place(nonce, Aad::empty(), &mut record).unwrap();
        assert_eq!(opened.last(), Some(&LAST_RECORD));
        opened[..opened.len() - 1].to_vec()
    }

    #[test]
    fn a_browser_reads_what_was_encrypted_to_it() {
        let private = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new()).unwrap();
        let public = private.compute_public_key().unwrap();
        let browser = BrowserKeys {
            public: public.as_ref().try_into().unwrap(),
            auth: [7; AUTH_SECRET_BYTES],
        };
        let body = encrypt(&browser, b"fix asks").unwrap();
        assert_eq!(decrypt(private, &browser, &body), b"fix asks");
    }

    #[test]
    fn a_key_that_is_no_point_of_the_curve_is_refused() {
        let browser = BrowserKeys {
            public: [4; PUBLIC_KEY_BYTES],
            auth: [0; AUTH_SECRET_BYTES],
        };
        assert!(encrypt(&browser, b"x").is_err());
    }
}

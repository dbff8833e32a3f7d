//! Randomness: fresh names and secrets.

use countersign_core::hex;

/// `bytes` random bytes in hexadecimal.
///
/// # Panics
/// If the system has no randomness: then no name would be safe.
pub fn random_hex<const BYTES: usize>() -> String {
    hex(&random::<BYTES>())
}

/// A secret of 32 random bytes, as 43 characters of URL-safe base64.
///
/// # Panics
/// As [`random_hex`].
pub fn new_secret() -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(43);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for byte in random::<32>() {
        bits = (bits << 8) | u32::from(byte);
        held += 8;
        while held >= 6 {
            held -= 6;
            text.push(char::from(DIGITS[((bits >> held) & 63) as usize]));
        }
    }
    text.push(char::from(DIGITS[((bits << (6 - held)) & 63) as usize]));
    text
}

#[expect(
    clippy::expect_used,
    reason = "without randomness nothing here is safe: stop"
)]
fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_have_their_form_and_never_repeat() {
        let (one, two) = (new_secret(), new_secret());
        assert_eq!((one.len(), two.len()), (43, 43));
        assert_ne!(one, two);
        assert!(
            one.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        );
        assert_eq!(random_hex::<6>().len(), 12);
    }
}

//! Fresh ids and secrets. Every id that the host makes up is made here.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_core::{
    AgentId, ApprovalId, ClientId, DeviceId, GrantId, QuestionId, TokenId, hex,
};

pub fn new_agent_id() -> AgentId {
    AgentId::new(format!("agent-{}", random_hex::<6>()))
}

/// The id of an agent that the host did not start and that calls its tools.
pub fn new_mcp_agent_id() -> AgentId {
    AgentId::new(format!("mcp-{}", random_hex::<4>()))
}

pub fn new_approval_id() -> ApprovalId {
    ApprovalId::new(format!("approval-{}", random_hex::<6>()))
}

pub fn new_question_id() -> QuestionId {
    QuestionId::new(format!("question-{}", random_hex::<6>()))
}

pub fn new_device_id() -> DeviceId {
    DeviceId::new(format!("device-{}", random_hex::<6>()))
}

pub(crate) fn new_grant_id() -> GrantId {
    GrantId::new(format!("grant-{}", random_hex::<6>()))
}

pub(crate) fn new_token_id() -> TokenId {
    TokenId::new(format!("token-{}", random_hex::<6>()))
}

pub(crate) fn new_client_id() -> ClientId {
    ClientId::new(random_hex::<6>())
}

/// The id of a request in the log. It need not be hard to guess, so that only the first one asks the
/// system for randomness.
pub fn new_request_id() -> String {
    static FIRST: OnceLock<u64> = OnceLock::new();
    static REQUESTS: AtomicU64 = AtomicU64::new(0);
    let first = FIRST.get_or_init(|| u64::from_le_bytes(random()));
    let number = first.wrapping_add(REQUESTS.fetch_add(1, Ordering::Relaxed));
    // Multiplying by an odd number gives each request another id, and ids that look unlike each other.
    hex(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes())
}

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
    fn ids_of_requests_never_repeat() {
        let ids: std::collections::BTreeSet<String> = (0..1000).map(|_| new_request_id()).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| id.len() == 16));
    }

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

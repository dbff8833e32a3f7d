//! The hash chain over the record. Settled for good: changing a byte here breaks every log.
//!
//! ```text
//! digest  = SHA-256( salt | body )
//! header  = len(stream) | stream | seq | at | len(kind) | kind | version | digest
//! hash    = SHA-256( hash of the event before | header )
//! genesis = SHA-256( "countersign" | stream )
//! ```
//!
//! `salt` is 16 random bytes, `body` the payload's JSON as stored, `stream` and `kind` are UTF-8.
//! `len(…)` and `version` are 4 bytes, `seq` and `at` (microseconds since 1970) 8 bytes, all
//! big-endian; digests and hashes are 32 bytes. The event with number 1 follows the genesis.
//!
//! The salt is kept beside the body and erased with it, so that the digest that stays behind
//! does not give an erased payload away to somebody who can guess it.

use sha2::{Digest as _, Sha256};

/// The version of event written today.
pub(crate) const VERSION: u32 = 1;

/// A SHA-256.
pub(crate) type ChainHash = [u8; 32];

/// Random bytes before a payload.
pub(crate) type PayloadSalt = [u8; 16];

/// What the chain covers of an event besides the hash of the one before.
pub(crate) struct EventHeader<'a> {
    pub(crate) stream: &'a str,
    pub(crate) seq: u64,
    pub(crate) at: u64,
    pub(crate) kind: &'a str,
    pub(crate) version: u32,
    pub(crate) digest: &'a ChainHash,
}

/// What the first event of a stream follows.
pub(crate) fn genesis(stream: &str) -> ChainHash {
    Sha256::new()
        .chain_update(b"countersign")
        .chain_update(stream)
        .finalize()
        .into()
}

/// What a header says of its payload.
pub(crate) fn digest(salt: &[u8], body: &[u8]) -> ChainHash {
    Sha256::new()
        .chain_update(salt)
        .chain_update(body)
        .finalize()
        .into()
}

/// The hash of an event that follows one with hash `previous`.
pub(crate) fn chain_hash(previous: &ChainHash, header: &EventHeader<'_>) -> ChainHash {
    let mut hasher = Sha256::new();
    hasher.update(previous);
    update_text(&mut hasher, header.stream);
    hasher.update(header.seq.to_be_bytes());
    hasher.update(header.at.to_be_bytes());
    update_text(&mut hasher, header.kind);
    hasher.update(header.version.to_be_bytes());
    hasher.update(header.digest);
    hasher.finalize().into()
}

fn update_text(hasher: &mut Sha256, text: &str) {
    // Streams and kinds are words of ours, far below 4 GB.
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    // The length in front keeps the boundary between stream, numbers and kind unambiguous.
    hasher.update(length.to_be_bytes());
    hasher.update(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_core::hex;

    /// Computed apart from this code; the chain of every log depends on these bytes.
    #[test]
    fn test_vector_holds() {
        let digest = digest(&[7; 16], br#"{"token":"t","by":"b"}"#);
        assert_eq!(
            hex(&digest),
            "181c408014b5fb4ec39865bd7ca64e3d0aba2e8da6805c37e3a3a7b3f1370613"
        );
        let genesis = genesis("0011223344556677");
        assert_eq!(
            hex(&genesis),
            "96d08c382d9f4469c5238bf6e444d0a06d6d253f96b67a94e5597cf4e4a0b4d9"
        );
        let header = EventHeader {
            stream: "0011223344556677",
            seq: 1,
            at: 1_700_000_000_000_000,
            kind: "token.revoked",
            version: 1,
            digest: &digest,
        };
        assert_eq!(
            hex(&chain_hash(&genesis, &header)),
            "272ecab56c17948561e2f24a4165fa23dfd09463d0387a67cea69857e235df91"
        );
    }
}

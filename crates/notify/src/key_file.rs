//! The host's own keys for notifications: one that signs for push services, one that makes the addresses
//! which deny an ask.
//!
//! Invariant: they are in one file that only its user can read, and they never leave it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::error::{KeyRejected, Unspecified};
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde::{Deserialize, Serialize};

/// How much of a code in an address counts: 128 bits, too many to guess.
const CODE_BYTES: usize = 16;

const DENY_KEY_BYTES: usize = 32;

/// The keys, ready to be used.
pub struct NotifyKeys {
    push: EcdsaKeyPair,
    deny: hmac::Key,
    stored: StoredKeys,
}

/// The keys as they are stored, in base64.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredKeys {
    /// PKCS #8.
    push: String,
    deny: String,
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("could not use `{}`", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` can be read by others: `chmod 600 {}`", .0.display(), .0.display())]
    Open(PathBuf),
    #[error("`{}` does not contain the keys of a host; remove it; browsers then have to subscribe again", .0.display())]
    Damaged(PathBuf),
    #[error("the system has no randomness")]
    NoRandomness,
}

impl NotifyKeys {
    /// New keys, in memory only.
    pub fn generate() -> Result<Self, KeyFileError> {
        let stored = StoredKeys::generate().map_err(|_| KeyFileError::NoRandomness)?;
        stored.parse().ok_or(KeyFileError::NoRandomness)
    }

    /// The keys in a file, which is made if there is none.
    pub fn load_or_create(path: &Path) -> Result<Self, KeyFileError> {
        match std::fs::read(path) {
            Ok(text) => {
                let found = std::fs::metadata(path).map_err(|source| file_error(path, source))?;
                if found.mode() & 0o077 != 0 {
                    return Err(KeyFileError::Open(path.to_owned()));
                }
                let stored: Option<StoredKeys> = serde_json::from_slice(&text).ok();
                let keys = stored.and_then(StoredKeys::parse);
                keys.ok_or_else(|| KeyFileError::Damaged(path.to_owned()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let keys = Self::generate()?;
                keys.save(path).map_err(|source| file_error(path, source))?;
                Ok(keys)
            }
            Err(source) => Err(file_error(path, source)),
        }
    }

    /// Written under another name first: a host that is killed meanwhile leaves no half of a file.
    fn save(&self, path: &Path) -> io::Result<()> {
        let draft = path.with_extension("new");
        match std::fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let mut file: File = options
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&draft)?;
        file.write_all(&serde_json::to_vec(&self.stored)?)?;
        file.sync_all()?;
        std::fs::rename(&draft, path)
    }

    /// What browsers need to subscribe: the `applicationServerKey`, in base64.
    pub fn public_key(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.push.public_key())
    }

    pub(crate) fn sign(&self, text: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let signature = self.push.sign(&SystemRandom::new(), text)?;
        Ok(signature.as_ref().to_vec())
    }

    /// A code that only this host can make for `subject`.
    pub fn code_for(&self, subject: &str) -> String {
        let tag = hmac::sign(&self.deny, subject.as_bytes());
        URL_SAFE_NO_PAD.encode(&tag.as_ref()[..CODE_BYTES])
    }

    /// Whether `code` is the one for `subject`, in a time that does not depend on how much of it is
    /// right.
    pub fn is_code_for(&self, subject: &str, code: &str) -> bool {
        // Both are hashed with the key before they are compared, so that nothing about the right
        // code shows in the time of the comparison.
        let right = hmac::sign(&self.deny, self.code_for(subject).as_bytes());
        hmac::verify(&self.deny, code.as_bytes(), right.as_ref()).is_ok()
    }
}

impl StoredKeys {
    fn generate() -> Result<Self, Unspecified> {
        let random = SystemRandom::new();
        let push = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)?;
        let mut deny = [0; DENY_KEY_BYTES];
        random.fill(&mut deny)?;
        Ok(Self {
            push: URL_SAFE_NO_PAD.encode(push),
            deny: URL_SAFE_NO_PAD.encode(deny),
        })
    }

    fn parse(self) -> Option<NotifyKeys> {
        let push = URL_SAFE_NO_PAD.decode(&self.push).ok()?;
        let deny = URL_SAFE_NO_PAD.decode(&self.deny).ok()?;
        let push: Result<EcdsaKeyPair, KeyRejected> = EcdsaKeyPair::from_pkcs8(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            &push,
            &SystemRandom::new(),
        );
        (deny.len() == DENY_KEY_BYTES).then_some(())?;
        Some(NotifyKeys {
            push: push.ok()?,
            deny: hmac::Key::new(hmac::HMAC_SHA256, &deny),
            stored: self,
        })
    }
}

fn file_error(path: &Path, source: io::Error) -> KeyFileError {
    KeyFileError::File {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn keys_are_made_once_and_are_for_their_user_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("notify.keys");
        let made = NotifyKeys::load_or_create(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let loaded = NotifyKeys::load_or_create(&path).unwrap();
        assert_eq!(loaded.public_key(), made.public_key());
        assert!(loaded.is_code_for("a", &made.code_for("a")));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let open = NotifyKeys::load_or_create(&path).err();
        assert!(matches!(open, Some(KeyFileError::Open(_))), "{open:?}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "{}").unwrap();
        let damaged = NotifyKeys::load_or_create(&path).err();
        assert!(
            matches!(damaged, Some(KeyFileError::Damaged(_))),
            "{damaged:?}"
        );
    }

    #[test]
    fn a_code_is_for_one_subject_of_one_host() {
        let keys = NotifyKeys::generate().unwrap();
        let other = NotifyKeys::generate().unwrap();
        let code = keys.code_for("approval-1");
        assert_eq!(code.len(), 22);
        assert!(keys.is_code_for("approval-1", &code));
        for (keys, subject, code) in [
            (&keys, "approval-2", code.as_str()),
            (&other, "approval-1", &code),
            (&keys, "approval-1", &code[1..]),
            (&keys, "approval-1", ""),
        ] {
            assert!(!keys.is_code_for(subject, code));
        }
    }
}

//! What a runner leaves when it goes without a host.

use serde::{Deserialize, Serialize};

use crate::adapter::{Exit, Name};

/// Everything the next host needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWords {
    /// The number of the first byte of `output`.
    pub from: u64,
    /// What the agent said and no host committed.
    pub output: Vec<u8>,
    /// How the agent ended.
    pub exit: Exit,
    /// Why the runner ended it, if it did.
    pub why: Option<String>,
    /// The end of what the agent wrote for its log.
    pub log: String,
    /// What was written to it, by name, with its meaning.
    pub written: Vec<(Name, String)>,
    /// What was claimed.
    pub claimed: Vec<Name>,
}

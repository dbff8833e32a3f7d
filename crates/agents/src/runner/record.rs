//! What is known of a runner before it is started: enough for any host to find or to end it.

use std::path::PathBuf;

use countersign_core::event::Protocol;
use serde::{Deserialize, Serialize};

use crate::tree::TreeRecord;

/// Written to the host's record, and to `record.json` in the runner's folder, before a runner is
/// started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerRecord {
    /// What holds the agent's processes together. The runner itself is not in it.
    pub tree: TreeRecord,
    /// The runner's own folder: its record, what it could not keep in memory, its exit report.
    pub folder: PathBuf,
    /// Where it may be reached, the best first. The folder of the first may vanish with a person's
    /// session; then the runner listens at the next.
    pub sockets: Vec<PathBuf>,
    /// How long it continues without a host.
    pub patience_ms: u64,
    pub protocol: Protocol,
}

//! Plans: what is enforced on one agent, as paths and numbers.

use std::path::{Path, PathBuf};

use countersign_core::event::SandboxLevel;
use serde::{Deserialize, Serialize};

/// Where programs in the sandbox find the runner. Nothing else is in their namespace, so the port is free.
pub const PROXY_PORT: u16 = 3128;

/// What is enforced. All paths are absolute; those that do not exist are left out when it is enforced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfinementPlan {
    /// The profile's name, for people.
    pub profile: String,
    pub level: SandboxLevel,
    /// The program that makes the view of files, at level `full`.
    pub bubblewrap: PathBuf,
    pub read: Vec<PathBuf>,
    pub hide: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// Where `write` and `read_only` name the same path or one inside the other, the longer path counts.
    pub read_only: Vec<PathBuf>,
    /// Folders of sockets that stay visible.
    pub sockets: Vec<PathBuf>,
    /// What the agent sees as `/tmp` and `/var/tmp`.
    pub tmp: Option<PathBuf>,
    pub network: NetworkAccess,
    /// Names that are reached without an ask, where the network is a proxy.
    #[serde(default)]
    pub domains: Vec<String>,
    /// Ports of this machine's loopback that the agent reaches on its own, where the network is a proxy.
    #[serde(default)]
    pub local_ports: Vec<u16>,
    /// Nobody is asked about writes to paths that begin like these.
    #[serde(default)]
    pub unasked: Vec<PathBuf>,
    /// How long what is blocked waits for an answer. Zero: it fails at once and nobody is asked.
    #[serde(default)]
    pub hold_ms: u64,
    pub processes: u64,
}

impl ConfinementPlan {
    /// Whether the agent's only way out is the runner.
    pub fn has_proxy(&self) -> bool {
        self.network == NetworkAccess::Proxy && self.level == SandboxLevel::Full
    }

    /// Whether a path, as it is written, lies in a folder that may be changed.
    pub fn may_write(&self, path: &Path) -> bool {
        let longest = |roots: &[PathBuf]| {
            let holds = roots.iter().filter(|root| path.starts_with(root));
            holds.map(|root| root.components().count()).max()
        };
        longest(&self.write) > longest(&self.read_only).max(longest(&self.hide))
    }
}

/// What an agent reaches over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkAccess {
    /// Nothing, not even other processes of this machine.
    None,
    /// What a person or a rule allows, through the runner. Where there is no network namespace it is nothing.
    Proxy,
    /// Everything.
    #[default]
    Open,
}

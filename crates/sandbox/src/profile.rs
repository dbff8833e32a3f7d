//! Profiles, as people write them in `[sandbox.NAME]`.

use countersign_core::event::SandboxLevel;
use serde::{Deserialize, Serialize};

use crate::plan::NetworkAccess;

/// What an agent may reach. A path is absolute, begins with `~/`, is relative to the agent's folder, or is
/// one of the words that [`resolve`](crate::resolve) knows, such as `@worktree`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxProfile {
    /// What it sees.
    pub read: Vec<String>,
    /// What it does not see, although it is in `read`.
    pub hide: Vec<String>,
    /// What it may change.
    pub write: Vec<String>,
    /// What it may not change, although it is in `write`.
    pub read_only: Vec<String>,
    pub network: NetworkAccess,
    /// Names that it reaches without an ask, if the network is a proxy.
    pub domains: Vec<String>,
    /// Folders with Unix sockets that it may connect to.
    pub sockets: Vec<String>,
    pub limits: SandboxLimits,
    /// The least with which anything is started.
    pub require: RequiredLevel,
}

/// Bounds on what runs at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxLimits {
    /// Processes and threads.
    pub processes: u64,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        // Threads count, and a parallel build has hundreds: it only has to stop what multiplies without end.
        Self { processes: 4096 }
    }
}

/// The least level with which anything is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequiredLevel {
    #[default]
    Full,
    Landlock,
    None,
}

impl RequiredLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Landlock => "landlock",
            Self::None => "none",
        }
    }

    pub fn is_met_by(self, level: SandboxLevel) -> bool {
        let least = match self {
            Self::Full => SandboxLevel::Full,
            Self::Landlock => SandboxLevel::Landlock,
            Self::None => SandboxLevel::Open,
        };
        level >= least
    }
}

/// What a repository may say about the sandbox of agents that work in it: only what takes something from them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RepositorySandbox {
    pub hide: Vec<String>,
    pub read_only: Vec<String>,
    pub network: Option<NetworkAccess>,
}

impl RepositorySandbox {
    /// Reads a repository's file. Fails with a message for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read: Self = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if read.network == Some(NetworkAccess::Open) {
            return Err(
                "a repository cannot open the network, only close it with \"none\" or \"proxy\""
                    .into(),
            );
        }
        Ok(read)
    }
}

impl SandboxProfile {
    /// The profile with what a repository takes from it.
    #[must_use]
    pub fn tightened(mut self, by: RepositorySandbox) -> Self {
        self.hide.extend(by.hide);
        self.read_only.extend(by.read_only);
        self.network = by.network.unwrap_or(self.network).min(self.network);
        self
    }

    /// The name of the profile that agents get unless told otherwise.
    pub const USUAL: &str = "work";

    /// The name that stands for no sandbox.
    pub const OPEN: &str = "open";
}

/// The profile `work`.
impl Default for SandboxProfile {
    fn default() -> Self {
        Self {
            read: words(&["/"]),
            hide: words(&[
                "~/.ssh",
                "~/.aws",
                "~/.gnupg",
                "~/.config/gh",
                "~/.netrc",
                "~/.docker",
                "~/.kube",
                "@countersign",
            ]),
            write: words(&["@worktree", "@git", "@tmp", "@caches", "@agent"]),
            read_only: words(&[".git", "@rules"]),
            network: NetworkAccess::Open,
            domains: words(&["@model"]),
            sockets: words(&["@host"]),
            limits: SandboxLimits::default(),
            require: RequiredLevel::Full,
        }
    }
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|&word| word.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_only_takes() {
        let text = "hide = [\"secrets\"]\nread_only = [\"ci\"]\nnetwork = \"none\"\n";
        let profile = SandboxProfile::default().tightened(RepositorySandbox::parse(text).unwrap());
        let usual = SandboxProfile::default();
        let expected = SandboxProfile {
            hide: usual
                .hide
                .iter()
                .cloned()
                .chain(["secrets".to_owned()])
                .collect(),
            read_only: usual
                .read_only
                .iter()
                .cloned()
                .chain(["ci".to_owned()])
                .collect(),
            network: NetworkAccess::None,
            ..usual
        };
        assert_eq!(profile, expected);
        for wrong in [
            "write = [\"/\"]",
            "network = \"open\"",
            "read = [\"/\"]",
            "require = \"none\"",
            "hide = 1",
        ] {
            assert!(RepositorySandbox::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            RepositorySandbox::parse(""),
            Ok(RepositorySandbox::default())
        );
    }
}

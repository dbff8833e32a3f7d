//! Profiles, as people write them in `[sandbox.NAME]`.

use countersign_core::event::SandboxLevel;
use countersign_core::limits::SANDBOX_HOLD_SECONDS_MAX;
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
    /// How long what is blocked waits for an answer.
    pub hold: HoldTime,
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

/// How long a connection or a system call waits, written as `90s` or `2m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HoldTime {
    seconds: u64,
}

impl HoldTime {
    pub fn as_millis(self) -> u64 {
        self.seconds * 1000
    }

    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = match (text.strip_suffix('s'), text.strip_suffix('m')) {
            (Some(number), _) => (number, 1),
            (_, Some(number)) => (number, 60),
            _ => return None,
        };
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let number: u64 = number.parse().ok().filter(|_| is_number)?;
        let seconds = number.checked_mul(unit)?;
        (seconds <= SANDBOX_HOLD_SECONDS_MAX).then_some(Self { seconds })
    }
}

/// Long enough for a person who is at the machine; clients of servers give up after a minute or two.
impl Default for HoldTime {
    fn default() -> Self {
        Self { seconds: 60 }
    }
}

impl TryFrom<String> for HoldTime {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| {
            format!("`{text}` is not a time; write seconds or minutes up to an hour, such as `90s` or `2m`")
        })
    }
}

impl From<HoldTime> for String {
    fn from(time: HoldTime) -> Self {
        format!("{}s", time.seconds)
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
            network: NetworkAccess::Proxy,
            domains: words(&["@model"]),
            sockets: words(&["@host"]),
            hold: HoldTime::default(),
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
    fn a_hold_is_written_in_seconds_or_minutes() {
        let seconds = |text: &str| HoldTime::parse(text).map(HoldTime::as_millis);
        assert_eq!(seconds("0s"), Some(0));
        assert_eq!(seconds("90s"), Some(90_000));
        assert_eq!(seconds("60m"), Some(3_600_000));
        for wrong in [
            "",
            "s",
            "60",
            "1h",
            "-1s",
            "+1s",
            "1.5s",
            "61m",
            "99999999999999999999s",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }

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

//! A person's own terminals, which only operators can open, read and write.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Time;

/// A terminal of a person. What runs in it is a person's and never an agent's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OwnTerminalRow {
    /// How many bytes were written in it.
    pub bytes: u64,
    pub columns: u16,
    pub command: String,
    /// The folder it was opened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The number of the oldest byte that is kept.
    pub first_offset: u64,
    pub id: String,
    pub rows: u16,
    /// The signal that ended it, as `SIGKILL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Time,
}

/// `host.open_terminal`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenTerminalParams {
    /// The agent in whose folder it opens, by name or id, unless `cwd` says another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// What the shell runs; without it the shell is interactive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// 80 if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<u16>,
    /// An absolute folder; without one, and without an agent, it is the home of the host's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// 24 if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
}

/// `host.close_terminal`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnTerminalParams {
    pub terminal_id: String,
}

/// `host.own_terminal_output`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnTerminalOutputParams {
    pub terminal_id: String,
    #[serde(default)]
    pub after: Option<u64>,
    /// Whether to wait for more, for up to 25 seconds.
    #[serde(default)]
    pub wait: bool,
}

/// What is typed into a terminal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteTerminalBody {
    /// The bytes, in base 64: at most 64 KB.
    pub data: String,
}

/// `host.write_terminal`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WriteTerminalParams {
    pub terminal_id: String,
    /// The bytes, in base 64: at most 64 KB.
    pub data: String,
}

/// How much of it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WrittenTerminal {
    /// In bytes. Less than was sent if the program does not read: send the rest again.
    pub written: u64,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeTerminalBody {
    pub columns: u16,
    pub rows: u16,
}

/// `host.resize_terminal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResizeTerminalParams {
    pub terminal_id: String,
    pub columns: u16,
    pub rows: u16,
}

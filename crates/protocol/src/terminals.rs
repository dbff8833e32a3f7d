//! Terminals of agents, for people to read.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::Time;

/// A terminal in which a command of an agent runs or ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TerminalRow {
    /// How many bytes it wrote.
    pub bytes: u64,
    pub command: String,
    /// The folder it ran in.
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
    /// The signal that ended it, as `SIGKILL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Time,
}

/// `host.terminal_output`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TerminalOutputParams {
    pub agent_id: String,
    pub terminal_id: String,
    #[serde(default)]
    pub after: Option<u64>,
    /// Whether to wait for more, for up to 25 seconds.
    #[serde(default)]
    pub wait: bool,
}

/// From where output is read.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TerminalOutputQuery {
    /// How many bytes the reader has: `next` of the reply before.
    #[serde(default)]
    pub after: Option<u64>,
}

/// A piece of a terminal's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TerminalOutputResult {
    /// The bytes, in base 64. They are an agent's: draw them where they can reach nothing.
    pub data: String,
    /// Whether nothing comes after them.
    pub ended: bool,
    /// The number of the first byte.
    pub from: u64,
    /// Pass as `after` to continue.
    pub next: u64,
    /// How many bytes after `after` are not kept any more.
    pub skipped: u64,
}

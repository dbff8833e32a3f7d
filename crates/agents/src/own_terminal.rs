//! A person's own terminals: each a program in a pseudo-terminal under a small runner process, which outlives the host.
//!
//! A call is one connection with one frame each way, so that a host that comes after needs nothing but the folder.
//!
//! Invariants: what runs in one is a person's, never an agent's, so that no agent's process is served by its
//! runner; what is typed is written once; nothing of it runs after it was closed.

mod call;
mod host_lock;
mod program;
mod record;
mod run;
mod start;
mod wire;

use serde::{Deserialize, Serialize};

use crate::shells::TerminalSummary;

pub use call::{OwnTerminal, OwnTerminalError};
pub use record::{EndedTerminal, OwnTerminalRecord, end_left_over, find_left};
pub use run::run;
pub use start::{OwnTerminalProgram, OwnTerminalStart, default_command, new_id, start};

/// The first argument of such a runner. Not that of agents' runners, whose descendants are agents.
pub const RUNNER_COMMAND: &str = "terminal-runner";

/// Columns and rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

/// What a terminal is and how far it got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnTerminalStatus {
    pub summary: TerminalSummary,
    pub size: TerminalSize,
}

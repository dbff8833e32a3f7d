//! The link between a host and a runner: frames in both directions.
//!
//! A frame is its length (four bytes, the highest first), the length of its head (four bytes), the
//! head as JSON, and a body of plain bytes. Fields that are not known are ignored, so that a newer
//! host can drive an older runner; a host says which versions it speaks, and the runner chooses.
//!
//! Numbers: what the agent says is numbered by its bytes, and a line by the number of bytes that
//! were said when it ended. What a host says has a [`WriteId`].

use std::ffi::OsString;
use std::path::PathBuf;

use countersign_core::event::ProcessKey;
use countersign_sandbox::ConfinementPlan;
use serde::{Deserialize, Serialize};

use super::holds::HeldTarget;
use crate::adapter::{ProcessExit, WriteId, WriteKind};
use crate::shells::TerminalSummary;

/// The newest version of the link that is spoken here.
pub(super) const VERSION: u32 = 4;

/// The first in which people can read terminals.
pub(super) const VERSION_WITH_READERS: u32 = 2;

/// The first in which connections are held.
pub(super) const VERSION_WITH_HOLDS: u32 = 3;

/// The first in which opens are held as well.
pub(super) const VERSION_WITH_HELD_OPENS: u32 = 4;

/// The oldest that is still spoken.
pub(super) const VERSION_OLDEST: u32 = 1;

/// What a host says. The first is always [`ToRunner::Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToRunner {
    /// A host is there. Any other host's connection is closed: the newest counts.
    Hello {
        /// The versions it speaks, both included.
        oldest: u32,
        newest: u32,
        /// How much of what the agent said is committed; what comes after it is sent.
        heard: u64,
        /// Lines up to there that still may be answered.
        open: Vec<u64>,
    },
    /// Start the agent, once.
    Launch(LaunchRequest),
    /// Write these to the agent, in order, each unless it was written before. The body holds their
    /// bytes one after the other.
    Write { items: Vec<WriteHeader> },
    /// Everything up to there is committed and need not be kept; `open` as in `Hello`.
    Committed { through: u64, open: Vec<u64> },
    /// Something is about to be done that must not be done twice.
    Claim { id: u64, name: WriteId },
    /// A call of the shell backend.
    Shell { id: u64, call: ShellCall },
    /// What becomes of whatever waits under this number.
    Release { id: u64, hold: u64, allow: bool },
    /// End the agent and everything it started, with this much time before each next step. The
    /// runner stays until `Bye`.
    Stop { grace_ms: u64 },
    /// The agent's end is committed: clear everything away and go.
    Bye,
}

/// What a runner says. The first is [`ToHost::Hello`] or [`ToHost::Refused`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToHost {
    /// The runner speaks this version.
    Hello {
        version: u32,
        /// The agent's process, once there is one.
        agent: Option<ProcessKey>,
        /// The end of what the agent wrote for its log.
        log: String,
    },
    /// This caller is not served.
    Refused {
        why: String,
    },
    Launched {
        process: ProcessKey,
    },
    NotLaunched {
        why: String,
    },
    /// The body is what the agent said from `at` on.
    Output {
        at: u64,
    },
    /// What the agent wrote for its log.
    Log {
        text: String,
    },
    /// What became of one item, in the order of the items: `kind` is that of the item that was
    /// written under this id, which may have been another host's.
    Written {
        id: WriteId,
        kind: WriteKind,
        outcome: WriteStatus,
    },
    Claimed {
        id: u64,
        fresh: bool,
    },
    Shell {
        id: u64,
        result: Result<ShellReply, ShellFailure>,
    },
    /// Connections or opens wait. Said again to each host that comes, until one has decided.
    Held {
        hold: u64,
        target: HeldTarget,
    },
    /// Whether the number was known.
    Released {
        id: u64,
        known: bool,
    },
    /// The agent's process is gone, and everything it started. All it said was sent before this.
    Exited {
        exit: ProcessExit,
        /// Why the runner ended it, if it did.
        why: Option<String>,
    },
}

/// What to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LaunchRequest {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) cwd: PathBuf,
    /// The agent's whole environment; terminals begin with it too.
    pub(super) env: Vec<(OsString, OsString)>,
    /// What is enforced on it and on everything it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) confinement: Option<Box<ConfinementPlan>>,
}

/// One thing to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WriteHeader {
    pub(super) id: WriteId,
    pub(super) kind: WriteKind,
    /// How many bytes of the body.
    pub(super) bytes: usize,
}

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WriteStatus {
    /// All of it is in the pipe.
    Written,
    /// The agent went away first; some of it may be in the pipe.
    Gone,
}

/// A call of the shell backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub(super) enum ShellCall {
    /// A second one with the same key gives the same terminal and starts nothing.
    Create {
        key: u64,
        command: String,
        cwd: PathBuf,
        /// Added to the agent's environment.
        env: Vec<(OsString, OsString)>,
        output_bytes_max: usize,
    },
    Output {
        terminal: String,
    },
    WaitForExit {
        terminal: String,
    },
    Kill {
        terminal: String,
    },
    Release {
        terminal: String,
    },
    List,
    ReadFrom {
        terminal: String,
        after: u64,
        wait_ms: u64,
    },
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "done", rename_all = "snake_case")]
pub(super) enum ShellReply {
    Created {
        terminal: String,
    },
    /// The body is the text.
    Output {
        truncated: bool,
        exit: Option<ProcessExit>,
    },
    Exited {
        exit: ProcessExit,
    },
    Listed {
        terminals: Vec<TerminalSummary>,
    },
    /// The body is the bytes.
    Piece {
        from: u64,
        is_end: bool,
    },
    Done,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "error", content = "message", rename_all = "snake_case")]
pub(super) enum ShellFailure {
    NotFound(String),
    NotPermitted(String),
    Failed(String),
}

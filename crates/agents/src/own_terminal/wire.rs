//! What a host and the runner of a terminal say to each other: one call, one reply.
//!
//! Fields that are not known are ignored, because a runner may be older or newer than its host.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{OwnTerminalStatus, TerminalSize};

/// What the runner starts, told through its standard input: no file and no process list shows the environment.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProgramLaunch {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) cwd: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) size: TerminalSize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub(super) enum TerminalCall {
    Status,
    Read {
        after: u64,
        wait_ms: u64,
    },
    /// The status, when its program has ended or that time is over.
    WaitForExit {
        wait_ms: u64,
    },
    /// The body is what was typed.
    Write,
    Resize(TerminalSize),
    /// End everything in it, and the runner.
    Close,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "done", rename_all = "snake_case")]
pub(super) enum TerminalReply {
    Refused {
        why: String,
    },
    Status(Box<OwnTerminalStatus>),
    /// The body is the bytes.
    Piece {
        from: u64,
        is_end: bool,
    },
    /// How many bytes were taken.
    Written {
        bytes: usize,
    },
    Done,
}

//! The state of a connection to Claude Code.
//!
//! Invariant: everything that an answer needs is here, so that another process can continue from this
//! state and the pipe.

use std::collections::{BTreeMap, BTreeSet};

use countersign_core::Json;
use serde::{Deserialize, Serialize};

use crate::adapter::{RequestId, is_default};

/// How far the connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClaudePhase {
    /// Nothing was sent yet.
    #[default]
    New,
    /// `initialize` was sent.
    Initializing,
    /// Ready for turns.
    Open,
    /// No session could be opened.
    Failed,
}

/// An ask that was not answered yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ClaudeAsk {
    /// The number of its line, which its answer is named after.
    pub(super) line: u64,
    /// What would run, said again with a yes; absent if it could not be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) input: Option<Json>,
}

/// The turn that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClaudeTurn {
    pub(super) number: u32,
    /// Whether the agent has it in a queue, behind one of its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) queued: bool,
    /// Whether it was interrupted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) interrupted: bool,
}

/// How much of the message that comes in pieces was told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StreamProgress {
    /// The message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    /// Bytes of its newest block.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) bytes: usize,
}

/// All of it. What is empty is not stored: this is written with every commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ClaudeState {
    pub(super) phase: ClaudePhase,
    pub(super) session: String,
    /// Whether the session is an earlier one.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) resumed: bool,
    /// Needed until the session is open.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
    /// The mode and model the agent last spoke of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    /// Changes that wait for a response, by the id of the request: what was wanted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) pending_choices: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) pending_asks: BTreeMap<RequestId, ClaudeAsk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) turn: Option<ClaudeTurn>,
    /// Tool calls that were begun and not said to have ended.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) calls: BTreeSet<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) streamed: StreamProgress,
    /// Tokens in the context as of the newest message.
    #[serde(skip_serializing_if = "is_default")]
    pub(super) context: u64,
    /// Asks that ended by an interrupt and were not told upwards yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) withdrawn: Vec<RequestId>,
}

impl ClaudeState {
    /// Whether the turn was interrupted: nothing new is asked in it.
    pub(super) fn is_interrupted(&self) -> bool {
        self.turn.is_some_and(|turn| turn.interrupted)
    }
}

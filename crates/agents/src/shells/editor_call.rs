//! What the host asks of an editor, and what it answers: terminals that it runs and files as it has them.
//!
//! Invariant: an editor is not trusted. A reply of another kind than the call wants is a failure, and an
//! editor that is lost is an error of its own, so that nobody takes silence for an answer.

use std::pin::Pin;

use serde::{Deserialize, Serialize};

use crate::adapter::ProcessExit;

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
pub enum EditorCall {
    CreateTerminal {
        /// A second create with the same key gives the same terminal.
        key: u64,
        /// Whether an earlier host may have asked for it: then it is looked for and never started.
        only_known: bool,
        program: String,
        args: Vec<String>,
        /// The command as people read it.
        title: String,
        env: Vec<(String, String)>,
        cwd: String,
        output_bytes_max: u64,
    },
    TerminalOutput {
        terminal: String,
    },
    WaitForExit {
        terminal: String,
    },
    KillTerminal {
        terminal: String,
    },
    ReleaseTerminal {
        terminal: String,
    },
    /// A file as the editor has it, with what was not saved.
    ReadFile {
        path: String,
        line: Option<u32>,
        limit: Option<u32>,
    },
}

/// What a call gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum EditorReply {
    Terminal {
        terminal: String,
    },
    Output {
        text: String,
        truncated: bool,
        exit: Option<ProcessExit>,
    },
    Exited {
        exit: ProcessExit,
    },
    Done,
    Text {
        text: String,
    },
}

/// Why a call gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "error", rename_all = "snake_case")]
pub enum EditorCallError {
    /// No such editor is attached any more.
    #[error("the editor is no longer attached")]
    Lost,
    /// It did not answer in time.
    #[error("the editor did not answer in time")]
    Late,
    /// It said no, or something that is not an answer.
    #[error("the editor refused: {message}")]
    Refused { message: String },
}

/// What an editor can do for the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EditorAbilities {
    /// Run commands.
    pub terminals: bool,
    /// Read files.
    pub files: bool,
}

/// What an editor will answer, and which editor it was.
pub type EditorFuture<'a> =
    Pin<Box<dyn Future<Output = Result<(String, EditorReply), EditorCallError>> + Send + 'a>>;

/// The way to the editors that an agent is open in.
pub trait EditorLink: Send + Sync {
    /// Has an editor do something: the one with this id and no other, or whichever serves the agent.
    /// Returns [`EditorCallError::Lost`] as soon as that one is known to be gone.
    fn call<'a>(&'a self, editor: Option<&'a str>, call: EditorCall) -> EditorFuture<'a>;
}

//! Shells: where the commands of an agent run.
//!
//! [`LocalShells`] runs them as processes of this machine; a runner uses it on behalf of its host, which
//! reaches it through [`RunnerShells`](crate::runner::RunnerShells). [`AcpShells`] has the editor run them that
//! the agent is open in, [`NoShells`] runs none, and [`KeptTerminals`] has the output of a run that is over.

mod acp;
mod editor_call;
mod kept;
mod local;
mod none;
mod output_tail;
mod readable_output;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

use crate::adapter::ProcessExit;

pub use acp::AcpShells;
pub use editor_call::{
    EditorAbilities, EditorCall, EditorCallError, EditorFuture, EditorLink, EditorReply,
};
pub use kept::KeptTerminals;
pub use local::LocalShells;
pub use none::NoShells;
pub(crate) use readable_output::ReadableOutput;

/// Where commands run. Each command has a terminal of its own.
///
/// Implementors guarantee: a terminal can be asked again and again until it is released, also after
/// its command ended or was killed; nothing that was released still runs.
pub trait ShellBackend: Send + Sync {
    /// Starts a command.
    fn create(&self, spec: CommandSpec) -> ShellFuture<'_, TerminalId>;

    /// Everything it wrote so far. Never waits for more, and takes nothing away.
    fn output<'a>(&'a self, terminal: &'a TerminalId) -> ShellFuture<'a, TerminalOutput>;

    /// Waits for the end of the command itself, whatever it left running.
    fn wait_for_exit<'a>(&'a self, terminal: &'a TerminalId) -> ShellFuture<'a, ProcessExit>;

    /// Ends the command and all it started, at once. The terminal stays.
    fn kill<'a>(&'a self, terminal: &'a TerminalId) -> ShellFuture<'a, ()>;

    /// Ends the command and all it started, and forgets the terminal. To do so again is no error.
    fn release<'a>(&'a self, terminal: &'a TerminalId) -> ShellFuture<'a, ()>;

    /// The terminals for a person to read, oldest first: those that are open, and the newest that
    /// were released.
    fn list(&self) -> ShellFuture<'_, Vec<TerminalSummary>>;

    /// Output from a byte on, also of a terminal that was released. With `wait_ms` it returns when
    /// there is some, when there will be none, or when that time is over.
    fn read_from<'a>(
        &'a self,
        terminal: &'a TerminalId,
        after: u64,
        wait_ms: u64,
    ) -> ShellFuture<'a, TerminalPiece>;
}

/// What a backend will answer.
pub type ShellFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ShellError>> + Send + 'a>>;

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// A second create with the same key gives the same terminal.
    pub key: u64,
    /// What a shell reads.
    pub command: String,
    /// The folder, absolute, that the caller checked.
    pub cwd: PathBuf,
    /// Variables that are added to the agent's environment.
    pub env: Vec<(OsString, OsString)>,
    /// How much of its output is kept: the end of it.
    pub output_bytes_max: usize,
}

/// A terminal of one backend.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TerminalId(String);

impl TerminalId {
    /// A terminal as somebody names it, who may be wrong.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name that stands on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TerminalId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What a command wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalOutput {
    /// As text; bytes that are none are replaced by U+FFFD.
    pub text: String,
    /// Whether the beginning is missing.
    pub truncated: bool,
    /// How the command ended, if it did.
    pub exit: Option<ProcessExit>,
}

/// A terminal as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSummary {
    pub id: String,
    pub command: String,
    pub cwd: PathBuf,
    /// Milliseconds since 1970.
    pub started_ms: u64,
    pub ended_ms: Option<u64>,
    pub exit: Option<ProcessExit>,
    /// How many bytes it wrote.
    pub bytes: u64,
    /// The number of the oldest byte that is kept.
    pub first_offset: u64,
}

/// A piece of a terminal's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalPiece {
    /// The number of its first byte: larger than asked for, if older ones are not kept.
    pub from: u64,
    pub bytes: Vec<u8>,
    /// Whether nothing comes after it.
    pub is_end: bool,
}

/// Why a backend did not do it.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// It never was, or was released.
    #[error("there is no terminal `{0}`")]
    NotFound(TerminalId),
    /// It is not done here.
    #[error("not permitted: {0}")]
    NotPermitted(String),
    /// It was tried.
    #[error("could not {what}")]
    Failed {
        what: String,
        #[source]
        source: io::Error,
    },
}

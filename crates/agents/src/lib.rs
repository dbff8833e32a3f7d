//! Agents: adapters to their protocols, their processes and terminals, the files they reach through the
//! host, and their worktrees.
//!
//! Invariant: nothing here decides what an agent may do. What it asks for is reported as an
//! [`AgentEvent`](adapter::AgentEvent), and only what the host orders is done.

pub mod acp;
pub mod adapter;
pub mod catalog;
mod child;
pub mod claude;
pub mod editor;
mod files;
mod lines;
pub mod own_terminal;
mod process;
pub mod procfs;
mod program_version;
pub mod protocols;
pub mod runner;
pub mod scripted;
mod shells;
mod spawn_hooks;
mod stream;
mod tree;
mod truncate;
mod user_command;
pub mod worktree;

pub use files::{
    ExpectedFile, FileError, FilePiece, FileRange, FileRoots, FolderListing, ListDepth, ListedFile,
    ListedKind, PeopleFolder, PieceText, ReadTarget, RewrittenFile, WriteTarget, open_for_read,
    open_for_write, read_text, write_text,
};
pub use process::LaunchError;
pub use program_version::{ProgramVersion, VersionError, probe_version};
pub use shells::{
    AcpShells, CommandSpec, EditorAbilities, EditorCall, EditorCallError, EditorFuture, EditorLink,
    EditorReply, KeptTerminals, LocalShells, NoShells, ShellBackend, ShellError, ShellFuture,
    TerminalId, TerminalOutput, TerminalPiece, TerminalSummary,
};
pub use tree::{
    ContainmentMethod, OWN_TERMINAL_VARIABLE, ProcessTree, TreeError, TreeRecord, marks_of,
    marks_of_cgroup, probe_containment,
};
pub use user_command::{UserCommandError, run_user_command};

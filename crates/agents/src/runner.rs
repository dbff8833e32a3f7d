//! Runners: one small process for each managed agent, between it and the host.
//!
//! A runner starts the agent, owns its pipes and is the parent of every terminal the agent runs
//! through us. The host drives it over a link and may be killed, replaced or absent meanwhile.
//!
//! Invariants: a runner decides nothing; the agent's output is kept until a host has committed it; what
//! a host sends is written to the agent once, however often it is repeated; the runner knows of every
//! write whether it was made.

mod agent;
mod backlog;
mod exit_report;
pub(crate) mod folder;
pub(crate) mod frame;
mod held_opens;
mod holds;
mod host_connection;
mod hub;
mod link;
pub(crate) mod peers;
mod proxy;
mod record;
pub(crate) mod run;
mod runner_processes;
mod shell_calls;
mod shells;
pub(crate) mod socket;
pub(crate) mod start;
mod state;
mod used_ids;
mod wire;
mod write_queue;

pub use exit_report::{ExitReport, read_exit_report};
pub use folder::{belongs_to_another_host, clear_orphans, find_orphans, remove_run_files};
pub(crate) use held_opens::OpenHolder;
pub use holds::{HeldFile, HeldTarget};
use hub::Runner;
pub use link::{
    LaunchRefused, Link, LinkError, LinkEvent, LinkFuture, PendingWrite, RunnerLink, WriteError,
    WriteReceipt, connect,
};
pub(crate) use proxy::SharedNetwork;
pub use proxy::{ConnectHost, ConnectTarget};
pub use record::RunnerRecord;
pub use run::{RunnerFailure, run};
use shells::RunnerShells;
pub use start::{
    RunnerProcess, RunnerStartError, RunnerStartSpec, default_command, end_orphan, start,
};

/// The record of a runner, in its folder.
const RECORD_FILE: &str = "record.json";

/// What a runner could not keep in memory.
const SPILL_FILE: &str = "spill";

/// Which process the runner is, by whoever started it.
const RUNNER_FILE: &str = "runner";

/// What the runner writes about itself.
const LOG_FILE: &str = "log";

/// What its agent has for temporary files, if it is confined.
pub const TMP_FOLDER: &str = "tmp";

/// Every file that may lie in the folder of a runner.
const FILES: [&str; 5] = [
    RECORD_FILE,
    SPILL_FILE,
    exit_report::FILE,
    RUNNER_FILE,
    LOG_FILE,
];

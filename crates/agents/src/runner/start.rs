//! Starting runners, and ending what is left of them.
//!
//! Invariants: a runner has a session of its own and nothing of the host's environment but what it
//! needs; it is named by number and start time, never by its number alone; one that cannot be reached
//! after its start is ended.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use countersign_core::event::ProcessKey;
use countersign_core::limits;
use rustix::process::Signal;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::{RunnerRecord, folder};
use crate::child::ChildHandle;
use crate::lines::LogSplitter;
use crate::process::{OWN_PROGRAM, PROGRAM_NAME};
use crate::spawn_hooks::{self, ChildSetup};
use crate::stream::FdReader;
use crate::tree::TreeError;

/// What a runner says when it can be reached, and what it begins with when it never will be.
pub(crate) const LISTENING: &str = "listening";
pub(crate) const FAILED: &str = "failed: ";

pub(crate) const VARIABLES: [&str; 5] = ["PATH", "HOME", "LANG", "TMPDIR", "COUNTERSIGN_LOG"];

/// Which runner to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerStartSpec {
    /// The program, whole, and its first arguments.
    pub command: Vec<OsString>,
    /// What it is told. The host has committed it.
    pub record: RunnerRecord,
}

/// Why a runner was not started.
#[derive(Debug, thiserror::Error)]
pub enum RunnerStartError {
    /// Its folder could not be made as it has to be.
    #[error(
        "could not create the folder `{}` for the agent's runner process; \
         check the permissions there",
        folder.display()
    )]
    Folder {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The program was not started.
    #[error("could not start the agent's runner `{}`", program.display())]
    Program {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    /// It was started and is of no use; it was ended.
    #[error("the agent's runner {what}: {reason}")]
    Useless {
        /// What it did instead of listening.
        what: &'static str,
        /// What it said, or words that say that it said nothing.
        reason: String,
    },
}

/// A runner that was started. Dropping it ends nothing.
#[derive(Debug)]
pub struct RunnerProcess {
    key: ProcessKey,
}

impl RunnerProcess {
    /// What names it for as long as the machine runs.
    pub fn key(&self) -> ProcessKey {
        self.key
    }
}

/// The runner of this very program. On Linux it is found through the running process, so that it is
/// the same program even if its file was replaced meanwhile.
pub fn default_command() -> Vec<OsString> {
    let program = if cfg!(target_os = "linux") {
        OWN_PROGRAM.into()
    } else {
        std::env::current_exe().map_or_else(|_| PROGRAM_NAME.into(), PathBuf::into_os_string)
    };
    vec![program, "runner".into()]
}

/// Makes the runner's folder with the record in it, starts the runner and waits until it can be
/// reached. Has to be called inside a runtime, which reaps it when it ends.
pub async fn start(spec: &RunnerStartSpec) -> Result<RunnerProcess, RunnerStartError> {
    let record = &spec.record;
    folder::create(record).map_err(|source| folder_error(record, source))?;
    let (child, stdout) = spawn(spec).map_err(|source| RunnerStartError::Program {
        program: spec.command.first().map(PathBuf::from).unwrap_or_default(),
        source,
    })?;
    // Written before the runner is waited for: if this host is killed now, the next one finds it.
    let key = child.key();
    let noted =
        folder::write_runner_key(record, key).map_err(|source| folder_error(record, source));
    let listens = match noted {
        Ok(()) => wait_until_listening(record, &stdout).await,
        Err(error) => Err(error),
    };
    // A runner that nobody can reach would wait alone until its patience ends.
    if listens.is_err() {
        child.signal_group(Signal::KILL);
    }
    reap_when_ended(child);
    listens.map(|()| RunnerProcess { key })
}

fn folder_error(record: &RunnerRecord, source: io::Error) -> RunnerStartError {
    RunnerStartError::Folder {
        folder: record.folder.clone(),
        source,
    }
}

/// Waits for a runner in the background, so that it does not stay as a zombie.
#[expect(
    clippy::disallowed_methods,
    reason = "a runner outlives whoever started it, so nothing waits for this task"
)]
pub(crate) fn reap_when_ended(child: ChildHandle) {
    tokio::spawn(async move { child.wait().await });
}

fn spawn(spec: &RunnerStartSpec) -> io::Result<(ChildHandle, FdReader)> {
    let mut command = build(spec)?;
    spawn_hooks::apply(&mut command, ChildSetup::default());
    let mut started = command.spawn()?;
    // A tracker of its own: nobody waits for a runner, which outlives this host.
    let child = ChildHandle::watch(&started, &TaskTracker::new());
    let source = started
        .stdout
        .take()
        .ok_or_else(|| io::Error::other("its output is missing"))
        .and_then(|stdout| FdReader::new(OwnedFd::from(stdout)));
    match source {
        Ok(source) => Ok((child, source)),
        Err(error) => {
            child.signal_group(Signal::KILL);
            Err(error)
        }
    }
}

fn build(spec: &RunnerStartSpec) -> io::Result<Command> {
    let (program, args) = spec
        .command
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "there is no program"))?;
    let mut command = Command::new(program);
    // Otherwise process lists would show it as `exe`.
    if program == OWN_PROGRAM {
        command.arg0(PROGRAM_NAME);
    }
    command
        .args(args)
        .args([OsStr::new("--folder"), spec.record.folder.as_os_str()])
        // The host's environment may hold secrets, and `/proc` shows a runner's to its agent.
        .env_clear()
        .envs(
            VARIABLES
                .into_iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        )
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(folder::open_log(&spec.record)?);
    Ok(command)
}

async fn wait_until_listening(
    record: &RunnerRecord,
    stdout: &FdReader,
) -> Result<(), RunnerStartError> {
    let limit = Duration::from_millis(limits::LINK_CONNECT_MS);
    let (what, said) = match timeout(limit, read_first_line(stdout)).await {
        Ok(line) if line == LISTENING => return Ok(()),
        Ok(line) => ("did not begin", line),
        Err(_) => ("did not begin in time", String::new()),
    };
    let mut reason = match said.strip_prefix(FAILED) {
        Some(reason) => reason.to_owned(),
        // It ended before it could say anything, so its log is all there is.
        None => folder::read_log(record),
    };
    if reason.is_empty() {
        "it did not say why".clone_into(&mut reason);
    }
    Err(RunnerStartError::Useless { what, reason })
}

/// The first line, as far as it goes.
pub(crate) async fn read_first_line(stdout: &FdReader) -> String {
    let mut cutter = LogSplitter::new(limits::AGENT_LOG_LINE_BYTES_MAX);
    let mut buffer = [0; 256];
    while let Ok(read) = stdout.read(&mut buffer).await
        && read > 0
    {
        if let Some(line) = cutter.next_piece(&mut &buffer[..read]) {
            return line;
        }
    }
    cutter.finish().unwrap_or_default()
}

/// Ends a runner and everything its agent started, and returns how many processes that were. The
/// runner is the one that is given, or the one that its folder names. It goes together with its agent:
/// if it went first, what descends from it could no longer be told.
pub async fn end_orphan(
    record: &RunnerRecord,
    runner: Option<ProcessKey>,
) -> Result<usize, TreeError> {
    let runner = runner.or_else(|| folder::read_runner_key(record));
    record.tree.sweep(runner).await
}

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
use crate::child::Child;
use crate::spawn_hooks::{self, Placement};
use crate::stream::Source;
use crate::tree::TreeError;

/// What a runner says when it can be reached.
const LISTENING: &[u8] = b"listening\n";

const OWN_PROGRAM: &str = "/proc/self/exe";
const PROGRAM_NAME: &str = "countersign";
const VARIABLES: [&str; 5] = ["PATH", "HOME", "LANG", "TMPDIR", "COUNTERSIGN_LOG"];

/// Which runner to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartSpec {
    /// The program, whole, and its first arguments.
    pub command: Vec<OsString>,
    /// What it is told. The host has committed it.
    pub record: RunnerRecord,
}

/// Why a runner was not started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its folder could not be made as it has to be.
    #[error(
        "could not make the folder `{}` for the agent's runner; see who may write there",
        folder.display()
    )]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The program was not started.
    #[error("could not start the agent's runner `{}`", program.display())]
    Program {
        /// Which.
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It was started and is of no use; it was ended.
    #[error("the agent's runner {what}: {log}")]
    Useless {
        /// What it did instead of listening.
        what: &'static str,
        /// The end of its log, or words that say there is none.
        log: String,
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
pub async fn start(spec: &StartSpec) -> Result<RunnerProcess, StartError> {
    let record = &spec.record;
    let in_folder = |source| StartError::Folder {
        folder: record.folder.clone(),
        source,
    };
    folder::make(record).map_err(in_folder)?;
    let (child, stdout) = spawn(spec).map_err(|source| StartError::Program {
        program: spec.command.first().map(PathBuf::from).unwrap_or_default(),
        source,
    })?;
    let key = child.key();
    let noted = folder::note_runner(record, key).map_err(in_folder);
    let listens = match noted {
        Ok(()) => wait_until_listening(record, &stdout).await,
        Err(error) => Err(error),
    };
    if listens.is_err() {
        child.signal_group(Signal::KILL);
    }
    TaskTracker::new().spawn(async move { child.wait().await });
    listens.map(|()| RunnerProcess { key })
}

fn spawn(spec: &StartSpec) -> io::Result<(Child, Source)> {
    let mut command = build(spec)?;
    let placement = Placement {
        cgroup: None,
        terminal: false,
    };
    spawn_hooks::place(&mut command, placement);
    let mut started = command.spawn()?;
    let child = Child::watch(&started, &TaskTracker::new());
    let absent = || io::Error::other("its output is missing");
    let stdout = started.stdout.take().ok_or_else(absent);
    let source = stdout.and_then(|stdout| Source::new(OwnedFd::from(stdout)));
    match source {
        Ok(source) => Ok((child, source)),
        Err(error) => {
            child.signal_group(Signal::KILL);
            Err(error)
        }
    }
}

fn build(spec: &StartSpec) -> io::Result<Command> {
    let (program, args) = spec
        .command
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "there is no program"))?;
    let mut command = Command::new(program);
    if program == OWN_PROGRAM {
        command.arg0(PROGRAM_NAME);
    }
    let set = |name: &'static str| Some((name, std::env::var_os(name)?));
    command
        .args(args)
        .args([OsStr::new("--folder"), spec.record.folder.as_os_str()])
        .env_clear()
        .envs(VARIABLES.into_iter().filter_map(set))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(folder::open_log(&spec.record)?);
    Ok(command)
}

async fn wait_until_listening(record: &RunnerRecord, stdout: &Source) -> Result<(), StartError> {
    let limit = Duration::from_millis(limits::LINK_CONNECT_MS);
    let what = match timeout(limit, says_listening(stdout)).await {
        Ok(true) => return Ok(()),
        Ok(false) => "ended at once",
        Err(_) => "did not become ready in time",
    };
    let log = match folder::read_log(record) {
        log if log.is_empty() => "it did not say why".to_owned(),
        log => log,
    };
    Err(StartError::Useless { what, log })
}

/// False if it says something else or nothing more.
async fn says_listening(stdout: &Source) -> bool {
    let mut said = Vec::with_capacity(LISTENING.len());
    while said.len() < LISTENING.len() {
        let mut buffer = [0; LISTENING.len()];
        let room = LISTENING.len() - said.len();
        match stdout.read(&mut buffer[..room]).await {
            Ok(read) if read > 0 => said.extend_from_slice(&buffer[..read]),
            _ => return false,
        }
    }
    said == LISTENING
}

/// Ends a runner and everything its agent started, and returns how many processes that were. The
/// runner is the one that is given, or the one that its folder names. It goes together with its agent:
/// if it went first, what descends from it could no longer be told.
pub async fn end_left(
    record: &RunnerRecord,
    runner: Option<ProcessKey>,
) -> Result<usize, TreeError> {
    let runner = runner.or_else(|| folder::find_runner(record));
    record.tree.sweep(runner).await
}

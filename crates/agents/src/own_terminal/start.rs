//! Starting a terminal.
//!
//! Invariants: its runner has nothing of the host's environment but what it needs; its program has that of the host
//! without what is the host's own.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use countersign_core::event::ProcessKey;
use countersign_core::limits::LINK_CONNECT_MS;
use rustix::process::Signal;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::record::{LOG_FILE, RECORD_FILE, RUNNER_FILE, remove_files};
use super::wire::ProgramLaunch;
use super::{OwnTerminal, OwnTerminalRecord, RUNNER_COMMAND, TerminalSize};
use crate::child::ChildHandle;
use crate::process::{OWN_PROGRAM, PROGRAM_NAME};
use crate::runner::folder;
use crate::runner::start::{FAILED, LISTENING, VARIABLES, read_first_line, reap_when_ended};
use crate::spawn_hooks::{self, ChildSetup};
use crate::stream::FdReader;
use crate::tree::new_mark;

/// What runs in a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTerminalProgram {
    pub program: OsString,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
}

impl OwnTerminalProgram {
    /// The shell of the person, or a command that it runs, with the environment `host` without what is the host's.
    pub fn of_person(
        command: Option<&str>,
        host: impl Iterator<Item = (OsString, OsString)>,
    ) -> Self {
        let mut env: Vec<_> = host.filter(|(name, _)| !is_left_out(name)).collect();
        let terminal = [("TERM", "xterm-256color"), ("COLORTERM", "truecolor")];
        env.retain(|(found, _)| !terminal.iter().any(|(name, _)| found == name));
        env.extend(terminal.map(|(name, value)| (name.into(), value.into())));
        let shell = env.iter().find(|(name, _)| name == "SHELL");
        let program = shell.map_or_else(|| "/bin/sh".into(), |(_, shell)| shell.clone());
        let args = command.map(|command| vec!["-c".into(), command.into()]);
        Self {
            program,
            args: args.unwrap_or_default(),
            env,
        }
    }
}

/// What is the host's own, and what says something about the terminal that the host was started from. The home of
/// the host stays: `countersign` in this terminal is to find the host that runs it.
fn is_left_out(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    (name.starts_with("COUNTERSIGN_") && name != "COUNTERSIGN_HOME")
        || matches!(
            &*name,
            "TMUX" | "TMUX_PANE" | "STY" | "WINDOWID" | "COLUMNS" | "LINES" | "TERMCAP"
        )
}

/// What to start.
#[derive(Clone, Debug)]
pub struct OwnTerminalStart {
    /// The program of the runner and its first arguments.
    pub command: Vec<OsString>,
    pub id: String,
    /// The folder of all such terminals.
    pub folder: PathBuf,
    /// Folders for the socket, the best first.
    pub sockets: Vec<PathBuf>,
    pub host_lock: Option<PathBuf>,
    pub program: OwnTerminalProgram,
    /// What runs in it, for people.
    pub title: String,
    pub cwd: PathBuf,
    pub size: TerminalSize,
}

/// The runner of this very program, as it is for agents.
pub fn default_command() -> Vec<OsString> {
    let mut command = crate::runner::default_command();
    command.truncate(1);
    command
}

/// A name that no other terminal has.
pub fn new_id() -> io::Result<String> {
    let mark = new_mark().map_err(io::Error::other)?;
    Ok(mark.chars().take(12).collect())
}

/// Starts a terminal, which outlives this host. Has to be called inside a runtime.
pub async fn start(wanted: OwnTerminalStart) -> io::Result<OwnTerminal> {
    let folder = wanted.folder.join(&wanted.id);
    let socket = format!("{}.sock", wanted.id);
    let record = OwnTerminalRecord {
        mark: new_mark().map_err(io::Error::other)?,
        folder: folder.clone(),
        sockets: wanted
            .sockets
            .iter()
            .map(|path| path.join(&socket))
            .collect(),
        host_lock: wanted.host_lock,
        command: wanted.title,
        cwd: wanted.cwd.clone(),
        id: wanted.id,
    };
    folder::create_private(&folder)?;
    folder::write(&folder, RECORD_FILE, &record)?;
    let launch = ProgramLaunch {
        program: wanted.program.program,
        args: wanted.program.args,
        cwd: wanted.cwd,
        env: wanted.program.env,
        size: wanted.size,
    };
    let started = start_runner(&wanted.command, &record, &launch).await;
    let runner = started.inspect_err(|_| remove_files(&record))?;
    Ok(OwnTerminal { record, runner })
}

async fn start_runner(
    command: &[OsString],
    record: &OwnTerminalRecord,
    launch: &ProgramLaunch,
) -> io::Result<ProcessKey> {
    let mut command = build(command, record)?;
    spawn_hooks::apply(&mut command, ChildSetup::default());
    let mut started = command.spawn()?;
    let child = ChildHandle::watch(&started, &TaskTracker::new());
    let key = child.key();
    // Before the runner is waited for: if this host is killed now, the next one finds it.
    let noted = folder::write(&record.folder, RUNNER_FILE, &key);
    let listens = match noted.and_then(|()| send_launch(&mut started, launch)) {
        Ok(stdout) => wait_until_listening(&stdout).await,
        Err(error) => Err(error),
    };
    if listens.is_err() {
        child.signal_group(Signal::KILL);
    }
    reap_when_ended(child);
    listens.map(|()| key)
}

/// Gives the end from which it is read what becomes of it.
fn send_launch(started: &mut Child, launch: &ProgramLaunch) -> io::Result<FdReader> {
    let mut stdin = started.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    stdin.write_all(&serde_json::to_vec(launch)?)?;
    let stdout = started.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    FdReader::new(OwnedFd::from(stdout))
}

fn build(command: &[OsString], record: &OwnTerminalRecord) -> io::Result<Command> {
    let (program, args) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    // Otherwise process lists would show it as `exe`.
    if program == OWN_PROGRAM {
        command.arg0(PROGRAM_NAME);
    }
    let log = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(record.folder.join(LOG_FILE))?;
    let variables = VARIABLES.into_iter();
    command
        .args(args)
        .args([OsStr::new(RUNNER_COMMAND), OsStr::new("--folder")])
        .arg(&record.folder)
        .env_clear()
        .envs(variables.filter_map(|name| Some((name, std::env::var_os(name)?))))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log);
    Ok(command)
}

async fn wait_until_listening(stdout: &FdReader) -> io::Result<()> {
    let limit = Duration::from_millis(LINK_CONNECT_MS);
    match timeout(limit, read_first_line(stdout)).await {
        Ok(line) if line == LISTENING => Ok(()),
        Ok(line) => {
            let why = line.strip_prefix(FAILED).unwrap_or("its runner ended");
            Err(io::Error::other(why.to_owned()))
        }
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

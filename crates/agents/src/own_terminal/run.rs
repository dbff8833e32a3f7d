//! The life of a terminal's runner.
//!
//! Invariants: it listens before it says so; it goes when it is told to, and nothing of its terminal is left then.
//! Without a host it stays, as a terminal does whose window is closed for a while.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use countersign_core::limits::{
    LINK_CONNECT_MS, OWN_TERMINAL_CALLS_MAX, RUNNER_SOCKET_CHECK_MS, TERMINAL_WAIT_MS,
};
use rustix::fs::Mode;
use rustix::process::{getpid, setsid, umask};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::OwnTerminalRecord;
use super::host_lock::is_held_by;
use super::program::TerminalProgram;
use super::record::{RECORD_FILE, STATUS_FILE, remove_files};
use super::wire::{ProgramLaunch, TerminalCall, TerminalReply};
use crate::runner::folder;
use crate::runner::frame::{read_frame, write_frame};
use crate::runner::peers;
use crate::runner::run::leave_stdio;
use crate::runner::socket::{self, RunnerSocket};
use crate::runner::start::{FAILED, LISTENING};
use crate::spawn_hooks::RunnerParent;
use crate::tree::ProcessTree;

struct TerminalRunner {
    record: OwnTerminalRecord,
    program: Arc<TerminalProgram>,
    tasks: TaskTracker,
    /// The lock of the record, whose holder is the host.
    host_lock: Option<File>,
    calls: Arc<Semaphore>,
    closed: CancellationToken,
}

/// Runs the terminal whose record is in `folder` until it is closed. Has to be called on the first thread, inside a
/// runtime that has no other: what it starts ends with it. Says on standard output, in a line, whether it listens.
pub async fn run(folder: &Path) -> io::Result<()> {
    let prepared = prepare(folder);
    let line = match &prepared {
        Ok(_) => format!("{LISTENING}\n"),
        Err(error) => format!("{FAILED}{}\n", error.to_string().replace('\n', " ")),
    };
    // Whoever started it may have gone; the next host finds it.
    drop(io::stdout().write_all(line.as_bytes()));
    drop(io::stdout().flush());
    let (runner, socket) = prepared?;
    leave_stdio()?;
    serve(Arc::new(runner), socket).await
}

fn prepare(folder: &Path) -> io::Result<(TerminalRunner, RunnerSocket)> {
    socket::check_folder(folder)?;
    let record: OwnTerminalRecord = folder::read(folder, RECORD_FILE)
        .ok_or_else(|| io::Error::other("its record cannot be read"))?;
    // Now, while the host that started us holds it: whatever is at its path later may be anybody's.
    let host_lock = record.host_lock.as_ref().map(File::open).transpose()?;
    let mut launch = Vec::new();
    io::stdin().read_to_end(&mut launch)?;
    let launch: ProgramLaunch = serde_json::from_slice(&launch)?;
    // Refused if whoever started us did so already.
    let _ = setsid();
    let parent = RunnerParent {
        parent: getpid(),
        umask: umask(Mode::from_bits_truncate(0o077)),
        has_terminal: true,
    };
    std::env::set_current_dir("/")?;
    let socket = RunnerSocket::bind(&record.sockets).map_err(io::Error::other)?;
    let tree = ProcessTree::of_own_terminal(record.mark.clone(), parent);
    let program = TerminalProgram::start(&record.id, &record.command, tree.clone(), &launch);
    let program = program.map_err(|error| {
        let folder = launch.cwd.display();
        let program = launch.program.to_string_lossy();
        io::Error::other(format!(
            "`{program}` was not started in `{folder}`: {error}"
        ))
    })?;
    let runner = TerminalRunner {
        record,
        program,
        tasks: tree.tasks().clone(),
        host_lock,
        calls: Arc::new(Semaphore::new(OWN_TERMINAL_CALLS_MAX)),
        closed: CancellationToken::new(),
    };
    Ok((runner, socket))
}

async fn serve(runner: Arc<TerminalRunner>, mut socket: RunnerSocket) -> io::Result<()> {
    let mut end = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Without a handler a hang-up would end the runner, which has to outlive the window that the
    // host was started from.
    let _hang_up = signal(SignalKind::hangup())?;
    let mut look = interval(Duration::from_millis(RUNNER_SOCKET_CHECK_MS));
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let exit = runner.clone();
    runner.tasks.spawn(async move { exit.note_exit().await });
    loop {
        tokio::select! {
            () = runner.closed.cancelled() => break,
            _ = end.recv() => break,
            _ = interrupt.recv() => break,
            accepted = socket.listener.accept() => match accepted {
                Ok((stream, _)) => runner.answer(stream),
                // Out of descriptors, most likely: not to be tried again at once.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            _ = look.tick() => rebind_if_gone(&runner.record, &mut socket),
        }
    }
    socket.remove();
    // `Close` has ended everything before it was answered.
    if !runner.closed.is_cancelled() {
        runner.end().await;
    }
    Ok(())
}

fn rebind_if_gone(record: &OwnTerminalRecord, socket: &mut RunnerSocket) {
    if socket.is_there() {
        return;
    }
    match RunnerSocket::bind(&record.sockets) {
        Ok(bound) => *socket = bound,
        Err(reason) => tracing::warn!("{reason}"),
    }
}

impl TerminalRunner {
    fn answer(self: &Arc<Self>, stream: UnixStream) {
        let Ok(permit) = self.calls.clone().try_acquire_owned() else {
            // Closing the connection is the answer: a caller that opens too many must not make the
            // runner hold more.
            return;
        };
        // At once: later the caller may have ended, and its process id may be another's.
        let refused = check_caller(self.host_lock.as_ref(), &stream).err();
        let runner = self.clone();
        self.tasks.spawn(async move {
            if let Err(error) = runner.answer_one(stream, refused).await {
                tracing::debug!(%error, "a call of the host was not answered");
            }
            drop(permit);
        });
    }

    async fn answer_one(&self, stream: UnixStream, refused: Option<String>) -> io::Result<()> {
        let (mut from, mut to) = stream.into_split();
        if let Some(why) = refused {
            return write_frame(&mut to, &TerminalReply::Refused { why }, &[]).await;
        }
        let limit = Duration::from_millis(LINK_CONNECT_MS);
        let read = timeout(limit, read_frame::<TerminalCall>(&mut from)).await;
        let Some((call, body)) = read.map_err(io::Error::other)?? else {
            return Ok(());
        };
        let (reply, body) = self.perform(call, &body).await;
        let written = write_frame(&mut to, &reply, &body).await;
        drop(to.shutdown().await);
        // After the reply: with this the runner ends.
        if call == TerminalCall::Close && reply == TerminalReply::Done {
            self.closed.cancel();
        }
        written
    }

    async fn perform(&self, call: TerminalCall, body: &[u8]) -> (TerminalReply, Vec<u8>) {
        let reply = match call {
            TerminalCall::Status => TerminalReply::Status(Box::new(self.program.status())),
            TerminalCall::Read { after, wait_ms } => {
                let piece = self.program.read_from(after, wait_ms).await;
                let (from, is_end) = (piece.from, piece.is_end);
                return (TerminalReply::Piece { from, is_end }, piece.bytes);
            }
            TerminalCall::WaitForExit { wait_ms } => {
                let limit = Duration::from_millis(wait_ms.min(TERMINAL_WAIT_MS));
                drop(timeout(limit, self.program.wait_for_exit()).await);
                TerminalReply::Status(Box::new(self.program.status()))
            }
            TerminalCall::Write => TerminalReply::Written {
                bytes: self.program.write(body).await,
            },
            TerminalCall::Resize(size) => done(self.program.resize(size)),
            TerminalCall::Close => self.end().await,
        };
        (reply, Vec::new())
    }

    /// Nothing of it is left afterwards.
    async fn end(&self) -> TerminalReply {
        let ended = self.program.end().await;
        if ended.is_ok() {
            remove_files(&self.record);
        }
        done(ended)
    }

    /// For the next host, which may come after a restart of the machine.
    async fn note_exit(&self) {
        self.program.wait_for_exit().await;
        let status = self.program.status();
        if let Err(error) = folder::write(&self.record.folder, STATUS_FILE, &status) {
            tracing::warn!(%error, "how a terminal's program ended was not written");
        }
    }
}

fn done<E: std::fmt::Display>(result: Result<(), E>) -> TerminalReply {
    match result {
        Ok(()) => TerminalReply::Done,
        Err(error) => TerminalReply::Refused {
            why: error.to_string(),
        },
    }
}

/// A host, and no agent's process.
fn check_caller(host_lock: Option<&File>, stream: &UnixStream) -> Result<(), String> {
    let pid = peers::check_own(stream)?;
    match host_lock.and_then(|lock| is_held_by(lock, pid)) {
        Some(false) => Err("only a host is served".to_owned()),
        // Without /proc/locks the caller's user and ancestors have to do.
        Some(true) | None => Ok(()),
    }
}

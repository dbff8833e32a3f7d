//! The life of a runner, from its record to its end.
//!
//! Invariants: it listens before it says so; it goes when a host says so, when nobody comes, or when
//! it is told to end, and nothing of its agent is left then.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use countersign_core::limits;
use rustix::fs::Mode;
use rustix::process::{WaitId, WaitIdOptions, getpid, setsid, umask, waitid};
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::hub::Runner;
use super::socket::{self, RunnerSocket};
use super::{FILES, RECORD_FILE, RunnerRecord, TMP_FOLDER, host_connection, peers};
use crate::procfs;
use crate::shells::KeptTerminals;
use crate::spawn_hooks::RunnerParent;
use crate::tree::ProcessTree;

/// Why a runner could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum RunnerFailure {
    /// Its folder has no record that can be used.
    #[error("could not read the record of the runner in `{}`", folder.display())]
    Record {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Nobody could reach it.
    #[error("{0}")]
    Socket(String),
    /// The system refused something else.
    #[error("could not {what}")]
    System {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    /// What it had to leave could not be written.
    #[error("could not write the exit report into `{}`", folder.display())]
    ExitReport {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Runs the agent whose record is in `folder`, until nothing of it is needed any more. Has to be
/// called on the first thread, inside a runtime that has no other: what it starts ends with it.
///
/// Says `listening` or why not on standard output, in a line, and closes it.
pub async fn run(folder: &Path) -> Result<(), RunnerFailure> {
    let prepared = prepare(folder);
    let line = match &prepared {
        Ok(_) => "listening\n".to_owned(),
        Err(failure) => format!(
            "failed: {}\n",
            countersign_core::error_chain(failure).replace('\n', " ")
        ),
    };
    // Whoever started it may have gone; the next host finds it.
    drop(io::stdout().write_all(line.as_bytes()));
    drop(io::stdout().flush());
    let runner = prepared?;
    leave_stdio().map_err(system_failure("leave the standard streams"))?;
    runner.run_to_end().await
}

struct RunnerLoop {
    runner: Arc<Runner>,
    socket: RunnerSocket,
    signals: RunnerSignals,
}

struct RunnerSignals {
    child: Signal,
    end: Signal,
    interrupt: Signal,
    /// Never heard; it only must not end us.
    _hang_up: Signal,
}

impl RunnerSignals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            end: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            _hang_up: signal(SignalKind::hangup())?,
        })
    }
}

fn prepare(folder: &Path) -> Result<RunnerLoop, RunnerFailure> {
    let record = read_record(folder).map_err(|source| RunnerFailure::Record {
        folder: folder.to_owned(),
        source,
    })?;
    // A session of its own, so that signals to the host's terminal do not reach it. Refused if whoever
    // started us did so already.
    let _ = setsid();
    let parent = RunnerParent {
        parent: getpid(),
        // What the runner writes is for its user only; its agent gets the mask back.
        umask: umask(Mode::from_bits_truncate(0o077)),
        has_terminal: false,
    };
    become_reaper().map_err(system_failure("adopt what the agent leaves"))?;
    // No folder is kept busy by us.
    std::env::set_current_dir("/").map_err(system_failure("leave the folder it was started in"))?;
    let signals = RunnerSignals::new().map_err(system_failure("listen to signals"))?;
    let socket = RunnerSocket::bind(&record.sockets).map_err(RunnerFailure::Socket)?;
    let tree = ProcessTree::from_record(&record.tree, parent);
    let runner = Arc::new(Runner::new(record, tree));
    Ok(RunnerLoop {
        runner,
        socket,
        signals,
    })
}

fn system_failure(what: &'static str) -> impl FnOnce(io::Error) -> RunnerFailure {
    move |source| RunnerFailure::System { what, source }
}

fn read_record(folder: &Path) -> io::Result<RunnerRecord> {
    socket::check_folder(folder)?;
    let text = fs::read(folder.join(RECORD_FILE))?;
    let record: RunnerRecord = serde_json::from_slice(&text)?;
    if record.folder != folder || !folder.is_absolute() {
        let reason = format!("it is the record of `{}`", record.folder.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(record)
}

#[cfg(target_os = "linux")]
fn become_reaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(getpid()))?)
}

#[cfg(not(target_os = "linux"))]
fn become_reaper() -> io::Result<()> {
    Ok(())
}

pub(crate) fn leave_stdio() -> io::Result<()> {
    let nothing = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(())
}

/// What ends a runner.
enum RunnerEnd {
    Bye,
    NeverUsed,
    NobodyHome,
    Told,
}

impl RunnerLoop {
    async fn run_to_end(mut self) -> Result<(), RunnerFailure> {
        let end = self.wait_for_end().await;
        // First nobody can connect any more, then the host is dropped: otherwise it could come back at once.
        self.socket.remove();
        {
            let mut state = self.runner.state();
            state.ending = true;
            state.drop_host();
        }
        let grace = match end {
            RunnerEnd::Bye | RunnerEnd::NeverUsed => Duration::ZERO,
            RunnerEnd::NobodyHome | RunnerEnd::Told => {
                Duration::from_millis(limits::RUNNER_GRACE_MS)
            }
        };
        // Asked before the agent is ended: afterwards it is over in any case.
        let ended_by_us = !self.runner.agent_over.is_cancelled();
        self.end_agent(grace).await;
        match end {
            RunnerEnd::Bye | RunnerEnd::NeverUsed => {
                remove_files(&self.runner.record.folder);
                Ok(())
            }
            RunnerEnd::NobodyHome => {
                let why = describe_patience(self.runner.record.patience_ms);
                self.leave_exit_report(ended_by_us.then_some(why)).await
            }
            RunnerEnd::Told => {
                let why = "the runner was told to end".to_owned();
                self.leave_exit_report(ended_by_us.then_some(why)).await
            }
        }
    }

    async fn wait_for_end(&mut self) -> RunnerEnd {
        let every = Duration::from_millis(limits::RUNNER_SOCKET_CHECK_MS);
        let mut look = interval(every);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let alone = self.runner.state().host_lost.clone();
        loop {
            let deadline = self.runner.deadline();
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                let launched = self.runner.state().launched.is_some();
                return if launched {
                    RunnerEnd::NobodyHome
                } else {
                    RunnerEnd::NeverUsed
                };
            }
            // Far away where there is a host: it is looked at again when the host has gone.
            let deadline = deadline.unwrap_or_else(|| Instant::now() + every);
            tokio::select! {
                () = self.runner.bye.cancelled() => return RunnerEnd::Bye,
                _ = self.signals.end.recv() => return RunnerEnd::Told,
                _ = self.signals.interrupt.recv() => return RunnerEnd::Told,
                // We are the subreaper: what the agent's processes leave behind becomes our child.
                _ = self.signals.child.recv() => reap(&self.runner.tree),
                accepted = self.socket.listener.accept() => match accepted {
                    Ok((stream, _)) => serve_caller(&self.runner, stream),
                    // Out of descriptors, most likely: not to be tried again at once.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
                _ = look.tick() => self.rebind_if_gone(),
                () = alone.notified() => {}
                () = sleep_until(deadline) => {}
            }
        }
    }

    fn rebind_if_gone(&mut self) {
        if self.socket.is_there() {
            return;
        }
        match RunnerSocket::bind(&self.runner.record.sockets) {
            Ok(socket) => self.socket = socket,
            Err(reason) => tracing::warn!("{reason}"),
        }
    }

    /// Returns when nothing of it is left, or when that cannot be had.
    async fn end_agent(&mut self, grace: Duration) {
        self.runner.stop(grace);
        let patience = 2 * grace + Duration::from_millis(limits::RUNNER_GRACE_MS);
        self.wait_for_agent(patience).await;
        if let Err(error) = self.runner.tree.kill_all().await {
            tracing::error!(%error, "something of the agent is left");
        }
        self.wait_for_agent(patience).await;
    }

    async fn wait_for_agent(&mut self, patience: Duration) {
        let deadline = Instant::now() + patience;
        loop {
            tokio::select! {
                () = self.runner.agent_over.cancelled() => return,
                _ = self.signals.child.recv() => reap(&self.runner.tree),
                () = sleep_until(deadline) => return,
            }
        }
    }

    /// On a full disk it is tried for a while: somebody may make room.
    async fn leave_exit_report(&self, why: Option<String>) -> Result<(), RunnerFailure> {
        let folder = &self.runner.record.folder;
        let terminals = self.collect_terminals().await;
        let mut tries = 1;
        while let Err(source) = self
            .runner
            .write_exit_report(why.clone(), terminals.clone())
        {
            if tries == limits::RUNNER_EXIT_REPORT_TRIES {
                return Err(RunnerFailure::ExitReport {
                    folder: folder.clone(),
                    source,
                });
            }
            tries += 1;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        drop(fs::remove_file(folder.join(super::SPILL_FILE)));
        Ok(())
    }
}

impl RunnerLoop {
    /// What the terminals of the agent wrote last, for people. The report goes out without it, too.
    async fn collect_terminals(&self) -> KeptTerminals {
        let agent = self.runner.state().agent.clone();
        let Some(agent) = agent else {
            return KeptTerminals::default();
        };
        let collected = KeptTerminals::collect(&agent.shells).await;
        collected.unwrap_or_else(|error| {
            tracing::warn!(%error, "the output of the agent's terminals is lost");
            KeptTerminals::default()
        })
    }
}

fn serve_caller(runner: &Arc<Runner>, stream: UnixStream) {
    let Ok(turn) = runner.greetings.clone().try_acquire_owned() else {
        return;
    };
    // At once: later the caller may have ended, and its process id may be another's.
    let checked = peers::check(&stream);
    let tasks = runner.tree.tasks();
    let runner = runner.clone();
    tasks.clone().spawn(async move {
        match checked {
            Ok(()) => host_connection::serve(runner, stream, turn).await,
            Err(why) => host_connection::refuse(&mut stream.into_split().1, why).await,
        }
    });
}

/// Takes away what ended and was left to us. What we started ourselves is its [`ChildHandle`]'s to reap.
///
/// [`ChildHandle`]: crate::child::ChildHandle
fn reap(tree: &ProcessTree) {
    for (pid, stat) in procfs::children() {
        let key = stat.key(pid);
        let raw = i32::try_from(pid).ok();
        if let Some(pid) = raw.and_then(rustix::process::Pid::from_raw)
            && stat.zombie
            && !tree.has_started(key)
        {
            let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            // Somebody else may have been quicker.
            let _ = waitid(WaitId::Pid(pid), how);
        }
    }
}

/// Only what a runner's folder holds: it may not be the folder it should be.
fn remove_files(folder: &Path) {
    for name in FILES {
        drop(fs::remove_file(folder.join(name)));
    }
    drop(fs::remove_dir_all(folder.join(TMP_FOLDER)));
    drop(fs::remove_dir(folder));
}

fn describe_patience(patience_ms: u64) -> String {
    let (count, unit) = match patience_ms / 60_000 {
        0 => (patience_ms.div_ceil(1_000), "second"),
        minutes => (minutes, "minute"),
    };
    let plural = if count == 1 { "" } else { "s" };
    format!("no host came for {count} {unit}{plural}")
}

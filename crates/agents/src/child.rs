//! A child and its end.
//!
//! Invariant: a child is not reaped while its [`ChildHandle`] lives, so its number, and that of its group
//! and session, cannot become somebody else's: whatever is signalled by it is the child's.

use countersign_core::event::ProcessKey;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::adapter::ProcessExit;
use crate::procfs;

#[derive(Debug)]
pub(crate) struct ChildHandle {
    key: ProcessKey,
    pid: Pid,
    exit: watch::Receiver<Option<ProcessExit>>,
    _unreaped: DropGuard,
}

impl ChildHandle {
    /// Takes over a child that leads its own session.
    pub(crate) fn watch(child: &std::process::Child, tasks: &TaskTracker) -> Self {
        let pid = Pid::from_child(child);
        let released = CancellationToken::new();
        let (tell, exit) = watch::channel(None);
        tasks.spawn(watch_until_reaped(pid, tell, released.clone()));
        Self {
            // Nobody reaps the child meanwhile, so its number is still its own.
            key: procfs::key_of(child.id()),
            pid,
            exit,
            _unreaped: released.drop_guard(),
        }
    }

    pub(crate) fn key(&self) -> ProcessKey {
        self.key
    }

    pub(crate) async fn wait(&self) -> ProcessExit {
        let mut exit = self.exit.clone();
        let exit = exit.wait_for(Option::is_some).await;
        // The sender goes only with the runtime itself; nobody is left to hear then.
        exit.ok().and_then(|exit| exit.clone()).unwrap_or_default()
    }

    /// A group that has gone is not an error.
    pub(crate) fn signal_group(&self, signal: Signal) {
        if let Err(error) = kill_process_group(self.pid, signal)
            && error != rustix::io::Errno::SRCH
        {
            tracing::warn!(pid = self.key.pid, %error, "could not signal a process group");
        }
    }
}

async fn watch_until_reaped(
    pid: Pid,
    tell: watch::Sender<Option<ProcessExit>>,
    released: CancellationToken,
) {
    let status = wait_for_end(pid).await;
    // The exit is told while the child is still a zombie, so that its number is not reused until every
    // holder of the handle has let go.
    tell.send_replace(Some(status.as_ref().map(to_exit).unwrap_or_default()));
    released.cancelled().await;
    if let Err(error) = waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
    ) {
        tracing::warn!(pid = pid.as_raw_nonzero(), %error, "could not reap a child");
    }
}

/// Leaves the child unreaped.
async fn wait_for_end(pid: Pid) -> Option<WaitIdStatus> {
    // A thread waits instead, where the system has no such handle.
    if !became_readable(pid).await {
        let waited = tokio::task::spawn_blocking(move || poll_exit(pid, WaitIdOptions::empty()));
        return waited.await.ok().flatten();
    }
    poll_exit(pid, WaitIdOptions::NOHANG)
}

fn poll_exit(pid: Pid, how: WaitIdOptions) -> Option<WaitIdStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | how;
    rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options))
        .inspect_err(|error| tracing::warn!(%error, "could not wait for a child"))
        .ok()
        .flatten()
}

/// False if the system cannot tell in this way.
#[cfg(target_os = "linux")]
async fn became_readable(pid: Pid) -> bool {
    use rustix::process::{PidfdFlags, pidfd_open};
    use tokio::io::Interest;

    let Ok(fd) = pidfd_open(pid, PidfdFlags::NONBLOCK) else {
        return false;
    };
    match crate::stream::register(fd, Interest::READABLE) {
        Ok(fd) => fd.readable().await.is_ok(),
        Err(_) => false,
    }
}

#[cfg(not(target_os = "linux"))]
async fn became_readable(_pid: Pid) -> bool {
    false
}

fn to_exit(status: &WaitIdStatus) -> ProcessExit {
    ProcessExit {
        code: status.exit_status(),
        signal: status.terminating_signal().map(name_signal),
    }
}

fn name_signal(number: i32) -> String {
    let named = Signal::from_named_raw(number).and_then(|signal| {
        let known = SIGNALS.iter().find(|(known, _)| *known == signal);
        known.map(|(_, name)| (*name).to_owned())
    });
    named.unwrap_or_else(|| format!("SIG{number}"))
}

const SIGNALS: [(Signal, &str); 26] = [
    (Signal::HUP, "SIGHUP"),
    (Signal::INT, "SIGINT"),
    (Signal::QUIT, "SIGQUIT"),
    (Signal::ILL, "SIGILL"),
    (Signal::TRAP, "SIGTRAP"),
    (Signal::ABORT, "SIGABRT"),
    (Signal::BUS, "SIGBUS"),
    (Signal::FPE, "SIGFPE"),
    (Signal::KILL, "SIGKILL"),
    (Signal::USR1, "SIGUSR1"),
    (Signal::SEGV, "SIGSEGV"),
    (Signal::USR2, "SIGUSR2"),
    (Signal::PIPE, "SIGPIPE"),
    (Signal::ALARM, "SIGALRM"),
    (Signal::TERM, "SIGTERM"),
    (Signal::CONT, "SIGCONT"),
    (Signal::STOP, "SIGSTOP"),
    (Signal::TSTP, "SIGTSTP"),
    (Signal::TTIN, "SIGTTIN"),
    (Signal::TTOU, "SIGTTOU"),
    (Signal::XCPU, "SIGXCPU"),
    (Signal::XFSZ, "SIGXFSZ"),
    (Signal::VTALARM, "SIGVTALRM"),
    (Signal::PROF, "SIGPROF"),
    (Signal::IO, "SIGIO"),
    (Signal::SYS, "SIGSYS"),
];

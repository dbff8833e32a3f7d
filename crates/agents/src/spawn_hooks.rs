//! What a child does between fork and exec: it enters its tree and a session of its own.
//!
//! This is the one module of the project with unsafe code. Invariant: after the fork only system
//! calls are made. Nothing is allocated, locked or opened there; what they need is opened before.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use rustix::process::Pid;

/// Where a child starts.
#[derive(Debug, Default)]
pub(crate) struct ChildSetup {
    /// The list of processes of the group it enters, open for writing.
    pub(crate) cgroup: Option<OwnedFd>,
    /// What it owes to the runner it is started by.
    pub(crate) runner: Option<RunnerParent>,
}

/// A child of a runner. It is killed when the thread that started it ends, so only a process that
/// starts everything from its first thread may have such children.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunnerParent {
    pub(crate) parent: Pid,
    /// The mask for new files that the runner itself was started with.
    pub(crate) umask: rustix::fs::Mode,
    /// Whether the child's standard input is a terminal that it is to control.
    pub(crate) has_terminal: bool,
}

/// Makes the child enter `setup` before it runs its program. If any of it fails the program is
/// not run, and spawning fails.
#[expect(
    unsafe_code,
    reason = "only here can a child enter its tree before it is able to fork"
)]
pub(crate) fn apply(command: &mut Command, setup: ChildSetup) {
    // SAFETY: `enter` makes system calls on descriptors that are open already, and nothing else: it
    // neither allocates nor takes a lock, and an `io::Error` made of a number holds just that.
    unsafe {
        command.pre_exec(move || enter(&setup));
    }
}

/// Has the child keep these open when it runs its program, under the same numbers.
#[expect(
    unsafe_code,
    reason = "only the child may keep them: what else is started must not get them"
)]
pub(crate) fn keep_open(command: &mut Command, descriptors: Vec<Arc<OwnedFd>>) {
    // SAFETY: one system call for each descriptor, all of which are open already.
    unsafe {
        command.pre_exec(move || {
            for descriptor in &descriptors {
                rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::empty())?;
            }
            Ok(())
        });
    }
}

fn enter(setup: &ChildSetup) -> io::Result<()> {
    if let Some(cgroup) = &setup.cgroup {
        // Zero stands for whoever writes it.
        rustix::io::write(cgroup, b"0")?;
    }
    rustix::process::setsid()?;
    if let Some(runner) = setup.runner {
        // The runner's own mask is narrow; the agent's files get the one that the runner was started with.
        rustix::process::umask(runner.umask);
        if runner.has_terminal {
            // Only the leader of a session may, which the child is since the line above.
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        }
        die_with(runner.parent)?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn die_with(parent: Pid) -> io::Result<()> {
    use rustix::process::{Signal, getppid, set_parent_process_death_signal};

    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before it was asked to take us along.
    if getppid() == Some(parent) {
        Ok(())
    } else {
        Err(rustix::io::Errno::SRCH.into())
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with(_parent: Pid) -> io::Result<()> {
    Ok(())
}

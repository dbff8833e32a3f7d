//! What a child does between fork and exec: it enters its tree and a session of its own.
//!
//! This is the one module of the project with unsafe code. Invariant: after the fork only system
//! calls are made. Nothing is allocated, locked or opened there; what they need is opened before.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Where a child begins its life.
#[derive(Debug)]
pub(crate) struct Placement {
    /// The list of processes of the group it enters, open for writing.
    pub(crate) cgroup: Option<OwnedFd>,
    /// Whether its standard output becomes its controlling terminal.
    pub(crate) terminal: bool,
}

/// Makes the child enter `placement` before it runs its program. If any of it fails the program is
/// not run, and spawning fails.
#[expect(
    unsafe_code,
    reason = "only here can a child enter its tree before it is able to fork"
)]
pub(crate) fn place(command: &mut Command, placement: Placement) {
    let enter = move || enter(&placement);
    // SAFETY: `enter` makes system calls on descriptors that are open already, and nothing else: it
    // neither allocates nor takes a lock, and an `io::Error` made of a number holds just that.
    unsafe {
        command.pre_exec(enter);
    }
}

fn enter(placement: &Placement) -> io::Result<()> {
    if let Some(cgroup) = &placement.cgroup {
        // Zero stands for whoever writes it.
        rustix::io::write(cgroup, b"0")?;
    }
    rustix::process::setsid()?;
    if placement.terminal {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdout())?;
    }
    Ok(())
}

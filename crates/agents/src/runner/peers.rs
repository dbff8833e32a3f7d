//! Who may drive a runner: a process of the same user that is no agent's.
//!
//! Invariant: who cannot be looked at is refused.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use tokio::net::UnixStream;

use crate::tree::{marks_of, read_stat};

/// The word after the program in the command line of a runner.
const RUNNER_WORD: &[u8] = b"runner";

/// Ancestors that are looked at; nobody has as many.
const ANCESTORS_MAX: usize = 4_096;

const DELETED: &[u8] = b" (deleted)";

/// Says why the peer of a connection is refused.
pub(super) fn check(stream: &UnixStream) -> Result<(), String> {
    let peer = stream
        .peer_cred()
        .map_err(|error| format!("the system does not say who calls: {error}"))?;
    if peer.uid() != rustix::process::geteuid().as_raw() {
        return Err("another user is not served".to_owned());
    }
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    match pid.filter(|pid| *pid > 0) {
        Some(pid) => check_ancestors(pid),
        None => Err("the system does not say which process calls".to_owned()),
    }
}

fn check_ancestors(peer: u32) -> Result<(), String> {
    let own = find_program(std::process::id());
    let mut pid = peer;
    for _ in 0..ANCESTORS_MAX {
        if is_agents(pid, own.as_ref()) {
            return Err("an agent does not drive a runner".to_owned());
        }
        let Some(stat) = read_stat(pid) else {
            return Err(format!("process {pid} cannot be looked at"));
        };
        if pid == 1 || stat.parent == 0 {
            return Ok(());
        }
        pid = stat.parent;
    }
    Err("the caller has too many ancestors".to_owned())
}

fn is_agents(pid: u32, own: Option<&PathBuf>) -> bool {
    pid == std::process::id() || !marks_of(pid).is_empty() || is_runner(pid, own)
}

fn is_runner(pid: u32, own: Option<&PathBuf>) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let word = command.split(|&byte| byte == 0).nth(1);
    word == Some(RUNNER_WORD) && own.is_some() && find_program(pid).as_ref() == own
}

/// The program that a process runs, which may have been replaced since.
fn find_program(pid: u32) -> Option<PathBuf> {
    let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let bytes = program.as_os_str().as_bytes();
    let bytes = bytes.strip_suffix(DELETED).unwrap_or(bytes);
    Some(std::ffi::OsStr::from_bytes(bytes).into())
}

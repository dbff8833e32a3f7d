//! Who may drive a runner: a process of the same user that is no agent's.
//!
//! Invariant: who cannot be looked at is refused.

use tokio::net::UnixStream;

use super::runner_processes::find_folder;
use crate::procfs::read_stat;
use crate::tree::marks_of;

/// Ancestors that are looked at; nobody has as many.
const ANCESTORS_MAX: usize = 4_096;

/// Says why the peer of a connection is refused.
pub(super) fn check(stream: &UnixStream) -> Result<(), String> {
    check_ancestors(find_peer(stream)?, is_agents)
}

/// As [`check`], for a runner of a person's own terminal: what descends from that is no agent.
pub(crate) fn check_own(stream: &UnixStream) -> Result<u32, String> {
    let pid = find_peer(stream)?;
    check_ancestors(pid, |pid| {
        !marks_of(pid).is_empty() || find_folder(pid).is_some()
    })?;
    Ok(pid)
}

fn find_peer(stream: &UnixStream) -> Result<u32, String> {
    let peer = stream
        .peer_cred()
        .map_err(|error| format!("the system does not say who calls: {error}"))?;
    if peer.uid() != rustix::process::geteuid().as_raw() {
        return Err("another user is not served".to_owned());
    }
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    pid.filter(|pid| *pid > 0)
        .ok_or_else(|| "the system does not say which process calls".to_owned())
}

fn check_ancestors(peer: u32, is_agents: impl Fn(u32) -> bool) -> Result<(), String> {
    // Marks are inherited, but a process can clear its environment; its ancestors still show what it is.
    let mut pid = peer;
    for _ in 0..ANCESTORS_MAX {
        if is_agents(pid) {
            return Err("an agent does not drive a runner".to_owned());
        }
        let Some(stat) = read_stat(pid) else {
            return Err(format!("process {pid} cannot be looked at"));
        };
        // Where process ids have a namespace of their own, the outermost parent is 0.
        if pid == 1 || stat.parent == 0 {
            return Ok(());
        }
        pid = stat.parent;
    }
    Err("the caller has too many ancestors".to_owned())
}

/// What descends from any runner is an agent.
fn is_agents(pid: u32) -> bool {
    pid == std::process::id() || !marks_of(pid).is_empty() || find_folder(pid).is_some()
}

//! Who is at the other end of a connection, as the kernel tells it through `/proc`.
//!
//! Invariants: an answer never names a process that did not hold that end when asked, and what could not be found out
//! is told apart from what is not there. Nothing here decides what a caller may do.
//!
//! Elsewhere than on Linux there is no answer: nothing is identified, and no holder is found.

mod orphan;
mod root;
mod socket;
mod socket_holders;
mod tcp;

use std::fs;

pub(crate) use orphan::{OrphanOrigin, find_origin};
pub(crate) use root::find_root;
pub(crate) use socket::SocketFacts;
pub(crate) use socket_holders::SocketDescriptor;
pub(crate) use tcp::{TcpEnds, TcpPeers};

const LINEAGE_MAX: usize = 64;
const WALKS_MAX: usize = 4;

/// A process that a later one with the same number is not mistaken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessId {
    pub pid: u32,
    /// In clock ticks since boot.
    pub start_time: u64,
}

/// A process and its parents, itself first.
#[derive(Debug)]
pub(crate) struct ProcessAncestry {
    pub processes: Vec<ProcessId>,
    pub reach: AncestryReach,
}

/// How far up an [`Ancestry`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AncestryReach {
    /// To the first process, or to one whose parent lives outside our view of processes.
    Root,
    /// To a process whose parent is there and cannot be read, as another user's where `/proc` hides those.
    Unseen,
    /// To a process whose parent ended while it was looked for.
    Lost,
    /// To the bound: somebody nests processes this deep to hide where they come from.
    TooDeep,
}

/// Nothing if there is no such process.
pub(crate) fn identify(pid: u32) -> Option<ProcessId> {
    let stat = read_stat(pid)?;
    Some(stat.id(pid))
}

/// Whether the process was started with `secret` in its environment.
pub(crate) fn was_started_with(pid: u32, secret: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment
        .windows(secret.len().max(1))
        .any(|part| part == secret.as_bytes())
}

/// The processes of [`ancestry`], for callers who do not ask whether they are all.
#[cfg(test)]
pub(crate) fn lineage(pid: u32) -> Vec<ProcessId> {
    ancestry(pid).processes
}

/// Each parent was the parent of the one before it at some moment during the call. At most 64 are named.
pub(crate) fn ancestry(pid: u32) -> ProcessAncestry {
    let mut found = walk(pid);
    // A parent that ends during the walk leaves its child to another ancestor, which a second walk finds.
    for _ in 1..WALKS_MAX {
        if found.reach != AncestryReach::Lost {
            break;
        }
        found = walk(pid);
    }
    found
}

fn walk(pid: u32) -> ProcessAncestry {
    let mut processes: Vec<ProcessId> = Vec::new();
    let mut next = pid;
    let reach = loop {
        if processes.len() == LINEAGE_MAX {
            break AncestryReach::TooDeep;
        }
        let Some(stat) = read_stat(next) else {
            break if exists(next) {
                AncestryReach::Unseen
            } else {
                AncestryReach::Lost
            };
        };
        let id = stat.id(next);
        // A parent is never younger than its child: this one got the number of a parent that ended.
        if processes
            .last()
            .is_some_and(|child| id.start_time > child.start_time)
        {
            break AncestryReach::Lost;
        }
        processes.push(id);
        if next == 1 || stat.parent == 0 {
            break AncestryReach::Root;
        }
        next = stat.parent;
    };
    ProcessAncestry { processes, reach }
}

/// Whether there is such a process, be it one that we may not read.
fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let tested = pid.map(rustix::process::test_kill_process);
    matches!(tested, Some(Ok(()) | Err(rustix::io::Errno::PERM)))
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    group: u32,
    session: u32,
    start_time: u64,
}

impl Stat {
    fn id(&self, pid: u32) -> ProcessId {
        ProcessId {
            pid,
            start_time: self.start_time,
        }
    }
}

fn read_stat(pid: u32) -> Option<Stat> {
    if cfg!(not(target_os = "linux")) {
        return None;
    }
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The second field is a name that the process chose, and may hold anything but a zero byte, so fields are counted from
/// its last `)`: see `proc_pid_stat(5)`.
fn parse_stat(line: &[u8]) -> Option<Stat> {
    let name_end = line.iter().rposition(|&byte| byte == b')')?;
    let mut fields = str::from_utf8(&line[name_end + 1..])
        .ok()?
        .split_ascii_whitespace();
    Some(Stat {
        parent: fields.nth(1)?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        session: fields.next()?.parse().ok()?,
        start_time: fields.nth(15)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests;

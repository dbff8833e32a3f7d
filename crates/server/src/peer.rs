//! Who is at the other end of a connection, as far as the kernel shows it in `/proc`.
//!
//! Invariants: a process is named only if it held that end during the call, and "could not be found
//! out" differs from "is not there". Nothing here decides what a caller may do.
//!
//! On systems other than Linux no process is identified and no holder is found.

mod orphan;
mod root;
mod socket;
mod socket_holders;
mod tcp;

use countersign_core::event::ProcessKey;
use countersign_daemon::procfs;

pub(crate) use orphan::{OrphanOrigin, find_origin};
pub(crate) use root::find_root;
pub(crate) use socket::SocketFacts;
pub(crate) use socket_holders::SocketDescriptor;
pub(crate) use tcp::{TcpEnds, TcpPeers};

/// Deeper than any real chain of shells, build tools and multiplexers.
const LINEAGE_MAX: usize = 64;

/// Reads of one chain before it counts as changing on purpose.
const WALKS_MAX: usize = 4;

/// A process and its parents, itself first.
#[derive(Debug)]
pub(crate) struct ProcessAncestry {
    pub processes: Vec<ProcessKey>,
    pub reach: AncestryReach,
}

/// How far up a [`ProcessAncestry`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AncestryReach {
    /// To the first process, or to one whose parent lives outside our view of processes.
    Root,
    /// To a process whose parent is there and cannot be read, as another user's where `/proc` hides
    /// those.
    Unseen,
    /// To a process whose parent ended while it was looked for.
    Lost,
    /// To the bound. Only a process that hides where it comes from has so many ancestors.
    TooDeep,
}

/// Whether the process was started with `secret` in its environment.
pub(crate) fn was_started_with(pid: u32, secret: &str) -> bool {
    // Anywhere in it and not in a certain variable: the person who started it chose the name.
    procfs::read_environ(pid)
        .unwrap_or_default()
        .windows(secret.len().max(1))
        .any(|part| part == secret.as_bytes())
}

/// The processes of [`ancestry`], for callers who do not ask whether they are all.
#[cfg(test)]
pub(crate) fn lineage(pid: u32) -> Vec<ProcessKey> {
    ancestry(pid).processes
}

/// The process and its ancestors. Each was the parent of the one before it at some moment during
/// the call.
pub(crate) fn ancestry(pid: u32) -> ProcessAncestry {
    let mut found = walk(pid);
    // A parent that ends during the walk leaves its child to another ancestor, which a second walk
    // finds.
    for _ in 1..WALKS_MAX {
        if found.reach != AncestryReach::Lost {
            break;
        }
        found = walk(pid);
    }
    found
}

fn walk(pid: u32) -> ProcessAncestry {
    let mut processes: Vec<ProcessKey> = Vec::new();
    let mut next = pid;
    let reach = loop {
        if processes.len() == LINEAGE_MAX {
            break AncestryReach::TooDeep;
        }
        let Some(stat) = procfs::read_stat(next) else {
            break if procfs::has_process(next) {
                AncestryReach::Unseen
            } else {
                AncestryReach::Lost
            };
        };
        let key = stat.key(next);
        // A parent is never younger than its child. This process got the number of a parent that
        // ended, and must not be taken for an ancestor.
        if processes
            .last()
            .is_some_and(|child| key.start_time > child.start_time)
        {
            break AncestryReach::Lost;
        }
        processes.push(key);
        // The parent 0 is outside this pid namespace, as for a process entered with `docker exec`.
        if next == 1 || stat.parent == 0 {
            break AncestryReach::Root;
        }
        next = stat.parent;
    };
    ProcessAncestry { processes, reach }
}

#[cfg(test)]
mod tests;

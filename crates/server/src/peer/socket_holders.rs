//! Which processes hold a socket, by its inode.
//!
//! Invariant: what is remembered only says where to look. A process is returned only if its
//! descriptor was seen, during the call, to be that socket.
//!
//! Each process is read once, when it first appears. What it inherited is then known, so only a
//! socket that it opened later makes another read necessary: first of the processes that connected
//! before, then of all.

use std::collections::{HashMap, HashSet, VecDeque};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Dir, Mode, OFlags, openat, readlinkat_raw};

use countersign_daemon::procfs::read_stat;

const DESCRIPTORS_MAX: usize = 16_384;
const RECENT_MAX: usize = 16;

/// One descriptor of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SocketDescriptor {
    pub(crate) pid: u32,
    pub(crate) number: u32,
}

impl SocketDescriptor {
    /// Whether it is that socket at this moment.
    pub(crate) fn is_socket(self, inode: u64) -> bool {
        let Self { pid, number } = self;
        find_socket(CWD, format!("/proc/{pid}/fd/{number}")) == Some(inode)
    }
}

/// Reads all descriptors of all processes that may be read. Returns the holders of each wanted
/// socket, one descriptor for each process, in order of their numbers.
///
/// Nothing is remembered from before, so no process is missed that held one of them during the
/// whole call.
pub(super) fn scan(wanted: &HashSet<u64>) -> HashMap<u64, Vec<SocketDescriptor>> {
    let mut found: HashMap<u64, Vec<SocketDescriptor>> = HashMap::new();
    for pid in list_processes().into_keys() {
        let Some(directory) = open_descriptors(pid) else {
            continue;
        };
        for (number, inode) in list_sockets(&directory) {
            if wanted.contains(&inode) {
                let descriptor = SocketDescriptor { pid, number };
                found.entry(inode).or_default().push(descriptor);
            }
        }
    }
    for holders in found.values_mut() {
        one_each(holders);
    }
    found
}

/// One descriptor for each process, in order of their numbers.
fn one_each(descriptors: &mut Vec<SocketDescriptor>) {
    descriptors.sort_unstable();
    descriptors.dedup_by_key(|one| one.pid);
}

#[derive(Debug, Default)]
pub(super) struct SocketHolders {
    /// The processes that were read, each with the inode of its directory, which changes when its
    /// number is reused.
    read: HashMap<u32, u64>,
    sockets: HashMap<u64, Vec<SocketDescriptor>>,
    descriptors: usize,
    /// Who held what was asked for, latest first.
    recent: VecDeque<u32>,
}

impl SocketHolders {
    /// One descriptor of each process, in order of their numbers; empty if none that we may read.
    pub(super) fn find(&mut self, inode: u64) -> Vec<SocketDescriptor> {
        let listed = list_processes();
        // Before new ones are read: a process that got the number of an ended one is new as well.
        self.forget_absent(&listed);
        self.read_newcomers(&listed, inode);
        let mut found = self.verify(inode);
        if found.is_empty() {
            // A client opens its next connection in a process that is known already; usually it is
            // one of the last that connected.
            found = self.find_in_recent(inode);
        }
        if found.is_empty() {
            self.forget_all();
            self.read_newcomers(&list_processes(), inode);
            found = self.verify(inode);
        }
        if self.descriptors > DESCRIPTORS_MAX {
            self.forget_all();
        }
        add_parents(&mut found, inode);
        self.remember_recent(&found);
        found
    }

    fn forget_all(&mut self) {
        self.read.clear();
        self.sockets.clear();
        self.descriptors = 0;
    }

    fn forget_absent(&mut self, listed: &HashMap<u32, u64>) {
        self.read
            .retain(|pid, directory| listed.get(pid) == Some(directory));
        self.recent.retain(|pid| listed.contains_key(pid));
    }

    fn read_newcomers(&mut self, listed: &HashMap<u32, u64>, wanted: u64) {
        for (&pid, &directory) in listed {
            if self.read.insert(pid, directory).is_none() {
                self.read_process(pid, wanted);
            }
        }
    }

    fn find_in_recent(&mut self, inode: u64) -> Vec<SocketDescriptor> {
        for pid in self.recent.clone() {
            self.read_process(pid, inode);
            let found = self.verify(inode);
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// Beyond the bound only `wanted` is noted. The caller then forgets everything: a process
    /// counts as read, and what was left out of it would never be found.
    fn read_process(&mut self, pid: u32, wanted: u64) {
        let Some(directory) = open_descriptors(pid) else {
            return;
        };
        for (number, inode) in list_sockets(&directory) {
            let full = self.descriptors > DESCRIPTORS_MAX;
            if full && inode != wanted {
                continue;
            }
            let descriptor = SocketDescriptor { pid, number };
            let holders = self.sockets.entry(inode).or_default();
            if !holders.contains(&descriptor) {
                holders.push(descriptor);
                self.descriptors += 1;
            }
        }
    }

    fn verify(&mut self, inode: u64) -> Vec<SocketDescriptor> {
        let noted = self.sockets.get(&inode).cloned().unwrap_or_default();
        let (mut held, stale): (Vec<_>, Vec<_>) =
            noted.into_iter().partition(|one| one.is_socket(inode));
        // The socket may have another number now, as in a child that made it its standard input.
        let moved = stale
            .iter()
            .filter_map(|one| find_descriptor(one.pid, inode));
        held.extend(moved);
        one_each(&mut held);
        held
    }

    fn remember_recent(&mut self, holders: &[SocketDescriptor]) {
        for holder in holders {
            self.recent.retain(|&earlier| earlier != holder.pid);
            self.recent.push_front(holder.pid);
        }
        self.recent.truncate(RECENT_MAX);
    }
}

/// A process that was read before it opened the socket, and whose child inherited it since, is
/// found through the child.
fn add_parents(holders: &mut Vec<SocketDescriptor>, inode: u64) {
    for mut holder in holders.clone() {
        while let Some(stat) = read_stat(holder.pid)
            && !holders.iter().any(|known| known.pid == stat.parent)
            && let Some(parent) = find_descriptor(stat.parent, inode)
        {
            holder = parent;
            holders.push(parent);
        }
    }
    holders.sort_unstable();
}

fn list_processes() -> HashMap<u32, u64> {
    let directory = open_directory("/proc");
    directory
        .iter()
        .flat_map(Dir::read_from)
        .flatten()
        .filter_map(Result::ok)
        .filter_map(|entry| Some((parse_number(entry.file_name().to_bytes())?, entry.ino())))
        .collect()
}

fn open_descriptors(pid: u32) -> Option<OwnedFd> {
    open_directory(&format!("/proc/{pid}/fd"))
}

fn open_directory(path: &str) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).ok()
}

fn list_sockets(directory: &OwnedFd) -> impl Iterator<Item = (u32, u64)> {
    Dir::read_from(directory)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter_map(move |entry| {
            let number = parse_number(entry.file_name().to_bytes())?;
            Some((number, find_socket(directory, entry.file_name())?))
        })
}

fn find_descriptor(pid: u32, inode: u64) -> Option<SocketDescriptor> {
    let directory = open_descriptors(pid)?;
    let (number, _) = list_sockets(&directory).find(|(_, held)| *held == inode)?;
    Some(SocketDescriptor { pid, number })
}

fn find_socket(directory: impl AsFd, name: impl rustix::path::Arg) -> Option<u64> {
    // Longer than any `socket:[…]`. The links of files are cut off, and do not matter.
    let mut link = [0; 48];
    let length = readlinkat_raw(directory, name, &mut link).ok()?;
    parse_number(
        link[..length]
            .strip_prefix(b"socket:[")?
            .strip_suffix(b"]")?,
    )
}

fn parse_number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    str::from_utf8(digits).ok()?.parse().ok()
}

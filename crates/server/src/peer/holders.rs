//! Which processes hold a socket, by its inode.
//!
//! Invariant: what is remembered only says where to look. A process is named after its descriptor was seen, during the
//! call, to be that socket.
//!
//! Each process is read once, when it first appears. Whatever it inherited is then known, so only a socket that it
//! opened later makes us read again: first the processes that connected before, then all.

use std::collections::{HashMap, VecDeque};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Dir, Mode, OFlags, openat, readlinkat_raw};

use super::read_stat;

const DESCRIPTORS_MAX: usize = 16_384;
const RECENT_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Descriptor {
    pid: u32,
    number: u32,
}

#[derive(Debug, Default)]
pub(super) struct Holders {
    /// The processes that were read, each with the inode of its directory, which changes when its number is reused.
    read: HashMap<u32, u64>,
    sockets: HashMap<u64, Vec<Descriptor>>,
    descriptors: usize,
    /// Who held what was asked for, latest first.
    recent: VecDeque<u32>,
}

impl Holders {
    /// In order of their numbers; empty if none that we may read.
    pub(super) fn find(&mut self, inode: u64) -> Vec<u32> {
        let listed = list_processes();
        self.forget_absent(&listed);
        self.read_newcomers(&listed, inode);
        let mut pids = self.verify(inode);
        if pids.is_empty() {
            pids = self.find_in_recent(inode);
        }
        if pids.is_empty() {
            self.forget_all();
            self.read_newcomers(&list_processes(), inode);
            pids = self.verify(inode);
        }
        if self.descriptors > DESCRIPTORS_MAX {
            self.forget_all();
        }
        add_parents(&mut pids, inode);
        self.remember_recent(&pids);
        pids
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

    fn find_in_recent(&mut self, inode: u64) -> Vec<u32> {
        for pid in self.recent.clone() {
            self.read_process(pid, inode);
            let pids = self.verify(inode);
            if !pids.is_empty() {
                return pids;
            }
        }
        Vec::new()
    }

    /// Past the bound only `wanted` is noted; the caller then forgets everything, since a part of it would mislead.
    fn read_process(&mut self, pid: u32, wanted: u64) {
        let Some(directory) = open_descriptors(pid) else {
            return;
        };
        for (number, inode) in list_sockets(&directory) {
            let full = self.descriptors > DESCRIPTORS_MAX;
            if full && inode != wanted {
                continue;
            }
            let descriptor = Descriptor { pid, number };
            let holders = self.sockets.entry(inode).or_default();
            if !holders.contains(&descriptor) {
                holders.push(descriptor);
                self.descriptors += 1;
            }
        }
    }

    fn verify(&mut self, inode: u64) -> Vec<u32> {
        let noted = self.sockets.get(&inode).cloned().unwrap_or_default();
        let (held, stale): (Vec<_>, Vec<_>) =
            noted.into_iter().partition(|one| is_held(*one, inode));
        let mut pids: Vec<u32> = held.iter().map(|one| one.pid).collect();
        // It may have moved to another number, as a child's does when it becomes its standard input.
        pids.extend(
            stale
                .iter()
                .map(|one| one.pid)
                .filter(|&pid| holds(pid, inode)),
        );
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    fn remember_recent(&mut self, pids: &[u32]) {
        for &pid in pids {
            self.recent.retain(|&earlier| earlier != pid);
            self.recent.push_front(pid);
        }
        self.recent.truncate(RECENT_MAX);
    }
}

/// A process that was read before it opened the socket, and whose child inherited it since, is found through the child.
fn add_parents(pids: &mut Vec<u32>, inode: u64) {
    for mut pid in pids.clone() {
        while let Some(stat) = read_stat(pid)
            && !pids.contains(&stat.parent)
            && holds(stat.parent, inode)
        {
            pid = stat.parent;
            pids.push(pid);
        }
    }
    pids.sort_unstable();
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

fn is_held(descriptor: Descriptor, inode: u64) -> bool {
    let Descriptor { pid, number } = descriptor;
    find_socket(CWD, format!("/proc/{pid}/fd/{number}")) == Some(inode)
}

fn holds(pid: u32, inode: u64) -> bool {
    open_descriptors(pid)
        .is_some_and(|directory| list_sockets(&directory).any(|(_, held)| held == inode))
}

fn find_socket(directory: impl AsFd, name: impl rustix::path::Arg) -> Option<u64> {
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

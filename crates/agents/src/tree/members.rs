//! Finding and ending the processes of a tree by their marks.
//!
//! A process belongs if it was started with the mark, if a root that is still there leads its group
//! or session, if its parent belongs, or if it was found to belong before.
//!
//! Invariants: what belongs is known by number and start time; whoever looks is never ended.

use std::collections::{HashMap, HashSet};
use std::thread;
use std::time::{Duration, Instant};

use countersign_core::event::ProcessKey;
use rustix::process::Signal;

use super::TreeError;
use super::procfs::{self, Stat};

/// Rounds of stopping before killing begins: each catches what the last one's members forked.
const STOP_ROUNDS: usize = 16;
const PAUSE_MAX: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Members {
    /// `NAME=value`, as it stands in the environment.
    variable: String,
    roots: Vec<ProcessKey>,
    known: HashSet<ProcessKey>,
}

impl Members {
    pub(super) fn new(variable: String, roots: Vec<ProcessKey>) -> Self {
        Self {
            variable,
            roots,
            known: HashSet::new(),
        }
    }

    /// Ends every member, and returns how many there were once two looks in a row found none. Blocks.
    pub(super) fn end_all(&mut self, deadline: Instant) -> Result<usize, TreeError> {
        // Before anything is stopped.
        if procfs::has_variable(std::process::id(), &self.variable) {
            return Err(TreeError::Inside);
        }
        let mut ended = HashSet::new();
        let mut pause = Duration::from_millis(1);
        let mut quiet = 0;
        while quiet < 2 {
            let found = self.stop_all()?;
            if found.is_empty() {
                quiet += 1;
                continue;
            }
            quiet = 0;
            if Instant::now() > deadline {
                let pids = found.iter().map(|key| key.pid).collect();
                return Err(TreeError::Survivors { pids });
            }
            for &key in &found {
                procfs::signal(key, Signal::KILL);
                ended.insert(key);
            }
            thread::sleep(pause);
            pause = PAUSE_MAX.min(pause * 2);
        }
        Ok(ended.len())
    }

    /// Stops members until no look finds another, since what is stopped cannot fork.
    fn stop_all(&mut self) -> Result<Vec<ProcessKey>, TreeError> {
        let mut stopped = HashSet::new();
        let mut found = Vec::new();
        for _ in 0..STOP_ROUNDS {
            found = self.find()?;
            let fresh: Vec<_> = found.iter().filter(|key| stopped.insert(**key)).collect();
            if fresh.is_empty() {
                break;
            }
            for &&key in &fresh {
                procfs::signal(key, Signal::STOP);
            }
        }
        Ok(found)
    }

    /// The living members. Refuses if we are one of them.
    fn find(&mut self) -> Result<Vec<ProcessKey>, TreeError> {
        let mut ours = HashSet::new();
        let all: HashMap<u32, Stat> = procfs::list()
            .into_iter()
            .filter_map(|pid| {
                let stat = procfs::read_stat(pid)?;
                if self.stop_if_marked(to_key(pid, &stat)) {
                    ours.insert(pid);
                }
                Some((pid, stat))
            })
            .collect();
        let led = all
            .iter()
            .filter(|(pid, stat)| self.is_led(**pid, stat, &all));
        ours.extend(led.map(|(pid, _)| *pid));
        while add_children(&all, &mut ours) {}
        if ours.contains(&std::process::id()) || ours.contains(&1) {
            return Err(TreeError::Inside);
        }
        let found: Vec<_> = all
            .iter()
            .filter(|(pid, stat)| ours.contains(pid) && !stat.zombie)
            .map(|(&pid, stat)| to_key(pid, stat))
            .collect();
        self.known.extend(&found);
        Ok(found)
    }

    /// At once: after a look at all the others it may have gone and left a child.
    fn stop_if_marked(&self, key: ProcessKey) -> bool {
        let marked = self.known.contains(&key) || procfs::has_variable(key.pid, &self.variable);
        if marked {
            procfs::signal(key, Signal::STOP);
        }
        marked
    }

    /// Only while a root is there, be it as a zombie, is its number certainly its own.
    fn is_led(&self, pid: u32, stat: &Stat, all: &HashMap<u32, Stat>) -> bool {
        self.roots.iter().any(|root| {
            let there = all
                .get(&root.pid)
                .is_some_and(|found| found.start_time == root.start_time);
            there && [pid, stat.session, stat.group].contains(&root.pid)
        })
    }
}

fn to_key(pid: u32, stat: &Stat) -> ProcessKey {
    ProcessKey {
        pid,
        start_time: stat.start_time,
    }
}

/// A child cannot be older than its parent: if it seems so, the parent's number was reused between
/// two of our looks.
fn add_children(all: &HashMap<u32, Stat>, ours: &mut HashSet<u32>) -> bool {
    let born_later = |stat: &Stat| {
        let parent = all.get(&stat.parent);
        parent.is_some_and(|parent| parent.start_time <= stat.start_time)
    };
    let fresh: Vec<u32> = all
        .iter()
        .filter(|(pid, stat)| {
            !ours.contains(pid) && ours.contains(&stat.parent) && born_later(stat)
        })
        .map(|(pid, _)| *pid)
        .collect();
    ours.extend(&fresh);
    !fresh.is_empty()
}

//! Finding and ending the processes of a tree by their marks.
//!
//! A process belongs if it was started with the mark, if a root that is still there leads its group
//! or session, if its parent belongs, or if it was found to belong before. To a runner belongs
//! whatever has it for a parent.
//!
//! Invariants: what belongs is known by number and start time; whoever looks is never ended.

use std::collections::{HashMap, HashSet};
use std::thread;
use std::time::{Duration, Instant};

use countersign_core::event::ProcessKey;
use rustix::process::Signal;

use super::TreeError;
use crate::procfs::{self, ProcessStat};

/// Rounds of stopping before killing begins: each catches what the last one's members forked.
const STOP_ROUNDS: usize = 16;
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Rounds of one look, each at the processes that came about during the last: what replaces itself
/// again and again is not there for long.
const LOOK_ROUNDS: usize = 64;

/// What one look saw.
#[derive(Debug, Default)]
struct ProcessScan {
    seen: HashSet<u32>,
    all: HashMap<u32, ProcessStat>,
    ours: HashSet<u32>,
}

#[derive(Debug)]
pub(super) struct MarkedProcesses {
    /// `NAME=value`, as it stands in the environment.
    variable: String,
    roots: Vec<ProcessKey>,
    /// Whether all that we started belongs, and all that came to be ours when its parent ended.
    below_us: bool,
    known: HashSet<ProcessKey>,
}

impl MarkedProcesses {
    pub(super) fn new(variable: String, roots: Vec<ProcessKey>) -> Self {
        Self {
            variable,
            roots,
            below_us: false,
            known: HashSet::new(),
        }
    }

    /// Those and everything below this process, which has nothing else below it.
    pub(super) fn with_all_below_us(self, below_us: bool) -> Self {
        Self { below_us, ..self }
    }

    /// Ends every member, and returns how many there were once two looks in a row found none. Blocks.
    pub(super) fn end_all(&mut self, deadline: Instant) -> Result<usize, TreeError> {
        // Before anything is stopped: stopping ourselves would leave nobody to continue.
        if procfs::has_variable(std::process::id(), &self.variable) {
            return Err(TreeError::Inside);
        }
        let mut ended = HashSet::new();
        let mut pause = Duration::from_millis(1);
        let mut quiet = 0;
        while quiet < 2 {
            let (found, whole) = self.stop_all()?;
            let late = Instant::now() > deadline;
            if found.is_empty() {
                // Two looks, because a process may fork while it is looked at.
                // On a machine where processes come and go without a pause the last look counts.
                quiet += usize::from(whole || late);
                continue;
            }
            quiet = 0;
            if late {
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

    /// Stops members until no look finds another, since what is stopped cannot fork. Also says
    /// whether the last look was whole.
    fn stop_all(&mut self) -> Result<(Vec<ProcessKey>, bool), TreeError> {
        let mut stopped = HashSet::new();
        let mut last = (Vec::new(), false);
        for _ in 0..STOP_ROUNDS {
            last = self.find()?;
            let fresh: Vec<_> = last.0.iter().filter(|key| stopped.insert(**key)).collect();
            if fresh.is_empty() {
                break;
            }
            // Stopped and not yet killed: a killed process leaves children that no longer name their parent.
            for &&key in &fresh {
                procfs::signal(key, Signal::STOP);
            }
        }
        Ok(last)
    }

    /// The living members, and whether no process came about unseen meanwhile. Refuses if we are a
    /// member.
    fn find(&mut self) -> Result<(Vec<ProcessKey>, bool), TreeError> {
        let mut look = ProcessScan::default();
        let mut whole = false;
        for _ in 0..LOOK_ROUNDS {
            whole = !self.look_at_new(&mut look)?;
            if whole {
                break;
            }
        }
        let ProcessScan { all, mut ours, .. } = look;
        let led = all
            .iter()
            .filter(|(pid, stat)| self.is_led(**pid, stat, &all));
        ours.extend(led.map(|(pid, _)| *pid));
        if self.below_us {
            let us = std::process::id();
            let below = all.iter().filter(|(_, stat)| stat.parent == us);
            ours.extend(below.map(|(pid, _)| *pid));
        }
        while add_children(&all, &mut ours) {}
        if ours.contains(&std::process::id()) || ours.contains(&1) {
            return Err(TreeError::Inside);
        }
        let found: Vec<_> = all
            .iter()
            .filter(|(pid, stat)| ours.contains(pid) && !stat.zombie)
            .map(|(&pid, stat)| stat.key(pid))
            .collect();
        self.known.extend(&found);
        Ok((found, whole))
    }

    /// False if there is no process that was not looked at.
    fn look_at_new(&self, look: &mut ProcessScan) -> Result<bool, TreeError> {
        let mut pids = procfs::list().map_err(|error| TreeError::Refused(error.to_string()))?;
        pids.retain(|pid| look.seen.insert(*pid));
        for &pid in &pids {
            let Some(stat) = procfs::read_stat(pid) else {
                continue;
            };
            if self.stop_if_marked(stat.key(pid)) {
                look.ours.insert(pid);
            }
            look.all.insert(pid, stat);
        }
        Ok(!pids.is_empty())
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
    fn is_led(&self, pid: u32, stat: &ProcessStat, all: &HashMap<u32, ProcessStat>) -> bool {
        self.roots.iter().any(|root| {
            let there = all
                .get(&root.pid)
                .is_some_and(|found| found.start_time == root.start_time);
            there && [pid, stat.session, stat.group].contains(&root.pid)
        })
    }
}

/// A child cannot be older than its parent: if it seems so, the parent's number was reused between
/// two of our looks.
fn add_children(all: &HashMap<u32, ProcessStat>, ours: &mut HashSet<u32>) -> bool {
    let fresh: Vec<u32> = all
        .iter()
        .filter(|(pid, stat)| {
            let parent = all.get(&stat.parent);
            !ours.contains(pid)
                && ours.contains(&stat.parent)
                && parent.is_some_and(|parent| parent.start_time <= stat.start_time)
        })
        .map(|(pid, _)| *pid)
        .collect();
    ours.extend(&fresh);
    !fresh.is_empty()
}

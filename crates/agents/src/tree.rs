//! What holds all processes of one agent together, so that none of them survives it.
//!
//! The best means is a cgroup of the agent's own: it holds whatever a process does short of moving
//! itself elsewhere. The other is a mark in the environment of everything that is started, with the
//! number and start time of what was started. The mark is set in both cases, and both are swept.
//!
//! Invariants: a process enters before it can fork; nothing enters a tree that is being ended; only
//! what certainly belongs is signalled.

mod cgroup;
mod containment;
mod marked_processes;
mod record;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use countersign_core::event::ProcessKey;
use countersign_core::limits;
use tokio_util::task::TaskTracker;

use crate::procfs;
use crate::spawn_hooks::{self, ChildSetup, RunnerParent};
use cgroup::AgentCgroup;
pub use containment::{ContainmentMethod, probe_containment};
use marked_processes::MarkedProcesses;
pub use record::TreeRecord;

const TREE_VARIABLE: &str = "COUNTERSIGN_TREE";
const TERMINAL_VARIABLE: &str = "COUNTERSIGN_TERMINAL";
/// Another name than that of agents: whoever has this mark is a person.
pub const OWN_TERMINAL_VARIABLE: &str = "COUNTERSIGN_OWN_TERMINAL";
const AGENT_PREFIX: &str = "agent-";
const NAME_BYTES_MAX: usize = 64;

/// Why what an agent started could not be ended.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// They were killed and are still there.
    #[error("processes {pids:?} were killed and did not end; they may hang in the kernel")]
    Survivors { pids: Vec<u32> },
    /// Ending the agent would end whoever tries.
    #[error(
        "this process was itself started by that agent; start the host from a shell of your own"
    )]
    Inside,
    /// The cgroup could not be killed.
    #[error("could not end the processes in cgroup `{}`", path.display())]
    Cgroup {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The system gave no random bytes or no thread.
    #[error("a request to the operating system failed: {0}")]
    Refused(String),
}

/// A tree is used for one run of an agent; once it was ended nothing can be started in it.
#[derive(Clone, Debug)]
pub struct ProcessTree(Arc<TreeInner>);

#[derive(Debug)]
struct TreeInner {
    cgroup: Option<AgentCgroup>,
    /// Why there is no cgroup, or empty.
    no_cgroup_reason: String,
    /// A process could not be moved into the cgroup, so that it does not hold all.
    leaks: AtomicBool,
    variable: &'static str,
    mark: String,
    parent: Option<ProcessTree>,
    /// What every process in it owes to us, if we are its runner.
    runner: Option<RunnerParent>,
    gate: Mutex<SpawnState>,
    tasks: TaskTracker,
}

/// Takes away a folder in which nothing ever was, or is any more. Ends nothing.
impl Drop for TreeInner {
    fn drop(&mut self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove_empty();
        }
    }
}

/// Held while something is started, so that nothing can slip in while a tree is being ended.
#[derive(Debug, Default)]
struct SpawnState {
    ended: bool,
    roots: Vec<ProcessKey>,
}

impl SpawnState {
    fn add(&mut self, root: ProcessKey) {
        // Only those that still exist: an agent starts any number of commands while it runs.
        self.roots.retain(|earlier| procfs::exists(*earlier));
        self.roots.push(root);
    }
}

impl ProcessTree {
    /// `id` names the agent and its run, `host_key` the host; both only for people who look.
    pub fn create(id: &str, host_key: &str) -> Result<Self, TreeError> {
        let mark = new_mark()?;
        let name = format!("{AGENT_PREFIX}{}-{mark}", to_file_name(id));
        let cgroup = AgentCgroup::create(&to_file_name(host_key), &name);
        Ok(Self::new(TREE_VARIABLE, mark, cgroup, None, None))
    }

    /// The tree that a host recorded for this process, its runner: everything below this process
    /// belongs to it. A cgroup that is not there any more is made do without.
    pub(crate) fn from_record(record: &TreeRecord, runner: RunnerParent) -> Self {
        let cgroup = match &record.containment {
            ContainmentMethod::Cgroup { path } => AgentCgroup::from_record(path)
                .ok_or_else(|| format!("`{}` is gone", path.display())),
            ContainmentMethod::Marks { why } => Err(why.clone()),
        };
        let mark = record.mark.clone();
        Self::new(TREE_VARIABLE, mark, cgroup, None, Some(runner))
    }

    /// The tree of a person's own terminal: everything below this process, and what has the mark. No cgroup of an
    /// agent, so that nobody takes these processes for one's.
    pub(crate) fn of_own_terminal(mark: String, runner: RunnerParent) -> Self {
        let cgroup = Err("a person's own terminal has no cgroup".to_owned());
        Self::new(OWN_TERMINAL_VARIABLE, mark, cgroup, None, Some(runner))
    }

    /// Whether this very process was started in the tree and is not reaped yet.
    pub(crate) fn has_started(&self, key: ProcessKey) -> bool {
        self.lock_spawns().roots.contains(&key)
    }

    /// A tree that uses marks even where a cgroup could be had.
    pub fn create_with_marks() -> Result<Self, TreeError> {
        let cgroup = Err("not wanted".to_owned());
        Ok(Self::new(TREE_VARIABLE, new_mark()?, cgroup, None, None))
    }

    /// A tree inside this one, for one terminal. Ending this one ends it too.
    pub(crate) fn create_inside(&self, name: &str) -> Result<Self, TreeError> {
        let cgroup = match &self.0.cgroup {
            // Once a process could not enter, the next would most likely fail too.
            Some(cgroup) if !self.leaks() => AgentCgroup::create_in(cgroup.path(), name),
            _ => Err(self.0.no_cgroup_reason.clone()),
        };
        let parent = Some(self.clone());
        let mark = new_mark()?;
        Ok(Self::new(
            TERMINAL_VARIABLE,
            mark,
            cgroup,
            parent,
            self.0.runner,
        ))
    }

    fn new(
        variable: &'static str,
        mark: String,
        cgroup: Result<AgentCgroup, String>,
        parent: Option<Self>,
        runner: Option<RunnerParent>,
    ) -> Self {
        let (cgroup, why) = match cgroup {
            Ok(cgroup) => (Some(cgroup), String::new()),
            Err(why) => (None, why),
        };
        let tasks = parent.as_ref().map(|parent| parent.0.tasks.clone());
        Self(Arc::new(TreeInner {
            cgroup,
            no_cgroup_reason: why,
            leaks: AtomicBool::new(false),
            variable,
            mark,
            parent,
            runner,
            gate: Mutex::default(),
            tasks: tasks.unwrap_or_default(),
        }))
    }

    /// What the next host needs to end what this one left. Known before anything is started, so that
    /// it can be committed first.
    pub fn record(&self) -> TreeRecord {
        TreeRecord {
            containment: self.containment(),
            mark: self.0.mark.clone(),
        }
    }

    /// What holds this very tree.
    pub fn containment(&self) -> ContainmentMethod {
        match &self.0.cgroup {
            Some(cgroup) => ContainmentMethod::Cgroup {
                path: cgroup.path().to_owned(),
            },
            None => ContainmentMethod::Marks {
                why: self.0.no_cgroup_reason.clone(),
            },
        }
    }

    /// Whether a process is of this agent.
    pub fn holds(&self, pid: u32) -> bool {
        let held = self
            .0
            .cgroup
            .as_ref()
            .is_some_and(|cgroup| cgroup.holds(pid));
        held || procfs::has_variable(pid, &self.variable())
    }

    /// Ends every process of the tree and verifies that none is left. Nothing can be started in it
    /// from the moment this is called.
    pub async fn kill_all(&self) -> Result<(), TreeError> {
        // Under the lock: a spawn that has begun adds its process before this continues, and none begins after.
        let roots = {
            let mut gate = self.lock_spawns();
            gate.ended = true;
            gate.roots.clone()
        };
        // A runner starts nothing but its agent, so all that descends from it belongs to that.
        let holds_all = self.0.parent.is_none() && self.0.runner.is_some();
        let held = TreeSweep {
            cgroup: self.0.cgroup.clone(),
            // A terminal in a cgroup needs no look at every process of the machine; what moved
            // itself elsewhere ends with the agent.
            marked: (self.0.parent.is_none() || self.0.cgroup.is_none() || self.leaks())
                .then(|| MarkedProcesses::new(self.variable(), roots).with_all_below_us(holds_all)),
        };
        held.end(&self.0.tasks).await.map(drop)
    }

    /// Tasks that serve this agent's processes. They end with them.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    /// Starts what `build` gives, in this tree and in a session of its own. `build` may be called
    /// twice: where a process cannot enter the cgroup, the mark has to do. The caller reaps the child.
    pub fn spawn(&self, build: &dyn Fn() -> io::Result<Command>) -> io::Result<Child> {
        // The parent's lock first, always: ending an agent takes it too, and must not miss a terminal's
        // process that is just being started.
        let mut above = self.0.parent.as_ref().map(Self::lock_spawns);
        let mut gate = self.lock_spawns();
        if gate.ended || above.as_ref().is_some_and(|gate| gate.ended) {
            return Err(io::Error::other("the agent is being ended"));
        }
        let child = self.spawn_inside(build)?;
        // Nobody has reaped the child yet, so its number cannot be another process's.
        let key = procfs::key_of(child.id());
        gate.add(key);
        if let Some(above) = &mut above {
            above.add(key);
        }
        Ok(child)
    }

    fn spawn_inside(&self, build: &dyn Fn() -> io::Result<Command>) -> io::Result<Child> {
        if let Some(cgroup) = &self.0.cgroup
            && let Ok(procs) = cgroup.open_procs()
            && let Ok(child) = self.spawn_placed(Some(procs), build)
        {
            return Ok(child);
        }
        // Without the cgroup the mark still holds most processes; refusing would stop the agent's work.
        let child = self.spawn_placed(None, build)?;
        if self.0.cgroup.is_some() {
            tracing::warn!("a process could not enter its cgroup; its mark has to do");
            self.0.leaks.store(true, Ordering::Relaxed);
        }
        Ok(child)
    }

    fn spawn_placed(
        &self,
        cgroup: Option<std::os::fd::OwnedFd>,
        build: &dyn Fn() -> io::Result<Command>,
    ) -> io::Result<Child> {
        let mut command = build()?;
        command.env(self.0.variable, &self.0.mark);
        if let Some(parent) = &self.0.parent {
            // Both marks: ending the agent must find what a terminal started.
            command.env(parent.0.variable, &parent.0.mark);
        }
        let setup = ChildSetup {
            cgroup,
            runner: self.0.runner,
        };
        spawn_hooks::apply(&mut command, setup);
        command.spawn()
    }

    fn leaks(&self) -> bool {
        self.0.leaks.load(Ordering::Relaxed)
    }

    fn variable(&self) -> String {
        format!("{}={}", self.0.variable, self.0.mark)
    }

    fn lock_spawns(&self) -> MutexGuard<'_, SpawnState> {
        self.0.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The marks of trees that a process is in, by what it was started with and by where it is held. They
/// may be of any host, and of runs that are over.
pub fn marks_of(pid: u32) -> Vec<String> {
    let own = procfs::find_variable(pid, TREE_VARIABLE);
    let held = cgroup::find_position(pid).unwrap_or_default();
    marks_in_path(&held).chain(own).collect()
}

/// The marks of trees that a cgroup belongs to, by the group's id. Nothing if no such group is to be seen:
/// it was removed, perhaps. Where we see not even our own group, no tree is in one.
pub fn marks_of_cgroup(id: u64) -> Option<Vec<String>> {
    if cgroup::find_own().is_none() {
        return Some(Vec::new());
    }
    let folder = cgroup::find_by_id(id)?;
    Some(marks_in_path(&folder).collect())
}

fn marks_in_path(folder: &Path) -> impl Iterator<Item = String> {
    folder.components().filter_map(|part| {
        let name = part.as_os_str().to_str()?.strip_prefix(AGENT_PREFIX)?;
        // The id in front may contain the separator, so the mark is what stands behind the last one.
        Some(name.rsplit('-').next()?.to_owned())
    })
}

/// Everything by which the processes of a tree are found.
#[derive(Debug)]
struct TreeSweep {
    cgroup: Option<AgentCgroup>,
    marked: Option<MarkedProcesses>,
}

impl TreeSweep {
    async fn end(mut self, tasks: &TaskTracker) -> Result<usize, TreeError> {
        // Reading /proc and the pauses between the rounds would block the other tasks of this thread.
        let ended = tasks.spawn_blocking(move || self.end_now()).await;
        ended.map_err(|error| TreeError::Refused(error.to_string()))?
    }

    fn end_now(&mut self) -> Result<usize, TreeError> {
        let deadline = Instant::now() + Duration::from_millis(limits::TREE_KILL_MS);
        let mut ended = 0;
        // The cgroup first: it ends nearly everything at once, and what is left for marks is little.
        if let Some(cgroup) = &self.cgroup {
            ended += cgroup.kill(deadline)?;
        }
        if let Some(marked) = &mut self.marked {
            ended += marked.end_all(deadline)?;
        }
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
        Ok(ended)
    }
}

/// Ends what a person's own terminal left: its runner, which may have gone, and what has its mark.
pub(crate) async fn sweep_own_terminal(
    mark: &str,
    runner: Option<ProcessKey>,
) -> Result<usize, TreeError> {
    let variable = format!("{OWN_TERMINAL_VARIABLE}={mark}");
    let held = TreeSweep {
        cgroup: None,
        marked: Some(MarkedProcesses::new(variable, runner.into_iter().collect())),
    };
    held.end(&TaskTracker::new()).await
}

/// 128 random bits, so that no other process has them by chance.
pub(crate) fn new_mark() -> Result<String, TreeError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| TreeError::Refused(error.to_string()))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

fn to_file_name(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => letter,
            _ => '_',
        })
        .take(NAME_BYTES_MAX)
        .collect()
}

//! What is kept of a tree, so that a host that comes after can end it.

use countersign_core::event::ProcessKey;
use serde::{Deserialize, Serialize};
use tokio_util::task::TaskTracker;

use super::cgroup::AgentCgroup;
use super::marked_processes::MarkedProcesses;
use super::{ContainmentMethod, TREE_VARIABLE, TreeError, TreeSweep};
use crate::procfs;

/// A tree as it is kept on the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeRecord {
    /// How its processes were held together.
    pub containment: ContainmentMethod,
    /// The mark in their environment.
    pub mark: String,
}

impl TreeRecord {
    /// Ends whatever is left of the agent, `root` being its own process if it is known, and returns
    /// how many processes that were.
    pub async fn sweep(&self, root: Option<ProcessKey>) -> Result<usize, TreeError> {
        let held = TreeSweep {
            cgroup: self.find_cgroup(),
            // Also with a cgroup: a process may have moved itself out of it.
            marked: Some(MarkedProcesses::new(
                self.variable(),
                root.into_iter().collect(),
            )),
        };
        held.end(&TaskTracker::new()).await
    }

    /// Whether a process is of that agent: it is in its cgroup, or was started with its mark.
    pub fn holds(&self, pid: u32) -> bool {
        self.find_cgroup().is_some_and(|cgroup| cgroup.holds(pid))
            || procfs::has_variable(pid, &self.variable())
    }

    fn find_cgroup(&self) -> Option<AgentCgroup> {
        match &self.containment {
            ContainmentMethod::Cgroup { path } => AgentCgroup::from_record(path),
            ContainmentMethod::Marks { .. } => None,
        }
    }

    fn variable(&self) -> String {
        format!("{TREE_VARIABLE}={}", self.mark)
    }
}

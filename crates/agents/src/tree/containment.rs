//! By what means processes are held together here.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::cgroup::AgentCgroup;
use super::new_mark;
use crate::spawn_hooks::{self, ChildSetup};

/// How the processes of an agent are held together. `Display` says it to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContainmentMethod {
    /// A cgroup at this place.
    Cgroup { path: PathBuf },
    /// Marks in the environment.
    Marks {
        /// Why there is no cgroup.
        why: String,
    },
}

impl fmt::Display for ContainmentMethod {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cgroup { path } => write!(
                out,
                "cgroup at {}: nothing escapes that does not move itself to another cgroup",
                path.display()
            ),
            Self::Marks { why } => write!(
                out,
                "marks in the environment: a process that clears its environment and detaches can \
                 escape (no cgroup: {why})"
            ),
        }
    }
}

/// Tries what can be used here. What it says holds for processes that are started from the same
/// cgroup, so the host asks for itself. Blocks for some milliseconds.
pub fn probe_containment() -> ContainmentMethod {
    match find_cgroup() {
        Ok(path) => ContainmentMethod::Cgroup { path },
        Err(why) => ContainmentMethod::Marks { why },
    }
}

fn find_cgroup() -> Result<PathBuf, String> {
    let mark = new_mark().map_err(|error| error.to_string())?;
    let cgroup = AgentCgroup::create("probe", &mark)?;
    // A group can often be created where no process may be moved into it, so that is tried as well.
    let entered = try_entering(&cgroup);
    cgroup.remove();
    entered.map_err(|error| format!("no process can be moved there: {error}"))?;
    // The probe is two levels below our own.
    let own = cgroup.path().ancestors().nth(2).map(PathBuf::from);
    Ok(own.unwrap_or_default())
}

fn try_entering(cgroup: &AgentCgroup) -> io::Result<()> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ":"]).env_clear();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let cgroup = Some(cgroup.open_procs()?);
    spawn_hooks::apply(
        &mut command,
        ChildSetup {
            cgroup,
            ..ChildSetup::default()
        },
    );
    command.status().map(drop)
}

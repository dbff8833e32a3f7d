//! Where an agent may write, for the runner that is told of its opens.
//!
//! This decides which opens become asks. It is never what stops one: whatever is not held is performed by the
//! kernel, with the mounts and rules of the sandbox.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use countersign_core::event::SandboxLevel;

use crate::plan::ConfinementPlan;

/// What a sandbox has of its own, or what is no place for files.
const OWN_FOLDERS: [&str; 5] = ["/proc", "/dev", "/sys", "/run", "/var/run"];
const TMP_FOLDERS: [&str; 2] = ["/tmp", "/var/tmp"];

/// What a path is to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathPlace {
    /// It may write there.
    Writable,
    /// It may not, and nobody is asked.
    Closed,
    /// Somebody may allow it.
    Askable,
}

/// The roots of a plan, as they are on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteBoundary {
    write: Vec<PathBuf>,
    closed: Vec<PathBuf>,
    /// Beginnings of paths, which need not end with a name.
    unasked: Vec<PathBuf>,
}

impl WriteBoundary {
    pub fn new(plan: &ConfinementPlan) -> Self {
        let mut write = plan.write.clone();
        let mut closed: Vec<PathBuf> = OWN_FOLDERS.map(PathBuf::from).to_vec();
        closed.extend(plan.read_only.iter().cloned());
        closed.extend(plan.hide.iter().cloned());
        closed.extend(plan.sockets.iter().cloned());
        let is_root = |path: &str| plan.write.iter().any(|root| root == Path::new(path));
        for path in TMP_FOLDERS.into_iter().filter(|path| !is_root(path)) {
            if plan.tmp.is_some() {
                write.push(path.into());
            } else if plan.level == SandboxLevel::Full {
                closed.push(path.into());
            }
        }
        Self {
            write: with_real_paths(write),
            closed: with_real_paths(closed),
            unasked: plan.unasked.clone(),
        }
    }

    /// What a path is. Where one root lies in another the longer one counts, and of two the stricter.
    pub(crate) fn place_of(&self, path: &Path) -> PathPlace {
        let writable = longest(&self.write, path);
        let closed = longest(&self.closed, path);
        match (writable, closed) {
            (None, None) if self.is_unasked(path) => PathPlace::Closed,
            (None, None) => PathPlace::Askable,
            (writable, closed) if writable > closed => PathPlace::Writable,
            _ => PathPlace::Closed,
        }
    }

    fn is_unasked(&self, path: &Path) -> bool {
        let mut beginnings = self.unasked.iter();
        beginnings.any(|beginning| begins_with(path, beginning))
    }
}

fn begins_with(path: &Path, beginning: &Path) -> bool {
    let [path, beginning] = [path, beginning].map(|path| path.as_os_str().as_bytes());
    path.starts_with(beginning)
}

fn longest(roots: &[PathBuf], path: &Path) -> Option<usize> {
    let above = roots.iter().filter(|root| path.starts_with(root));
    above.map(|root| root.components().count()).max()
}

/// Both as they are written and without links: either may be what a program names.
fn with_real_paths(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let real: Vec<_> = paths
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    paths.extend(real);
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::NetworkAccess;

    #[test]
    fn the_longer_root_counts_and_of_two_the_stricter() {
        let plan = ConfinementPlan {
            profile: "work".into(),
            level: SandboxLevel::Full,
            bubblewrap: "/usr/bin/bwrap".into(),
            read: vec!["/".into()],
            hide: vec!["/home/ann/.ssh".into(), "/srv/app/both".into()],
            write: vec!["/srv/app".into(), "/srv/app/both".into()],
            read_only: vec!["/srv/app/.git".into()],
            sockets: vec!["/home/ann/.host".into()],
            tmp: Some("/var/lib/run/tmp".into()),
            network: NetworkAccess::None,
            domains: Vec::new(),
            local_ports: Vec::new(),
            unasked: vec!["/home/ann/.agent.json".into()],
            hold_ms: 60_000,
            processes: 1,
        };
        let cases = [
            ("/srv/app", PathPlace::Writable),
            ("/srv/app/a/b", PathPlace::Writable),
            ("/srv/apple", PathPlace::Askable),
            ("/srv/app/.git/config", PathPlace::Closed),
            ("/srv/app/both/x", PathPlace::Closed),
            ("/home/ann/.ssh/config", PathPlace::Closed),
            ("/home/ann/.host/x", PathPlace::Closed),
            ("/home/ann/.bashrc", PathPlace::Askable),
            ("/home/ann/.agent.json", PathPlace::Closed),
            ("/home/ann/.agent.json.tmp.2.f00", PathPlace::Closed),
            ("/home/ann/.agent.js", PathPlace::Askable),
            ("/etc/hosts", PathPlace::Askable),
            ("/tmp/x", PathPlace::Writable),
            ("/dev/null", PathPlace::Closed),
            ("/proc/self/mem", PathPlace::Closed),
        ];
        let boundary = WriteBoundary::new(&plan);
        for (path, expected) in cases {
            assert_eq!(boundary.place_of(Path::new(path)), expected, "{path}");
        }
        let without_tmp = ConfinementPlan { tmp: None, ..plan };
        let boundary = WriteBoundary::new(&without_tmp);
        assert_eq!(boundary.place_of(Path::new("/tmp/x")), PathPlace::Closed);
    }
}

//! Control groups, version 2: a folder that holds processes, whatever they do, and ends them at once.
//!
//! Invariants: only folders that we named are killed or removed; never one that we are in.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::TreeError;

const HOST_PREFIX: &str = "countersign-";
/// The last agent of a host takes the host's folder away, at any time.
const CREATE_TRIES: usize = 8;
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// One group of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgentCgroup {
    path: PathBuf,
}

impl AgentCgroup {
    /// Below our own group: only there may we move what we start.
    pub(super) fn create(host_key: &str, name: &str) -> Result<Self, String> {
        let own = find_own().ok_or("no cgroup2 is mounted that we are in")?;
        let host = own.join(format!("{HOST_PREFIX}{host_key}"));
        let mut made = Err(String::new());
        for _ in 0..CREATE_TRIES {
            match fs::create_dir(&host) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(cannot_make(&host, &error));
                }
                _ => made = Self::create_in(&host, name),
            }
            // The folder went away between the two steps only if the last agent of the host ended just now.
            if made.is_ok() || host.exists() {
                break;
            }
        }
        made
    }

    pub(super) fn create_in(parent: &Path, name: &str) -> Result<Self, String> {
        let path = parent.join(name);
        fs::create_dir(&path).map_err(|error| cannot_make(&path, &error))?;
        let cgroup = Self { path };
        if let Err(why) = cgroup.check() {
            cgroup.remove();
            return Err(why);
        }
        Ok(cgroup)
    }

    /// The group that a record names. Nothing if it is none that we made.
    pub(super) fn from_record(path: &Path) -> Option<Self> {
        // A record may have been altered, and everything in the group it names is killed.
        let is_ours = path.components().any(|part| is_host_name(part.as_os_str()));
        let path = path.to_owned();
        (is_ours && path.join("cgroup.kill").exists()).then_some(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn check(&self) -> Result<(), String> {
        self.open_procs()
            .map_err(|error| format!("`{}`: {error}", self.path.display()))?;
        if !self.path.join("cgroup.kill").exists() {
            return Err("the kernel has no cgroup.kill".to_owned());
        }
        Ok(())
    }

    /// Its list of processes, to be written by whoever enters.
    pub(super) fn open_procs(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        Ok(openat(
            CWD,
            self.path.join("cgroup.procs"),
            flags,
            Mode::empty(),
        )?)
    }

    /// Ends everything in it and below, and returns how many processes it held. Blocks.
    pub(super) fn kill(&self, deadline: Instant) -> Result<usize, TreeError> {
        if !self.path.exists() {
            return Ok(0);
        }
        // A host that was started from an agent's shell would kill itself with the agent.
        if self.holds(std::process::id()) {
            return Err(TreeError::Inside);
        }
        let held = self.list().len();
        let mut pause = Duration::from_millis(1);
        // The kernel only signals the processes; they are gone when it says that the group is empty.
        while self.is_populated() {
            // In each round again, because a process may have entered the group after the last one.
            self.write_kill()?;
            if Instant::now() > deadline {
                return Err(TreeError::Survivors { pids: self.list() });
            }
            thread::sleep(pause);
            pause = PAUSE_MAX.min(pause * 2);
        }
        Ok(held)
    }

    fn write_kill(&self) -> Result<(), TreeError> {
        fs::write(self.path.join("cgroup.kill"), "1").map_err(|source| TreeError::Cgroup {
            path: self.path.clone(),
            source,
        })
    }

    fn is_populated(&self) -> bool {
        let events = fs::read_to_string(self.path.join("cgroup.events"));
        events.is_ok_and(|events| events.lines().any(|line| line == "populated 1"))
    }

    fn list(&self) -> Vec<u32> {
        list_folders(&self.path)
            .iter()
            .flat_map(|folder| {
                let procs = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                let pids: Vec<u32> = procs.lines().filter_map(|pid| pid.parse().ok()).collect();
                pids
            })
            .collect()
    }

    pub(super) fn holds(&self, pid: u32) -> bool {
        find_position(pid).is_some_and(|position| position.starts_with(&self.path))
    }

    /// Removes it, what was made inside it, and the host's folder if it was the last.
    pub(super) fn remove(&self) {
        // Children first: the kernel removes only groups without others inside.
        for folder in list_folders(&self.path).iter().rev() {
            if let Err(error) = fs::remove_dir(folder)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(path = %folder.display(), %error, "could not remove a cgroup");
            }
        }
        self.remove_host();
    }

    /// Removes it if no process and no other group is in it; the system refuses otherwise.
    pub(super) fn remove_empty(&self) {
        if fs::remove_dir(&self.path).is_ok() {
            self.remove_host();
        }
    }

    /// It stays while another agent of the host is in it.
    fn remove_host(&self) {
        if let Some(host) = self.path.parent()
            && host.file_name().is_some_and(is_host_name)
        {
            drop(fs::remove_dir(host));
        }
    }
}

fn is_host_name(name: &OsStr) -> bool {
    name.to_str()
        .is_some_and(|name| name.starts_with(HOST_PREFIX))
}

fn cannot_make(path: &Path, error: &io::Error) -> String {
    format!("cannot make `{}`: {error}", path.display())
}

/// The folder and all folders below it, parents first.
fn list_folders(path: &Path) -> Vec<PathBuf> {
    let mut folders = vec![path.to_owned()];
    let mut next = 0;
    while let Some(folder) = folders.get(next) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let below: Vec<_> = entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| entry.path())
            .collect();
        folders.extend(below);
        next += 1;
    }
    folders
}

/// The folder of the group we are in, if the mount shows it.
pub(super) fn find_own() -> Option<PathBuf> {
    let own = find_position(std::process::id())?;
    // In a container the path may name a group of the host's that merely looks like ours.
    let listed = fs::read_to_string(own.join("cgroup.procs")).ok()?;
    let pid = std::process::id().to_string();
    listed.lines().any(|line| line == pid).then_some(own)
}

/// The folder of the group with this id: the inode number of the folder is the group's id.
///
/// Nothing if the group was removed, or if the mount does not show it.
pub(super) fn find_by_id(id: u64) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (_, mount) = mounts.lines().find_map(parse_mount)?;
    list_folders(Path::new(mount))
        .into_iter()
        .find(|folder| fs::metadata(folder).is_ok_and(|found| found.ino() == id))
}

/// The folder of the group a process is in.
pub(super) fn find_position(pid: u32) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (root, mount) = mounts.lines().find_map(parse_mount)?;
    let below = Path::new(path).strip_prefix(root).ok()?;
    // An empty rest must not leave a slash at the end.
    Some(Path::new(mount).join(below).components().collect())
}

/// The root and the place of a mount of cgroup2: see `proc_pid_mountinfo(5)`.
fn parse_mount(line: &str) -> Option<(&str, &str)> {
    let (place, kind) = line.split_once(" - ")?;
    if kind.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let mut fields = place.split(' ').skip(3);
    Some((fields.next()?, fields.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_past_its_optional_fields() {
        let line = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 master:1 - cgroup2 cgroup2 rw";
        assert_eq!(parse_mount(line), Some(("/", "/sys/fs/cgroup")));
        let other = "36 24 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids";
        assert_eq!(parse_mount(other), None);
    }

    #[test]
    fn a_record_that_names_no_group_of_ours_is_not_believed() {
        assert_eq!(
            AgentCgroup::from_record(Path::new("/sys/fs/cgroup/system.slice")),
            None
        );
    }
}

//! The view of files that a plan asks for, as a list of mounts in their order.
//!
//! Invariant: of two paths, one inside the other, the inner one is mounted later, so that the longer path
//! counts; of two mounts at one path the stricter comes later.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::plan::ConfinementPlan;

/// What is mounted at a path. The order is that of two at the same path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MountKind {
    /// An empty folder of memory.
    Empty,
    /// The usual devices.
    Devices,
    /// The sandbox's own processes.
    Processes,
    /// The path itself, which can be changed.
    Write,
    /// Another folder, which can be changed.
    WriteFrom(PathBuf),
    /// The path itself.
    ReadOnly,
    /// An empty folder that cannot be changed.
    HiddenFolder,
    /// An empty file that cannot be changed.
    HiddenFile,
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) path: PathBuf,
    pub(crate) kind: MountKind,
}

/// What is on the disk, as far as the order of mounts depends on it.
pub(crate) trait DiskFacts {
    /// The path without links, if there is something.
    fn canonical(&self, path: &Path) -> Option<PathBuf>;
    fn is_folder(&self, path: &Path) -> bool;
    /// Sockets that listen now and can be reached.
    fn sockets(&self) -> Vec<PathBuf>;
}

/// The disk of this machine, as it is now.
pub(crate) struct MachineDisk;

impl DiskFacts for MachineDisk {
    fn canonical(&self, path: &Path) -> Option<PathBuf> {
        path.canonicalize().ok()
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let paths = table.lines().filter_map(|line| {
            // The path is the last field and may contain spaces. Abstract sockets have no path:
            // their names begin with `@`.
            let at = line.find(" /")?;
            Some(PathBuf::from(&line[at + 1..]))
        });
        let groups = rustix::process::getgroups().unwrap_or_default();
        let groups: Vec<_> = groups.iter().map(|group| group.as_raw()).collect();
        paths.filter(|path| is_reachable(path, &groups)).collect()
    }
}

/// Whether a program without capabilities can get to a path. What it cannot get to need not be covered, and
/// bubblewrap could not: as root it has no rights over folders of other users either.
fn is_reachable(path: &Path, groups: &[u32]) -> bool {
    let mut folders = path.ancestors().skip(1);
    folders.all(|folder| may_enter(folder, groups))
}

fn may_enter(folder: &Path, groups: &[u32]) -> bool {
    // What is not known is covered.
    let Ok(found) = folder.metadata() else {
        return true;
    };
    let in_group =
        found.gid() == rustix::process::getegid().as_raw() || groups.contains(&found.gid());
    // The kernel looks at one class only: an owner whose bits refuse is refused, even if others may enter.
    let needed = if found.uid() == rustix::process::geteuid().as_raw() {
        0o100
    } else if in_group {
        0o010
    } else {
        0o001
    };
    found.mode() & needed != 0 || has_access_list(folder)
}

/// A list of who else may enter, which the mode does not show.
fn has_access_list(folder: &Path) -> bool {
    let mut none: [u8; 0] = [];
    match rustix::fs::getxattr(folder, "system.posix_acl_access", &mut none) {
        Ok(_) => true,
        Err(error) => error != Errno::NODATA && error != Errno::NOTSUP,
    }
}

/// Where the machine's own settings are changed, which a process of root may do without any capability.
const KERNEL_SETTINGS: [&str; 4] = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"];
/// Folders of sockets that every machine has.
const SOCKET_FOLDERS: [&str; 2] = ["/run", "/var/run"];
/// Folders that are replaced by one of the agent's own.
const TMP_FOLDERS: [&str; 2] = ["/tmp", "/var/tmp"];

/// Leaves out what the plan opens inside a folder that may be changed, if it leads out of that by now: whoever
/// may change the folder has put a link there since the plan was made.
pub(crate) fn drop_misled(plan: &mut ConfinementPlan, disk: &dyn DiskFacts) {
    let roots = plan.write.clone();
    for paths in [&mut plan.read, &mut plan.write, &mut plan.sockets] {
        paths.retain(|path| !is_misled(path, &roots, disk));
    }
}

/// Whether a path in one of these roots leads out of it.
fn is_misled(path: &Path, roots: &[PathBuf], disk: &dyn DiskFacts) -> bool {
    let mut above = roots
        .iter()
        .filter(|root| *root != path && path.starts_with(root));
    above.any(|root| match (disk.canonical(path), disk.canonical(root)) {
        (Some(path), Some(root)) => !path.starts_with(root),
        // What is not there is not opened.
        _ => false,
    })
}

/// All mounts of a plan, outer ones first.
pub(crate) fn list_mounts(plan: &ConfinementPlan, disk: &dyn DiskFacts) -> Vec<Mount> {
    let mut mounts = vec![
        mount("/dev", MountKind::Devices),
        mount("/proc", MountKind::Processes),
    ];
    let mut add = |path: &Path, kind: MountKind| {
        if let Some(path) = disk.canonical(path) {
            mounts.push(Mount { path, kind });
        }
    };
    for path in KERNEL_SETTINGS {
        add(Path::new(path), MountKind::ReadOnly);
    }
    for path in SOCKET_FOLDERS {
        add(Path::new(path), MountKind::Empty);
    }
    // A folder that the agent works in stays what it is.
    let is_root = |path: &str| plan.write.iter().any(|root| root == Path::new(path));
    for path in TMP_FOLDERS.into_iter().filter(|path| !is_root(path)) {
        let kind = match &plan.tmp {
            Some(tmp) => MountKind::WriteFrom(tmp.clone()),
            None => MountKind::Empty,
        };
        add(Path::new(path), kind);
    }
    for path in plan.read.iter().chain(&plan.sockets) {
        add(path, MountKind::ReadOnly);
    }
    // Whoever resolves names needs it, and it may be a link into a folder that is empty now.
    add(Path::new("/etc/resolv.conf"), MountKind::ReadOnly);
    for path in &plan.write {
        add(path, MountKind::Write);
    }
    for path in &plan.hide {
        add(path, hidden(disk, path));
    }
    close_to_writes(plan, disk, &mut mounts);
    // After all mounts of the plan, because a socket needs a cover only where they still show the disk.
    hide_sockets(plan, disk, &mut mounts);
    // Last: a folder that is a mount point by now cannot be renamed and needs nothing more.
    pin_folders(plan, disk, &mut mounts);
    mounts.sort_by(|one, other| {
        let depth = |mount: &Mount| mount.path.components().count();
        (depth(one), &one.path, &one.kind).cmp(&(depth(other), &other.path, &other.kind))
    });
    mounts.dedup();
    mounts
}

fn mount(path: &str, kind: MountKind) -> Mount {
    Mount {
        path: path.into(),
        kind,
    }
}

fn hidden(disk: &dyn DiskFacts, path: &Path) -> MountKind {
    if disk.is_folder(path) {
        MountKind::HiddenFolder
    } else {
        MountKind::HiddenFile
    }
}

/// A socket can be connected to through a mount that cannot be changed, so each that listens is covered,
/// unless the plan names its folder or the agent could have made it itself.
fn hide_sockets(plan: &ConfinementPlan, disk: &dyn DiskFacts, mounts: &mut Vec<Mount>) {
    let roots = plan.sockets.iter().chain(&plan.write);
    let open: Vec<_> = roots.filter_map(|path| disk.canonical(path)).collect();
    for socket in disk.sockets() {
        let Some(path) = disk.canonical(&socket) else {
            continue;
        };
        let covered = is_covered(mounts, &path);
        if !covered && !open.iter().any(|root| path.starts_with(root)) {
            let kind = MountKind::HiddenFile;
            mounts.push(Mount { path, kind });
        }
    }
}

/// Whether the innermost mount above a path shows nothing of the disk.
fn is_covered(mounts: &[Mount], path: &Path) -> bool {
    innermost(mounts, path)
        .is_some_and(|kind| !matches!(kind, MountKind::Write | MountKind::ReadOnly))
}

/// Whether the path of the disk is there and can be changed.
fn is_writable(mounts: &[Mount], path: &Path) -> bool {
    innermost(mounts, path) == Some(&MountKind::Write)
}

/// What counts for a path.
fn innermost<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a MountKind> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.path));
    let innermost = above.max_by_key(|mount| (mount.path.components().count(), &mount.kind));
    innermost.map(|mount| &mount.kind)
}

/// Only where it could be changed otherwise: a mount anywhere else would show what is hidden or replaced. A repository
/// may name any path, and where a profile names a path in an agent's folder, the agent may have left a link.
fn close_to_writes(plan: &ConfinementPlan, disk: &dyn DiskFacts, mounts: &mut Vec<Mount>) {
    let found = plan.read_only.iter().map(|path| disk.canonical(path));
    let mut closed: Vec<_> = found.flatten().collect();
    // Outer ones first: what lies inside them is closed already.
    closed.sort();
    for path in closed {
        if is_writable(mounts, &path) {
            let kind = MountKind::ReadOnly;
            mounts.push(Mount { path, kind });
        }
    }
}

/// A folder between a root that can be changed and a path in it that cannot must not be renamed: another
/// could be put in its place. A mount point cannot be.
fn pin_folders(plan: &ConfinementPlan, disk: &dyn DiskFacts, mounts: &mut Vec<Mount>) {
    let canonical = |paths: &[PathBuf]| -> Vec<PathBuf> {
        let found = paths.iter().filter_map(|path| disk.canonical(path));
        found.collect()
    };
    let roots = canonical(&plan.write);
    let mut pinned = Vec::new();
    for path in canonical(&plan.read_only)
        .iter()
        .chain(&canonical(&plan.hide))
    {
        let above = path.ancestors().skip(1);
        let inside = above.take_while(|folder| {
            roots
                .iter()
                .any(|root| folder.starts_with(root) && *folder != root)
        });
        pinned.extend(inside.map(Path::to_owned));
    }
    for path in pinned {
        // In a folder that cannot be changed nothing can be renamed, and a mount would open it.
        let is_mount = mounts.iter().any(|mount| mount.path == path);
        if !is_mount && is_writable(mounts, &path) {
            let kind = MountKind::Write;
            mounts.push(Mount { path, kind });
        }
    }
}

#[cfg(test)]
mod tests;

//! The arguments with which bubblewrap makes the view of a plan.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::mounts::{Mount, MountKind};
use crate::plan::{ConfinementPlan, NetworkAccess};

/// What bubblewrap is started with, up to the program that it runs.
pub(crate) fn arguments(
    plan: &ConfinementPlan,
    mounts: &[Mount],
    cwd: &Path,
    has_network: bool,
) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    arguments.add(&["--unshare-user", "--disable-userns"]);
    arguments.add(&["--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
    arguments.add(&["--unshare-cgroup-try", "--die-with-parent"]);
    arguments.add(&["--cap-drop", "ALL"]);
    // Whoever needs a proxy and was given none has nothing.
    if plan.network != NetworkAccess::Open && !has_network {
        arguments.add(&["--unshare-net"]);
    }
    for mount in mounts {
        arguments.mount(mount);
    }
    // Last: folders are made in them on the way to the mounts inside them.
    for mount in mounts.iter().filter(|mount| is_empty(mount)) {
        arguments.path(&["--remount-ro"], &mount.path);
    }
    if mounts.iter().all(|mount| mount.path != Path::new("/")) {
        arguments.add(&["--remount-ro", "/"]);
    }
    arguments.path(&["--chdir"], cwd);
    arguments.add(&["--"]);
    arguments.0
}

fn is_empty(mount: &Mount) -> bool {
    matches!(mount.kind, MountKind::Empty | MountKind::HiddenFolder)
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn path(&mut self, words: &[&str], path: &Path) {
        self.add(words);
        self.0.push(path.as_os_str().to_owned());
    }

    fn bind(&mut self, option: &str, from: &OsStr, to: &Path) {
        self.add(&[option]);
        self.0.push(from.to_owned());
        self.0.push(to.as_os_str().to_owned());
    }

    fn mount(&mut self, mount: &Mount) {
        let path = &mount.path;
        match &mount.kind {
            MountKind::Empty | MountKind::HiddenFolder => self.path(&["--tmpfs"], path),
            MountKind::Devices => self.path(&["--dev"], path),
            MountKind::Processes => self.path(&["--proc"], path),
            MountKind::Write => self.bind("--bind", path.as_os_str(), path),
            MountKind::WriteFrom(from) => self.bind("--bind", from.as_os_str(), path),
            MountKind::ReadOnly => self.bind("--ro-bind", path.as_os_str(), path),
            MountKind::HiddenFile => self.bind("--ro-bind", OsStr::new("/dev/null"), path),
        }
    }
}

use std::collections::{BTreeMap, BTreeSet};

use countersign_core::event::SandboxLevel;

use super::*;
use crate::plan::NetworkAccess;

/// Everything in `missing` is not there; everything in `files` is no folder.
#[derive(Default)]
struct FakeDisk {
    missing: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
    /// Where links lead.
    links: BTreeMap<PathBuf, PathBuf>,
    sockets: Vec<PathBuf>,
}

impl DiskFacts for FakeDisk {
    fn canonical(&self, path: &Path) -> Option<PathBuf> {
        let real = self.links.get(path).map_or(path, PathBuf::as_path);
        (!self.missing.contains(real)).then(|| real.to_owned())
    }

    fn is_folder(&self, path: &Path) -> bool {
        !self.files.contains(path)
    }

    fn sockets(&self) -> Vec<PathBuf> {
        self.sockets.clone()
    }
}

/// What is left out to keep the tests short.
const ABSENT: [&str; 7] = [
    "/var/run",
    "/var/tmp",
    "/etc/resolv.conf",
    "/proc/sysrq-trigger",
    "/proc/irq",
    "/proc/bus",
    "/none",
];

fn plan() -> ConfinementPlan {
    ConfinementPlan {
        profile: "work".to_owned(),
        level: SandboxLevel::Full,
        bubblewrap: "/usr/bin/bwrap".into(),
        read: vec!["/".into()],
        hide: vec!["/h/.ssh".into(), "/h/.netrc".into()],
        write: vec!["/h/work".into()],
        read_only: vec!["/h/work/a/.git".into()],
        sockets: vec!["/run/host".into()],
        tmp: Some("/state/tmp".into()),
        network: NetworkAccess::Open,
        domains: Vec::new(),
        local_ports: Vec::new(),
        unasked: Vec::new(),
        hold_ms: 0,
        processes: 1,
    }
}

fn shown(mounts: &[Mount]) -> Vec<(String, MountKind)> {
    let row = |mount: &Mount| (mount.path.display().to_string(), mount.kind.clone());
    mounts.iter().map(row).collect()
}

fn row(path: &str, kind: MountKind) -> (String, MountKind) {
    (path.to_owned(), kind)
}

#[test]
fn inner_mounts_come_later_and_folders_on_the_way_are_pinned() {
    let disk = FakeDisk {
        missing: ABSENT.map(PathBuf::from).into(),
        files: [PathBuf::from("/h/.netrc")].into(),
        sockets: [
            "/h/agent.sock",
            "/h/work/own.sock",
            "/run/docker.sock",
            "/run/host/host.sock",
        ]
        .map(PathBuf::from)
        .into(),
        ..FakeDisk::default()
    };
    let expected = [
        row("/", MountKind::ReadOnly),
        row("/dev", MountKind::Devices),
        row("/proc", MountKind::Processes),
        row("/run", MountKind::Empty),
        row("/tmp", MountKind::WriteFrom("/state/tmp".into())),
        row("/h/.netrc", MountKind::HiddenFile),
        row("/h/.ssh", MountKind::HiddenFolder),
        row("/h/agent.sock", MountKind::HiddenFile),
        row("/h/work", MountKind::Write),
        row("/proc/sys", MountKind::ReadOnly),
        row("/run/host", MountKind::ReadOnly),
        row("/h/work/a", MountKind::Write),
        row("/h/work/a/.git", MountKind::ReadOnly),
    ];
    assert_eq!(shown(&list_mounts(&plan(), &disk)), expected);
}

/// A repository may name any path in `read_only`, and an agent can leave a link where a profile names one.
#[test]
fn what_may_not_be_changed_shows_nothing_and_opens_nothing() {
    let disk = FakeDisk {
        missing: ABSENT.map(PathBuf::from).into(),
        files: [PathBuf::from("/h/.netrc")].into(),
        links: [("/h/work/link".into(), "/h/.ssh/link".into())].into(),
        ..FakeDisk::default()
    };
    let without = list_mounts(&plan(), &disk);
    let named = [
        "/h/.ssh/id",
        "/h/work/link",
        "/h/.netrc",
        "/run",
        "/run/other",
        "/proc",
        "/proc/1",
        "/dev",
        "/dev/mem",
        "/tmp",
        "/tmp/of-others",
        "/etc/hosts",
        // The folders between are part of what may not be changed.
        "/h/work/a/.git/hooks/sample",
    ];
    let read_only = ["/h/work/a/.git"].into_iter().chain(named);
    let plan = ConfinementPlan {
        read_only: read_only.map(PathBuf::from).collect(),
        ..plan()
    };
    assert_eq!(shown(&list_mounts(&plan, &disk)), shown(&without));
    let hidden = "/h/work/a/.git/hooks/secret";
    let plan = ConfinementPlan {
        hide: plan.hide.into_iter().chain([hidden.into()]).collect(),
        ..plan
    };
    let mut expected = shown(&without);
    expected.push(row(hidden, MountKind::HiddenFolder));
    assert_eq!(shown(&list_mounts(&plan, &disk)), expected);
}

#[test]
fn an_agent_that_works_in_tmp_keeps_it() {
    let disk = FakeDisk {
        missing: ABSENT
            .into_iter()
            .chain(["/run", "/run/host"])
            .map(PathBuf::from)
            .collect(),
        ..FakeDisk::default()
    };
    let plan = ConfinementPlan {
        hide: Vec::new(),
        write: vec!["/tmp".into()],
        read_only: Vec::new(),
        ..plan()
    };
    let expected = [
        row("/", MountKind::ReadOnly),
        row("/dev", MountKind::Devices),
        row("/proc", MountKind::Processes),
        row("/tmp", MountKind::Write),
        row("/proc/sys", MountKind::ReadOnly),
    ];
    assert_eq!(shown(&list_mounts(&plan, &disk)), expected);
}

#[test]
fn what_nobody_else_may_enter_need_not_be_covered() {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    let own = std::env::temp_dir().join(format!("countersign-mounts-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&own).unwrap();
    let socket = own.join("socket");
    assert!(is_reachable(&socket, &[]));
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!is_reachable(&socket, &[]));
    std::fs::remove_dir(&own).unwrap();
    assert!(is_reachable(Path::new("/none/socket"), &[]));
}

#[test]
fn a_root_inside_another_that_was_made_a_link_is_left_out() {
    let mut plan = plan();
    plan.write = ["/h/work", "/h/work/out", "/h/work/kept", "/h/link"]
        .map(PathBuf::from)
        .into();
    let disk = FakeDisk {
        links: [
            ("/h/work/out".into(), "/etc".into()),
            // Not in a folder that may be changed, so it is the person's.
            ("/h/link".into(), "/data".into()),
        ]
        .into(),
        ..FakeDisk::default()
    };
    drop_misled(&mut plan, &disk);
    let left: Vec<_> = plan
        .write
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    assert_eq!(left, ["/h/work", "/h/work/kept", "/h/link"]);
}

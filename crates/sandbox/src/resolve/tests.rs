use super::*;
use crate::plan::NetworkAccess;

fn places() -> ProfilePlaces {
    ProfilePlaces {
        home: Some("/home/ann".into()),
        folder: "/home/ann/work".into(),
        git: vec!["/home/ann/repo/.git/objects".into()],
        git_read_only: vec!["/home/ann/repo/.git/worktrees/work/commondir".into()],
        tmp: "/state/runners/1/tmp".into(),
        caches: vec!["/home/ann/.cache".into()],
        model: vec!["api.example.org".to_owned()],
        agent: vec!["/home/ann/.claude".into()],
        unasked: vec!["/home/ann/.claude.json".into()],
        countersign: vec!["/home/ann/.local/share/countersign".into()],
        host: "/run/user/1000/countersign".into(),
        host_hidden: vec!["/run/user/1000/countersign/runners".into()],
        rules: vec![".countersign".into()],
        shown: vec!["/home/ann".into()],
        bubblewrap: "/usr/bin/bwrap".into(),
    }
}

fn paths(list: &[&str]) -> Vec<PathBuf> {
    list.iter().map(PathBuf::from).collect()
}

#[test]
fn the_usual_profile_names_everything_by_its_path() {
    let profile = SandboxProfile::default();
    let plan = resolve("work", &profile, SandboxLevel::Full, &places()).unwrap();
    let expected = ConfinementPlan {
        profile: "work".to_owned(),
        level: SandboxLevel::Full,
        bubblewrap: "/usr/bin/bwrap".into(),
        read: paths(&["/", "/home/ann"]),
        hide: paths(&[
            "/home/ann/.ssh",
            "/home/ann/.aws",
            "/home/ann/.gnupg",
            "/home/ann/.config/gh",
            "/home/ann/.netrc",
            "/home/ann/.docker",
            "/home/ann/.kube",
            "/home/ann/.local/share/countersign",
            "/run/user/1000/countersign/runners",
        ]),
        write: paths(&[
            "/home/ann/work",
            "/home/ann/repo/.git/objects",
            "/home/ann/.cache",
            "/home/ann/.claude",
        ]),
        read_only: paths(&[
            "/home/ann/work/.git",
            "/home/ann/work/.countersign",
            "/home/ann/repo/.git/worktrees/work/commondir",
        ]),
        sockets: paths(&["/run/user/1000/countersign"]),
        tmp: Some("/state/runners/1/tmp".into()),
        network: NetworkAccess::Proxy,
        domains: vec!["api.example.org".to_owned()],
        local_ports: Vec::new(),
        unasked: paths(&["/home/ann/.claude.json"]),
        hold_ms: 60_000,
        processes: 4096,
    };
    assert_eq!(plan, expected);
}

#[test]
fn without_its_socket_the_host_is_hidden() {
    let profile = SandboxProfile {
        hide: Vec::new(),
        sockets: Vec::new(),
        ..SandboxProfile::default()
    };
    let plan = resolve("own", &profile, SandboxLevel::Full, &places()).unwrap();
    assert_eq!(plan.hide, paths(&["/run/user/1000/countersign"]));
    assert_eq!(plan.sockets, paths(&[]));
}

#[test]
fn what_cannot_be_understood_is_refused() {
    let refused = |word: &str, places: &ProfilePlaces| {
        let profile = SandboxProfile {
            write: vec![word.to_owned()],
            hide: Vec::new(),
            ..SandboxProfile::default()
        };
        resolve("own", &profile, SandboxLevel::Full, places).unwrap_err()
    };
    let (profile, path) = ("own".to_owned(), "~/x".to_owned());
    let homeless = ProfilePlaces {
        home: None,
        ..places()
    };
    assert_eq!(
        refused("~/x", &homeless),
        ResolveError::NoHome {
            profile: profile.clone(),
            path
        }
    );
    assert_eq!(
        refused("@home", &places()),
        ResolveError::UnknownWord {
            profile: profile.clone(),
            word: "@home".to_owned()
        }
    );
    assert_eq!(
        refused("sub/../..", &places()),
        ResolveError::GoesUp {
            profile,
            path: "sub/../..".to_owned()
        }
    );
}

#[test]
fn an_agent_does_not_work_in_a_hidden_folder() {
    let folder = |folder: &str| ProfilePlaces {
        folder: folder.into(),
        ..places()
    };
    let profile = SandboxProfile::default();
    let resolved = |places: &ProfilePlaces| resolve("work", &profile, SandboxLevel::Full, places);
    let hidden = folder("/home/ann/.ssh");
    assert_eq!(
        resolved(&hidden),
        Err(ResolveError::FolderHidden {
            profile: "work".to_owned(),
            folder: "/home/ann/.ssh".into()
        })
    );
    // A longer path is shown again.
    assert!(resolved(&folder("/home/ann/.ssh/tool")).is_ok());
    // What may not be changed is not shown by that, what may be read is.
    let reviewed = |read: &[&str], read_only: &[&str]| {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
        let profile = SandboxProfile {
            read: words(read),
            write: Vec::new(),
            read_only: words(read_only),
            ..SandboxProfile::default()
        };
        let places = folder("/home/ann/.ssh/tool");
        resolve("review", &profile, SandboxLevel::Full, &places).is_ok()
    };
    assert!(!reviewed(&["/"], &["@worktree"]));
    assert!(reviewed(&["/", "@worktree"], &[]));
}

#[test]
fn the_longer_path_says_what_may_be_written() {
    let plan = resolve(
        "work",
        &SandboxProfile::default(),
        SandboxLevel::Full,
        &places(),
    )
    .unwrap();
    let may = |path: &str| plan.may_write(Path::new(path));
    assert!(may("/home/ann/work/src/main.rs"));
    assert!(!may("/home/ann/work/.git/config"));
    assert!(!may("/home/ann/workshop"));
    assert!(!may("/home/ann/.ssh/config"));
}

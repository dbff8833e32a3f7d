//! What the tests share.

pub(crate) mod run;

use std::ffi::OsString;
use std::future::Future;
use std::time::Duration;

use countersign_agents::adapter::ProcessExit;
use countersign_agents::procfs::find_key;
pub(crate) use countersign_agents::procfs::is_alive;
use countersign_agents::{ContainmentMethod, ProcessTree};
use countersign_core::event::ProcessKey;

/// Far more than anything here takes, so that a test that waits in vain ends.
const GUARD: Duration = Duration::from_mins(2);

pub(crate) async fn guarded<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(GUARD, work)
        .await
        .expect("it should not take that long")
}

pub(crate) fn env() -> Vec<(OsString, OsString)> {
    vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())]
}

pub(crate) fn code(code: i32) -> ProcessExit {
    ProcessExit {
        code: Some(code),
        signal: None,
    }
}

pub(crate) fn signal(name: &str) -> ProcessExit {
    ProcessExit {
        code: None,
        signal: Some(name.to_owned()),
    }
}

pub(crate) fn key_of(pid: u32) -> ProcessKey {
    find_key(pid).expect("it should run")
}

/// A tree of each kind that can be had here.
pub(crate) fn trees(name: &str) -> Vec<ProcessTree> {
    let mut trees = vec![ProcessTree::create_with_marks().expect("a tree")];
    trees.extend(cgroup_tree(name));
    trees
}

pub(crate) fn cgroup_tree(name: &str) -> Option<ProcessTree> {
    let tree = ProcessTree::create(name, "tests").expect("a tree");
    if let ContainmentMethod::Marks { why } = tree.containment() {
        println!("skipped under a cgroup: {why}");
        return None;
    }
    Some(tree)
}

/// Shell text that leaves `daemon` running with a session of its own, no descriptor and no parent
/// of ours, and prints its number.
pub(crate) fn daemonise(fifo: &str, prefix: &str) -> String {
    format!(
        "mkfifo {fifo}; ({prefix} setsid sh -c 'echo $$ >{fifo}; exec sleep 1000' \
         </dev/null >/dev/null 2>&1 &); read pid <{fifo}; echo $pid"
    )
}

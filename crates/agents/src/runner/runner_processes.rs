//! Which processes are runners.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use countersign_core::event::ProcessKey;

use crate::procfs;

/// The first arguments of a runner; its folder follows.
const RUNNER_ARGS: [&str; 2] = ["runner", "--folder"];

/// The folder of a process that is a runner, by the words it was started with: the runners of another
/// version are another program.
pub(super) fn find_folder(pid: u32) -> Option<PathBuf> {
    let mut args = procfs::read_arguments(pid)?.into_iter().skip(1);
    if !args.by_ref().take(RUNNER_ARGS.len()).eq(RUNNER_ARGS) {
        return None;
    }
    args.next().map(PathBuf::from)
}

/// Every runner of this user, with its folder.
pub(super) fn list_runners() -> Vec<(ProcessKey, PathBuf)> {
    let user = rustix::process::geteuid().as_raw();
    procfs::list()
        .unwrap_or_default()
        .into_iter()
        // Anybody may choose that command line for a process; another user's is not asked about.
        .filter(|pid| fs::metadata(format!("/proc/{pid}")).is_ok_and(|found| found.uid() == user))
        .filter_map(|pid| Some((procfs::find_key(pid)?, find_folder(pid)?)))
        .collect()
}

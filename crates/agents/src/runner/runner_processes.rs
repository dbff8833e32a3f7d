//! Which processes are runners.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use countersign_core::event::ProcessKey;

use crate::procfs;

/// The first arguments of a runner; its folder follows.
const RUNNER_ARGS: [&[u8]; 2] = [b"runner", b"--folder"];

/// The folder of a process that is a runner, by the words it was started with: the runners of another
/// version are another program.
pub(super) fn find_folder(pid: u32) -> Option<PathBuf> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut args = command.split(|&byte| byte == 0).skip(1);
    if !args.by_ref().take(RUNNER_ARGS.len()).eq(RUNNER_ARGS) {
        return None;
    }
    args.next().map(|folder| OsStr::from_bytes(folder).into())
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

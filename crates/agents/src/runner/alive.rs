//! Whether a runner's process is there, and which processes are runners.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use countersign_core::event::ProcessKey;

use crate::tree::{list, read_stat};

/// The words after the program in the command line of a runner; its folder follows.
const RUNNER_WORDS: [&[u8]; 2] = [b"runner", b"--folder"];

/// Whether the number still is that process's, be it as a zombie. Where there is no `/proc` no start
/// time is known, and the number alone has to do.
pub(super) fn is_process(key: ProcessKey) -> bool {
    read_stat(key.pid).map_or(0, |stat| stat.start_time) == key.start_time
}

/// Whether it runs.
#[cfg(target_os = "linux")]
pub(super) fn is_alive(key: ProcessKey) -> bool {
    read_stat(key.pid).is_some_and(|stat| stat.start_time == key.start_time && !stat.zombie)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_alive(key: ProcessKey) -> bool {
    let pid = i32::try_from(key.pid).ok();
    let pid = pid.and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok())
}

/// The folder of a process that is a runner, by the words it was started with: the runners of another
/// version are another program.
pub(super) fn find_folder(pid: u32) -> Option<PathBuf> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = command.split(|&byte| byte == 0).skip(1);
    if !words.by_ref().take(RUNNER_WORDS.len()).eq(RUNNER_WORDS) {
        return None;
    }
    words.next().map(|folder| OsStr::from_bytes(folder).into())
}

/// Every runner of this user, with its folder.
pub(super) fn list_runners() -> Vec<(ProcessKey, PathBuf)> {
    let user = rustix::process::geteuid().as_raw();
    let is_ours = |pid: u32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|it| it.uid() == user);
    let found = list().into_iter().filter(|pid| is_ours(*pid));
    let found = found.filter_map(|pid| {
        let folder = find_folder(pid)?;
        let start_time = read_stat(pid)?.start_time;
        Some((ProcessKey { pid, start_time }, folder))
    });
    found.collect()
}

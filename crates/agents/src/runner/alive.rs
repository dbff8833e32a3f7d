//! Whether a runner's process is there.

use countersign_core::event::ProcessKey;

use crate::tree::read_stat;

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

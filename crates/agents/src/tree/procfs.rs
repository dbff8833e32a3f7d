//! What the system says about its processes, and signals that reach the right one.
//!
//! Invariant: a number alone never names a process. It is signalled through a handle that was
//! opened while number and start time both fitted.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::thread;
use std::time::Duration;

use countersign_core::event::ProcessKey;
use rustix::process::{Pid, Signal};

/// What is known of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub(crate) zombie: bool,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    pub(crate) start_time: u64,
    environment: EnvironState,
}

/// What is known of the variables a process was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EnvironState {
    /// It is just becoming another program, or we may not know.
    NotYet,
    Empty,
    Filled,
}

const KERNEL_THREAD: u64 = 0x0020_0000;

/// How often, a millisecond apart, a process is looked at that becomes another program.
const LOOKS: usize = 100;

/// Nothing if there is no such process, or no `/proc`.
pub(crate) fn read_stat(pid: u32) -> Option<ProcessStat> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The second field is a name that the process chose and may hold anything, so fields are counted
/// from its last `)`: see `proc_pid_stat(5)`.
fn parse_stat(line: &[u8]) -> Option<ProcessStat> {
    let name_end = line.iter().rposition(|&byte| byte == b')')?;
    let rest = str::from_utf8(&line[name_end + 1..]).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The page counts from 1, and the first field here is its third.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let pid_at = |number: usize| u32::try_from(field(number)?).ok();
    let (env_start, env_end) = (field(50)?, field(51)?);
    Some(ProcessStat {
        // A first thread that ended while others go on looks like a zombie and is none.
        zombie: matches!(*fields.first()?, "Z" | "X" | "x") && field(20)? <= 1,
        parent: pid_at(4)?,
        group: pid_at(5)?,
        session: pid_at(6)?,
        start_time: field(22)?,
        environment: match env_end {
            0 if field(9)? & KERNEL_THREAD != 0 => EnvironState::Empty,
            0 => EnvironState::NotYet,
            end if end == env_start => EnvironState::Empty,
            _ => EnvironState::Filled,
        },
    })
}

/// The numbers of all processes, newest first as far as numbers tell: what replaces itself by a new
/// process again and again is there for a short time only. An error if nobody can say: that none are
/// seen then means nothing.
pub(crate) fn list() -> io::Result<Vec<u32>> {
    let entries = fs::read_dir("/proc")?.flatten();
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| {
            str::from_utf8(entry.file_name().as_bytes())
                .ok()?
                .parse()
                .ok()
        })
        .collect();
    pids.sort_unstable_by(|one, other| other.cmp(one));
    Ok(pids)
}

/// Our own children, and those that became ours.
pub(crate) fn children() -> Vec<(u32, ProcessStat)> {
    let us = std::process::id();
    let listed = list_children().or_else(|| list().ok()).unwrap_or_default();
    let stats = listed
        .into_iter()
        .filter_map(|pid| Some((pid, read_stat(pid)?)));
    stats.filter(|(_, stat)| stat.parent == us).collect()
}

/// Nothing where the kernel does not list them: see `proc_tid_children(5)`.
fn list_children() -> Option<Vec<u32>> {
    let mut pids = Vec::new();
    for thread in fs::read_dir("/proc/self/task").ok()?.flatten() {
        let listed = fs::read_to_string(thread.path().join("children")).ok()?;
        pids.extend(
            listed
                .split_ascii_whitespace()
                .filter_map(|pid| pid.parse::<u32>().ok()),
        );
    }
    Some(pids)
}

/// Whether the process was started with this variable. Not, if we may not look.
///
/// While a process becomes another program its environment reads as empty, so that is believed only
/// of a process whose environment is.
pub(super) fn has_variable(pid: u32, variable: &str) -> bool {
    for _ in 0..LOOKS {
        let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
            return false;
        };
        if !environment.is_empty() {
            let mut entries = environment.split(|&byte| byte == 0);
            return entries.any(|entry| entry == variable.as_bytes());
        }
        let changing = |stat: ProcessStat| !stat.zombie && stat.environment != EnvironState::Empty;
        if !read_stat(pid).is_some_and(changing) {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

/// The value of a variable that a process was started with.
pub(super) fn find_value(pid: u32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut entries = environment.split(|&byte| byte == 0);
    entries.find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(value.to_vec()).ok()
    })
}

/// Whether that process is there, be it as a zombie.
pub(super) fn exists(key: ProcessKey) -> bool {
    read_stat(key.pid).is_some_and(|stat| stat.start_time == key.start_time)
}

/// False if the process has gone, whoever has its number now.
pub(super) fn signal(key: ProcessKey, signal: Signal) -> bool {
    i32::try_from(key.pid)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| signal_exactly(key, pid, signal))
}

/// The handle is opened first: if the process behind the number is the right one afterwards, it was
/// when the handle was opened.
#[cfg(target_os = "linux")]
fn signal_exactly(key: ProcessKey, pid: Pid, signal: Signal) -> bool {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    pidfd_open(pid, PidfdFlags::empty())
        .is_ok_and(|handle| exists(key) && pidfd_send_signal(handle, signal).is_ok())
}

#[cfg(not(target_os = "linux"))]
fn signal_exactly(key: ProcessKey, pid: Pid, signal: Signal) -> bool {
    exists(key) && rustix::process::kill_process(pid, signal).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_brackets_is_no_field() {
        let mut line = "7 (a) S 9 (b)) Z 1 2 3 4 5 6".to_owned();
        for number in 10..=52 {
            line += match number {
                20 => " 1",
                22 => " 4242",
                50 | 51 => " 77",
                _ => " 0",
            };
        }
        let stat = ProcessStat {
            zombie: true,
            parent: 1,
            group: 2,
            session: 3,
            start_time: 4242,
            environment: EnvironState::Empty,
        };
        assert_eq!(parse_stat(line.as_bytes()), Some(stat));
    }

    #[test]
    fn a_reused_number_is_not_signalled() {
        let own = read_stat(std::process::id()).expect("our own stat");
        let stranger = ProcessKey {
            pid: std::process::id(),
            start_time: own.start_time + 1,
        };
        assert!(!signal(stranger, Signal::KILL));
    }
}

//! Processes as the kernel describes them in `/proc`, and signals that reach the right one.
//!
//! Invariant: a process number alone never identifies a process, because numbers are reused. A process
//! is named by a [`ProcessKey`], its number and start time, and it is signalled through a handle that
//! was opened while both matched.
//!
//! Where there is no `/proc`, no process is identified.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::thread;
use std::time::Duration;

use countersign_core::event::ProcessKey;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, test_kill_process};

/// What `/proc/PID/stat` says about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    pub zombie: bool,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// In clock ticks since boot.
    pub start_time: u64,
}

impl ProcessStat {
    /// The key of the process that this was read of.
    pub fn key(&self, pid: u32) -> ProcessKey {
        ProcessKey {
            pid,
            start_time: self.start_time,
        }
    }
}

/// What this process used so far, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnUsage {
    /// Milliseconds of processor time, in the program and in the kernel for it.
    pub cpu_ms: u64,
    /// Resident memory.
    pub memory_bytes: u64,
}

/// What is known of the variables a process was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EnvironState {
    /// The process is inside `execve`, or we may not know.
    NotYet,
    Empty,
    Filled,
}

const KERNEL_THREAD: u64 = 0x0020_0000;

/// In which unit the kernel counts the time of processes for programs, whatever its own clock does.
const TICKS_PER_SECOND: u64 = 100;

/// How often, a millisecond apart, a process inside `execve` is looked at.
const ENVIRON_LOOKS: usize = 100;

/// `None` if there is no such process, or no `/proc`.
pub fn read_stat(pid: u32) -> Option<ProcessStat> {
    parse_stat(&read_stat_line(pid)?)
}

fn read_stat_line(pid: u32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/stat")).ok()
}

fn parse_stat(line: &[u8]) -> Option<ProcessStat> {
    let fields = stat_fields(line)?;
    Some(ProcessStat {
        // A first thread that ended while others go on has the state of a zombie and is none.
        zombie: matches!(*fields.first()?, "Z" | "X" | "x") && stat_field(&fields, 20)? <= 1,
        parent: stat_pid(&fields, 4)?,
        group: stat_pid(&fields, 5)?,
        session: stat_pid(&fields, 6)?,
        start_time: stat_field(&fields, 22)?,
    })
}

fn parse_environ_state(line: &[u8]) -> Option<EnvironState> {
    let fields = stat_fields(line)?;
    let (start, end) = (stat_field(&fields, 50)?, stat_field(&fields, 51)?);
    Some(match end {
        // Kernel threads never have an environment; a process that has none yet is inside `execve`.
        0 if stat_field(&fields, 9)? & KERNEL_THREAD != 0 => EnvironState::Empty,
        0 => EnvironState::NotYet,
        end if end == start => EnvironState::Empty,
        _ => EnvironState::Filled,
    })
}

/// The fields from the third on. The second is a name that the process chose and may hold anything, so
/// fields are counted from its last `)`: see `proc_pid_stat(5)`.
fn stat_fields(line: &[u8]) -> Option<Vec<&str>> {
    let name_end = line.iter().rposition(|&byte| byte == b')')?;
    let rest = str::from_utf8(&line[name_end + 1..]).ok()?;
    Some(rest.split_ascii_whitespace().collect())
}

/// A field by the number that the manual page gives it.
fn stat_field(fields: &[&str], number: usize) -> Option<u64> {
    fields.get(number - 3)?.parse().ok()
}

fn stat_pid(fields: &[&str], number: usize) -> Option<u32> {
    u32::try_from(stat_field(fields, number)?).ok()
}

/// `None` where there is no `/proc`.
pub fn read_own_usage() -> Option<OwnUsage> {
    Some(OwnUsage {
        cpu_ms: parse_cpu_ms(&fs::read("/proc/self/stat").ok()?)?,
        memory_bytes: parse_memory_bytes(&fs::read_to_string("/proc/self/status").ok()?)?,
    })
}

fn parse_cpu_ms(line: &[u8]) -> Option<u64> {
    let fields = stat_fields(line)?;
    let ticks = stat_field(&fields, 14)? + stat_field(&fields, 15)?;
    Some(ticks * 1_000 / TICKS_PER_SECOND)
}

/// Resident memory, in the form of `proc_pid_status(5)`.
fn parse_memory_bytes(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let resident = lines.find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1_024)
}

/// The key of the process that has this number now.
pub fn find_key(pid: u32) -> Option<ProcessKey> {
    Some(read_stat(pid)?.key(pid))
}

/// The key of a process that is known to be there. Where there is no `/proc` its number alone has to do.
pub(crate) fn key_of(pid: u32) -> ProcessKey {
    find_key(pid).unwrap_or(ProcessKey { pid, start_time: 0 })
}

/// Whether that process is there, be it as a zombie.
pub fn exists(key: ProcessKey) -> bool {
    find_key(key.pid) == Some(key)
}

/// Whether that process runs: a zombie does not. One that is there and cannot be read, as when too many
/// files are open, counts as running.
#[cfg(target_os = "linux")]
pub fn is_alive(key: ProcessKey) -> bool {
    match read_stat(key.pid) {
        Some(stat) => stat.start_time == key.start_time && !stat.zombie,
        None => fs::exists(format!("/proc/{}", key.pid)).unwrap_or(true),
    }
}

#[cfg(not(target_os = "linux"))]
pub fn is_alive(key: ProcessKey) -> bool {
    has_process(key.pid)
}

/// Whether a process has this number, be it one that we may not read.
pub fn has_process(pid: u32) -> bool {
    to_pid(pid).is_some_and(|pid| matches!(test_kill_process(pid), Ok(()) | Err(Errno::PERM)))
}

fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
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

/// Whether the process was started with this variable, given as `NAME=value`. False if we may not look.
pub(crate) fn has_variable(pid: u32, variable: &str) -> bool {
    for _ in 0..ENVIRON_LOOKS {
        let Some(environment) = read_environ(pid) else {
            return false;
        };
        if !environment.is_empty() {
            let mut entries = environment.split(|&byte| byte == 0);
            return entries.any(|entry| entry == variable.as_bytes());
        }
        // Inside `execve` every environment reads as empty, so an empty one is believed only of a process
        // whose environment has no bytes. Otherwise a marked process could not be seen at that moment.
        let line = read_stat_line(pid).unwrap_or_default();
        let is_zombie = parse_stat(&line).is_none_or(|stat| stat.zombie);
        if is_zombie || parse_environ_state(&line) == Some(EnvironState::Empty) {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

/// The words that the process was started with, the program's own first. `None` if we may not look.
pub fn read_arguments(pid: u32) -> Option<Vec<OsString>> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = line.split(|&byte| byte == 0);
    let mut words: Vec<_> = words
        .map(|word| OsStr::from_bytes(word).to_owned())
        .collect();
    // Each ends with a zero byte, so an empty piece follows the last one.
    words.pop();
    Some(words)
}

/// The variables that the process was started with, separated by zero bytes. `None` if we may not look.
pub fn read_environ(pid: u32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok()
}

/// The value of a variable that the process was started with.
pub fn find_variable(pid: u32, name: &str) -> Option<String> {
    let environment = read_environ(pid)?;
    environment.split(|&byte| byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(value.to_vec()).ok()
    })
}

/// False if the process has gone, whoever has its number now.
pub(crate) fn signal(key: ProcessKey, signal: Signal) -> bool {
    to_pid(key.pid).is_some_and(|pid| signal_exactly(key, pid, signal))
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
        };
        assert_eq!(parse_stat(line.as_bytes()), Some(stat));
        assert_eq!(
            parse_environ_state(line.as_bytes()),
            Some(EnvironState::Empty)
        );
    }

    #[test]
    fn a_short_or_strange_line_is_refused() {
        for line in [
            "",
            "42 (cat",
            "42 (cat)",
            "42 (cat) S 41 7 7",
            "42 (cat) S x",
        ] {
            assert_eq!(parse_stat(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn usage_is_read_whatever_the_program_is_called() {
        let stat = b"7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 25 15 0 0 20 0 9 0 1 2 3";
        assert_eq!(parse_cpu_ms(stat), Some(400));
        assert_eq!(parse_cpu_ms(b"7 (a"), None);
        let status = "Name:\tVmRSS: 7 kB\nVmRSS:\t    2048 kB\nThreads:\t9\n";
        assert_eq!(parse_memory_bytes(status), Some(2 * 1_024 * 1_024));
        assert_eq!(parse_memory_bytes(""), None);
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

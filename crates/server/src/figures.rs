//! What the host itself uses: processor, memory, disk.

use std::path::Path;
use std::sync::atomic::Ordering;

use countersign_daemon::Service;
use countersign_protocol::HostFigures;

/// In which unit the kernel counts the time of processes for programs, whatever its own clock does.
const TICKS_PER_SECOND: u64 = 100;

/// Nothing where the system does not say.
pub(crate) fn read_figures(service: &Service, database: &Path) -> Option<HostFigures> {
    let counters = service.counters();
    Some(HostFigures {
        commits: counters.commits.load(Ordering::Relaxed),
        cpu_ms: cpu_ms(&std::fs::read_to_string("/proc/self/stat").ok()?)?,
        database_bytes: database_bytes(database),
        events: counters.events.load(Ordering::Relaxed),
        memory_bytes: memory_bytes(&std::fs::read_to_string("/proc/self/status").ok()?)?,
    })
}

/// User and system time, in the form of `proc_pid_stat(5)`.
fn cpu_ms(stat: &str) -> Option<u64> {
    // The name of the program comes before in parentheses, and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let ticks: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((ticks + system) * 1_000 / TICKS_PER_SECOND)
}

/// Resident memory, in the form of `proc_pid_status(5)`.
fn memory_bytes(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let resident = lines.find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1_024)
}

fn database_bytes(database: &Path) -> u64 {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    let sizes = [database, Path::new(&log)].map(std::fs::metadata);
    sizes.into_iter().flatten().map(|file| file.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_whatever_the_program_is_called() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 25 15 0 0 20 0 9 0 1 2 3";
        assert_eq!(cpu_ms(stat), Some(400));
        assert_eq!(cpu_ms("7 (a"), None);
        let status = "Name:\tVmRSS: 7 kB\nVmRSS:\t    2048 kB\nThreads:\t9\n";
        assert_eq!(memory_bytes(status), Some(2 * 1_024 * 1_024));
        assert_eq!(memory_bytes(""), None);
    }
}

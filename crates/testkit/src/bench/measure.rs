//! Measuring: latency percentiles, and CPU time and memory of a process as Linux accounts for them.

use std::time::Duration;

use anyhow::{Context, Result};

use super::Target;

/// `/proc/PID/stat` counts in `USER_HZ`, which is 100 on every Linux that Rust's tier 1 and 2 cover.
const TICKS_PER_SECOND: u64 = 100;

/// Latencies in microseconds, kept whole: a run has at most some hundred thousand.
#[derive(Debug, Default)]
pub struct Latencies {
    micros: Vec<u32>,
}

/// A process on this machine, named by its id.
#[derive(Debug, Clone, Copy)]
pub struct Process {
    pid: u32,
}

/// Resident memory of a process, now and at its highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub resident_bytes: u64,
    pub peak_bytes: u64,
}

/// CPU time used so far by the server, when its process is known, and by this client.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuTimes {
    pub(super) server: Option<Duration>,
    pub(super) client: Duration,
}

/// How many things went wrong, and how the first of them did.
#[derive(Debug, Default)]
pub(super) struct Errors {
    pub(super) count: u64,
    pub(super) first: Option<String>,
}

impl Errors {
    pub(super) fn note(&mut self, error: &anyhow::Error) {
        self.count += 1;
        self.first.get_or_insert_with(|| format!("{error:#}"));
    }

    pub(super) fn take(&mut self, ended: Result<()>) {
        if let Err(error) = ended {
            self.note(&error);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.take().or(other.first);
    }
}

impl Latencies {
    pub fn record(&mut self, latency: Duration) {
        self.micros
            .push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    pub fn merge(&mut self, other: Self) {
        self.micros.extend(other.micros);
    }

    pub fn count(&self) -> u64 {
        self.micros.len() as u64
    }

    /// The latency that `permille` of all do not exceed; nothing when none was recorded.
    pub fn percentile_ms(&mut self, permille: usize) -> Option<f64> {
        self.micros.sort_unstable();
        let rank = (self.micros.len() * permille).div_ceil(1000).max(1);
        let micros = self.micros.get(rank - 1)?;
        Some(f64::from(*micros) / 1000.0)
    }
}

impl Process {
    pub fn new(pid: u32) -> Self {
        Self { pid }
    }

    pub(super) fn pid(self) -> u32 {
        self.pid
    }

    /// User and system time of all threads, past ones included, to 10 ms.
    pub fn cpu_time(self) -> Result<Duration> {
        let path = format!("/proc/{}/stat", self.pid);
        let text = read(&path)?;
        parse_cpu_time(&text).with_context(|| format!("could not understand `{path}`"))
    }

    pub fn memory(self) -> Result<Memory> {
        let path = format!("/proc/{}/status", self.pid);
        let text = read(&path)?;
        parse_memory(&text).with_context(|| format!("could not understand `{path}`"))
    }
}

impl CpuTimes {
    pub(super) fn now(target: &Target) -> Result<Self> {
        Ok(Self {
            server: target.server().map(Process::cpu_time).transpose()?,
            client: Process::new(std::process::id()).cpu_time()?,
        })
    }

    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            server: self
                .server
                .zip(earlier.server)
                .map(|(now, then)| now.saturating_sub(then)),
            client: self.client.saturating_sub(earlier.client),
        }
    }
}

/// A count as a number that can be divided.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts and sizes stay far below 2^52"
)]
pub(super) fn to_number(count: u64) -> f64 {
    count as f64
}

pub(super) fn to_megabytes(bytes: u64) -> f64 {
    to_number(bytes) / 1e6
}

/// What each of `count` operations cost; nothing when there were none.
pub(super) fn micros_each(spent: Duration, count: u64) -> Option<f64> {
    (count > 0).then(|| spent.as_secs_f64() * 1e6 / to_number(count))
}

fn read(path: &str) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("could not read `{path}`"))
}

fn parse_cpu_time(stat: &str) -> Option<Duration> {
    // The second field is the name, which may itself hold spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis(
        (user + system) * 1000 / TICKS_PER_SECOND,
    ))
}

fn parse_memory(status: &str) -> Option<Memory> {
    Some(Memory {
        resident_bytes: find_kilobytes(status, "VmRSS:")? * 1024,
        peak_bytes: find_kilobytes(status, "VmHWM:")? * 1024,
    })
}

fn find_kilobytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_past_an_awkward_name() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0";
        assert_eq!(parse_cpu_time(stat), Some(Duration::from_secs(3)));
    }

    #[test]
    fn memory_is_read_from_status() {
        let status = "Name:\tx\nVmHWM:\t    2000 kB\nVmRSS:\t    1000 kB\n";
        let memory = Memory {
            resident_bytes: 1_024_000,
            peak_bytes: 2_048_000,
        };
        assert_eq!(parse_memory(status), Some(memory));
    }

    #[test]
    fn this_process_has_memory_and_cpu_time() {
        let this = Process::new(std::process::id());
        assert!(this.memory().unwrap().resident_bytes > 0);
        this.cpu_time().unwrap();
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile_ms(500), None);
        for ms in (1..=100).rev() {
            latencies.record(Duration::from_millis(ms));
        }
        assert_eq!(latencies.percentile_ms(500), Some(50.0));
        assert_eq!(latencies.percentile_ms(990), Some(99.0));
        assert_eq!(latencies.percentile_ms(1000), Some(100.0));
    }
}

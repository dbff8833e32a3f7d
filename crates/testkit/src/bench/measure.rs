//! Measuring: latency percentiles, and CPU time and memory of a process as Linux accounts for them.

use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

use super::Target;

/// `/proc/PID/stat` counts in `USER_HZ`, which is 100 on every Linux that Rust's tier 1 and 2 cover.
const TICKS_PER_SECOND: u64 = 100;
/// A latency above counts as this one.
const LATENCY_NANOS_MAX: u64 = 600_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Latencies in nanoseconds, to three digits.
#[derive(Debug)]
pub(super) struct Latencies(Histogram<u32>);

impl Default for Latencies {
    #[expect(
        clippy::expect_used,
        reason = "fails only for bounds out of order and more than five digits"
    )]
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, SIGNIFICANT_DIGITS);
        Self(histogram.expect("a histogram"))
    }
}

impl FromIterator<Duration> for Latencies {
    fn from_iter<I: IntoIterator<Item = Duration>>(latencies: I) -> Self {
        let mut all = Self::default();
        for latency in latencies {
            all.record(latency);
        }
        all
    }
}

impl Latencies {
    pub(super) fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanos);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.0 += &other.0;
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that this share of all does not exceed; nothing when none was recorded.
    pub(super) fn quantile(&self, share: f64) -> Option<Duration> {
        let nanos = self.0.value_at_quantile(share);
        (!self.0.is_empty()).then(|| Duration::from_nanos(nanos))
    }
}

/// A process on this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Process {
    pub(super) pid: u32,
}

/// Resident memory of a process, now and at its highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) resident_bytes: u64,
    pub(super) peak_bytes: u64,
}

impl Process {
    pub(super) fn new(pid: u32) -> Self {
        Self { pid }
    }

    /// User and system time of all threads, past ones included, to 10 ms.
    pub(super) fn cpu_time(self) -> Result<Duration> {
        self.read("stat", parse_cpu_time)
    }

    pub(super) fn memory(self) -> Result<Memory> {
        self.read("status", parse_memory)
    }

    /// Bytes that it shares with no other process, clean and changed: the text of a program that runs many times is
    /// not the cost of one of them.
    pub(super) fn private_bytes(self) -> Result<u64> {
        self.read("smaps_rollup", parse_private)
    }

    /// How often a thread that lives has gone to sleep by itself: it was woken as often.
    pub(super) fn wakes(self) -> Result<u64> {
        let tasks = format!("/proc/{}/task", self.pid);
        let entries = std::fs::read_dir(&tasks).with_context(|| format!("no `{tasks}`"))?;
        let mut wakes = 0;
        for entry in entries {
            let status = std::fs::read_to_string(entry?.path().join("status"))?;
            wakes += parse_wakes(&status).context("a status without context switches")?;
        }
        Ok(wakes)
    }

    fn read<T>(self, file: &str, parse: fn(&str) -> Option<T>) -> Result<T> {
        let path = format!("/proc/{}/{file}", self.pid);
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("could not read `{path}`"))?;
        parse(&text).with_context(|| format!("could not understand `{path}`"))
    }
}

fn parse_cpu_time(stat: &str) -> Option<Duration> {
    // The second field is the name, which may itself hold spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let millis = (user + system) * 1000 / TICKS_PER_SECOND;
    Some(Duration::from_millis(millis))
}

fn parse_memory(status: &str) -> Option<Memory> {
    Some(Memory {
        resident_bytes: find_bytes(status, "VmRSS:")?,
        peak_bytes: find_bytes(status, "VmHWM:")?,
    })
}

fn parse_private(rollup: &str) -> Option<u64> {
    Some(find_bytes(rollup, "Private_Clean:")? + find_bytes(rollup, "Private_Dirty:")?)
}

fn parse_wakes(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

fn find_bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// CPU time used so far by the server, when its process is known, and by this client.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuTimes {
    pub(super) server: Option<Duration>,
    pub(super) client: Duration,
}

impl CpuTimes {
    pub(super) fn now(target: &Target) -> Result<Self> {
        Ok(Self {
            server: target.server().map(Process::cpu_time).transpose()?,
            client: Process::new(std::process::id()).cpu_time()?,
        })
    }

    pub(super) fn since(self, earlier: Self) -> Self {
        let server = self.server.zip(earlier.server);
        Self {
            server: server.map(|(now, then)| now.saturating_sub(then)),
            client: self.client.saturating_sub(earlier.client),
        }
    }
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

    pub(super) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.take().or(other.first);
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

pub(super) fn to_ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(super) fn to_us(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
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
    fn wakes_are_the_switches_that_were_asked_for() {
        let status = "Threads:\t2\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(parse_wakes(status), Some(150));
    }

    #[test]
    fn private_memory_is_clean_and_changed() {
        let text =
            "Rss: 9 kB\nShared_Clean:  5 kB\nPrivate_Clean:      8 kB\nPrivate_Dirty:     4 kB\n";
        assert_eq!(parse_private(text), Some(12 * 1024));
    }

    #[test]
    fn this_process_has_memory_and_cpu_time() {
        let this = Process::new(std::process::id());
        assert!(this.memory().unwrap().resident_bytes > 0);
        this.cpu_time().unwrap();
        assert!(this.wakes().unwrap() > 0);
    }

    #[test]
    fn a_quantile_is_right_to_three_digits() {
        assert_eq!(Latencies::default().quantile(0.5), None);
        let latencies: Latencies = (1..=100).rev().map(Duration::from_millis).collect();
        for (share, expected) in [(0.5, 50.0), (0.99, 99.0), (1.0, 100.0)] {
            let found = to_ms(latencies.quantile(share).unwrap());
            assert!((found / expected - 1.0).abs() < 0.001, "{found}");
        }
    }
}

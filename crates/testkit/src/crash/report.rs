//! What a run reports.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A run so far.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    pub kills: usize,
    /// What the last kill was.
    pub last: String,
    pub events: u64,
    /// Asks that a host acknowledged.
    pub asked: usize,
    /// Answers that a host acknowledged.
    pub answered: usize,
    /// How often an asker was told how its ask ended.
    pub told: usize,
}

/// Kills of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub kills: usize,
    /// Those of them that came while the host was not ready yet.
    pub starting: usize,
}

/// A run in which nothing was lost.
#[derive(Clone, Debug)]
pub struct Summary {
    pub seed: u64,
    pub progress: Progress,
    pub tallies: BTreeMap<&'static str, Tally>,
    /// Events that readers compared with the record, over all readers.
    pub read: usize,
    /// Times the whole chain was verified.
    pub audits: usize,
    /// The longest start of a host on the record its killed predecessor left.
    pub slowest_start: Duration,
    pub elapsed: Duration,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<18} {:>6} {:>10}", "killed", "kills", "starting")?;
        for (name, tally) in &self.tallies {
            let Tally { kills, starting } = tally;
            writeln!(f, "{name:<18} {kills:>6} {starting:>10}")?;
        }
        let progress = &self.progress;
        writeln!(f, "{:<18} {:>6}\n", "in all", progress.kills)?;
        writeln!(f, "asks acknowledged     {:>8}", progress.asked)?;
        writeln!(f, "answers acknowledged  {:>8}", progress.answered)?;
        writeln!(f, "tellings              {:>8}", progress.told)?;
        writeln!(f, "events on the record  {:>8}", progress.events)?;
        writeln!(f, "events read back      {:>8}", self.read)?;
        writeln!(f, "chains verified       {:>8}", self.audits)?;
        let slowest = self.slowest_start.as_secs_f64() * 1e3;
        writeln!(f, "slowest start         {slowest:>5.0} ms")?;
        let elapsed = self.elapsed.as_secs_f64();
        writeln!(
            f,
            "\nnothing was lost or doubled in {elapsed:.0} s (seed {})",
            self.seed
        )
    }
}

//! What agents noted of their asks: each of them, its answer, when it began and how long it took.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::bench::measure::{Latencies, to_number};

/// An ask that was allowed.
#[derive(Debug, Clone, Copy)]
struct AllowedAsk {
    /// Since 1970.
    began: Duration,
    took: Duration,
}

/// Several files, counted together.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    allowed: Vec<AllowedAsk>,
    /// Asks that were never answered, or not with what the rules say.
    pub(super) lost: u64,
    /// Answers that came twice.
    pub(super) repeated: u64,
}

impl Ledger {
    /// Adds a file. With `asked` every ask must be there; without it the last one may have been cancelled.
    pub(super) fn read(&mut self, file: &Path, asked: Option<u64>) -> Result<()> {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("there is no ledger `{}`", file.display()))?;
        let mut seen = HashSet::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["unasked", count] => self.repeated += count.parse::<u64>()?,
                [number, "allow", began, took] => {
                    let fresh = seen.insert(number.parse::<u64>()?);
                    self.repeated += u64::from(!fresh);
                    self.allowed.push(AllowedAsk {
                        began: Duration::from_micros(began.parse()?),
                        took: Duration::from_micros(took.parse()?),
                    });
                }
                [_, "cancel", ..] if asked.is_none() => {}
                [_, "deny" | "cancel", ..] => self.lost += 1,
                _ => bail!("a ledger has a line `{line}`"),
            }
        }
        let answered = seen.len() as u64;
        self.lost += asked.map_or(0, |asked| asked.saturating_sub(answered));
        Ok(())
    }

    pub(super) fn latencies(&self) -> Latencies {
        self.allowed.iter().map(|ask| ask.took).collect()
    }

    /// Only what began in some time.
    pub(super) fn within(&self, time: &Range<Duration>) -> Self {
        let allowed = self.allowed.iter().copied();
        Self {
            allowed: allowed.filter(|ask| time.contains(&ask.began)).collect(),
            lost: 0,
            repeated: self.repeated,
        }
    }

    pub(super) fn rate_per_s(&self) -> f64 {
        let began = self.allowed.iter().map(|ask| ask.began).min();
        let ended = self.allowed.iter().map(|ask| ask.began + ask.took).max();
        let spent = ended
            .unwrap_or_default()
            .saturating_sub(began.unwrap_or_default());
        to_number(self.allowed.len() as u64) / spent.as_secs_f64().max(1e-6)
    }
}

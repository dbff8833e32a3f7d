//! What agents noted of their asks: each of them, its answer, when it began and how long it took.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bench::Latencies;
use crate::bench::measure::to_number;

/// One line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    /// Since 1970.
    pub(super) began: Duration,
    pub(super) took: Duration,
}

/// Several files, counted together.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) answers: Vec<Answered>,
    pub(super) latencies: Latencies,
    pub(super) allowed: u64,
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
                    self.add(micros(began)?, micros(took)?);
                }
                [_, "cancel", ..] if asked.is_none() => {}
                [_, "deny" | "cancel", ..] => self.lost += 1,
                _ => ensure!(false, "a ledger has a line `{line}`"),
            }
        }
        let answered = seen.len() as u64;
        self.lost += asked.map_or(0, |asked| asked.saturating_sub(answered));
        Ok(())
    }

    fn add(&mut self, began: Duration, took: Duration) {
        self.allowed += 1;
        self.latencies.record(took);
        self.answers.push(Answered { began, took });
    }

    /// Only what began in some time.
    pub(super) fn within(&self, time: &Range<Duration>) -> Self {
        let mut some = Self::default();
        for answer in self.answers.iter().filter(|one| time.contains(&one.began)) {
            some.add(answer.began, answer.took);
        }
        some
    }

    pub(super) fn rate_per_s(&self) -> f64 {
        let began = self.answers.iter().map(|answer| answer.began).min();
        let ended = self.answers.iter().map(|one| one.began + one.took).max();
        let spent = ended
            .unwrap_or_default()
            .saturating_sub(began.unwrap_or_default());
        to_number(self.allowed) / spent.as_secs_f64().max(1e-6)
    }
}

fn micros(word: &str) -> Result<Duration> {
    Ok(Duration::from_micros(word.parse()?))
}

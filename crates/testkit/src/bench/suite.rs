//! The suite: which scenarios to run, with what options, in one command line's worth of choices.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use super::report::Row;
use super::{Target, history, idle, round_trips};

/// In the order in which they run: history last, because a host may keep what it leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Scenario {
    /// The server's memory right now.
    Idle,
    /// Ask for an approval and resolve it.
    RoundTrips,
    /// Memory and subscribe time after many resolved approvals.
    History,
}

#[derive(Debug, Clone, Args)]
pub struct SuiteOptions {
    /// Scenarios to run, separated by commas; all by default, but `idle` only when the server's process is known
    #[arg(long, value_delimiter = ',')]
    pub scenario: Vec<Scenario>,
    /// Seconds that each row is measured, after a warm-up of one
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// Concurrent workers in round-trips, one row each
    #[arg(long, value_delimiter = ',', default_value = "1,64,512")]
    pub workers: Vec<usize>,
    /// Workers that share a connection in round-trips
    #[arg(long, default_value_t = 1)]
    pub per_connection: usize,
    /// Approvals to resolve in history
    #[arg(long, default_value_t = 100_000)]
    pub approvals: u64,
}

/// Runs what was chosen; `on_rows` gets each scenario's rows as they come, since a whole suite takes minutes.
pub async fn run(
    target: &Target,
    options: &SuiteOptions,
    mut on_rows: impl FnMut(&[Row]),
) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    for scenario in options.chosen(target) {
        let rows = options
            .run_one(target, scenario)
            .await
            .with_context(|| format!("scenario `{}` failed", name(scenario)))?;
        on_rows(&rows);
        all.extend(rows);
    }
    Ok(all)
}

fn name(scenario: Scenario) -> String {
    let value = scenario.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

impl SuiteOptions {
    fn chosen(&self, target: &Target) -> Vec<Scenario> {
        if self.scenario.is_empty() {
            let all = Scenario::value_variants().iter().copied();
            return all
                .filter(|scenario| *scenario != Scenario::Idle || target.server_pid.is_some())
                .collect();
        }
        let mut chosen = self.scenario.clone();
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    async fn run_one(&self, target: &Target, scenario: Scenario) -> Result<Vec<Row>> {
        match scenario {
            Scenario::Idle => idle::run(target),
            Scenario::RoundTrips => round_trips::run(target, &self.round_trips()).await,
            Scenario::History => history::run(target, &self.history()).await,
        }
    }

    fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    fn round_trips(&self) -> round_trips::Options {
        round_trips::Options {
            workers: self.workers.clone(),
            per_connection: self.per_connection,
            duration: self.duration(),
        }
    }

    fn history(&self) -> history::Options {
        history::Options {
            approvals: self.approvals,
        }
    }
}

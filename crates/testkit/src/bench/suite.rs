//! The suite: which scenarios to run, with what options, in one command line's worth of choices.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use super::report::Row;
use super::{Target, fan_out, history, idle, round_trips, slow_reader};

/// In the order in which they run: history last, because a host may keep what it leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Scenario {
    /// The server's memory right now.
    Idle,
    /// Ask for an approval and resolve it.
    RoundTrips,
    /// Notifications to many subscribers.
    FanOut,
    /// Notifications to ten subscribers beside one that never reads.
    SlowReader,
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
    /// Subscribers in fan-out, one row each
    #[arg(long, value_delimiter = ',', default_value = "1,10,100")]
    pub subscribers: Vec<usize>,
    /// Producers in fan-out, one set of rows each
    #[arg(long, value_delimiter = ',', default_value = "1")]
    pub producers: Vec<usize>,
    /// Notifications in flight on each producer's connection
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    pub window: u64,
    /// How many notifications producers may be ahead of the slowest subscriber
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..))]
    pub lag_max: u64,
    /// Approvals to resolve in history
    #[arg(long, default_value_t = 100_000)]
    pub approvals: u64,
}

const SLOW_READER_SUBSCRIBERS: usize = 10;

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
            Scenario::FanOut => fan_out::run(target, &self.fan_out()).await,
            Scenario::SlowReader => slow_reader::run(target, &self.slow_reader()).await,
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

    fn fan_out(&self) -> fan_out::Options {
        fan_out::Options {
            subscribers: self.subscribers.clone(),
            producers: self.producers.clone(),
            window: self.window,
            lag_max: self.lag_max,
            duration: self.duration(),
        }
    }

    fn slow_reader(&self) -> slow_reader::Options {
        slow_reader::Options {
            subscribers: SLOW_READER_SUBSCRIBERS,
            producers: self.producers.first().copied().unwrap_or(1),
            window: self.window,
            lag_max: self.lag_max,
            duration: self.duration(),
        }
    }

    fn history(&self) -> history::Options {
        history::Options {
            approvals: self.approvals,
        }
    }
}

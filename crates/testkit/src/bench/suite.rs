//! Which scenarios are run: chosen ones against a server by its URL, or all of them against hosts of this build.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use countersign_core::event::NotificationSent;
use countersign_core::{
    Caller, CommitChanges, CommittedEvent, Json, RecordedActor, Seq, Timestamp,
};
use countersign_daemon::EventLog as _;

use super::hosts::{MeasuredHost, Store};
use super::measure::{to_megabytes, to_ms};
use super::report::{Metric, Report, Row};
use super::{Target, approvals, broadcast};

const WORKERS: [usize; 3] = [1, 64, 512];
const SUBSCRIBERS: [usize; 3] = [1, 10, 100];
/// Events in the log that a host is started on.
const START_UP_EVENTS: u64 = 1_000_000;
const FILL_BATCH: usize = 1000;

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

/// Runs scenarios against a server; all of them if none is named, but `idle` only when its process is known.
pub async fn run(target: &Target, chosen: &[Scenario], seconds: u64) -> Result<Report> {
    let mut report = Report::default();
    for scenario in Scenario::value_variants() {
        let is_chosen = match (chosen, scenario) {
            ([], Scenario::Idle) => target.server_pid.is_some(),
            ([], _) => true,
            (chosen, scenario) => chosen.contains(scenario),
        };
        if is_chosen {
            let rows = scenario.run(target, Duration::from_secs(seconds)).await;
            report.add(rows.with_context(|| format!("scenario {scenario:?} failed"))?);
        }
    }
    Ok(report)
}

impl Scenario {
    async fn run(self, target: &Target, duration: Duration) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        match self {
            Self::Idle => rows.push(idle(target)?),
            Self::RoundTrips => {
                for workers in WORKERS {
                    rows.push(approvals::round_trips(target, workers, duration).await?);
                }
            }
            Self::FanOut => {
                for subscribers in SUBSCRIBERS {
                    rows.push(broadcast::fan_out(target, subscribers, duration).await?);
                }
            }
            Self::SlowReader => rows = broadcast::slow_reader(target, duration).await?,
            Self::History => rows.push(approvals::history(target).await?),
        }
        Ok(rows)
    }
}

fn idle(target: &Target) -> Result<Row> {
    ensure!(
        target.server_pid.is_some(),
        "the idle scenario needs the server's process id"
    );
    let mut row = Row::new("idle", "now");
    row.set_memory(target)?;
    Ok(row)
}

/// What `bench all` measures and how long.
#[derive(Debug, Clone, Args)]
pub struct AllOptions {
    /// The built binary
    #[arg(long, default_value = "target/release/countersign")]
    pub countersign: PathBuf,
    /// Seconds that each row is measured, after a warm-up of one
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// How often each store is measured in turn; the best of each counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: u64,
}

/// Measures this build: against memory in the same run, and against its own figures.
pub async fn run_all(options: &AllOptions) -> Result<Report> {
    let countersign = &options.countersign;
    let duration = Duration::from_secs(options.seconds);
    let mut report = Report::default();
    report.add(vec![at_rest(countersign).await?]);
    for workers in WORKERS {
        report.add(against_memory(options, workers).await?);
    }
    let host = MeasuredHost::start(Store::Sqlite, countersign).await?;
    let target = host.target()?;
    report.add(Scenario::FanOut.run(&target, duration).await?);
    report.add(Scenario::SlowReader.run(&target, duration).await?);
    drop(host);
    // A host of its own: what the others left would be in its memory.
    let host = MeasuredHost::start(Store::Sqlite, countersign).await?;
    report.add(Scenario::History.run(&host.target()?, duration).await?);
    drop(host);
    report.add(vec![start_up(options).await?]);
    Ok(report)
}

/// Idle memory, the size of the binary, and its start in an empty home.
async fn at_rest(countersign: &Path) -> Result<Row> {
    let host = MeasuredHost::start(Store::Sqlite, countersign).await?;
    let mut row = idle(&host.target()?)?;
    let bytes = std::fs::metadata(countersign)?.len();
    row.set(Metric::BinaryMb, to_megabytes(bytes));
    row.set(Metric::StartMs, to_ms(host.started_in));
    Ok(row)
}

/// Both stores in turn, several times, so that a noisy moment does not hit only one of them.
async fn against_memory(options: &AllOptions, workers: usize) -> Result<Vec<Row>> {
    let mut memory = Row::new("round-trips", "none");
    let mut sqlite = memory.clone();
    for _ in 0..options.rounds {
        for (store, best) in [(Store::Memory, &mut memory), (Store::Sqlite, &mut sqlite)] {
            let host = MeasuredHost::start(store, &options.countersign).await?;
            let duration = Duration::from_secs(options.seconds);
            let row = approvals::round_trips(&host.target()?, workers, duration).await?;
            if rate(&row) >= rate(best) {
                *best = row;
            }
        }
    }
    sqlite.set(Metric::RateRatio, rate(&sqlite) / rate(&memory));
    memory.case += ", in memory";
    Ok(vec![memory, sqlite])
}

fn rate(row: &Row) -> f64 {
    let rate = row.metrics.get(&Metric::RatePerS);
    rate.copied().unwrap_or_default()
}

/// How long a host takes to be ready on a long log; the best of a few starts.
async fn start_up(options: &AllOptions) -> Result<Row> {
    let mut home = tempfile::tempdir()?;
    fill_log(&home.path().join("countersign.db"), START_UP_EVENTS)?;
    let mut best = Duration::MAX;
    for _ in 0..options.rounds {
        let host = MeasuredHost::start_in(Store::Sqlite, &options.countersign, home).await?;
        best = best.min(host.started_in);
        home = host.end()?;
    }
    let mut row = Row::new("start-up", format!("{START_UP_EVENTS} events"));
    row.set(Metric::StartMs, to_ms(best));
    Ok(row)
}

/// Writes a log of that many events, as a host would have.
fn fill_log(database: &Path, events: u64) -> Result<()> {
    let (mut log, _history) = countersign_store::open(database)?;
    let by = RecordedActor::from(&Caller::host());
    for first in (1..=events).step_by(FILL_BATCH) {
        let numbers = (first..=events).take(FILL_BATCH);
        let batch: Vec<CommittedEvent> = numbers
            .map(|number| CommittedEvent {
                seq: Seq(number),
                at: Timestamp(number),
                event: NotificationSent {
                    kind: "bench.tick".to_owned(),
                    agent: None,
                    message: "one of many".to_owned(),
                    payload: Json::null(),
                    by: by.clone(),
                }
                .into(),
                ask: None,
            })
            .collect();
        log.append(&batch, &CommitChanges::default())?;
    }
    Ok(())
}

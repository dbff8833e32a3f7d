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

use super::flush::flush_p50_ms;
use super::hosts::{HostBuild, MeasuredHost, Store};
use super::measure::{to_megabytes, to_ms, to_number};
use super::report::{Metric, Report, Row};
use super::rounds::{RateMetric, compared_rows, median_row, set_rate_ratio};
use super::{Target, approvals, broadcast};

const WORKERS: [usize; 3] = [1, 64, 512];
const SUBSCRIBERS: [usize; 3] = [1, 10, 100];
/// Events in the log that a host is started on.
const START_UP_EVENTS: u64 = 1_000_000;
const FILL_BATCH: usize = 1000;
/// How many approvals a long-used host has behind it, and how many workers then load it.
const MILLION_APPROVALS: u64 = 1_000_000;
const MILLION_WORKERS: usize = 64;

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
    /// A folder with `countersign` and `bench` of another build, which is measured in the same rounds
    #[arg(long)]
    pub base: Option<PathBuf>,
    /// Measure only these rows, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<SuitePart>,
    /// Seconds that each row is measured, after a warm-up of one
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// How often each host is measured in turn; the medians count
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: u64,
}

/// A part of `bench all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SuitePart {
    AtRest,
    RoundTrips,
    FanOut,
    SlowReader,
    History,
    StartUp,
    Million,
}

/// Measures this build: against memory in the same run, and against its own figures.
pub async fn run_all(options: &AllOptions) -> Result<Report> {
    let mut report = Report::default();
    for part in SuitePart::value_variants() {
        if options.only.is_empty() || options.only.contains(part) {
            part.run(options, &mut report).await?;
        }
    }
    Ok(report)
}

impl SuitePart {
    async fn run(self, options: &AllOptions, report: &mut Report) -> Result<()> {
        match self {
            Self::AtRest => report.add(vec![at_rest(&options.countersign).await?]),
            Self::RoundTrips => {
                for workers in WORKERS {
                    report.add(round_trips_in_turns(options, workers).await?);
                }
            }
            Self::FanOut => {
                for subscribers in SUBSCRIBERS {
                    report.add(fan_out_in_turns(options, subscribers).await?);
                }
            }
            Self::SlowReader => report.add(on_new_host(options, Scenario::SlowReader).await?),
            Self::History => report.add(on_new_host(options, Scenario::History).await?),
            Self::StartUp => report.add(vec![start_up(options).await?]),
            Self::Million => report.add(million_resolved(options).await?),
        }
        Ok(())
    }
}

/// On a host of its own: what others left would be in its memory.
async fn on_new_host(options: &AllOptions, scenario: Scenario) -> Result<Vec<Row>> {
    let build = HostBuild::current(&options.countersign)?;
    let host = MeasuredHost::start(Store::Sqlite, &build).await?;
    let duration = Duration::from_secs(options.seconds);
    scenario.run(&host.target()?, duration).await
}

/// Idle memory, the size of the binary, and its start in an empty home.
async fn at_rest(countersign: &Path) -> Result<Row> {
    let build = HostBuild::current(countersign)?;
    let host = MeasuredHost::start(Store::Sqlite, &build).await?;
    let mut row = idle(&host.target()?)?;
    let bytes = std::fs::metadata(countersign)?.len();
    row.set(Metric::BinaryMb, to_megabytes(bytes));
    row.set(Metric::StartMs, to_ms(host.started_in));
    Ok(row)
}

/// One of the hosts that are measured in turn.
struct Contender {
    build: HostBuild,
    store: Store,
    /// What its rows say after the case.
    suffix: &'static str,
    rows: Vec<Row>,
}

impl Contender {
    fn new(build: &HostBuild, store: Store, suffix: &'static str) -> Self {
        Self {
            build: build.clone(),
            store,
            suffix,
            rows: Vec::new(),
        }
    }
}

/// All that take part, the one that the others are compared with first.
fn contenders(options: &AllOptions) -> Result<Vec<Contender>> {
    let mut contenders = Vec::new();
    if let Some(folder) = &options.base {
        let base = HostBuild::in_folder(folder);
        contenders.push(Contender::new(&base, Store::Memory, ", base in memory"));
        contenders.push(Contender::new(&base, Store::Sqlite, ", base"));
    }
    let current = HostBuild::current(&options.countersign)?;
    contenders.push(Contender::new(&current, Store::Memory, ", in memory"));
    contenders.push(Contender::new(&current, Store::Sqlite, ""));
    Ok(contenders)
}

async fn round_trips_in_turns(options: &AllOptions, workers: usize) -> Result<Vec<Row>> {
    let duration = Duration::from_secs(options.seconds);
    let mut contenders = contenders(options)?;
    for _ in 0..options.rounds {
        for contender in &mut contenders {
            let host = MeasuredHost::start(contender.store, &contender.build).await?;
            let flush_ms = flush_p50_ms(host.home())?;
            let target = host.target()?;
            let mut row = approvals::round_trips(&target, workers, duration).await?;
            row.set(Metric::FlushP50Ms, flush_ms);
            contender.rows.push(row);
        }
    }
    Ok(compare(&contenders, RateMetric(Metric::RatePerS)))
}

async fn fan_out_in_turns(options: &AllOptions, subscribers: usize) -> Result<Vec<Row>> {
    let duration = Duration::from_secs(options.seconds);
    let mut contenders = contenders(options)?;
    for _ in 0..options.rounds {
        for contender in &mut contenders {
            let host = MeasuredHost::start(contender.store, &contender.build).await?;
            let row = broadcast::fan_out(&host.target()?, subscribers, duration).await?;
            contender.rows.push(row);
        }
    }
    Ok(compare(&contenders, RateMetric(Metric::DeliveriesPerS)))
}

fn compare(contenders: &[Contender], rate: RateMetric) -> Vec<Row> {
    let medians = contenders.iter().map(|contender| {
        let mut row = median_row(&contender.rows, rate);
        row.case += contender.suffix;
        row
    });
    compared_rows(medians.collect(), rate)
}

/// An empty log and one with a million resolved approvals in turn: a host should be as fast after years of use.
async fn million_resolved(options: &AllOptions) -> Result<Vec<Row>> {
    let duration = Duration::from_secs(options.seconds);
    let build = HostBuild::current(&options.countersign)?;
    let filled = MeasuredHost::start(Store::Sqlite, &build).await?;
    approvals::make_resolved(&filled.target()?, MILLION_APPROVALS).await?;
    let mut filled_home = filled.end()?;
    let database_bytes = folder_bytes(filled_home.path())?;
    let mut empty_rows = Vec::new();
    let mut full_rows = Vec::new();
    for _ in 0..options.rounds {
        let host = MeasuredHost::start(Store::Sqlite, &build).await?;
        empty_rows.push(approvals::round_trips(&host.target()?, MILLION_WORKERS, duration).await?);
        drop(host);
        let host = MeasuredHost::start_in(&build.countersign, filled_home).await?;
        let mut row = approvals::round_trips(&host.target()?, MILLION_WORKERS, duration).await?;
        row.set(Metric::StartMs, to_ms(host.started_in));
        full_rows.push(row);
        filled_home = host.end()?;
    }
    let rate = RateMetric(Metric::RatePerS);
    let mut empty = median_row(&empty_rows, rate);
    let mut full = median_row(&full_rows, rate);
    set_rate_ratio(&empty, &mut full, rate);
    let each = to_number(database_bytes) / to_number(MILLION_APPROVALS);
    full.set(Metric::DiskBytesEach, each);
    for row in [&mut empty, &mut full] {
        "million".clone_into(&mut row.scenario);
    }
    empty.case += ", empty log";
    full.case += ", a million resolved";
    Ok(vec![empty, full])
}

/// The bytes of the files directly in a folder: the database and its write-ahead log.
fn folder_bytes(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let metadata = entry?.metadata()?;
        bytes += if metadata.is_file() {
            metadata.len()
        } else {
            0
        };
    }
    Ok(bytes)
}

/// How long a host takes to be ready on a long log; the best of a few starts.
async fn start_up(options: &AllOptions) -> Result<Row> {
    let mut home = tempfile::tempdir()?;
    fill_log(&home.path().join("countersign.db"), START_UP_EVENTS)?;
    let mut best = Duration::MAX;
    for _ in 0..options.rounds {
        let host = MeasuredHost::start_in(&options.countersign, home).await?;
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

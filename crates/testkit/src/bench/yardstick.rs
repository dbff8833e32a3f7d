//! The whole measure of one build: against memory in the same run, and against its own figures.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use countersign_core::event::NotificationSent;
use countersign_core::{
    Caller, CommitChanges, CommittedEvent, Json, RecordedActor, Seq, Timestamp,
};
use countersign_daemon::EventLog as _;

use super::hosts::{Host, Store};
use super::report::{Metric, Row};
use super::{Target, fan_out, history, idle, round_trips, slow_reader};

/// What to measure and how long.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The built binary
    #[arg(long, default_value = "target/release/countersign")]
    pub countersign: PathBuf,
    /// Seconds that each row is measured, after a warm-up of one
    #[arg(long, default_value_t = 5)]
    pub seconds: u64,
    /// How often each store is measured in turn; the best of each counts
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Concurrent workers, one pair of rows each
    #[arg(long, value_delimiter = ',', default_value = "1,64,512")]
    pub workers: Vec<usize>,
    /// Workers that share a connection
    #[arg(long, default_value_t = 1)]
    pub per_connection: usize,
    /// Subscribers, one row each
    #[arg(long, value_delimiter = ',', default_value = "1,10,100")]
    pub subscribers: Vec<usize>,
    /// Approvals to resolve before memory and subscribing are measured
    #[arg(long, default_value_t = 100_000)]
    pub approvals: u64,
    /// Events in the log that the host is started on
    #[arg(long, default_value_t = 1_000_000)]
    pub events: u64,
}

/// Measures everything; `on_rows` gets the rows as they come.
pub async fn run(options: &Options, mut on_rows: impl FnMut(&[Row])) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    let mut keep = |rows: Vec<Row>| {
        on_rows(&rows);
        all.extend(rows);
    };
    keep(at_rest(options)?);
    for workers in &options.workers {
        keep(against_memory(options, *workers).await?);
    }
    let host = Host::start(Store::Sqlite, &options.countersign)?;
    let target = host.target()?;
    let duration = Duration::from_secs(options.seconds);
    let (window, lag_max) = (64, 1024);
    let load = fan_out::Options {
        subscribers: options.subscribers.clone(),
        producers: vec![1],
        window,
        lag_max,
        duration,
    };
    keep(fan_out::run(&target, &load).await?);
    let load = slow_reader::Options {
        subscribers: 10,
        producers: 1,
        window,
        lag_max,
        duration,
    };
    keep(slow_reader::run(&target, &load).await?);
    drop(host);
    let host = Host::start(Store::Sqlite, &options.countersign)?;
    keep(
        history::run(
            &host.target()?,
            &history::Options {
                approvals: options.approvals,
            },
        )
        .await?,
    );
    drop(host);
    keep(start_up(options)?);
    Ok(all)
}

/// Idle memory and the size of the binary.
fn at_rest(options: &Options) -> Result<Vec<Row>> {
    let host = Host::start(Store::Sqlite, &options.countersign)?;
    let mut rows = idle::run(&host.target()?)?;
    let bytes = std::fs::metadata(&options.countersign)?.len();
    if let Some(row) = rows.first_mut() {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a size in megabytes needs no more digits"
        )]
        row.set(Metric::BinaryMb, bytes as f64 / 1e6);
        row.set(Metric::StartMs, host.started_in.as_secs_f64() * 1000.0);
    }
    Ok(rows)
}

/// Both stores in turn, several times, so that a noisy moment hits neither alone.
async fn against_memory(options: &Options, workers: usize) -> Result<Vec<Row>> {
    let (mut memory, mut sqlite) = (None, None);
    for _ in 0..options.rounds.max(1) {
        for (store, best) in [(Store::Memory, &mut memory), (Store::Sqlite, &mut sqlite)] {
            let host = Host::start(store, &options.countersign)?;
            let row = one_round_trip(&host.target()?, options, workers).await?;
            better(best, row);
        }
    }
    let (mut memory, mut sqlite) = (
        memory.context("no round was run")?,
        sqlite.context("no round was run")?,
    );
    let ratio = rate(&sqlite) / rate(&memory);
    sqlite.set(Metric::RateRatio, ratio);
    memory.case = format!("{}, in memory", memory.case);
    Ok(vec![memory, sqlite])
}

async fn one_round_trip(target: &Target, options: &Options, workers: usize) -> Result<Row> {
    let load = round_trips::Options {
        workers: vec![workers],
        per_connection: options.per_connection,
        duration: Duration::from_secs(options.seconds),
    };
    let mut rows = round_trips::run(target, &load).await?;
    rows.pop().context("no row was measured")
}

fn better(best: &mut Option<Row>, row: Row) {
    if best.as_ref().is_none_or(|best| rate(best) < rate(&row)) {
        *best = Some(row);
    }
}

fn rate(row: &Row) -> f64 {
    row.metrics
        .get(&Metric::RatePerS)
        .copied()
        .unwrap_or_default()
}

/// How long a host takes to be ready on a long log; the best of a few starts.
fn start_up(options: &Options) -> Result<Vec<Row>> {
    let mut home = tempfile::tempdir()?;
    fill_log(&home.path().join("countersign.db"), options.events)?;
    let mut best = Duration::MAX;
    for _ in 0..options.rounds.max(1) {
        let host = Host::start_in(Store::Sqlite, &options.countersign, home)?;
        best = best.min(host.started_in);
        home = host.end()?;
    }
    let mut row = Row::new("start-up", format!("{} events", options.events));
    row.set(Metric::StartMs, best.as_secs_f64() * 1000.0);
    Ok(vec![row])
}

/// Writes a log of that many events, as a host would have.
fn fill_log(database: &Path, events: u64) -> Result<()> {
    let (mut log, _history) = countersign_store::open(database)?;
    let by = RecordedActor::from(&Caller::host());
    let mut seq = Seq(0);
    while seq.0 < events {
        let mut batch = Vec::with_capacity(1000);
        while batch.len() < 1000 && seq.0 < events {
            seq = seq.next();
            let event = NotificationSent {
                kind: "bench.tick".to_owned(),
                agent: None,
                message: "one of many".to_owned(),
                payload: Json::null(),
                by: by.clone(),
            };
            batch.push(CommittedEvent {
                seq,
                at: Timestamp(seq.0),
                event: event.into(),
                ask: None,
            });
        }
        log.append(&batch, &CommitChanges::default())?;
    }
    Ok(())
}

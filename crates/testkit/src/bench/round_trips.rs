//! Approval round trips at several concurrencies: rate, latency, CPU for each.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::approval_loop::{self, Budget, Load, Tally};
use super::client::Connection;
use super::measure::{CpuTimes, to_number};
use super::report::{Metric, Row, plural};
use super::{DRAIN_MAX, Target, WARM_UP};

#[derive(Debug, Clone)]
pub struct Options {
    /// One row each.
    pub workers: Vec<usize>,
    /// How many workers share a connection.
    pub per_connection: usize,
    /// What is measured, after a warm-up that is not.
    pub duration: Duration,
}

pub async fn run(target: &Target, options: &Options) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for workers in &options.workers {
        rows.push(measure(target, options, *workers).await?);
    }
    Ok(rows)
}

async fn measure(target: &Target, options: &Options, workers: usize) -> Result<Row> {
    let count = workers.div_ceil(options.per_connection.max(1));
    let connections = Connection::open_many(target, count).await?;
    let case = to_case(workers, connections.len());

    let from = Instant::now() + WARM_UP;
    let until = from + options.duration;
    let load = Load {
        budget: Budget::Until(until),
        counted: from..until,
        give_up_at: until + DRAIN_MAX,
    };
    let running = approval_loop::start(connections, workers, &load);
    tokio::time::sleep_until(from.into()).await;
    let before = CpuTimes::now(target)?;
    tokio::time::sleep_until(until.into()).await;
    let cpu = CpuTimes::now(target)?.since(before);
    let tally = approval_loop::finish(running).await;
    Ok(to_row(case, tally, cpu, options.duration))
}

fn to_case(workers: usize, connections: usize) -> String {
    let workers = plural(workers, "worker");
    let connections = plural(connections, "connection");
    format!("{workers}, {connections}")
}

fn to_row(case: String, mut tally: Tally, cpu: CpuTimes, duration: Duration) -> Row {
    let count = tally.latencies.count();
    let mut row = Row::new("round-trips", case);
    row.set(Metric::RatePerS, to_number(count) / duration.as_secs_f64());
    row.set_if_known(Metric::P50Ms, tally.latencies.percentile_ms(500));
    row.set_if_known(Metric::P99Ms, tally.latencies.percentile_ms(990));
    row.set_cpu(cpu, count);
    row.set_errors(&tally.errors);
    row
}

//! History: what many ended approvals cost the host in memory, and a new subscriber in time and bytes.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::Target;
use super::approval_loop::{self, Budget, Load};
use super::client::Connection;
use super::measure::to_number;
use super::report::{Metric, Row};

const WORKERS: usize = 256;
const CONNECTIONS: usize = 16;
const SUBSCRIBES: usize = 5;
/// Ends a run against a host that has stopped; a slow one makes 100 000 in well under it.
const FILL_MAX: Duration = Duration::from_mins(30);

#[derive(Debug, Clone)]
pub struct Options {
    /// How many approvals to ask for and resolve first.
    pub approvals: u64,
}

pub async fn run(target: &Target, options: &Options) -> Result<Vec<Row>> {
    let mut row = Row::new(
        "history",
        format!("{} resolved approvals", options.approvals),
    );
    fill(target, options.approvals, &mut row).await?;
    row.set_memory(target)?;
    measure_subscribe(target, &mut row).await?;
    Ok(vec![row])
}

async fn fill(target: &Target, approvals: u64, row: &mut Row) -> Result<()> {
    let connections = Connection::open_many(target, CONNECTIONS).await?;
    let began = Instant::now();
    let give_up_at = began + FILL_MAX;
    let load = Load {
        budget: Budget::Remaining(Arc::new(AtomicU64::new(approvals))),
        counted: began..give_up_at,
        give_up_at,
    };
    let running = approval_loop::start(connections, WORKERS, &load);
    let tally = approval_loop::finish(running).await;
    let rate = to_number(tally.latencies.count()) / began.elapsed().as_secs_f64();
    row.set(Metric::RatePerS, rate);
    row.set_errors(&tally.errors);
    Ok(())
}

/// The median of a few, each on a connection of its own.
async fn measure_subscribe(target: &Target, row: &mut Row) -> Result<()> {
    let mut times = Vec::with_capacity(SUBSCRIBES);
    let mut bytes = 0;
    for _ in 0..SUBSCRIBES {
        let reply = Connection::open(target).await?.subscribe().await?;
        times.push(reply.elapsed);
        bytes = reply.text.len();
    }
    times.sort_unstable();
    let median = times[SUBSCRIBES / 2];
    row.set(Metric::SubscribeMs, median.as_secs_f64() * 1000.0);
    row.set(
        Metric::SubscribeKb,
        to_number(u64::try_from(bytes)?) / 1000.0,
    );
    Ok(())
}

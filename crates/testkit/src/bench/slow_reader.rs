//! One subscriber that never reads: what it costs the others, what it costs the host, and what it gets once it reads.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};

use super::Target;
use super::broadcast::{self, Load, Outcome};
use super::client::Connection;
use super::measure::{Process, to_megabytes, to_number};
use super::report::{Metric, Row};
use super::tick::Seen;

const SCENARIO: &str = "slow-reader";
/// The kernel's smallest; the host's own send buffer then fills within a moment.
const STUCK_RECEIVE_BYTES: u32 = 4096;
const CATCH_UP_RECEIVE_BYTES: usize = 1 << 20;
const CATCH_UP_MAX: Duration = Duration::from_mins(1);

#[derive(Debug, Clone)]
pub struct Options {
    /// Subscribers that read, in both halves.
    pub subscribers: usize,
    pub producers: usize,
    /// Notifications in flight on each producer's connection.
    pub window: u64,
    /// How far producers may be ahead of the slowest subscriber that reads.
    pub lag_max: u64,
    pub duration: Duration,
}

pub async fn run(target: &Target, options: &Options) -> Result<Vec<Row>> {
    let load = Load {
        subscribers: options.subscribers,
        producers: options.producers,
        window: options.window,
        lag_max: options.lag_max,
        duration: options.duration,
    };
    let (alone, mut alone_row) = measure(target, load, "all read").await?;
    alone_row.set(Metric::RateRatio, 1.0);

    let mut stuck = Connection::open_with_receive_buffer(target, STUCK_RECEIVE_BYTES).await?;
    stuck.subscribe().await?;
    let (beside, mut beside_row) = measure(target, load, "one more never reads").await?;
    if alone.deliveries_per_s > 0.0 {
        let ratio = beside.deliveries_per_s / alone.deliveries_per_s;
        beside_row.set(Metric::RateRatio, ratio);
    }
    catch_up(stuck, &beside, &mut beside_row).await?;
    Ok(vec![alone_row, beside_row])
}

async fn measure(target: &Target, load: Load, case: &str) -> Result<(Outcome, Row)> {
    let before = target.server().map(Process::memory).transpose()?;
    let outcome = broadcast::measure(target, load).await?;
    let mut row = outcome.to_row(SCENARIO, case.to_owned());
    let before = before.map(|memory| to_megabytes(memory.resident_bytes));
    row.set_if_known(Metric::RssBeforeMb, before);
    row.set_memory(target)?;
    Ok((outcome, row))
}

/// Lets the stuck subscriber read and reports what it got of what the host had taken.
async fn catch_up(mut stuck: Connection, outcome: &Outcome, row: &mut Row) -> Result<()> {
    stuck.set_receive_buffer(CATCH_UP_RECEIVE_BYTES)?;
    let began = Instant::now();
    let expected = outcome.acknowledged.iter().sum();
    let mut seen = Seen::new(outcome.run, outcome.acknowledged.len());
    let reading = read_until(&mut stuck, &mut seen, expected);
    let ended = match tokio::time::timeout(CATCH_UP_MAX, reading).await {
        Ok(ended) => ended.context("the slow reader was cut off"),
        Err(_) => Err(anyhow!(
            "the slow reader had not caught up in {CATCH_UP_MAX:?}"
        )),
    };
    if let Err(error) = ended {
        row.notes.push(format!("{error:#}"));
    }
    row.set(Metric::LateReceived, to_number(seen.received()));
    row.set(
        Metric::LateLost,
        to_number(seen.lost(&outcome.acknowledged)),
    );
    row.set(Metric::LateRepeated, to_number(seen.repeated));
    row.set(Metric::LateOutOfOrder, to_number(seen.out_of_order));
    row.set(Metric::LateOvertaken, to_number(seen.overtaken));
    row.set(Metric::LateMs, began.elapsed().as_secs_f64() * 1000.0);
    Ok(())
}

async fn read_until(connection: &mut Connection, seen: &mut Seen, expected: u64) -> Result<()> {
    while seen.received() < expected {
        let text = connection.receive().await?;
        seen.observe(&text)?;
    }
    Ok(())
}

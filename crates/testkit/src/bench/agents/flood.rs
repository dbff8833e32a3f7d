//! A loud agent: what it costs the others, and what becomes of what it says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::json;

use super::crew::Crew;
use super::ledger::Ledger;
use super::{many, set_latency};
use crate::bench::flush::Flushes;
use crate::bench::measure::to_number;
use crate::bench::report::{Metric, Row};

/// How long the others are measured without it.
const QUIET: Duration = Duration::from_secs(3);
const LEDGER: &str = "asks-flood";
/// What the first agent streams.
const UPDATES: u64 = 50_000;
const UPDATE_BYTES: usize = 60;
/// The agents that ask meanwhile.
const ASKERS: std::ops::RangeInclusive<usize> = 1..=4;

/// The first agent streams, a few others ask all the time, before and meanwhile.
pub(super) async fn run(pause_us: u64, crew: &mut Crew, flushes: &Flushes) -> Result<Vec<Row>> {
    for asker in ASKERS {
        let asks = many(u64::MAX, LEDGER, pause_us);
        crew.one_does(asker, &asks).await?;
    }
    let (before, flushed) = (now()?, flushes.mark());
    tokio::time::sleep(QUIET).await;
    let (begin, flooded) = (now()?, flushes.mark());
    let quiet_flush_ms = flushes.p50_ms_since(flushed)?;
    let steps = json!([{ "updates": { "count": UPDATES, "bytes": UPDATE_BYTES } }]);
    let (_, rows_before) = crew.said(0).await?;
    crew.one_does(0, &steps).await?;
    crew.one_rests(0).await?;
    let end = now()?;
    let flood_flush_ms = flushes.p50_ms_since(flooded)?;
    for asker in ASKERS {
        crew.interrupt(asker).await?;
        crew.one_rests(asker).await?;
    }
    let mut answers = Ledger::default();
    for folder in crew.folders().skip(*ASKERS.start()).take(ASKERS.count()) {
        answers.read(&folder.join(LEDGER), None)?;
    }
    let (said, rows) = crew.said(0).await?;
    Ok(vec![
        latency("quiet", &answers.within(&(before..begin)), quiet_flush_ms),
        latency(
            "beside a flood",
            &answers.within(&(begin..end)),
            flood_flush_ms,
        ),
        transcript(&said, rows - rows_before, end.saturating_sub(begin)),
    ])
}

fn latency(case: &str, answers: &Ledger, flush_ms: f64) -> Row {
    let mut row = Row::new("agents, asks of others", case);
    set_latency(&mut row, answers, flush_ms);
    row
}

/// The transcript must be what was said, to the byte.
fn transcript(said: &str, rows: u64, spent: Duration) -> Row {
    let text = "x".repeat(UPDATE_BYTES);
    let lines = (0..UPDATES).map(|number| format!("{number} {text}\n"));
    let is_whole = said.ends_with(&lines.collect::<String>());
    let mut row = Row::new("agents, flood", format!("{UPDATES} updates"));
    row.set(
        Metric::UpdatesPerS,
        to_number(UPDATES) / spent.as_secs_f64(),
    );
    row.set_count(Metric::Rows, rows);
    row.set_count(Metric::Lost, u64::from(!is_whole));
    if !is_whole {
        let note = "the transcript is not what was said".to_owned();
        row.notes.push(note);
    }
    row
}

fn now() -> Result<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.context("the clock stands before 1970")
}

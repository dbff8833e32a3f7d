//! A loud agent: what it costs the others, and what becomes of what it says.

use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::crew::Crew;
use super::flush::Flushes;
use super::ledger::Ledger;
use super::{Options, many, set_latency};
use crate::bench::measure::to_number;
use crate::bench::report::{Metric, Row};

/// How long the others are measured without it.
const QUIET: Duration = Duration::from_secs(3);
const LEDGER: &str = "asks-flood";

/// The first agent streams, a few others ask all the time, before and meanwhile.
pub(super) async fn run(options: &Options, crew: &mut Crew, flushes: &Flushes) -> Result<Vec<Row>> {
    let askers = 1..crew.len().min(5);
    ensure!(!askers.is_empty(), "nobody is left to ask");
    let pause = options.pause_ms * 1000;
    for asker in askers.clone() {
        crew.one_does(asker, &many(u64::MAX, LEDGER, pause)).await?;
    }
    let (before, flushed) = (now()?, flushes.mark());
    tokio::time::sleep(QUIET).await;
    let (begin, flooded) = (now()?, flushes.mark());
    let quiet_flush = flushes.since(flushed).p50_ms()?;
    let steps = json!([{ "updates": { "count": options.updates, "bytes": options.update_bytes } }]);
    let (_, rows_before) = crew.said(0).await?;
    crew.one_does(0, &steps).await?;
    crew.one_rests(0).await?;
    let end = now()?;
    let flood_flush = flushes.since(flooded).p50_ms()?;
    for asker in askers.clone() {
        crew.interrupt(asker).await?;
        crew.one_rests(asker).await?;
    }
    let mut answers = Ledger::default();
    for folder in crew.folders().skip(1).take(askers.len()) {
        answers.read(&folder.join(LEDGER), None)?;
    }
    let mut rows = vec![
        latency("quiet", &answers, before..begin, quiet_flush),
        latency("beside a flood", &answers, begin..end, flood_flush),
    ];
    rows.push(story(options, crew, rows_before, end.saturating_sub(begin)).await?);
    Ok(rows)
}

fn latency(case: &str, answers: &Ledger, time: Range<Duration>, flush_ms: f64) -> Row {
    let mut row = Row::new("agents, asks of others", case);
    let mut some = answers.within(&time);
    some.repeated = answers.repeated;
    set_latency(&mut row, &mut some, flush_ms);
    row
}

/// The transcript must be what was said, to the byte.
async fn story(
    options: &Options,
    crew: &mut Crew,
    rows_before: u64,
    spent: Duration,
) -> Result<Row> {
    let (said, rows) = crew.said(0).await?;
    let text = "x".repeat(options.update_bytes);
    let lines = (0..options.updates).map(|number| format!("{number} {text}\n"));
    let expected: String = lines.collect();
    let is_whole = said.ends_with(&expected);
    let updates = to_number(options.updates);
    let mut row = Row::new("agents, flood", format!("{} updates", options.updates));
    row.set(Metric::UpdatesPerS, updates / spent.as_secs_f64());
    row.set(Metric::Rows, to_number(rows - rows_before));
    row.set(Metric::Lost, if is_whole { 0.0 } else { 1.0 });
    if !is_whole {
        row.notes
            .push("the transcript is not what was said".to_owned());
    }
    Ok(row)
}

fn now() -> Result<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.context("the clock stands before 1970")
}

//! Managed agents under load: what an ask that rules settle costs the agent, what an agent costs the
//! host, and what a loud agent costs the others.
//!
//! Agents are scripted, real processes that measure by themselves: from the request in the pipe to the
//! answer read. Beside them the disk is measured in the same folder all the time, since an answer
//! waits for one flush: figures of one run are compared, never two runs.

mod crew;
mod flood;
mod hop;
mod ledger;
mod runners;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

use super::Target;
use super::flush::Flushes;
use super::hosts::MeasuredHost;
use super::measure::{to_megabytes, to_ms, to_number};
use super::report::{Metric, Report, Row, plural};

use crew::Crew;
pub use hop::{ask_lines, hop};
use ledger::Ledger;

/// What to measure and how much of it.
#[derive(Debug, Clone, Args)]
pub struct AgentsOptions {
    /// The built binary
    #[arg(long, default_value = "target/release/countersign")]
    pub countersign: PathBuf,
    /// Asks of each agent
    #[arg(long, default_value_t = 300)]
    pub asks: u64,
    /// Milliseconds for which an agent does something else between two asks, about
    #[arg(long, default_value_t = 50)]
    pub pause_ms: u64,
}

const AGENTS: usize = 20;
/// What the rules of the measured host allow.
const RULES: &str = "allow = [\"Bash(git status:*)\"]\n";
/// The first agent asks at least so often, so that what the host keeps of its newest history is kept
/// before the memory of more agents is measured.
const ASKS_ALONE: u64 = 2_000;
/// What agents ask about.
const COMMAND: &str = "git status --short src/{n}";

/// Measures everything.
pub async fn run(options: &AgentsOptions) -> Result<Report> {
    let home = tempfile::tempdir()?;
    std::fs::write(home.path().join("rules.toml"), RULES)?;
    let place = home.path().to_owned();
    let flushes = Flushes::begin(&place)?;
    let host = MeasuredHost::start_in(&options.countersign, home).await?;
    let target = host.target()?;
    let mut report = Report::default();
    let mut crew = Crew::begin(&target, &options.countersign).await?;
    crew.hire(1).await?;
    let alone = options.asks.max(ASKS_ALONE);
    report.add(vec![asks(alone, 0, &mut crew, &flushes).await?]);
    let before = resident(&target)?;
    crew.hire(AGENTS - 1).await?;
    let hired = vec![
        memory(&target, "hired", before)?,
        runners::largest(&place, "hired")?,
    ];
    for pause_us in [options.pause_ms * 1000, 0] {
        report.add(vec![
            asks(options.asks, pause_us, &mut crew, &flushes).await?,
        ]);
    }
    report.add(hired);
    report.add(vec![
        memory(&target, "having asked", before)?,
        runners::largest(&place, "having asked")?,
    ]);
    report.add(flood::run(options.pause_ms * 1000, &mut crew, &flushes).await?);
    report.add(vec![
        runners::held_back(&place, &target, &mut crew).await?,
        runners::largest(&place, "after that")?,
    ]);
    crew.leave().await?;
    report.rows.extend(hop(&options.countersign).await?.rows);
    Ok(report)
}

/// All agents ask so often, and pause so long after each answer.
async fn asks(count: u64, pause_us: u64, crew: &mut Crew, flushes: &Flushes) -> Result<Row> {
    let ledger = format!("asks-{}-{pause_us}", crew.len());
    let flushed = flushes.mark();
    crew.all_do(&many(count, &ledger, pause_us)).await?;
    crew.rest().await?;
    let flush_ms = flushes.p50_ms_since(flushed)?;
    let mut answers = Ledger::default();
    for folder in crew.folders() {
        answers.read(&folder.join(&ledger), Some(count))?;
    }
    let how = if pause_us == 0 {
        "one after the other".to_owned()
    } else {
        format!("about {} ms between", pause_us / 1000)
    };
    let mut row = Row::new("agents", format!("{}, {how}", plural(crew.len(), "agent")));
    row.set(Metric::RatePerS, answers.rate_per_s());
    set_latency(&mut row, &answers, flush_ms);
    Ok(row)
}

fn set_latency(row: &mut Row, answers: &Ledger, flush_ms: f64) {
    let latencies = answers.latencies();
    row.set_latencies_ms(&latencies);
    row.set(Metric::FlushP50Ms, flush_ms);
    if let Some(p50) = latencies.quantile(0.5) {
        row.set(Metric::OverFlushMs, to_ms(p50) - flush_ms);
    }
    row.set_count(Metric::Asks, latencies.count());
    row.set_count(Metric::Lost, answers.lost);
    row.set_count(Metric::Repeated, answers.repeated);
}

fn many(count: u64, ledger: &str, pause_us: u64) -> Value {
    json!([{ "ask_many": {
        "count": count, "command": COMMAND, "ledger": ledger, "pause_us": pause_us,
    } }])
}

fn resident(target: &Target) -> Result<u64> {
    let server = target.server().context("the host's process is known")?;
    Ok(server.memory()?.resident_bytes)
}

fn memory(target: &Target, when: &str, before: u64) -> Result<Row> {
    let after = resident(target)?;
    let case = format!("{}, {when}", plural(AGENTS - 1, "more agent"));
    let mut row = Row::new("agents, memory", case);
    row.set(Metric::RssBeforeMb, to_megabytes(before));
    row.set(Metric::RssMb, to_megabytes(after));
    let added = to_megabytes(after.saturating_sub(before));
    row.set(Metric::RssEachMb, added / to_number(AGENTS as u64 - 1));
    Ok(row)
}

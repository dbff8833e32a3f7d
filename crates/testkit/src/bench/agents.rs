//! Managed agents under load: what an ask that rules settle costs the agent, what an agent costs the
//! host, and what a loud agent costs the others.
//!
//! Agents are scripted, real processes that measure by themselves: from the request in the pipe to the
//! answer read. Beside them the disk is measured in the same folder all the time, since an answer
//! waits for one flush: figures of one run are compared, never two runs.

mod crew;
mod flood;
mod flush;
mod hop;
mod ledger;
mod runners;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::Target;
use super::hosts::{Host, Store};
use super::measure::to_number;
use super::report::{Metric, Row, plural};

use crew::Crew;
use flush::Flushes;
pub use hop::{ask_lines, hop};
use ledger::Ledger;

/// What to measure and how much of it.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The built binary
    #[arg(long, default_value = "target/release/countersign")]
    pub countersign: PathBuf,
    /// Agents at once
    #[arg(long, default_value_t = 20)]
    pub agents: usize,
    /// Asks of each
    #[arg(long, default_value_t = 300)]
    pub asks: u64,
    /// Milliseconds for which an agent does something else between two asks, about
    #[arg(long, default_value_t = 50)]
    pub pause_ms: u64,
    /// Updates that one agent streams
    #[arg(long, default_value_t = 50_000)]
    pub updates: u64,
    /// The length of each
    #[arg(long, default_value_t = 60)]
    pub update_bytes: usize,
}

/// What the rules of the measured host allow.
const RULES: &str = "allow = [\"Bash(git status:*)\"]\n";
/// The first agent asks at least so often, so that what the host keeps of its newest history is kept
/// before the memory of more agents is measured.
const ASKS_ALONE: u64 = 2_000;
/// What agents ask about.
const COMMAND: &str = "git status --short src/{n}";

/// Measures everything; `on_rows` gets the rows as they come.
pub async fn run(options: &Options, mut on_rows: impl FnMut(&[Row])) -> Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    std::fs::write(home.path().join("rules.toml"), RULES)?;
    let place = home.path().to_owned();
    let flushes = Flushes::begin(&place)?;
    let host = Host::start_in(Store::Sqlite, &options.countersign, home)?;
    let target = host.target()?;
    let mut all = Vec::new();
    let mut keep = |rows: Vec<Row>| {
        on_rows(&rows);
        all.extend(rows);
    };
    let mut crew = Crew::begin(&target, &options.countersign).await?;
    crew.hire(1).await?;
    let alone = Options {
        asks: options.asks.max(ASKS_ALONE),
        ..options.clone()
    };
    keep(vec![asks(&alone, &mut crew, &flushes, 0).await?]);
    let before = resident(&target)?;
    let more = options.agents.saturating_sub(1);
    crew.hire(more).await?;
    let hired = [
        memory(&target, "hired", before, more)?,
        runners::largest(&place, "hired")?,
    ];
    let pause = options.pause_ms * 1000;
    for pause in [pause, 0] {
        keep(vec![asks(options, &mut crew, &flushes, pause).await?]);
    }
    keep(hired.into());
    keep(vec![
        memory(&target, "having asked", before, more)?,
        runners::largest(&place, "having asked")?,
    ]);
    keep(flood::run(options, &mut crew, &flushes).await?);
    keep(vec![
        runners::held_back(&place, &target, &mut crew).await?,
        runners::largest(&place, "after that")?,
    ]);
    crew.leave().await?;
    keep(hop(&options.countersign).await?);
    Ok(all)
}

/// All agents ask so often, and rest so long after each answer.
async fn asks(options: &Options, crew: &mut Crew, flushes: &Flushes, pause_us: u64) -> Result<Row> {
    let ledger = format!("asks-{}-{pause_us}", crew.len());
    let flushed = flushes.mark();
    crew.all_do(&many(options.asks, &ledger, pause_us)).await?;
    crew.rest().await?;
    let flush = flushes.since(flushed).p50_ms()?;
    let mut answers = Ledger::default();
    for folder in crew.folders() {
        answers.read(&folder.join(&ledger), Some(options.asks))?;
    }
    let how = if pause_us == 0 {
        "one after the other".to_owned()
    } else {
        format!("about {} ms between", pause_us / 1000)
    };
    let mut row = Row::new("agents", format!("{}, {how}", plural(crew.len(), "agent")));
    row.set(Metric::RatePerS, answers.rate_per_s());
    set_latency(&mut row, &mut answers, flush);
    Ok(row)
}

fn set_latency(row: &mut Row, answers: &mut Ledger, flush_ms: f64) {
    let p50 = answers.latencies.percentile_ms(500);
    row.set_if_known(Metric::P50Ms, p50);
    row.set_if_known(Metric::P99Ms, answers.latencies.percentile_ms(990));
    row.set(Metric::FlushP50Ms, flush_ms);
    row.set_if_known(Metric::OverFlushMs, p50.map(|p50| p50 - flush_ms));
    row.set(Metric::Asks, to_number(answers.allowed));
    row.set(Metric::Lost, to_number(answers.lost));
    row.set(Metric::Repeated, to_number(answers.repeated));
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

fn memory(target: &Target, when: &str, before: u64, agents: usize) -> Result<Row> {
    ensure!(agents > 0, "there are no agents");
    let megabytes = |bytes| super::measure::to_megabytes(bytes);
    let after = resident(target)?;
    let mut row = Row::new(
        "agents, memory",
        format!("{}, {when}", plural(agents, "more agent")),
    );
    row.set(Metric::RssBeforeMb, megabytes(before));
    row.set(Metric::RssMb, megabytes(after));
    let each = megabytes(after.saturating_sub(before)) / to_number(agents as u64);
    row.set(Metric::RssEachMb, each);
    Ok(row)
}

/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(5);

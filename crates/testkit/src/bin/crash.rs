//! Kills a host under load some hundreds of times, and says whether anything was lost.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use clap::Parser;
use countersign_testkit::crash::{Mode, Plan, Progress, run};

#[derive(Debug, Parser)]
#[command(
    name = "crash",
    about = "Kill a host under load and check that nothing is lost"
)]
struct Cli {
    /// How many hosts to kill
    #[arg(long, default_value_t = 200)]
    kills: usize,
    /// Where to kill them
    #[arg(long, value_enum, default_value_t = Mode::Both)]
    mode: Mode,
    /// Make the choices of an earlier run again
    #[arg(long)]
    seed: Option<u64>,
    /// The binary to kill, built with debug assertions [default: beside this one]
    #[arg(long)]
    countersign: Option<PathBuf>,
}

#[expect(clippy::print_stderr, reason = "a failed run says why")]
fn main() -> ExitCode {
    match kill(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the table is what this binary is for")]
fn kill(cli: Cli) -> Result<()> {
    let plan = Plan {
        countersign: cli.countersign.map_or_else(beside_this, Ok)?,
        kills: cli.kills,
        mode: cli.mode,
        seed: cli.seed.map_or_else(seed_from_clock, Ok)?,
    };
    println!("{} kills with seed {}", plan.kills, plan.seed);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let summary = runtime.block_on(Box::pin(run(&plan, print_progress)))?;
    print!("\n{summary}");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a long run shows that it goes on")]
fn print_progress(progress: &Progress) {
    if progress.kills.is_multiple_of(10) {
        println!(
            "{:>5} kills, {:>6} asks, {:>6} answers, {:>7} events; {}",
            progress.kills, progress.asked, progress.answered, progress.events, progress.last
        );
    }
}

fn beside_this() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("countersign"))
}

fn seed_from_clock() -> Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.context("the clock stands before 1970")?;
    Ok(u64::from(now.subsec_nanos()))
}

//! `bench`: puts load on a host and prints what it measured; compares two such reports.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use countersign_testkit::bench::report::Report;
use countersign_testkit::bench::suite::{AllOptions, Scenario, run, run_all};
use countersign_testkit::bench::{
    Target, agents, editor, hook, sandbox, serve_from_memory, tui, verdicts,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(name = "bench", about = "A load client for hosts")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios against a server
    Run(RunArgs),
    /// Measure this build: against memory in the same run, fan-out, a slow reader, memory, start-up
    All {
        /// Write the report there as JSON
        #[arg(long)]
        json: Option<PathBuf>,
        #[command(flatten)]
        options: AllOptions,
    },
    /// Measure managed agents: asks that rules settle, memory of each, and a flood beside them
    Agents {
        /// Write the report there as JSON
        #[arg(long)]
        json: Option<PathBuf>,
        #[command(flatten)]
        options: agents::AgentsOptions,
    },
    /// Measure verdicts with 500 and with 5,000 rules
    Verdicts,
    /// Serve from memory until ended, to compare with
    #[command(hide = true)]
    ServeMemory { home: PathBuf, listen: SocketAddr },
    /// Measure the hop through a runner alone, and what memory a runner takes
    Hop {
        /// The built binary
        #[arg(long, default_value = "target/release/countersign")]
        countersign: PathBuf,
    },
    /// Measure a hook from its start to a verdict of the rules
    Hook {
        /// The built binary
        #[arg(long, default_value = "target/release/countersign")]
        countersign: PathBuf,
    },
    /// Measure `countersign acp`: its start, how soon an editor has updates and asks, and its memory
    Editor {
        /// The built binary
        #[arg(long, default_value = "target/release/countersign")]
        countersign: PathBuf,
        /// Write the report there as JSON
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// Measure the terminal UI in a pseudo-terminal: start, keys, memory, idling, long transcripts, a flood
    Tui {
        /// The built binary
        #[arg(long, default_value = "target/release/countersign")]
        countersign: PathBuf,
        /// Write the report there as JSON
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// Measure what a sandbox costs, beside the same without
    Sandbox {
        /// Write the report there as JSON
        #[arg(long)]
        json: Option<PathBuf>,
        #[command(flatten)]
        options: sandbox::SandboxOptions,
    },
    /// Measure from inside a sandbox: the agent of `sandbox` runs it
    #[command(hide = true)]
    SandboxInner {
        #[command(subcommand)]
        what: sandbox::InnerMeasurement,
    },
    /// Ask, and note how long each answer took: the agent of `hop`
    #[command(hide = true)]
    AskLines { noted: PathBuf },
    /// Print the ratios of the second report to the first
    Compare { base: PathBuf, other: PathBuf },
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The server, such as `ws://127.0.0.1:9100/`
    #[arg(long)]
    url: String,
    /// An operator's token, sent by `session.auth`
    #[arg(long)]
    token: Option<String>,
    /// The server's process, for its CPU time and memory
    #[arg(long)]
    server_pid: Option<u32>,
    /// Write the report there as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    /// Scenarios to run, separated by commas; all by default, but `idle` only when the server's process is known
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<Scenario>,
    /// Seconds that each row is measured, after a warm-up of one
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
}

#[expect(clippy::print_stderr, reason = "a failed run says why")]
fn main() -> ExitCode {
    match measure(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "the table is what this binary is for")]
fn measure(command: Command) -> Result<()> {
    let (report, json) = match command {
        Command::Run(args) => {
            let target = Target {
                url: args.url,
                token: args.token,
                server_pid: args.server_pid,
            };
            let running = Box::pin(run(&target, &args.scenario, args.seconds));
            (runtime(2)?.block_on(running)?, args.json)
        }
        Command::All { json, options } => {
            let mut report = runtime(2)?.block_on(Box::pin(run_all(&options)))?;
            verdicts::run(&mut report)?;
            (report, json)
        }
        Command::Agents { json, options } => {
            let running = Box::pin(agents::run(&options));
            (runtime(1)?.block_on(running)?, json)
        }
        Command::Verdicts => {
            let mut report = Report::default();
            verdicts::run(&mut report)?;
            (report, None)
        }
        Command::Hop { countersign } => (runtime(1)?.block_on(agents::hop(&countersign))?, None),
        Command::Editor { countersign, json } => {
            (runtime(2)?.block_on(editor::run(&countersign))?, json)
        }
        Command::Hook { countersign } => (runtime(1)?.block_on(hook::run(&countersign))?, None),
        Command::Sandbox { json, options } => {
            let running = Box::pin(sandbox::run(&options));
            (runtime(1)?.block_on(running)?, json)
        }
        Command::Tui { countersign, json } => {
            let running = Box::pin(tui::run(&countersign));
            (runtime(2)?.block_on(running)?, json)
        }
        Command::SandboxInner { what } => return sandbox::measure_inside(&what),
        Command::ServeMemory { home, listen } => {
            return runtime(2)?.block_on(serve_from_memory(&home, listen));
        }
        Command::AskLines { noted } => return agents::ask_lines(&noted),
        Command::Compare { base, other } => {
            let table = Report::load(&base)?.compare(&Report::load(&other)?);
            let (base, other) = (base.display(), other.display());
            println!("`{other}` over `{base}`\n\n{table}");
            return Ok(());
        }
    };
    json.map_or(Ok(()), |path| report.save(&path))
}

fn runtime(threads: usize) -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(threads).enable_all().build()?)
}

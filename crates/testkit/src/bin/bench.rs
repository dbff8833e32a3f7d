//! `bench`: puts load on a host by its URL and prints what it measured; compares two such reports.

#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use countersign_testkit::bench::report::{Report, Row, to_table};
use countersign_testkit::bench::suite::{self, SuiteOptions};
use countersign_testkit::bench::{Target, agents, hook, hosts, verdicts, yardstick};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, Parser)]
#[command(name = "bench", about = "A load client for host-wire servers")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios against a server
    Run(RunArgs),
    /// Measure this build: against memory in the same run, fan-out, a slow reader, memory, start-up
    All(AllArgs),
    /// Measure managed agents: asks that rules settle, memory of each, and a flood beside them
    Agents(AgentsArgs),
    /// Measure verdicts with 500 and with 5,000 rules
    Verdicts,
    /// Serve from memory until ended: the yardstick
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
    /// What the report calls this server; its URL by default
    #[arg(long)]
    label: Option<String>,
    /// Threads of this client
    #[arg(long, default_value_t = 2)]
    threads: usize,
    #[command(flatten)]
    suite: SuiteOptions,
}

#[derive(Debug, Args)]
struct AllArgs {
    /// Write the report there as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    yardstick: yardstick::Options,
}

#[derive(Debug, Args)]
struct AgentsArgs {
    /// Write the report there as JSON
    #[arg(long)]
    json: Option<PathBuf>,
    #[command(flatten)]
    agents: agents::Options,
}

#[expect(clippy::print_stderr, reason = "a failed run says why")]
fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Run(args) => load(args),
        Command::All(args) => measure_all(args),
        Command::Agents(args) => measure_agents(args),
        Command::Hop { countersign } => {
            print_rows(&runtime(1)?.block_on(agents::hop(&countersign))?);
            Ok(())
        }
        Command::Hook { countersign } => {
            print_rows(&runtime(1)?.block_on(hook::run(&countersign))?);
            Ok(())
        }
        Command::AskLines { noted } => agents::ask_lines(&noted),
        Command::Verdicts => {
            print_rows(&verdicts::run()?);
            Ok(())
        }
        Command::ServeMemory { home, listen } => {
            runtime(2)?.block_on(hosts::serve_from_memory(&home, listen))
        }
        Command::Compare { base, other } => {
            let table = Report::load(&base)?.compare(&Report::load(&other)?);
            print(&table);
            Ok(())
        }
    }
}

fn runtime(threads: usize) -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder
        .worker_threads(threads.max(1))
        .enable_all()
        .build()?)
}

fn measure_all(args: AllArgs) -> Result<()> {
    let mut rows = runtime(2)?.block_on(Box::pin(yardstick::run(&args.yardstick, print_rows)))?;
    let verdicts = verdicts::run()?;
    print_rows(&verdicts);
    rows.extend(verdicts);
    let report = Report {
        label: "countersign".to_owned(),
        rows,
    };
    args.json.map_or(Ok(()), |path| report.save(&path))
}

fn measure_agents(args: AgentsArgs) -> Result<()> {
    let rows = runtime(1)?.block_on(Box::pin(agents::run(&args.agents, print_rows)))?;
    let report = Report {
        label: "countersign".to_owned(),
        rows,
    };
    args.json.map_or(Ok(()), |path| report.save(&path))
}

fn load(args: RunArgs) -> Result<()> {
    let runtime = runtime(args.threads)?;
    let target = Target {
        url: args.url.clone(),
        token: args.token,
        server_pid: args.server_pid,
    };
    let rows = runtime.block_on(Box::pin(suite::run(&target, &args.suite, print_rows)))?;
    let report = Report {
        label: args.label.unwrap_or(args.url),
        rows,
    };
    args.json.map_or(Ok(()), |path| report.save(&path))
}

fn print_rows(rows: &[Row]) {
    print(&format!("{}\n", to_table(rows)));
}

#[expect(clippy::print_stdout, reason = "the table is what this binary is for")]
fn print(text: &str) {
    print!("{text}");
}

//! `bench`: puts load on a host by its URL and prints what it measured; compares two such reports.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use countersign_testkit::bench::Target;
use countersign_testkit::bench::report::{Report, Row, to_table};
use countersign_testkit::bench::suite::{self, SuiteOptions};

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
        Command::Compare { base, other } => {
            let table = Report::load(&base)?.compare(&Report::load(&other)?);
            print(&table);
            Ok(())
        }
    }
}

fn load(args: RunArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(args.threads.max(1))
        .enable_all()
        .build()?;
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

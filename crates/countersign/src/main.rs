//! Countersign: one inbox between AI agents and the machine they work on.
#![forbid(unsafe_code)]

mod acp;
mod audit;
mod cli;
mod client;
mod completion;
mod config;
mod demo;
mod duration;
mod error;
mod exit;
mod hook;
mod host;
mod http_client;
mod man_pages;
mod mcp;
mod notes;
mod output;
mod paths;
mod random_id;
mod reconnect;
mod rule_files;
mod screen;
mod tui;
mod watch;

use std::process::ExitCode;

use countersign_sandbox::ConfineStage;
#[cfg(test)]
use countersign_tui::test_rows;
use countersign_tui::{fit, render};
use tokio::runtime::Builder;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // There is one for each agent, so it is not to hold the whole command line in memory.
    if let Some(args) = cli::runner::arguments(std::env::args_os().skip(1)) {
        return run(
            &mut Builder::new_current_thread(),
            cli::runner::runner(args),
            ErrorFormat::Text,
        );
    }
    if let Some(folder) = cli::runner::terminal_folder(std::env::args_os().skip(1)) {
        return run(
            &mut Builder::new_current_thread(),
            cli::runner::terminal_runner(folder),
            ErrorFormat::Text,
        );
    }
    // What every confined program waits for, and what runs inside a sandbox.
    if let Some(stage) = ConfineStage::read_arguments(std::env::args_os().skip(1)) {
        return cli::confine::confine(stage);
    }
    // Whoever started a host may have had files open, and agents and terminals outlive it: none of them is to hold
    // these open, or to read and write them. Kernels that cannot do this leave it as it was.
    drop(countersign_sandbox::close_inherited_on_exec());
    // Agents start a bridge per session and wait for it. It blocks in threads, so it needs no runtime.
    if let Some(args) = mcp::arguments(std::env::args_os().skip(1)) {
        return finish(mcp::mcp(args), ErrorFormat::Text);
    }
    // Editors start one for each window and wait for its first answer.
    if let Some(args) = acp::arguments(std::env::args_os().skip(1)) {
        let common = cli::CommonArgs::default();
        return run(
            &mut Builder::new_current_thread(),
            acp::acp(&common, args),
            ErrorFormat::Text,
        );
    }
    // An agent waits for each of these before each of its steps.
    if let Some(args) = hook::arguments(std::env::args_os().skip(1)) {
        return hook::run(&args);
    }
    match completion::complete(cli::arranged_command) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => return refuse_arguments(&error),
    }
    match cli::Cli::read_arguments() {
        // Only a host has work for several threads; a command that asks one question starts faster on
        // one.
        Ok(cli) => {
            let mut runtime = if cli.needs_threads() {
                Builder::new_multi_thread()
            } else {
                Builder::new_current_thread()
            };
            let format = ErrorFormat::of(cli.common.json);
            run(&mut runtime, cli.run(), format)
        }
        Err(error) => refuse_arguments(&error),
    }
}

/// How an error is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ErrorFormat {
    Text,
    Json,
}

impl ErrorFormat {
    fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// A command line that was not understood, or a request for help, which is no error.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|word| word == "--json");
    if error.use_stderr() && wants_json {
        let text = error.to_string();
        let first = text.split("\n\n").next().unwrap_or_default();
        let message = first.strip_prefix("error: ").unwrap_or(first);
        let usage = error::CliError::usage(message).with_hint("see `countersign help`");
        return finish(Err(usage), ErrorFormat::Json);
    }
    error.print().ok();
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn run(
    runtime: &mut Builder,
    command: impl Future<Output = Result<exit::CliExit, error::CliError>>,
    format: ErrorFormat,
) -> ExitCode {
    let outcome = runtime
        .enable_all()
        .build()
        .map_err(|source| error::CliError::io("could not start", source))
        .and_then(|runtime| {
            let outcome = runtime.block_on(command);
            // A read of stdin cannot be interrupted; it must not hold the exit either.
            runtime.shutdown_background();
            outcome
        });
    finish(outcome, format)
}

fn finish(outcome: Result<exit::CliExit, error::CliError>, format: ErrorFormat) -> ExitCode {
    match outcome {
        Ok(exit) => exit.into(),
        // `countersign events | head` is complete when its reader has seen enough: a success, and
        // nothing to print.
        Err(error::CliError::OutputClosed) => exit::CliExit::Ok.into(),
        Err(error) => {
            match format {
                ErrorFormat::Text => output::print_message(error.report().trim_end()),
                ErrorFormat::Json => {
                    output::print_message(serde_json::json!({ "error": error.document() }));
                }
            }
            error.exit().into()
        }
    }
}

//! Countersign: one inbox between AI agents and the machine they work on.
#![forbid(unsafe_code)]

mod audit;
mod cli;
mod client;
mod config;
mod demo;
mod describe;
mod duration;
mod edits;
mod exit;
mod failure;
mod host;
mod json_text;
mod nonce;
mod output;
mod paths;
mod rule_files;
mod rules_text;
#[cfg(test)]
mod sample;
mod shown;
mod watch;

use std::process::ExitCode;

use clap::Parser as _;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match cli::Cli::try_parse() {
        Ok(cli) => run(cli),
        Err(error) => {
            error.print().ok();
            u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}

fn run(cli: cli::Cli) -> ExitCode {
    let mut builder = if cli.command.needs_threads() {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let outcome = builder
        .enable_all()
        .build()
        .map_err(|source| failure::CliError::io("could not start", source))
        .and_then(|runtime| {
            let outcome = runtime.block_on(cli.run());
            // A read of stdin cannot be interrupted; it must not hold the exit either.
            runtime.shutdown_background();
            outcome
        });
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure::CliError::OutputClosed) => exit::Exit::Ok.into(),
        Err(error) => {
            output::say(error.report().trim_end());
            error.exit().into()
        }
    }
}

//! Countersign: one inbox between AI agents and the machine they work on.
#![forbid(unsafe_code)]

mod audit;
mod cli;
mod client;
mod config;
mod demo;
mod duration;
mod error;
mod exit;
mod hook;
mod host;
mod mcp;
mod output;
mod paths;
mod random_id;
mod reconnect;
mod render;
mod rule_files;
#[cfg(test)]
mod test_rows;
mod watch;

use std::process::ExitCode;

use tokio::runtime::Builder;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // There is one for each agent, so it is not to hold the whole command line in memory.
    if let Some(args) = cli::runner::arguments(std::env::args_os().skip(1)) {
        return run(
            &mut Builder::new_current_thread(),
            cli::runner::runner(args),
        );
    }
    if let Some(args) = mcp::arguments(std::env::args_os().skip(1)) {
        return finish(mcp::mcp(args));
    }
    // An agent waits for each of these before each of its steps.
    if let Some(args) = hook::arguments(std::env::args_os().skip(1)) {
        return hook::run(&args);
    }
    match cli::Cli::read_arguments() {
        Ok(cli) if cli.command.needs_threads() => run(&mut Builder::new_multi_thread(), cli.run()),
        Ok(cli) => run(&mut Builder::new_current_thread(), cli.run()),
        Err(error) => {
            error.print().ok();
            u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}

fn run(
    runtime: &mut Builder,
    command: impl Future<Output = Result<exit::CliExit, error::CliError>>,
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
    finish(outcome)
}

fn finish(outcome: Result<exit::CliExit, error::CliError>) -> ExitCode {
    match outcome {
        Ok(exit) => exit.into(),
        Err(error::CliError::OutputClosed) => exit::CliExit::Ok.into(),
        Err(error) => {
            output::print_message(error.report().trim_end());
            error.exit().into()
        }
    }
}

//! `runner`: what stands between the host and one agent. Started by the host, never by a person.
//!
//! Invariant: a runner is small. Nothing is built for it that it does not use: neither the command
//! line as a whole, nor a configuration, nor a client.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use countersign_agents::own_terminal::RUNNER_COMMAND;

use crate::error::CliError;
use crate::exit::CliExit;

#[derive(Args)]
pub(crate) struct RunnerArgs {
    /// The runner's own folder, with its record in it
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
}

/// The arguments as a host gives them, read without building the whole command line. Anything else
/// is left to it.
pub(crate) fn arguments(mut given: impl Iterator<Item = OsString>) -> Option<RunnerArgs> {
    let (command, flag, folder) = (given.next()?, given.next()?, given.next()?);
    let as_a_host_does = command == "runner" && flag == "--folder" && given.next().is_none();
    as_a_host_does.then(|| RunnerArgs {
        folder: folder.into(),
    })
}

/// The folder that the runner of a person's own terminal is started with.
pub(crate) fn terminal_folder(mut given: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    let (command, flag, folder) = (given.next()?, given.next()?, given.next()?);
    let is_runner = command == RUNNER_COMMAND && flag == "--folder" && given.next().is_none();
    is_runner.then(|| folder.into())
}

/// What runs one of a person's own terminals. Started by the host, never by a person.
pub(crate) async fn terminal_runner(folder: PathBuf) -> Result<CliExit, CliError> {
    let ran = countersign_agents::own_terminal::run(&folder).await;
    ran.map_err(|error| CliError::failed(error.to_string()))?;
    Ok(CliExit::Ok)
}

pub(crate) async fn runner(args: RunnerArgs) -> Result<CliExit, CliError> {
    let ran = countersign_agents::runner::run(&args.folder).await;
    ran.map_err(|error| CliError::failed(error.to_string()))?;
    Ok(CliExit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_words_are_read_at_once_and_others_are_not() {
        let read = |line: &[&str]| {
            let given = line.iter().map(OsString::from);
            arguments(given).map(|args| args.folder)
        };
        assert_eq!(read(&["runner", "--folder", "/f"]), Some("/f".into()));
        for other in [
            &["runner"] as &[&str],
            &["runner", "--help"],
            &["runner", "--folder", "/f", "more"],
            &["up", "--folder", "/f"],
        ] {
            assert_eq!(read(other), None, "{other:?}");
        }
    }
}

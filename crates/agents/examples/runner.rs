//! A runner as a program of its own, for tests: `runner runner --folder F`, or `runner terminal-runner --folder F`.

use std::path::Path;

use countersign_agents::own_terminal::RUNNER_COMMAND;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::process::ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [command, option, folder] if command == "runner" && option == "--folder" => {
            match countersign_agents::runner::run(Path::new(folder)).await {
                Ok(()) => std::process::ExitCode::SUCCESS,
                Err(_) => std::process::ExitCode::FAILURE,
            }
        }
        [command, option, folder] if command == RUNNER_COMMAND && option == "--folder" => {
            match countersign_agents::own_terminal::run(Path::new(folder)).await {
                Ok(()) => std::process::ExitCode::SUCCESS,
                Err(_) => std::process::ExitCode::FAILURE,
            }
        }
        _ => std::process::ExitCode::FAILURE,
    }
}

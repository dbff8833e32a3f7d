//! A runner as a program of its own, for tests: `runner runner --folder F`.

use std::path::Path;

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
        _ => std::process::ExitCode::FAILURE,
    }
}

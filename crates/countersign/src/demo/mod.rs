use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::CliError;
#[derive(clap::Subcommand)]
pub(crate) enum DemoCommand {
    Run,
}
pub(crate) async fn run(_c: &Common, _d: DemoCommand) -> Result<Exit, CliError> {
    Err(CliError::usage("not yet"))
}

//! The demo: a host in a scratch folder and three scripted agents, so that a newcomer sees and
//! answers asks at once. No model, no key.

mod agent;
mod run;
mod script;

use clap::Subcommand;

use crate::cli::Common;
use crate::exit::Exit;
use crate::failure::CliError;

#[derive(Subcommand)]
pub(crate) enum DemoCommand {
    /// Start a host with three scripted agents, and watch the inbox
    Run(run::RunArgs),
    /// Be one scripted agent; the token comes in `COUNTERSIGN_TOKEN`
    Agent(agent::AgentArgs),
}

pub(crate) async fn run(common: &Common, command: DemoCommand) -> Result<Exit, CliError> {
    match command {
        DemoCommand::Run(args) => run::run(args).await,
        DemoCommand::Agent(args) => agent::agent(common, args).await,
    }
}

//! The demo: a host in a scratch folder and three scripted agents that it runs, so that a newcomer
//! sees and answers asks at once. No model, no key; everything else is the real path.

mod project;
mod run;
mod script;

use clap::{Args, Subcommand};
use countersign_agents::scripted;

use crate::error::CliError;
use crate::exit::CliExit;
use script::DemoScript;

#[derive(Subcommand)]
pub(crate) enum DemoCommand {
    /// Start a host with three scripted agents, and watch the inbox
    Run(run::DemoRunArgs),
    /// Be one scripted agent, speaking ACP on stdin and stdout
    Agent(DemoAgentArgs),
}

#[derive(Args)]
pub(crate) struct DemoAgentArgs {
    /// One of the demo's own scripts
    #[arg(conflicts_with = "script")]
    name: Option<DemoScript>,
    /// A script of your own, as JSON; without one the agent repeats its prompt
    #[arg(long, value_name = "FILE")]
    script: Option<String>,
}

pub(crate) async fn run(command: DemoCommand) -> Result<CliExit, CliError> {
    match command {
        DemoCommand::Run(args) => run::run(args).await,
        DemoCommand::Agent(args) => agent(args).await,
    }
}

async fn agent(args: DemoAgentArgs) -> Result<CliExit, CliError> {
    let code = if let Some(name) = args.name {
        let script = name.in_folder(&std::env::current_dir().unwrap_or_default())?;
        scripted::run(script, tokio::io::stdin(), tokio::io::stdout()).await
    } else {
        let arguments = args.script.map(|file| ["--script".to_owned(), file]);
        scripted::run_with_arguments(arguments.into_iter().flatten()).await
    };
    Ok(if code == 0 {
        CliExit::Ok
    } else {
        CliExit::Failure
    })
}

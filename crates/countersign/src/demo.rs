//! The demo: a host in a scratch folder and three scripted agents that it runs, so that a newcomer
//! sees and answers asks at once. No model, no key; everything else is the real path.

mod project;
mod run;
mod script;

use clap::{Args, Subcommand};
use countersign_agents::scripted;

use crate::exit::Exit;
use crate::failure::CliError;
use script::Script;

#[derive(Subcommand)]
pub(crate) enum DemoCommand {
    /// Start a host with three scripted agents, and watch the inbox
    Run(run::RunArgs),
    /// Be one scripted agent, speaking ACP on stdin and stdout
    Agent(AgentArgs),
}

#[derive(Args)]
pub(crate) struct AgentArgs {
    /// One of the demo's own scripts
    #[arg(conflicts_with = "script")]
    name: Option<Script>,
    /// A script of your own, as JSON; without any it repeats what it is told
    #[arg(long, value_name = "FILE")]
    script: Option<String>,
}

pub(crate) async fn run(command: DemoCommand) -> Result<Exit, CliError> {
    match command {
        DemoCommand::Run(args) => run::run(args).await,
        DemoCommand::Agent(args) => agent(args).await,
    }
}

async fn agent(args: AgentArgs) -> Result<Exit, CliError> {
    let code = if let Some(name) = args.name {
        let script = name.in_folder(&std::env::current_dir().unwrap_or_default())?;
        scripted::run(script, tokio::io::stdin(), tokio::io::stdout()).await
    } else {
        let words = args.script.map(|file| ["--script".to_owned(), file]);
        scripted::run_with_arguments(words.into_iter().flatten()).await
    };
    Ok(if code == 0 { Exit::Ok } else { Exit::Failure })
}

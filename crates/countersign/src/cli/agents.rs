//! `agents`: which agents are known, and which of them can be started here; `agents fork`.

use clap::{Args, Subcommand};
use countersign_protocol::{AgentTarget, CatalogRow, ForkBody, NoParams, method};

use super::{CommonArgs, agent_lookup, spawn};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::render::escape;

#[derive(Args)]
#[command(
    after_help = "Examples:\n  countersign agents\n  countersign agents --json | jq -r '.[] | select(.installed) | .name'\n  countersign agents fork builder --name second 'Try it the other way'"
)]
pub(crate) struct AgentsArgs {
    #[command(subcommand)]
    command: Option<AgentsCommand>,
}

#[derive(Subcommand)]
enum AgentsCommand {
    /// Start a second agent from a copy of an agent's session
    Fork(ForkArgs),
}

#[derive(Args)]
struct ForkArgs {
    /// Name or id of the agent to copy
    agent: String,
    /// The task; `-` reads it from stdin
    prompt: Option<String>,
    /// Name of the new agent [default: generated]
    #[arg(long)]
    name: Option<String>,
}

pub(super) async fn agents(common: &CommonArgs, args: AgentsArgs) -> Result<CliExit, CliError> {
    match args.command {
        Some(AgentsCommand::Fork(args)) => fork(common, args).await,
        None => catalog(common).await,
    }
}

async fn fork(common: &CommonArgs, args: ForkArgs) -> Result<CliExit, CliError> {
    let prompt = args.prompt.map(spawn::read_text_argument).transpose()?;
    let mut client = common.connect().await?;
    let agent = agent_lookup::find_agent(&mut client, &args.agent).await?;
    let params = AgentTarget {
        agent_id: agent.id,
        body: ForkBody {
            name: args.name,
            prompt,
        },
    };
    let agent = client.call::<method::ForkAgent>(&params).await?;
    spawn::print_started(common, &agent)
}

async fn catalog(common: &CommonArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let rows = client.call::<method::Catalog>(&NoParams {}).await?;
    if common.json {
        output::print_json(&rows)?;
    } else {
        output::print(&list(&rows, output::list_width()))?;
    }
    Ok(CliExit::Ok)
}

fn list(rows: &[CatalogRow], width: usize) -> String {
    let row = |row: &CatalogRow| {
        let how = if row.installed {
            row.command.join(" ")
        } else {
            row.hint.clone().unwrap_or_default()
        };
        vec![
            escape::line(&row.name).into_owned(),
            escape::line(&row.title).into_owned(),
            if row.installed {
                "installed"
            } else {
                "missing"
            }
            .to_owned(),
            escape::line(&how).into_owned(),
        ]
    };
    let (here, missing): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.installed);
    let rows: Vec<_> = here.into_iter().chain(missing).map(row).collect();
    let mut text = output::columns(&["NAME", "AGENT", "STATE", "HOW"], &rows, width);
    text.push_str("Any other that speaks ACP: countersign spawn --command 'PROGRAM ARGUMENTS'\n");
    text.push_str("Any of them can lead others: countersign spawn --role orchestrator\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_started_stands_first() {
        let row = |name: &str, installed: bool, hint: Option<&str>| CatalogRow {
            command: vec!["/bin/x".into(), "acp".into()],
            hint: hint.map(str::to_owned),
            installed,
            name: name.into(),
            title: name.to_uppercase(),
        };
        let rows = [row("a", false, Some("npm i a")), row("b", true, None)];
        assert_eq!(
            anstream::adapter::strip_str(&list(&rows, 80)).to_string(),
            "NAME  AGENT  STATE      HOW\n\
             b     B      installed  /bin/x acp\n\
             a     A      missing    npm i a\n\
             Any other that speaks ACP: countersign spawn --command 'PROGRAM ARGUMENTS'\n\
             Any of them can lead others: countersign spawn --role orchestrator\n"
        );
    }
}

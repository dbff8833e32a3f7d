//! `agents`: which agents are known, and which of them can be started here; `fork`.

use std::collections::BTreeMap;

use clap::Args;
use countersign_agents::catalog::{self, AgentSearchPaths, KnownAgent, ResolvedAgent};
use countersign_protocol::{AgentTarget, CatalogRow, ForkBody, NoParams, method};

use super::{CommonArgs, agent_lookup, spawn};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::render::escape;

#[derive(Args)]
#[command(after_help = "Examples:
  countersign fork builder
  countersign fork builder --name second 'Try it the other way'

The new agent starts from a copy of the other's session, which stays as it is.")]
pub(crate) struct ForkArgs {
    /// Name or id of the agent to copy
    agent: String,
    /// The task; `-` reads it from stdin
    prompt: Option<String>,
    /// Name of the new agent [default: generated]
    #[arg(long)]
    name: Option<String>,
}

pub(super) async fn fork(common: &CommonArgs, args: ForkArgs) -> Result<CliExit, CliError> {
    let prompt = args.prompt.map(spawn::read_text_argument).transpose()?;
    let mut client = common.connect().await?;
    let agent = agent_lookup::load_agent(&mut client, &args.agent).await?;
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

pub(super) async fn agents(common: &CommonArgs) -> Result<CliExit, CliError> {
    let rows = match common.call::<method::Catalog>(&NoParams {}).await {
        // Another machine's agents are not those of this one.
        Err(CliError::NoHost { .. }) if !common.is_remote() => {
            output::print_message("no host is running; a host started from here would find these");
            local_catalog()
        }
        rows => rows?,
    };
    let document = BTreeMap::from([("agents", &rows)]);
    common.print(&document, || list(&rows, output::list_width()))
}

/// The agents that a host would find if it were started with the environment of this process.
pub(super) fn local_catalog() -> Vec<CatalogRow> {
    catalog::all().iter().map(local_row).collect()
}

fn local_row(known: &KnownAgent) -> CatalogRow {
    let paths = AgentSearchPaths::for_agent(known, |name| std::env::var_os(name));
    let (command, hint) = match catalog::resolve(known, &paths) {
        ResolvedAgent::Found { command } => (command, known.hint.to_owned()),
        ResolvedAgent::Missing { advice } => (Vec::new(), advice),
    };
    CatalogRow {
        installed: !command.is_empty(),
        command,
        hint: Some(hint).filter(|hint| !hint.is_empty()),
        name: known.name.to_owned(),
        title: known.title.to_owned(),
    }
}

fn list(rows: &[CatalogRow], width: usize) -> String {
    let (here, missing): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.installed);
    let rows: Vec<_> = here.into_iter().chain(missing).map(catalog_line).collect();
    let mut text = output::columns(&["NAME", "AGENT", "STATE", "HOW"], &rows, width);
    text.push_str("Any other that speaks ACP: countersign spawn --command 'PROGRAM ARGUMENTS'\n");
    text.push_str("Any of them can lead others: countersign spawn --role orchestrator\n");
    text
}

fn catalog_line(row: &CatalogRow) -> Vec<String> {
    let (state, how) = if row.installed {
        ("installed", row.command.join(" "))
    } else {
        ("missing", row.hint.clone().unwrap_or_default())
    };
    vec![
        escape::line(&row.name).into_owned(),
        escape::line(&row.title).into_owned(),
        state.to_owned(),
        escape::line(&how).into_owned(),
    ]
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

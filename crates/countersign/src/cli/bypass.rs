//! `bypass`: an agent's asks go through without a person, for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use countersign_protocol::{AgentTarget, BypassBody, HostAgent, NoParams, method};
use serde_json::json;

use super::args::LabelArg;
use super::{CommonArgs, agent_lookup, args};
use crate::client::HostClient;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::escape;
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign bypass builder --for 30m
  countersign bypass builder --off
  countersign bypass --label team=web --for 30m

Everything that would ask is allowed and recorded. Denials stay denials. Changes to the host's own
files, rule files, git internals, agent configuration and shell start files still ask. --label names
the agents that have the label now; agents started later ask as usual.")]
#[command(group(clap::ArgGroup::new("when").required(true)))]
pub(crate) struct BypassArgs {
    /// Name or id of the agent
    #[arg(required_unless_present = "labels", conflicts_with = "labels")]
    agent: Option<String>,
    /// All running agents with this label; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<LabelArg>,
    /// How long: 90s, 30m, 1h; at most 24h
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, group = "when")]
    for_: Option<Duration>,
    /// End the bypass now
    #[arg(long, group = "when")]
    off: bool,
}

pub(super) async fn bypass(common: &CommonArgs, args: BypassArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let for_ms = args.for_.filter(|_| !args.off).map(duration::millis);
    let ids = match &args.agent {
        Some(agent) => vec![agent.clone()],
        None => labelled_agents(&mut client, args::labels(args.labels)?).await?,
    };
    let mut changed = Vec::new();
    for agent_id in ids {
        let body = BypassBody { for_ms };
        let params = AgentTarget { agent_id, body };
        changed.push(client.call::<method::SetBypass>(&params).await?);
    }
    match changed.as_slice() {
        [agent] if common.json && args.agent.is_some() => output::print_json(agent)?,
        agents if common.json => output::print_json(&json!({ "agents": agents }))?,
        agents => output::print(&agents.iter().map(describe).collect::<String>())?,
    }
    Ok(CliExit::Ok)
}

async fn labelled_agents(
    client: &mut HostClient,
    labels: BTreeMap<String, String>,
) -> Result<Vec<String>, CliError> {
    let agents = client.call::<method::Agents>(&NoParams {}).await?;
    let ids: Vec<String> = agents
        .into_iter()
        .filter(|agent| agent_lookup::has_labels(agent, &labels) && !agent.state.is_ended())
        .map(|agent| agent.id)
        .collect();
    if ids.is_empty() {
        return Err(CliError::UnknownId {
            what: "no running agent has this label".into(),
            hint: Some("see the labels with `countersign ls --json`".into()),
        });
    }
    Ok(ids)
}

fn describe(agent: &HostAgent) -> String {
    let name = escape::line(&agent.name);
    match agent.bypass_until {
        Some(until) => {
            let left = duration::age(until, duration::now());
            format!("{name} is bypassed for {left}: its asks are allowed without you\n")
        }
        None => format!("bypass off: {name} asks again\n"),
    }
}

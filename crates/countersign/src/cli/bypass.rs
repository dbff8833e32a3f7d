//! `bypass`: an agent's asks go through without a person, for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use countersign_protocol::{AgentTarget, BypassBody, HostAgent, NoParams, method};
use serde::Serialize;

use super::args::LabelArg;
use super::{CommonArgs, agent_lookup, args};
use crate::client::HostClient;
use crate::error::{CliError, ErrorDocument};
use crate::exit::CliExit;
use crate::render::escape;
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign bypass builder --for 30m
  countersign bypass builder --off
  countersign bypass --label team=web --for 30m

Everything that would ask is allowed and recorded. What is denied stays denied, including access to
the host's own files. Changes to rule files, git internals, agent configuration, shell start files
and system folders still ask.

--label applies to the running agents that have the label now, and lists them. An agent that is
started later with the same label asks as usual.")]
#[command(group(clap::ArgGroup::new("when").required(true)))]
pub(crate) struct BypassArgs {
    /// Name or id of the agent
    #[arg(required_unless_present = "labels", conflicts_with = "labels")]
    agent: Option<String>,
    /// The running agents that have this label now, none that start later; repeatable
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<LabelArg>,
    /// How long: 90s, 30m, 1h; at most 24h
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, group = "when")]
    for_: Option<Duration>,
    /// End the bypass now
    #[arg(long, group = "when")]
    off: bool,
}

/// What `bypass --label --json` prints.
#[derive(Serialize)]
struct BypassDocument<'b> {
    agents: &'b [HostAgent],
    errors: Vec<BypassError<'b>>,
}

#[derive(Serialize)]
struct BypassError<'b> {
    id: &'b str,
    error: ErrorDocument,
}

/// An agent whose bypass could not be changed.
struct RefusedBypass {
    agent: HostAgent,
    error: CliError,
}

impl RefusedBypass {
    fn document(&self) -> BypassError<'_> {
        BypassError {
            id: &self.agent.id,
            error: self.error.document(),
        }
    }
}

pub(super) async fn bypass(common: &CommonArgs, args: BypassArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let for_ms = args.for_.filter(|_| !args.off).map(duration::millis);
    let Some(agent_id) = args.agent else {
        let agents = labelled_agents(&mut client, args::labels(args.labels)?).await?;
        return bypass_each(common, &mut client, agents, for_ms).await;
    };
    let agent = set_bypass(&mut client, agent_id, for_ms).await?;
    common.print(&agent, || describe(&agent))
}

async fn set_bypass(
    client: &mut HostClient,
    agent_id: String,
    for_ms: Option<u64>,
) -> Result<HostAgent, CliError> {
    let body = BypassBody { for_ms };
    let params = AgentTarget { agent_id, body };
    Ok(client.call::<method::SetBypass>(&params).await?)
}

/// One after the other. One that is refused is named, so that nobody takes it for bypassed, and none
/// that was bypassed before it goes unmentioned.
async fn bypass_each(
    common: &CommonArgs,
    client: &mut HostClient,
    agents: Vec<HostAgent>,
    for_ms: Option<u64>,
) -> Result<CliExit, CliError> {
    let mut exit = CliExit::Ok;
    let mut changed = Vec::new();
    let mut refused = Vec::new();
    for agent in agents {
        match set_bypass(client, agent.id.clone(), for_ms).await {
            Ok(agent) => changed.push(agent),
            Err(error) => {
                exit = exit.worse(error.exit());
                refused.push(RefusedBypass { agent, error });
            }
        }
    }
    if common.json {
        output::print_json(&BypassDocument {
            agents: &changed,
            errors: refused.iter().map(RefusedBypass::document).collect(),
        })?;
        return Ok(exit);
    }
    output::print(&changed.iter().map(describe).collect::<String>())?;
    for RefusedBypass { agent, error } in &refused {
        let name = escape::line(&agent.name);
        output::print_message(format_args!("{name} not changed: {error}"));
    }
    output::print_message(scope_notice(changed.len()));
    Ok(exit)
}

/// A label is not a rule for what comes later: nobody has seen those agents yet.
fn scope_notice(changed: usize) -> String {
    let agents = match changed {
        1 => "the 1 agent that has".to_owned(),
        count => format!("the {count} agents that have"),
    };
    format!("applies to {agents} this label now; agents started later with it are not included")
}

async fn labelled_agents(
    client: &mut HostClient,
    labels: BTreeMap<String, String>,
) -> Result<Vec<HostAgent>, CliError> {
    let mut agents = client.call::<method::Agents>(&NoParams {}).await?;
    agents.retain(|agent| agent_lookup::has_labels(agent, &labels) && !agent.state.is_ended());
    if agents.is_empty() {
        return Err(CliError::UnknownId {
            what: "no running agent has this label".into(),
            hint: Some("see the labels with `countersign ls --json`".into()),
        });
    }
    Ok(agents)
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

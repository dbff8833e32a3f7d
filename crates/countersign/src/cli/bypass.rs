//! `bypass`: an agent's asks go through without a person, for a while.

use std::time::Duration;

use clap::Args;
use countersign_protocol::{AgentTarget, BypassBody, method};

use super::{CommonArgs, agent_lookup};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::escape;
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign bypass builder --for 30m
  countersign bypass builder --off

What would ask goes through, each on the record. Denials stay, and so does what no rule lifts: the
host's own files, rule files, git internals, agents' configuration, shell start files.")]
#[command(group(clap::ArgGroup::new("when").required(true)))]
pub(crate) struct BypassArgs {
    /// The agent: its id, or its name where only one has it
    agent: String,
    /// How long: 90s, 30m, 1h
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, group = "when")]
    for_: Option<Duration>,
    /// End it now
    #[arg(long, group = "when")]
    off: bool,
}

pub(super) async fn bypass(common: &CommonArgs, args: BypassArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let params = AgentTarget {
        agent_id: agent_lookup::find_agent_id(&mut client, &args.agent).await?,
        body: BypassBody {
            for_ms: args.for_.filter(|_| !args.off).map(duration::millis),
        },
    };
    let agent = client.call::<method::SetBypass>(&params).await?;
    if common.json {
        output::print_json(&agent)?;
        return Ok(CliExit::Ok);
    }
    let name = escape::line(&agent.name);
    let text = match agent.bypass_until {
        Some(until) => {
            let ends = duration::until(duration::now(), until);
            format!("asks of {name} go through without you; ends {ends}\n")
        }
        None => format!("{name} is asked for as before\n"),
    };
    output::print(&text)?;
    Ok(CliExit::Ok)
}

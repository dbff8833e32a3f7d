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

Everything that would ask is allowed and recorded. Denials stay denials. Changes to the host's own
files, rule files, git internals, agent configuration and shell start files still ask.")]
#[command(group(clap::ArgGroup::new("when").required(true)))]
pub(crate) struct BypassArgs {
    /// Name or id of the agent
    agent: String,
    /// How long: 90s, 30m, 1h; at most 24h
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, group = "when")]
    for_: Option<Duration>,
    /// End the bypass now
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
            let left = duration::age(until, duration::now());
            format!("{name} is bypassed for {left}: its asks are allowed without you\n")
        }
        None => format!("bypass off: {name} asks again\n"),
    };
    output::print(&text)?;
    Ok(CliExit::Ok)
}

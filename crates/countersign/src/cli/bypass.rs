//! `bypass`: an agent's asks go through without a person, for a while.

use std::time::Duration;

use clap::Args;
use countersign_protocol::{HostAgent, SetBypassParams};
use serde_json::json;

use super::Common;
use crate::client::Client;
use crate::exit::Exit;
use crate::failure::CliError;
use crate::{duration, output, shown};

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

pub(super) async fn bypass(common: &Common, args: BypassArgs) -> Result<Exit, CliError> {
    let mut client = common.connect().await?;
    let params = SetBypassParams {
        agent_id: agent_id(&mut client, &args.agent).await?,
        for_ms: args.for_.filter(|_| !args.off).map(duration::millis),
    };
    let agent: HostAgent = client.call("host.set_bypass", &params).await?;
    if common.json {
        output::put_json(&agent)?;
        return Ok(Exit::Ok);
    }
    let name = shown::line(&agent.name);
    let words = match agent.bypass_until {
        Some(until) => {
            let ends = duration::until(duration::now(), until);
            format!("asks of {name} go through without you; ends {ends}\n")
        }
        None => format!("{name} is asked for as before\n"),
    };
    output::put(&words)?;
    Ok(Exit::Ok)
}

/// The id of the agent that is meant: by its id, or by its name if only one has it. What fits none
/// is left to the host to refuse.
pub(super) async fn agent_id(client: &mut Client, word: &str) -> Result<String, CliError> {
    let agents: Vec<HostAgent> = client.call("host.agents", &json!({})).await?;
    choose(&agents, word)
}

fn choose(agents: &[HostAgent], word: &str) -> Result<String, CliError> {
    if agents.iter().any(|agent| agent.id == word) {
        return Ok(word.to_owned());
    }
    let mut named = agents.iter().filter(|agent| agent.name == word);
    match (named.next(), named.next()) {
        (Some(agent), None) => Ok(agent.id.clone()),
        (None, _) => Ok(word.to_owned()),
        (Some(_), Some(_)) => Err(CliError::UnknownId {
            what: format!("more than one agent is called `{}`", shown::line(word)),
            hint: Some("take its id from `countersign ls`".into()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn an_agent_is_found_by_its_id_or_by_a_name_of_its_own() {
        let agent = |id: &str, name: &str| HostAgent {
            id: id.into(),
            name: name.into(),
            ..sample::agent()
        };
        let agents = [
            agent("a", "b"),
            agent("b", "x"),
            agent("c", "y"),
            agent("d", "y"),
        ];
        let found = |word| choose(&agents, word).ok();
        assert_eq!(
            [found("b"), found("x"), found("y"), found("z")],
            [Some("b".into()), Some("b".into()), None, Some("z".into())]
        );
    }
}

//! `ceiling`: what an orchestrator may settle for the agents below it.

use std::time::Duration;

use clap::Args;
use countersign_protocol::{AgentTarget, CeilingBody, CeilingRow, HostAgent, Time, method};

use super::{CommonArgs, agent_lookup};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::render::escape;
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign ceiling boss
  countersign ceiling boss --rule 'Bash(cargo test:*)' --rule 'Read(./**)' --for 2h
  countersign ceiling boss --clear

The orchestrator may then approve asks of the agents it started that these rules cover, and deny any
of them. It can never approve what a rule denies, what no rule can allow, an edited input, its own
asks or those of its own orchestrator. New rules replace the previous ones and every rule it saved.")]
pub(crate) struct CeilingArgs {
    /// Name or id of the orchestrator
    agent: String,
    /// Let it approve what this rule covers; repeatable
    #[arg(long = "rule", value_name = "RULE", conflicts_with = "clear")]
    rules: Vec<String>,
    /// How long: 90s, 30m, 2h [default: as long as it runs]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, requires = "rules")]
    for_: Option<Duration>,
    /// Remove the ceiling: it may then approve nothing
    #[arg(long)]
    clear: bool,
}

pub(super) async fn ceiling(common: &CommonArgs, args: CeilingArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    // To clear it is to set one without rules, which approves nothing.
    let agent = if args.clear || !args.rules.is_empty() {
        let body = CeilingBody {
            rules: args.rules,
            expires_in_ms: args.for_.map(duration::millis),
        };
        let agent_id = args.agent.clone();
        let params = AgentTarget { agent_id, body };
        client.call::<method::SetCeiling>(&params).await?
    } else {
        let found = agent_lookup::load_agent(&mut client, &args.agent).await?;
        require_orchestrator(found)?
    };
    common.print(&output::json_row(&agent)?, || {
        ceiling_text(&agent, duration::now()) + "\n"
    })
}

/// Refuses an agent that cannot have a ceiling, in the host's own words.
fn require_orchestrator(agent: HostAgent) -> Result<HostAgent, CliError> {
    if agent_lookup::is_orchestrator(&agent) {
        return Ok(agent);
    }
    Err(CliError::failed(format!(
        "`{}` is not an orchestrator",
        escape::line(&agent.name)
    ))
    .with_hint("start one with `countersign spawn --role orchestrator`"))
}

fn ceiling_text(agent: &HostAgent, now: Time) -> String {
    let name = escape::line(&agent.name);
    let ceiling = agent
        .managed
        .as_ref()
        .and_then(|managed| managed.ceiling.as_ref());
    match ceiling {
        Some(ceiling) => format!(
            "{name} may approve, for the agents it started,\n{}",
            lines(ceiling, now)
        ),
        None => {
            format!("{name} may approve nothing: people answer the asks of the agents it started")
        }
    }
}

fn lines(ceiling: &CeilingRow, now: Time) -> String {
    let rules = ceiling
        .rules
        .iter()
        .map(|rule| format!("  {}", escape::line(rule)));
    let end = match ceiling.until {
        Some(until) => format!("ends {}", duration::until(now, until)),
        None => "until it ends".to_owned(),
    };
    rules.chain([end]).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;
    use countersign_protocol::ManagedRow;

    #[test]
    fn a_ceiling_is_told_in_words() {
        let with = |ceiling| HostAgent {
            managed: Some(ManagedRow {
                ceiling,
                ..test_rows::managed()
            }),
            ..test_rows::agent()
        };
        let rules = vec!["Bash(ls:*)".to_owned(), "Read(./a\u{7})".to_owned()];
        let until = Some(Time(7_200_000_000));
        let given = with(Some(CeilingRow { rules, until }));
        assert_eq!(
            ceiling_text(&given, Time(0)),
            "builder may approve, for the agents it started,\n  Bash(ls:*)\n  Read(./a\\u{7})\nends in 2h"
        );
        assert_eq!(
            ceiling_text(&with(None), Time(0)),
            "builder may approve nothing: people answer the asks of the agents it started"
        );
    }
}

//! `kill`: end an agent. What becomes of the agents below it is asked, or said by flag.

use std::io::{self, IsTerminal as _};

use clap::{Args, ValueEnum};
use countersign_protocol::{AgentTarget, ChildrenFate, HostAgent, KillBody, Reason, method};
use serde_json::Value;

use super::steer::AgentWait;
use super::{CommonArgs, args, steer};
use crate::client::{CallError, HostClient};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::output;
use crate::render::escape;

#[derive(Args)]
#[command(after_help = "Examples:
  countersign kill builder
  countersign kill boss --children end

Its open asks are cancelled. `resume` or `send` restarts it, and it continues its session. The agents that an
orchestrator started end with it or keep running; people then answer their asks and questions.")]
pub(crate) struct KillArgs {
    /// Name or id of the agent
    agent: String,
    /// What happens to running agents that it started
    #[arg(long, value_name = "WHAT")]
    children: Option<ChildrenArg>,
    /// Return at once, before the agent has ended
    #[arg(long)]
    no_wait: bool,
}

/// What happens to the agents that an ended agent started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChildrenArg {
    /// End them as well
    End,
    /// Keep them running
    Keep,
}

impl From<ChildrenArg> for ChildrenFate {
    fn from(fate: ChildrenArg) -> Self {
        match fate {
            ChildrenArg::End => Self::End,
            ChildrenArg::Keep => Self::Keep,
        }
    }
}

pub(super) async fn kill(common: &CommonArgs, args: KillArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let id = args.agent.clone();
    let mut ended = end_agent(&mut client, &id, args.children).await;
    // Without a terminal the refusal stands: a script says by a flag what becomes of them.
    if let Some(children) = running_children(&ended).filter(|_| io::stdin().is_terminal()) {
        let Some(fate) = ask_about_children(&args.agent, &children)? else {
            output::print_message("nothing was ended");
            return Ok(CliExit::Failure);
        };
        // The host may have closed a connection that was silent while the person thought.
        client = common.connect().await?;
        ended = end_agent(&mut client, &id, Some(fate)).await;
    }
    let agent = ended?;
    if args.no_wait {
        return steer::print_agent(common, &agent, |name| format!("ending {name}…"));
    }
    let goal = AgentWait::until_ended(&agent);
    let found = steer::wait_for(common, &mut client, vec![agent.id.clone()], goal).await?;
    let agent = found.agents.first().unwrap_or(&agent);
    let restarted = if agent.state.is_ended() {
        ""
    } else {
        ", and was restarted for a message that waited"
    };
    steer::print_agent(common, agent, |name| format!("{name} ended{restarted}"))
}

async fn end_agent(
    client: &mut HostClient,
    id: &str,
    fate: Option<ChildrenArg>,
) -> Result<HostAgent, CallError> {
    let body = KillBody {
        children: fate.map(Into::into),
    };
    let agent_id = id.to_owned();
    let params = AgentTarget { agent_id, body };
    client.call::<method::KillAgent>(&params).await
}

/// The agents of which it has to be said what becomes of them.
fn running_children(ended: &Result<HostAgent, CallError>) -> Option<Vec<String>> {
    let Err(CallError::Refused(refusal)) = ended else {
        return None;
    };
    if refusal.reason != Some(Reason::HasChildren) {
        return None;
    }
    let names = refusal.data.get("children").and_then(Value::as_array);
    let names = names.into_iter().flatten().filter_map(Value::as_str);
    Some(names.map(str::to_owned).collect())
}

fn ask_about_children(agent: &str, children: &[String]) -> Result<Option<ChildrenArg>, CliError> {
    output::print_message(question(agent, children));
    Ok(parse_fate(&args::read_line()?))
}

fn question(agent: &str, children: &[String]) -> String {
    let names: Vec<_> = children.iter().map(|name| escape::line(name)).collect();
    format!(
        "{} has running agents: {}. End them as well, or keep them? [end/keep; anything else cancels]",
        escape::line(agent),
        names.join(", ")
    )
}

fn parse_fate(line: &str) -> Option<ChildrenArg> {
    match line.trim() {
        "e" | "end" => Some(ChildrenArg::End),
        "k" | "keep" => Some(ChildrenArg::Keep),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::HostRefusal;
    use serde_json::json;

    #[test]
    fn those_below_are_named_and_only_a_clear_word_counts() {
        let refused = |data: Value| {
            let refusal = HostRefusal::new(-32003, "no".into(), Some(data));
            running_children(&Err(CallError::Refused(refusal)))
        };
        let children = json!({ "reason": "has_children", "children": ["ann", "b\u{7}"] });
        let found = refused(children).unwrap();
        assert_eq!(refused(json!({ "reason": "agent_ended" })), None);
        assert_eq!(
            question("boss", &found),
            "boss has running agents: ann, b\\u{7}. End them as well, or keep them? \
             [end/keep; anything else cancels]"
        );
        let answers = ["end\n", "k", "", "y", "yes", "END"].map(parse_fate);
        let expected = [
            Some(ChildrenArg::End),
            Some(ChildrenArg::Keep),
            None,
            None,
            None,
            None,
        ];
        assert_eq!(answers, expected);
    }
}

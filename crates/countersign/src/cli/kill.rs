//! `kill`: end an agent. What becomes of the agents below it is asked, or said by flag.

use std::io::{self, IsTerminal as _};

use clap::{Args, ValueEnum};
use countersign_protocol::{ChildrenFate, HostAgent, KillAgentParams, KillBody, Reason};
use serde_json::Value;

use super::{Common, named, steer, words};
use crate::client::{CallError, Client};
use crate::exit::Exit;
use crate::failure::CliError;
use crate::{output, shown};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign kill builder
  countersign kill boss --children end

Its open asks end as cancelled. `resume` or `send` starts it again on the same session. The agents
below an orchestrator end with it or go on without it; from then on people are asked what they ask.")]
pub(crate) struct KillArgs {
    /// The agent: its name, or its id
    agent: String,
    /// What becomes of the agents below it that run
    #[arg(long, value_name = "WHAT")]
    children: Option<Fate>,
}

/// What becomes of the agents below one that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fate {
    /// They end as well
    End,
    /// They go on
    Keep,
}

impl From<Fate> for ChildrenFate {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::End => Self::End,
            Fate::Keep => Self::Keep,
        }
    }
}

pub(super) async fn kill(common: &Common, args: KillArgs) -> Result<Exit, CliError> {
    let mut client = common.connect().await?;
    let id = named::agent_id(&mut client, &args.agent).await?;
    let mut ended = end(&mut client, &id, args.children).await;
    if let Some(children) = running_children(&ended).filter(|_| io::stdin().is_terminal()) {
        let Some(fate) = ask(&args.agent, &children)? else {
            output::say("nothing was ended");
            return Ok(Exit::Failure);
        };
        // The host may have closed a connection that was silent while the person thought.
        client = common.connect().await?;
        ended = end(&mut client, &id, Some(fate)).await;
    }
    steer::said(common, &ended?, "is being ended")
}

async fn end(client: &mut Client, id: &str, fate: Option<Fate>) -> Result<HostAgent, CallError> {
    let body = KillBody {
        children: fate.map(Into::into),
    };
    let agent_id = id.to_owned();
    let params = KillAgentParams { agent_id, body };
    client.call("host.kill_agent", &params).await
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

fn ask(agent: &str, children: &[String]) -> Result<Option<Fate>, CliError> {
    output::say(question(agent, children));
    Ok(fate(&words::line()?))
}

fn question(agent: &str, children: &[String]) -> String {
    let names: Vec<_> = children.iter().map(|name| shown::line(name)).collect();
    format!(
        "{} has agents that run: {}. End them as well, or keep them? [end/keep, anything else ends nothing]",
        shown::line(agent),
        names.join(", ")
    )
}

fn fate(line: &str) -> Option<Fate> {
    match line.trim() {
        "e" | "end" => Some(Fate::End),
        "k" | "keep" => Some(Fate::Keep),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Refusal;
    use serde_json::json;

    #[test]
    fn those_below_are_named_and_only_a_clear_word_counts() {
        let refused = |data: Value| {
            let refusal = Refusal::new(-32003, "no".into(), Some(data));
            running_children(&Err(CallError::Refused(refusal)))
        };
        let children = json!({ "reason": "has_children", "children": ["ann", "b\u{7}"] });
        let found = refused(children).unwrap();
        assert_eq!(refused(json!({ "reason": "agent_ended" })), None);
        assert_eq!(
            question("boss", &found),
            "boss has agents that run: ann, b\\u{7}. End them as well, or keep them? \
             [end/keep, anything else ends nothing]"
        );
        let words = ["end\n", "k", "", "y", "yes", "END"].map(fate);
        let expected = [Some(Fate::End), Some(Fate::Keep), None, None, None, None];
        assert_eq!(words, expected);
    }
}

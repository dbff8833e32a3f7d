//! Steering agents that the host runs: `send`, `interrupt`, `resume`, `wait`, `archive`,
//! `rename`, `configure`.

use std::time::Duration;

use clap::Args;
use countersign_protocol::{
    AgentParams, AgentTarget, ArchiveBody, ConfigureBody, HostAgent, HostAgentState, InterruptBody,
    Method, PromptBody, RenameBody, WaitIdleParams, WaitIdleResult, method,
};

use super::{CommonArgs, agent_lookup, logs, spawn};
use crate::client::HostClient;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::reconnect::{RetryLimit, reconnect};
use crate::render::escape;
use crate::{duration, output};

/// How long one call waits; after it, the next one does. Keeps a silent connection alive.
const WAIT_STEP: Duration = Duration::from_secs(30);

/// One agent, by its name or id.
#[derive(Args)]
pub(crate) struct ResumeArgs {
    /// Name or id of the agent
    agent: String,
}

#[derive(Args)]
#[command(after_help = "Examples:
  countersign send builder 'Also update the changelog'
  countersign send builder - < review.md

While the agent works, the message waits until its turn ends. An agent that ended is restarted.")]
pub(crate) struct SendArgs {
    /// Name or id of the agent
    agent: String,
    /// The message; `-` reads it from stdin
    message: String,
    /// Wait until it is idle, then print its answer
    #[arg(long)]
    wait: bool,
}

#[derive(Args)]
#[command(after_help = "Example:
  countersign interrupt builder --reason 'wrong branch'

Interrupts the current turn and cancels its open asks. The agent keeps running; queued messages are
sent next.")]
pub(crate) struct InterruptArgs {
    /// Name or id of the agent
    agent: String,
    /// Reason, which is recorded
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Args)]
#[command(after_help = "Examples:
  countersign archive builder
  countersign archive --undo builder

An archived agent is not listed by `ls`, and its name can be used again. A running agent is ended
first. Its record is kept.")]
pub(crate) struct ArchiveArgs {
    /// Name or id of the agent
    agent: String,
    /// Restore it
    #[arg(long)]
    undo: bool,
}

#[derive(Args)]
pub(crate) struct RenameArgs {
    /// Name or id of the agent
    agent: String,
    /// The new name
    name: String,
}

#[derive(Args)]
#[command(after_help = "Example:\n  countersign configure builder --mode plan")]
#[command(group(clap::ArgGroup::new("what").required(true).multiple(true)))]
pub(crate) struct ConfigureArgs {
    /// Name or id of the agent
    agent: String,
    /// Mode, by the agent's own name for it
    #[arg(long, group = "what")]
    mode: Option<String>,
    /// Model, by the agent's own name for it
    #[arg(long, group = "what")]
    model: Option<String>,
}

#[derive(Args)]
#[command(after_help = "Examples:
  countersign wait builder
  countersign wait builder docs --timeout 1h && echo both are idle

Idle means that no turn runs and no message is queued, or that the agent ended. Exits with 1 if an
agent ended with an error, and with 13 on timeout.")]
pub(crate) struct WaitArgs {
    /// Names or ids of agents
    #[arg(required = true)]
    agents: Vec<String>,
    /// Give up after this time: 90s, 30m, 1h
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout: Option<Duration>,
}

pub(super) async fn send(common: &CommonArgs, args: SendArgs) -> Result<CliExit, CliError> {
    let message = spawn::read_text_argument(args.message)?;
    let mut client = common.connect().await?;
    let agent_id = agent_lookup::find_agent_id(&mut client, &args.agent).await?;
    let body = PromptBody { message };
    let params = AgentTarget { agent_id, body };
    let agent = client.call::<method::PromptAgent>(&params).await?;
    if args.wait {
        return wait_and_print(common, &mut client, &agent).await;
    }
    let queued = agent.managed.as_ref().map_or(0, |managed| managed.queued);
    print_agent(common, &agent, |name| match queued {
        0 => format!("sent to {name}"),
        1 => format!("queued: {name} gets it when this turn ends"),
        count => format!("queued: {name} gets it when this turn ends; {count} messages wait"),
    })
}

pub(super) async fn interrupt(
    common: &CommonArgs,
    args: InterruptArgs,
) -> Result<CliExit, CliError> {
    let body = InterruptBody {
        reason: args.reason,
    };
    call_for_agent::<method::InterruptAgent>(
        common,
        &args.agent,
        |agent_id| AgentTarget { agent_id, body },
        |name| format!("interrupting {name}"),
    )
    .await
}

pub(super) async fn resume(common: &CommonArgs, args: ResumeArgs) -> Result<CliExit, CliError> {
    call_for_agent::<method::ResumeAgent>(
        common,
        &args.agent,
        |agent_id| AgentParams { agent_id },
        |name| format!("restarting {name}"),
    )
    .await
}

pub(super) async fn archive(common: &CommonArgs, args: ArchiveArgs) -> Result<CliExit, CliError> {
    let body = ArchiveBody {
        archived: !args.undo,
    };
    let done = if args.undo { "restored" } else { "archived" };
    call_for_agent::<method::ArchiveAgent>(
        common,
        &args.agent,
        |agent_id| AgentTarget { agent_id, body },
        |name| format!("{done} {name}"),
    )
    .await
}

pub(super) async fn rename(common: &CommonArgs, args: RenameArgs) -> Result<CliExit, CliError> {
    let body = RenameBody { name: args.name };
    call_for_agent::<method::RenameAgent>(
        common,
        &args.agent,
        |agent_id| AgentTarget { agent_id, body },
        |name| format!("renamed {} to {name}", escape::line(&args.agent)),
    )
    .await
}

pub(super) async fn configure(
    common: &CommonArgs,
    args: ConfigureArgs,
) -> Result<CliExit, CliError> {
    let settings = [("mode", &args.mode), ("model", &args.model)];
    let changes: Vec<String> = settings
        .into_iter()
        .filter_map(|(setting, value)| Some(format!("{setting} set to {}", value.as_ref()?)))
        .collect();
    let body = ConfigureBody {
        mode: args.mode,
        model: args.model,
    };
    call_for_agent::<method::ConfigureAgent>(
        common,
        &args.agent,
        |agent_id| AgentTarget { agent_id, body },
        |name| format!("{name}: {}", escape::line(&changes.join(", "))),
    )
    .await
}

pub(super) async fn wait(common: &CommonArgs, args: WaitArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let mut ids = Vec::new();
    for word in &args.agents {
        ids.push(agent_lookup::find_agent(&mut client, word).await?.id);
    }
    let found = wait_for(common, &mut client, ids, args.timeout).await?;
    if common.json {
        output::print_json(&found)?;
    } else {
        for agent in &found.agents {
            let state = agent.state;
            output::print(&format!("{} is {state}\n", escape::line(&agent.name)))?;
        }
    }
    Ok(wait_exit(&found))
}

fn wait_exit(found: &WaitIdleResult) -> CliExit {
    let failed = found
        .agents
        .iter()
        .any(|agent| agent.state == HostAgentState::Error);
    match (found.idle, failed) {
        (false, _) => CliExit::TimedOut,
        (true, true) => CliExit::Failure,
        (true, false) => CliExit::Ok,
    }
}

/// Waits in steps until the agents are idle or time ran out, also while the host is replaced.
async fn wait_for(
    common: &CommonArgs,
    client: &mut HostClient,
    ids: Vec<String>,
    limit: Option<Duration>,
) -> Result<WaitIdleResult, CliError> {
    let begin = std::time::Instant::now();
    loop {
        let left = limit.map(|limit| limit.saturating_sub(begin.elapsed()));
        let step = left.unwrap_or(WAIT_STEP).min(WAIT_STEP);
        let params = WaitIdleParams {
            agent_ids: Some(ids.clone()),
            timeout_ms: Some(duration::millis(step)),
            agent_id: None,
        };
        let patience = step + WAIT_STEP;
        let found = client.call_within::<method::WaitIdle>(patience, &params);
        let found: WaitIdleResult = match found.await {
            Ok(found) => found,
            Err(error) if error.is_connection() => {
                *client = reconnect(&common.endpoint()?, RetryLimit::Short).await?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if found.idle || left.is_some_and(|left| left <= step) {
            return Ok(found);
        }
    }
}

/// Waits until one agent is idle, then prints what it said in its last turn.
pub(super) async fn wait_and_print(
    common: &CommonArgs,
    client: &mut HostClient,
    agent: &HostAgent,
) -> Result<CliExit, CliError> {
    let found = wait_for(common, client, vec![agent.id.clone()], None).await?;
    let exit = wait_exit(&found);
    let [agent] = found.agents.as_slice() else {
        return Ok(exit);
    };
    if common.json {
        output::print_json(agent)?;
        return Ok(exit);
    }
    let managed = agent.managed.as_ref();
    let turn = managed.map_or(0, |managed| managed.turns);
    output::print(&logs::turn_text(client, &agent.id, turn).await?)?;
    if exit != CliExit::Ok {
        let why = managed
            .and_then(|managed| managed.message.as_deref())
            .unwrap_or("it ended");
        output::print_message(format_args!(
            "{} failed: {}",
            escape::line(&agent.name),
            escape::line(why)
        ));
    }
    Ok(exit)
}

/// Calls a method about one agent and prints the result.
async fn call_for_agent<M: Method<Result = HostAgent>>(
    common: &CommonArgs,
    word: &str,
    params: impl FnOnce(String) -> M::Params,
    message: impl FnOnce(&str) -> String,
) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let agent_id = agent_lookup::find_agent_id(&mut client, word).await?;
    let agent = client.call::<M>(&params(agent_id)).await?;
    print_agent(common, &agent, message)
}

/// Prints the agent as JSON, or the message about it; `message` gets its escaped name.
pub(super) fn print_agent(
    common: &CommonArgs,
    agent: &HostAgent,
    message: impl FnOnce(&str) -> String,
) -> Result<CliExit, CliError> {
    if common.json {
        output::print_json(agent)?;
    } else {
        output::print(&(message(&escape::line(&agent.name)) + "\n"))?;
    }
    Ok(CliExit::Ok)
}

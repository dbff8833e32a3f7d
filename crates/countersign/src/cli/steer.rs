//! Steering agents that the host runs: `send`, `interrupt`, `resume`, `wait`, `archive`,
//! `rename`, `configure`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use countersign_protocol::{
    AgentParams, AgentTarget, ArchiveBody, ConfigureBody, HostAgent, HostAgentState, InterruptBody,
    Method, PromptBody, RenameBody, WaitAgentsParams, WaitAgentsResult, WaitUntil, method,
};

use serde::Serialize;
use serde_json::value::RawValue;

use super::{CommonArgs, args as arguments, logs, spawn};
use crate::client::HostClient;
use crate::error::CliError;
use crate::exit::CliExit;
use crate::reconnect::{RetryLimit, reconnect};
use crate::render::escape;
use crate::{duration, output};

/// How long one call waits; after it, the next one does. Keeps a silent connection alive.
const WAIT_STEP: Duration = Duration::from_secs(30);

/// How long an interrupted agent has to end its turn before the command says that it does not.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(30);

/// How long a restart may wait for the end of the run before it.
const RESUME_PATIENCE: Duration = Duration::from_mins(1);

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
  countersign send builder --attach screenshot.png 'The button is too wide'

At most 8 files can be attached, each at most 4 MB and together at most 8 MB. An agent that does not
accept images or files gets a link to each.

While the agent works, the message waits until its turn ends; until then `countersign queue` can
withdraw it. An agent that ended is restarted.")]
pub(crate) struct SendArgs {
    /// Name or id of the agent
    agent: String,
    /// The message; `-` reads it from stdin
    message: String,
    /// Send this image or file with it; repeatable
    #[arg(long = "attach", value_name = "FILE")]
    attachments: Vec<PathBuf>,
    /// Wait until it is idle, then print its answer
    #[arg(long)]
    wait: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:
  countersign interrupt builder --reason 'wrong branch'

Interrupts the current turn and cancels its open asks. The agent keeps running; queued messages are
sent next.")]
pub(crate) struct InterruptArgs {
    /// Name or id of the agent
    agent: String,
    /// Reason, which is recorded
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Return at once, before the turn has ended
    #[arg(long)]
    no_wait: bool,
}

#[derive(Args)]
#[command(after_help = "Examples:
  countersign archive builder
  countersign unarchive builder

An archived agent is not listed by `ls`, and its name can be used again. A running agent is ended
first. Its record is kept.")]
pub(crate) struct ArchiveArgs {
    /// Name or id of the agent
    agent: String,
    /// Return at once, before a running agent has ended
    #[arg(long)]
    no_wait: bool,
}

#[derive(Args)]
pub(crate) struct UnarchiveArgs {
    /// Id of the agent, or its name if no other agent has it
    agent: String,
}

#[derive(Args)]
pub(crate) struct RenameArgs {
    /// Name or id of the agent
    agent: String,
    /// The new name
    name: String,
}

#[derive(Args)]
#[command(after_help = "Examples:\n  countersign configure builder --mode plan")]
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
    let agent_id = args.agent.clone();
    let attachments = arguments::attached_files(&args.attachments)?;
    let body = PromptBody {
        message,
        attachments,
    };
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
    let mut client = common.connect().await?;
    let agent_id = args.agent;
    let body = InterruptBody {
        reason: args.reason,
    };
    let params = AgentTarget { agent_id, body };
    let agent = client.call::<method::InterruptAgent>(&params).await?;
    let managed = agent.managed.as_ref();
    let turn = managed.and_then(|managed| Some(managed.turn.as_ref()?.number));
    let (Some(turn), false) = (turn, args.no_wait) else {
        return print_agent(common, &agent, |name| format!("interrupting {name}"));
    };
    let goal = AgentWait {
        until: WaitUntil::TurnEnded,
        turn: Some(turn),
        run: None,
        limit: Some(INTERRUPT_PATIENCE),
    };
    let found = wait_for(common, &mut client, vec![agent.id.clone()], goal).await?;
    if !found.reached {
        let name = escape::line(&agent.name);
        let slow = CliError::failed(format!("{name} has not ended its turn yet"));
        return Err(slow.with_hint(format!("end the agent with `countersign kill {name}`")));
    }
    print_agent(common, found.agents.first().unwrap_or(&agent), |name| {
        format!("interrupted {name}")
    })
}

pub(super) async fn resume(common: &CommonArgs, args: ResumeArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let agent_id = args.agent;
    let params = AgentParams { agent_id };
    // The host holds the call while the agent is ending.
    let resumed = client.call_within::<method::ResumeAgent>(RESUME_PATIENCE, &params);
    let agent = resumed.await?;
    let state = agent.state;
    print_agent(common, &agent, |name| match state {
        HostAgentState::Starting => format!("restarting {name}"),
        _ => format!("{name} is already running ({state})"),
    })
}

pub(super) async fn archive(common: &CommonArgs, args: ArchiveArgs) -> Result<CliExit, CliError> {
    let mut client = common.connect().await?;
    let agent_id = args.agent;
    let body = ArchiveBody { archived: true };
    let params = AgentTarget { agent_id, body };
    let mut agent = client.call::<method::ArchiveAgent>(&params).await?;
    // A running agent is ended first; only then its worktree can be removed.
    if !args.no_wait {
        let goal = AgentWait::until_ended(&agent);
        let found = wait_for(common, &mut client, vec![agent.id.clone()], goal).await?;
        agent = found.agents.into_iter().next().unwrap_or(agent);
    }
    print_agent(common, &agent, |name| format!("archived {name}"))
}

pub(super) async fn unarchive(
    common: &CommonArgs,
    args: UnarchiveArgs,
) -> Result<CliExit, CliError> {
    let body = ArchiveBody { archived: false };
    call_for_agent::<method::ArchiveAgent>(
        common,
        &args.agent,
        |agent_id| AgentTarget { agent_id, body },
        |name| format!("restored {name}"),
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
    let goal = AgentWait::until(WaitUntil::Idle).within(args.timeout);
    let found = wait_for(common, &mut client, args.agents, goal).await?;
    if common.json {
        output::print_json(&WaitDocument {
            agents: output::json_rows(&found.agents)?,
            reached: found.reached,
        })?;
    } else {
        for agent in &found.agents {
            let state = agent.state;
            output::print(&format!("{} is {state}\n", escape::line(&agent.name)))?;
        }
    }
    Ok(wait_exit(&found))
}

/// What `wait --json` prints.
#[derive(Serialize)]
struct WaitDocument {
    agents: Vec<Box<RawValue>>,
    reached: bool,
}

fn wait_exit(found: &WaitAgentsResult) -> CliExit {
    let failed = found
        .agents
        .iter()
        .any(|agent| agent.state == HostAgentState::Error);
    match (found.reached, failed) {
        (false, _) => CliExit::TimedOut,
        (true, true) => CliExit::Failure,
        (true, false) => CliExit::Ok,
    }
}

/// What to wait for, and how long.
#[derive(Clone, Copy)]
pub(super) struct AgentWait {
    until: WaitUntil,
    turn: Option<u32>,
    run: Option<u32>,
    limit: Option<Duration>,
}

impl AgentWait {
    pub(super) fn until(until: WaitUntil) -> Self {
        Self {
            until,
            turn: None,
            run: None,
            limit: None,
        }
    }

    /// Until the current run of the agent is over.
    pub(super) fn until_ended(agent: &HostAgent) -> Self {
        Self {
            run: agent.managed.as_ref().map(|managed| managed.run),
            ..Self::until(WaitUntil::Ended)
        }
    }

    fn within(self, limit: Option<Duration>) -> Self {
        Self { limit, ..self }
    }
}

/// Waits in steps until the agents got there or time ran out, also while the host is replaced.
pub(super) async fn wait_for(
    common: &CommonArgs,
    client: &mut HostClient,
    agents: Vec<String>,
    goal: AgentWait,
) -> Result<WaitAgentsResult, CliError> {
    let begin = std::time::Instant::now();
    loop {
        let left = goal
            .limit
            .map(|limit| limit.saturating_sub(begin.elapsed()));
        let step = left.unwrap_or(WAIT_STEP).min(WAIT_STEP);
        let params = WaitAgentsParams {
            agent_id: None,
            agent_ids: Some(agents.clone()),
            until: goal.until,
            turn: goal.turn,
            run: goal.run,
            timeout_ms: Some(duration::millis(step)),
        };
        // Longer than the host waits, so that the host ends the step and not a timeout here.
        let patience = step + WAIT_STEP;
        let found = client.call_within::<method::WaitAgents>(patience, &params);
        let found: WaitAgentsResult = match found.await {
            Ok(found) => found,
            Err(error) if error.is_connection() => {
                // What is waited for is a state and not an event: asking the next host again misses
                // nothing.
                *client = reconnect(&common.endpoint()?, RetryLimit::Short).await?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if found.reached || left.is_some_and(|left| left <= step) {
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
    let goal = AgentWait::until(WaitUntil::Idle);
    let found = wait_for(common, client, vec![agent.id.clone()], goal).await?;
    let exit = wait_exit(&found);
    let [agent] = found.agents.as_slice() else {
        return Ok(exit);
    };
    if common.json {
        output::print_json(&output::json_row(agent)?)?;
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
    let agent = client.call::<M>(&params(word.to_owned())).await?;
    print_agent(common, &agent, message)
}

/// Prints the agent as JSON, or the message about it; `message` gets its escaped name.
pub(super) fn print_agent(
    common: &CommonArgs,
    agent: &HostAgent,
    message: impl FnOnce(&str) -> String,
) -> Result<CliExit, CliError> {
    common.print(&output::json_row(agent)?, || {
        message(&escape::line(&agent.name)) + "\n"
    })
}

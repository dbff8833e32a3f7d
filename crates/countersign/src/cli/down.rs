//! `down`: the host ends, and its agents stay or go.
//!
//! Invariant: nobody's agents are ended, and nobody's agents are left, without being named.

use clap::Args;
use countersign_protocol::{
    AgentsAtShutdown, HostAgent, HostApproval, HostQuestion, ListParams, ListStatus, NoParams,
    method,
};
use serde::Serialize;

use super::{CommonArgs, orphans, shutdown};
use crate::client::{HostAddress, HostClient, HostEndpoint};
use crate::error::CliError;
use crate::exit::CliExit;
use crate::paths::HostPaths;
use crate::render::{approvals, escape};
use crate::{duration, output};

#[derive(Args)]
#[command(after_help = "Examples:
  countersign down         # agents keep running; the next `countersign up` adopts them
  countersign down --all   # first ends all agents and every process they started

Open asks are kept for the next host. Agents run without a host for at most `alone_minutes`, set
under `[agents]` in config.toml (default: 30 minutes). `countersign up --replace` replaces a running
host.")]
pub(crate) struct DownArgs {
    /// End the agents too, including those of an earlier host
    #[arg(long)]
    all: bool,
}

/// What `down --json` prints.
#[derive(Default, Serialize)]
struct DownResult {
    /// Agents that go on without a host.
    kept: Vec<HostAgent>,
    /// Agents that were ended with the host.
    ended: Vec<HostAgent>,
    /// Agents without a host that were ended.
    left: usize,
}

pub(super) async fn down(common: &CommonArgs, args: DownArgs) -> Result<CliExit, CliError> {
    let endpoint = common.endpoint()?;
    match HostClient::connect(&endpoint).await {
        Ok(client) if args.all => end_host_and_agents(common, &endpoint, client).await,
        Ok(client) => keep_agents(common, &endpoint, client).await,
        Err(gone @ CliError::NoHost { .. }) => without_host(common, &endpoint, args, gone).await,
        Err(error) => Err(error),
    }
}

async fn keep_agents(
    common: &CommonArgs,
    endpoint: &HostEndpoint,
    mut client: HostClient,
) -> Result<CliExit, CliError> {
    let status = client.call::<method::Status>(&NoParams {}).await?;
    // Read while the host runs: afterwards nobody can say what its agents wait for.
    let kept = shutdown::running_agents(&mut client).await?;
    if !common.json && !kept.is_empty() {
        let waits = OpenWaits::load(&mut client).await?;
        output::print(&list(&kept, &waits, output::list_width()))?;
    }
    // A host that ends waits for its connections, and must not wait for this one.
    drop(client);
    shutdown::end_host(endpoint, AgentsAtShutdown::Keep).await?;
    output::print_message("the host stopped");
    if !kept.is_empty() {
        output::print_message(kept_agents_text(kept.len(), status.agents_alone_ms));
    }
    if common.json {
        output::print_json(&DownResult {
            kept,
            ..DownResult::default()
        })?;
    }
    Ok(CliExit::Ok)
}

async fn end_host_and_agents(
    common: &CommonArgs,
    endpoint: &HostEndpoint,
    mut client: HostClient,
) -> Result<CliExit, CliError> {
    let paths = match &endpoint.address {
        HostAddress::Socket(_) => Some(HostPaths::from_environment()?),
        HostAddress::Tcp { .. } => None,
    };
    let ended = shutdown::running_agents(&mut client).await?;
    drop(client);
    // Before the host ends: only runners that live are found, and those that are about to end have to
    // be waited for.
    let runners = paths.as_ref().map(orphans::find).unwrap_or_default();
    shutdown::end_host(endpoint, AgentsAtShutdown::End).await?;
    orphans::wait_until_ended(&runners).await;
    // A host that was killed meanwhile has ended nobody.
    let left = match &paths {
        Some(paths) => orphans::end_all(paths).await?,
        None => 0,
    };
    if common.json {
        output::print_json(&DownResult {
            ended,
            left,
            ..DownResult::default()
        })?;
    } else {
        for agent in &ended {
            output::print(&format!("{} ended\n", escape::line(&agent.name)))?;
        }
    }
    output::print_message("the host and all its agents stopped");
    Ok(CliExit::Ok)
}

/// Agents may be left although no host is. Only whoever is on the same machine can see to them.
async fn without_host(
    common: &CommonArgs,
    endpoint: &HostEndpoint,
    args: DownArgs,
    gone: CliError,
) -> Result<CliExit, CliError> {
    let HostAddress::Socket(_) = &endpoint.address else {
        return Err(gone);
    };
    let paths = HostPaths::from_environment()?;
    if !args.all {
        let count = orphans::find(&paths).len();
        if count > 0 {
            output::print_message(orphans::orphans_text(count));
        }
        return Err(gone);
    }
    let left = orphans::end_all(&paths).await?;
    if common.json {
        output::print_json(&DownResult {
            left,
            ..DownResult::default()
        })?;
    }
    output::print_message(match left {
        0 => "no host and no agent is running".to_owned(),
        count => format!(
            "no host is running; ended {}",
            output::plural(count, "agent")
        ),
    });
    Ok(CliExit::Ok)
}

/// What becomes of agents without a host, and what to do.
pub(crate) fn kept_agents_text(count: usize, alone_ms: Option<u64>) -> String {
    let who = match count {
        1 => "1 agent keeps".to_owned(),
        count => format!("{count} agents keep"),
    };
    let time = alone_ms.map(|ms| format!(" for up to {}", duration::in_words(ms)));
    let time = time.unwrap_or_default();
    format!(
        "{who} running without a host{time}: `countersign up` adopts them again, \
         `countersign down --all` ends them"
    )
}

/// What waits for a person.
struct OpenWaits {
    asks: Vec<HostApproval>,
    questions: Vec<HostQuestion>,
}

impl OpenWaits {
    async fn load(client: &mut HostClient) -> Result<Self, CliError> {
        let params = ListParams {
            status: Some(ListStatus::Pending),
            ..ListParams::default()
        };
        Ok(Self {
            asks: client.call::<method::Approvals>(&params).await?,
            questions: client.call::<method::Questions>(&params).await?,
        })
    }

    /// What an agent waits for, the oldest first.
    fn waits_of_agent(&self, agent: &HostAgent) -> String {
        let id = Some(agent.id.as_str());
        let asks = self.asks.iter().filter(|row| row.agent_id.as_deref() == id);
        let asks = asks.map(|row| (row.sequence, approvals::summary(row)));
        let questions = self.questions.iter();
        let questions = questions.filter(|row| row.agent_id.as_deref() == id);
        let questions = questions.map(|row| (row.sequence, escape::line(&row.question).into()));
        let oldest = asks.chain(questions).min_by_key(|(sequence, _)| *sequence);
        let open = agent.open_approvals + agent.open_questions;
        match (oldest, open) {
            (Some((_, text)), 0 | 1) => text,
            (Some((_, text)), open) => format!("{text} (and {} more)", open - 1),
            (None, 0) => "-".to_owned(),
            (None, open) => format!("{open} answers"),
        }
    }
}

fn list(agents: &[HostAgent], waits: &OpenWaits, width: usize) -> String {
    let rows = agents.iter().map(|agent| {
        vec![
            escape::line(&agent.name).into_owned(),
            agent.state.to_string(),
            waits.waits_of_agent(agent),
        ]
    });
    let rows: Vec<_> = rows.collect();
    output::columns(&["NAME", "STATE", "WAITS FOR"], &rows, width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;

    #[test]
    fn agents_that_stay_are_named_with_what_they_wait_for() {
        let agent = |id: &str, state: &str, open| HostAgent {
            id: id.into(),
            name: format!("{id}-name"),
            state: state.into(),
            open_approvals: open,
            ..test_rows::agent()
        };
        let ask = |agent: &str, sequence| HostApproval {
            agent_id: Some(agent.into()),
            sequence,
            ..test_rows::approval()
        };
        let waits = OpenWaits {
            asks: vec![ask("a", 9), ask("a", 7)],
            questions: Vec::new(),
        };
        let agents = [
            agent("a", "awaiting_permission", 2),
            agent("b", "running", 0),
            agent("c", "awaiting_permission", 1),
        ];
        assert_eq!(
            anstream::adapter::strip_str(&list(&agents, &waits, 100)).to_string(),
            "NAME    STATE                WAITS FOR\n\
             a-name  awaiting_permission  Bash: cargo test --workspace (and 1 more)\n\
             b-name  running              -\n\
             c-name  awaiting_permission  1 answers\n"
        );
    }

    #[test]
    fn the_words_say_how_long_and_what_to_do() {
        assert_eq!(
            kept_agents_text(2, Some(1_800_000)),
            "2 agents keep running without a host for up to 30 minutes: `countersign up` adopts them again, \
             `countersign down --all` ends them"
        );
        assert!(kept_agents_text(1, None).starts_with("1 agent keeps running without a host: "));
    }
}

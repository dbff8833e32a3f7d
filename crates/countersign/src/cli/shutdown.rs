//! The end of a host: told, watched, and gone.
//!
//! Invariant: whoever is told that the host is gone can start another one at once.

use std::time::Duration;

use countersign_agents::procfs;
use countersign_core::limits::AGENTS_END_MS;
use countersign_protocol::{
    AgentsAtShutdown, HostAgent, NoParams, OkResult, ShutdownParams, method,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior};

use crate::client::{CallError, HostAddress, HostClient, HostEndpoint};
use crate::error::CliError;
use crate::output;
use crate::render::escape;

/// How long an ending host may take: its own deadline for connections, and the last flush.
const GONE_WITHIN: Duration = Duration::from_secs(20);
pub(super) const GONE_POLL: Duration = Duration::from_millis(20);
/// How long the host may take to say that its agents are gone: it gives up before.
const AGENTS_WITHIN: Duration = Duration::from_millis(AGENTS_END_MS + 15_000);
/// How often a person who waits for the end of agents is told which are left.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Ends when this process is interrupted or told to terminate. It listens from this call on, not only
/// from the first poll, so that a signal in between is not lost.
pub(crate) fn interruption() -> Result<impl Future<Output = ()>, CliError> {
    let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
    let (mut interrupted, mut terminated) = signal(interrupt)
        .and_then(|interrupted| Ok((interrupted, signal(terminate)?)))
        .map_err(|source| CliError::io("could not listen for signals", source))?;
    Ok(async move {
        tokio::select! {
            _ = interrupted.recv() => {}
            _ = terminated.recv() => {}
        }
    })
}

/// Tells the host to end, and waits until it did.
pub(crate) async fn end_host(
    endpoint: &HostEndpoint,
    agents: AgentsAtShutdown,
) -> Result<(), CliError> {
    let mut client = HostClient::connect(endpoint).await?;
    let status = client.call::<method::Status>(&NoParams {}).await?;
    match request_shutdown(endpoint, &mut client, agents).await {
        // A host that ends may close the connection before its reply is out. What counts is that it is
        // gone.
        Err(error) if !is_expected_at_shutdown(&error) => return Err(error.into()),
        _ => drop(client),
    }
    let waited = tokio::time::timeout(GONE_WITHIN, async {
        while !has_ended(endpoint, status.pid).await {
            tokio::time::sleep(GONE_POLL).await;
        }
    });
    waited.await.map_err(|_| {
        CliError::failed(format!(
            "the host (pid {}) was asked to stop and is still running",
            status.pid
        ))
        .with_hint("see its log; `countersign doctor` prints where it is")
    })
}

/// Whether a host that ends may answer so.
fn is_expected_at_shutdown(error: &CallError) -> bool {
    error.is_connection() && !matches!(error, CallError::Slow { .. })
}

/// Waits for the reply, and says now and then what is still waited for.
async fn request_shutdown(
    endpoint: &HostEndpoint,
    client: &mut HostClient,
    agents: AgentsAtShutdown,
) -> Result<OkResult, CallError> {
    let params = ShutdownParams { agents };
    let told = client.call_within::<method::Shutdown>(AGENTS_WITHIN, &params);
    tokio::pin!(told);
    let mut progress = tokio::time::interval_at(Instant::now() + PROGRESS_EVERY, PROGRESS_EVERY);
    // A slow host must not be asked several times in a row to make up for lost ticks.
    progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            reply = &mut told => return reply,
            _ = progress.tick() => print_remaining(endpoint).await,
        }
    }
}

/// On a connection of its own: the other one waits. A host that is about to go need not answer.
async fn print_remaining(endpoint: &HostEndpoint) {
    let Ok(mut client) = HostClient::connect(endpoint).await else {
        return;
    };
    if let Ok(left) = running_agents(&mut client).await
        && !left.is_empty()
    {
        let names: Vec<_> = left.iter().map(|agent| escape::line(&agent.name)).collect();
        output::print_message(format_args!("waiting for {} to end", names.join(", ")));
    }
}

/// The agents that the host runs now.
pub(super) async fn running_agents(client: &mut HostClient) -> Result<Vec<HostAgent>, CallError> {
    let mut agents = client.call::<method::Agents>(&NoParams {}).await?;
    agents.retain(runs);
    Ok(agents)
}

fn runs(agent: &HostAgent) -> bool {
    agent.managed.is_some() && !agent.state.is_ended()
}

async fn has_ended(endpoint: &HostEndpoint, pid: u32) -> bool {
    match endpoint.address {
        HostAddress::Socket(_) => !is_running(pid),
        HostAddress::Tcp { .. } => matches!(
            HostClient::connect(endpoint).await,
            Err(CliError::NoHost { .. })
        ),
    }
}

/// Whether a process still does anything: one that only waits to be collected does not.
pub(super) fn is_running(pid: u32) -> bool {
    match procfs::read_stat(pid) {
        // A process that ended keeps its number until its parent asks, which may be never.
        Some(stat) => !stat.zombie,
        None => procfs::has_process(pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_running() {
        assert!(is_running(std::process::id()));
        assert!(!is_running(u32::MAX));
    }
}

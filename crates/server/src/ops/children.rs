//! Operations of orchestrators on their descendants.
//!
//! Invariant: an orchestrator reads only about its own descendants; what it does is decided inside
//! the loop, as for a person.

use std::collections::BTreeSet;
use std::time::Duration;

use countersign_core::{Agent, AgentId, Approval, ApprovalId, Caller, OpenCounts, Question};
use countersign_daemon::Service;
use countersign_protocol as wire;

use super::agents::pick;
use super::{Result, managed};

/// The agents below the caller, by name.
pub(crate) async fn agents(service: &Service, caller: &Caller) -> Result<Vec<(Agent, OpenCounts)>> {
    let mut agents = service.descendants(caller).await?;
    agents.sort_by(|(a, _), (b, _)| (&a.profile.name, a.id()).cmp(&(&b.profile.name, b.id())));
    Ok(agents)
}

/// One agent below the caller, by its id or its name.
pub(crate) async fn find(service: &Service, caller: &Caller, name: &str) -> Result<Agent> {
    let agents = service.descendants(caller).await?;
    let agents: Vec<Agent> = agents.into_iter().map(|(agent, _)| agent).collect();
    pick(&agents, name).cloned()
}

/// Asks of agents below the caller that wait, oldest first.
pub(crate) async fn approvals(service: &Service, caller: &Caller) -> Result<Vec<Approval>> {
    Ok(service.open_asks_below(caller).await?)
}

/// Questions of agents below the caller that wait, oldest first.
pub(crate) async fn questions(service: &Service, caller: &Caller) -> Result<Vec<Question>> {
    Ok(service.open_questions_below(caller).await?)
}

/// Starts a child of the caller. The ask that allowed it starts no second one.
pub(crate) async fn spawn(
    service: &Service,
    caller: &Caller,
    params: wire::SpawnAgentParams,
    allowed_by: ApprovalId,
) -> Result<(Agent, OpenCounts)> {
    let mut request = managed::spawn_request(params)?;
    request.options.allowed_by = Some(allowed_by);
    Ok(service.spawn_agent(caller, request).await?)
}

/// What ended a wait for agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Idle,
    /// One of them asks something.
    Asked,
    TimedOut,
}

/// Waits until agents below the caller are idle, or one of them asks something.
pub(crate) async fn wait(
    service: &Service,
    caller: &Caller,
    ids: Vec<String>,
    limit: Duration,
) -> Result<(WaitOutcome, Vec<(Agent, OpenCounts)>)> {
    let timeout_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let wanted: BTreeSet<AgentId> = ids.iter().map(|id| AgentId::new(id.as_str())).collect();
    let params = wire::WaitAgentsParams {
        agent_ids: Some(ids),
        timeout_ms: Some(timeout_ms),
        ..wire::WaitAgentsParams::default()
    };
    // A question ends the wait: the orchestrator reads it only after this turn, and its child would
    // wait for the answer as long as the orchestrator waits here.
    let outcome = tokio::select! {
        biased;
        waited = managed::wait(service, caller, params) => {
            if waited?.reached { WaitOutcome::Idle } else { WaitOutcome::TimedOut }
        }
        asked = service.wait_asked(caller, &wanted) => asked.map(|()| WaitOutcome::Asked)?,
    };
    let mut agents = agents(service, caller).await?;
    agents.retain(|(agent, _)| wanted.contains(agent.id()));
    Ok((outcome, agents))
}

//! Operations of orchestrators on the agents below them.
//!
//! Invariant: what an orchestrator is shown is about its own descendants; what it wants done is
//! decided inside the loop, like a person's wish.

use std::collections::BTreeSet;
use std::time::Duration;

use countersign_core::{AgentId, ApprovalId, Caller, Rejection};
use countersign_daemon::Service;
use countersign_protocol as wire;
use countersign_protocol::{HostAgent, HostApproval, HostQuestion, Reason};

use super::{Result, managed};
use crate::api_error::ApiError;
use crate::convert;

/// The agents below the caller, by name.
pub(crate) async fn agents(service: &Service, caller: &Caller) -> Result<Vec<HostAgent>> {
    let below = service.descendants(caller).await?;
    let mut rows: Vec<_> = below.iter().map(convert::agent).collect();
    rows.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
    Ok(rows)
}

/// One agent below the caller, by its id or its name.
pub(crate) async fn find(service: &Service, caller: &Caller, word: &str) -> Result<HostAgent> {
    let mut rows = agents(service, caller).await?;
    if let Some(at) = rows.iter().position(|row| row.id == word) {
        return Ok(rows.swap_remove(at));
    }
    rows.retain(|row| row.name == word);
    let several = rows.len() > 1;
    match rows.pop() {
        Some(row) if !several => Ok(row),
        Some(_) => Err(ApiError::plain(
            Reason::AmbiguousId,
            format!("more than one agent is called '{word}': give an id"),
        )),
        None => Err(Rejection::UnknownAgent(AgentId::new(word)).into()),
    }
}

/// Asks of agents below the caller that wait, oldest first.
pub(crate) async fn approvals(service: &Service, caller: &Caller) -> Result<Vec<HostApproval>> {
    let open = service.open_asks_below(caller).await?;
    Ok(open.iter().map(convert::approval).collect())
}

/// Questions of agents below the caller that wait, oldest first.
pub(crate) async fn questions(service: &Service, caller: &Caller) -> Result<Vec<HostQuestion>> {
    let open = service.open_questions_below(caller).await?;
    Ok(open.iter().map(convert::question).collect())
}

/// Starts an agent below the caller. The ask that allowed it starts one and no more.
pub(crate) async fn spawn(
    service: &Service,
    caller: &Caller,
    params: wire::SpawnAgentParams,
    allowed_by: String,
) -> Result<HostAgent> {
    let mut request = managed::request(params)?;
    request.options.allowed_by = Some(ApprovalId::new(allowed_by));
    Ok(convert::agent(&service.spawn_agent(caller, request).await?))
}

/// What ended a wait for agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// All have nothing to do.
    Rested,
    /// One of them asks something.
    Asked,
    /// Time ran out.
    Late,
}

/// Waits until agents below the caller have nothing to do, or one of them asks something: whoever
/// waited on would keep it waiting, since questions are heard between turns.
pub(crate) async fn wait(
    service: &Service,
    caller: &Caller,
    ids: Vec<String>,
    limit: Duration,
) -> Result<(Woken, Vec<HostAgent>)> {
    let timeout_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let wanted: BTreeSet<AgentId> = ids.iter().map(|id| AgentId::new(id.as_str())).collect();
    let params = wire::WaitIdleParams {
        agent_id: None,
        agent_ids: Some(ids),
        timeout_ms: Some(timeout_ms),
    };
    let woken = tokio::select! {
        biased;
        rested = managed::wait_idle(service, caller, params) => {
            if rested?.idle { Woken::Rested } else { Woken::Late }
        }
        asked = service.wait_asked(caller, &wanted) => asked.map(|()| Woken::Asked)?,
    };
    let mut rows = agents(service, caller).await?;
    rows.retain(|row| wanted.contains(&AgentId::new(row.id.as_str())));
    Ok((woken, rows))
}

//! Operations of orchestrators on the agents below them.
//!
//! Invariant: what an orchestrator is shown is about its own descendants; what it wants done is
//! decided inside the loop, like a person's wish.

use std::collections::BTreeSet;
use std::time::Duration;

use countersign_core::{AgentId, ApprovalId, Caller, Rejection};
use countersign_daemon::{EventFilter, Service};
use countersign_protocol as wire;
use countersign_protocol::{HostAgent, HostApproval, HostQuestion, Reason};

use super::{Result, managed};
use crate::api_error::ApiError;
use crate::convert;

fn orchestrator(caller: &Caller) -> Result<AgentId> {
    let agent = caller.principal.agent().cloned();
    agent.ok_or_else(|| Rejection::OnlyAgents.into())
}

/// The agents below the caller, by name.
pub(crate) async fn agents(service: &Service, caller: &Caller) -> Result<Vec<HostAgent>> {
    let below = service.descendants_of(orchestrator(caller)?).await?;
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
    let below = ids_below(service, caller).await?;
    let overview = service.overview().await?;
    let open = overview.approvals.iter().filter(|approval| {
        let asker = approval.ask.agent.as_ref();
        approval.is_pending() && asker.is_some_and(|asker| below.contains(asker))
    });
    let mut rows: Vec<_> = open.map(convert::approval).collect();
    rows.sort_by_key(|row| row.sequence);
    Ok(rows)
}

/// Questions of agents below the caller that wait, oldest first.
pub(crate) async fn questions(service: &Service, caller: &Caller) -> Result<Vec<HostQuestion>> {
    let below = ids_below(service, caller).await?;
    let overview = service.overview().await?;
    let open = overview.questions.iter().filter(|question| {
        let asker = question.text.agent.as_ref();
        question.is_pending() && asker.is_some_and(|asker| below.contains(asker))
    });
    let mut rows: Vec<_> = open.map(convert::question).collect();
    rows.sort_by_key(|row| row.sequence);
    Ok(rows)
}

async fn ids_below(service: &Service, caller: &Caller) -> Result<BTreeSet<AgentId>> {
    let below = service.descendants_of(orchestrator(caller)?).await?;
    Ok(below.iter().map(|(agent, _)| agent.id().clone()).collect())
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
        asked = until_asked(service, &wanted) => asked.map(|()| Woken::Asked)?,
    };
    let mut rows = agents(service, caller).await?;
    rows.retain(|row| wanted.contains(&AgentId::new(row.id.as_str())));
    Ok((woken, rows))
}

/// A question that is open counts at once; an ask only if it comes now, since its answer may be a
/// person's alone to give.
async fn until_asked(service: &Service, wanted: &BTreeSet<AgentId>) -> Result<()> {
    let filter = EventFilter {
        kinds: Some(
            ["question.asked", "approval.requested"]
                .map(str::to_owned)
                .to_vec(),
        ),
        agent: None,
    };
    let mut events = service.subscription(service.head(), filter);
    let mut asked_now = false;
    loop {
        let overview = service.overview().await?;
        let is_wanted = |agent: Option<&AgentId>| agent.is_some_and(|id| wanted.contains(id));
        let open = overview.questions.iter();
        let mut open = open.filter(|question| question.is_pending());
        if asked_now || open.any(|question| is_wanted(question.text.agent.as_ref())) {
            return Ok(());
        }
        let page = events.next().await?;
        let approvals = page
            .iter()
            .filter_map(|entry| match &entry.committed.event {
                countersign_core::Event::ApprovalRequested(asked) => asked.ask.agent.as_ref(),
                _ => None,
            });
        let mut waiting = approvals.filter(|agent| wanted.contains(*agent));
        if let Some(agent) = waiting.next() {
            // One that a rule settled at once waits for nobody.
            let (_, open) = service.load_agent(agent.clone()).await?;
            asked_now = open.approvals > 0;
        }
    }
}

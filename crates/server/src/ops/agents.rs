//! Operations on the list of agents, whoever started them.

#[cfg(test)]
mod tests;

use countersign_core::event::{AgentDisplay, AgentProfile};
use countersign_core::{
    Agent, AgentId, Caller, Json, OpenCounts, RegisterAgent, Rejection, SetStatus,
};
use countersign_daemon::{EventFilter, EventQuery, Service, new_agent_id};
use countersign_protocol as wire;
use countersign_protocol::Reason;

use super::Result;
use crate::api_error::ApiError;
use crate::convert;

/// The agent that a caller means, by its id or its name. An agent is known to itself by its id, and may
/// not find others.
pub(crate) fn find_id(service: &Service, caller: &Caller, name: &str) -> Result<AgentId> {
    let id = AgentId::new(name);
    if caller.principal.agent().is_some() {
        return Ok(id);
    }
    let mut meant = service.find_agents_named(caller, name)?;
    if meant.iter().all(|agent| *agent.id() != id) {
        meant.extend(service.find_agent(&id));
    }
    Ok(pick(&meant, name)?.id().clone())
}

/// The one agent that has this id, or this name. Refuses a word that two agents answer to: whoever
/// typed it may mean either.
pub(super) fn pick<'a>(agents: &'a [Agent], name: &str) -> Result<&'a Agent> {
    let with_id = agents.iter().find(|agent| agent.id().as_str() == name);
    // The host made this id, and gives no agent a name that is an id. Another agent can only have
    // called itself so, and must not make this one unreachable by that.
    if let Some(agent) = with_id.filter(|agent| agent.managed.is_some()) {
        return Ok(agent);
    }
    let with_name = agents.iter().filter(|agent| agent.profile.name == name);
    let mut meant: Vec<&Agent> = with_name.collect();
    meant.extend(with_id.filter(|agent| agent.profile.name != name));
    // An archived agent gave its name free: it is meant only if no other is.
    if meant.iter().any(|agent| !is_archived(agent)) {
        meant.retain(|agent| !is_archived(agent));
    }
    match meant[..] {
        [agent] => Ok(agent),
        [] => Err(Rejection::UnknownAgent(AgentId::new(name)).into()),
        _ => Err(ambiguous(&meant, name)),
    }
}

fn ambiguous(meant: &[&Agent], name: &str) -> ApiError {
    let mut listed: Vec<String> = meant
        .iter()
        .map(|agent| format!("'{}' (id '{}')", agent.profile.name, agent.id()))
        .collect();
    listed.sort_unstable();
    let listed = listed.join(", ");
    ApiError::plain(
        Reason::AmbiguousId,
        format!("'{name}' is the name or the id of more than one agent: {listed}"),
    )
}

fn is_archived(agent: &Agent) -> bool {
    let managed = agent.managed.as_ref();
    managed.is_some_and(|managed| managed.archived)
}

/// The agent in a filter. One that is no longer listed is known by its id, if the record has it.
pub(crate) async fn find_filter(
    service: &Service,
    caller: &Caller,
    name: Option<String>,
) -> Result<Option<AgentId>> {
    let Some(name) = name else { return Ok(None) };
    let unknown = match find_id(service, caller, &name) {
        Err(error) if error.reason == Reason::UnknownAgent => error,
        found => return found.map(Some),
    };
    let id = AgentId::new(name);
    let query = EventQuery {
        limit: 1,
        ..EventQuery::default()
    };
    let filter = EventFilter {
        agent: Some(id.clone()),
        ..EventFilter::default()
    };
    let recorded = service.events(caller, query, filter).await?;
    if recorded.is_empty() {
        return Err(unknown);
    }
    Ok(Some(id))
}

/// One agent. An agent may load only itself.
pub(crate) async fn load(
    service: &Service,
    caller: &Caller,
    id: String,
) -> Result<(Agent, OpenCounts)> {
    let id = find_id(service, caller, &id)?;
    if caller.principal.agent().is_some_and(|bound| *bound != id) {
        caller.refuse_agents()?;
    }
    Ok(service.load_agent(caller, id).await?)
}

pub(crate) async fn list(service: &Service, caller: &Caller) -> Result<Vec<(Agent, OpenCounts)>> {
    Ok(service.agents(caller).await?)
}

pub(crate) async fn register(
    service: &Service,
    caller: Caller,
    params: wire::RegisterAgentParams,
) -> Result<(Agent, OpenCounts)> {
    // An agent that names no id registers itself. If it names another's, `decide` refuses it.
    let bound = caller.principal.agent().cloned();
    let named = params.id.filter(|id| !id.is_empty()).map(AgentId::new);
    let profile = AgentProfile {
        id: named.or(bound).unwrap_or_else(new_agent_id),
        name: params.name,
        kind: params.kind,
        capabilities: params.capabilities,
        project: params.project,
        pid: params.pid,
        display: AgentDisplay {
            label: params.display.label,
            icon: params.display.icon,
            accent: params.display.accent,
        },
        metadata: convert::json(params.metadata),
    };
    Ok(service
        .register_agent(RegisterAgent { caller, profile })
        .await?)
}

pub(crate) async fn unregister(service: &Service, caller: Caller, id: String) -> Result<()> {
    Ok(service.unregister_agent(caller, AgentId::new(id)).await?)
}

pub(crate) async fn set_status(
    service: &Service,
    caller: Caller,
    agent: String,
    body: wire::StatusBody,
) -> Result<(Agent, OpenCounts)> {
    let payload = body.payload.filter(|payload| !payload.is_null());
    let payload = payload
        .map(|payload| Json::from_value(&payload))
        .transpose()
        .map_err(|error| ApiError::invalid(&error))?;
    let input = SetStatus {
        caller,
        agent: AgentId::new(agent),
        base: convert::base_state(body.status),
        current_task: body.current_task,
        message: body.message,
        payload,
    };
    Ok(service.set_status(input).await?)
}

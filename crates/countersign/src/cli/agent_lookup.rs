//! One agent, by its id or its name, and what its row says about it. The host knows whose name it is.

use std::collections::BTreeMap;

use countersign_protocol::{AgentParams, HostAgent, HostAgentRole, method};

use crate::client::HostClient;
use crate::error::CliError;

pub(super) async fn load_agent(client: &mut HostClient, name: &str) -> Result<HostAgent, CliError> {
    let agent_id = name.to_owned();
    Ok(client
        .call::<method::Agent>(&AgentParams { agent_id })
        .await?)
}

pub(super) fn is_archived(agent: &HostAgent) -> bool {
    agent
        .managed
        .as_ref()
        .is_some_and(|managed| managed.archived)
}

/// Whether it has all of these labels.
pub(super) fn has_labels(agent: &HostAgent, labels: &BTreeMap<String, String>) -> bool {
    let managed = agent.managed.as_ref();
    labels
        .iter()
        .all(|(key, value)| managed.is_some_and(|managed| managed.labels.get(key) == Some(value)))
}

pub(super) fn is_orchestrator(agent: &HostAgent) -> bool {
    let managed = agent.managed.as_ref();
    managed.is_some_and(|managed| managed.role == Some(HostAgentRole::Orchestrator))
}

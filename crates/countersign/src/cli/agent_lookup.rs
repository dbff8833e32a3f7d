//! Agents as people name them: by id, or by a name that only one has.

use countersign_protocol::{HostAgent, HostAgentRole, NoParams, method};

use crate::client::HostClient;
use crate::error::CliError;
use crate::render::escape;

/// The agent that is meant.
pub(super) async fn find_agent(client: &mut HostClient, word: &str) -> Result<HostAgent, CliError> {
    let agents = client.call::<method::Agents>(&NoParams {}).await?;
    let id = choose(&agents, word)?;
    let found = agents.into_iter().find(|agent| agent.id == id);
    found.ok_or_else(|| CliError::UnknownId {
        what: format!("no agent is called `{}`", escape::line(word)),
        hint: Some("see the agents with `countersign ls --all`".into()),
    })
}

/// The id of the agent that is meant. What fits none is left to the host to refuse.
pub(super) async fn find_agent_id(client: &mut HostClient, word: &str) -> Result<String, CliError> {
    let agents = client.call::<method::Agents>(&NoParams {}).await?;
    choose(&agents, word)
}

/// An id wins over a name; among equal names one that is not put away does.
fn choose(agents: &[HostAgent], word: &str) -> Result<String, CliError> {
    if agents.iter().any(|agent| agent.id == word) {
        return Ok(word.to_owned());
    }
    let named: Vec<_> = agents.iter().filter(|agent| agent.name == word).collect();
    let shown: Vec<_> = named
        .iter()
        .copied()
        .filter(|agent| !is_archived(agent))
        .collect();
    match (named.as_slice(), shown.as_slice()) {
        ([agent], _) | (_, [agent]) => Ok(agent.id.clone()),
        ([], _) => Ok(word.to_owned()),
        _ => Err(CliError::UnknownId {
            what: format!("more than one agent is called `{}`", escape::line(word)),
            hint: Some("take its id from `countersign ls --all --json`".into()),
        }),
    }
}

/// Whether it was put away.
pub(super) fn is_archived(agent: &HostAgent) -> bool {
    agent
        .managed
        .as_ref()
        .is_some_and(|managed| managed.archived)
}

/// Whether it is an orchestrator.
pub(super) fn is_orchestrator(agent: &HostAgent) -> bool {
    let managed = agent.managed.as_ref();
    managed.is_some_and(|managed| managed.role == Some(HostAgentRole::Orchestrator))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;
    use countersign_protocol::ManagedRow;

    #[test]
    fn an_agent_is_found_by_its_id_or_by_a_name_of_its_own() {
        let agent = |id: &str, name: &str| HostAgent {
            id: id.into(),
            name: name.into(),
            ..test_rows::agent()
        };
        let away = HostAgent {
            managed: Some(ManagedRow {
                archived: true,
                ..test_rows::managed()
            }),
            ..agent("f", "x")
        };
        let agents = [
            agent("a", "b"),
            agent("b", "x"),
            agent("c", "y"),
            agent("d", "y"),
            away,
        ];
        let found = |word| choose(&agents, word).ok();
        assert_eq!(
            [found("b"), found("x"), found("y"), found("z")],
            [Some("b".into()), Some("b".into()), None, Some("z".into())]
        );
    }
}

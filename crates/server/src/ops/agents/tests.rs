//! Which agent a word stands for.

use std::sync::Arc;

use countersign_core::event::{
    AgentArchived, AgentProfile, AgentRegistered, AgentSpawned, SpawnOptions,
};
use countersign_core::{
    Agent, AgentId, Caller, Event, PrincipalKey, RecordedActor, Seq, State, Timestamp,
};

use super::pick;

/// An agent that registered itself.
fn external(id: &str, name: &str) -> Event {
    let agent = AgentRegistered {
        agent: Arc::new(AgentProfile::new(AgentId::new(id), name)),
        owner: PrincipalKey::new("key"),
        client: None,
    };
    agent.into()
}

/// An agent that the host started.
fn managed(id: &str, name: &str) -> Event {
    let agent = AgentSpawned {
        agent: Arc::new(AgentProfile::new(AgentId::new(id), name)),
        options: Arc::new(SpawnOptions::default()),
        by: RecordedActor::from(&Caller::host()),
    };
    agent.into()
}

fn archived(id: &str) -> Event {
    let agent = AgentArchived {
        agent: AgentId::new(id),
        archived: true,
        by: RecordedActor::from(&Caller::host()),
    };
    agent.into()
}

/// The id of the agent that a word stands for, or why it stands for none.
fn picked<const N: usize>(events: [Event; N], word: &str) -> String {
    let mut state = State::default();
    for (seq, event) in (1..).map(Seq).zip(events) {
        state.apply(seq, Timestamp::default(), &event);
    }
    let agents: Vec<Agent> = state.agents().cloned().collect();
    match pick(&agents, word) {
        Ok(agent) => agent.id().as_str().to_owned(),
        Err(error) => error.message,
    }
}

#[test]
fn an_agent_is_found_by_its_id_and_by_its_name() {
    for word in ["docs", "agent-1"] {
        let agents = [managed("agent-1", "docs"), external("x", "build")];
        assert_eq!(picked(agents, word), "agent-1");
    }
    assert_eq!(picked([external("bot", "bot")], "bot"), "bot");
    assert_eq!(picked([external("x", "y")], "z"), "unknown agent 'z'");
}

#[test]
fn a_name_that_is_also_the_id_of_another_agent_is_refused() {
    let expected = "'docs' is the name or the id of more than one agent: \
                    'build' (id 'docs'), 'docs' (id 'agent-1')";
    let agents = [managed("agent-1", "docs"), external("docs", "build")];
    assert_eq!(picked(agents.clone(), "docs"), expected);
    assert_eq!(picked(agents.clone(), "build"), "docs");
    assert_eq!(picked(agents, "agent-1"), "agent-1");
}

#[test]
fn a_name_that_two_agents_have_is_refused() {
    let expected = "'docs' is the name or the id of more than one agent: \
                    'docs' (id 'docs'), 'docs' (id 'x')";
    let agents = [external("x", "docs"), external("docs", "docs")];
    assert_eq!(picked(agents, "docs"), expected);
}

#[test]
fn an_agent_that_calls_itself_by_the_id_of_another_does_not_hide_that_one() {
    let agents = [managed("agent-1", "docs"), external("x", "agent-1")];
    assert_eq!(picked(agents, "agent-1"), "agent-1");
}

#[test]
fn an_archived_agent_is_meant_only_if_no_other_is() {
    let agents = [managed("agent-1", "docs"), archived("agent-1")];
    assert_eq!(picked(agents.clone(), "docs"), "agent-1");
    let [agent, away] = agents;
    let agents = [agent, away, external("docs", "build")];
    assert_eq!(picked(agents, "docs"), "docs");
}

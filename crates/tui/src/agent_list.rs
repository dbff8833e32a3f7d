//! The agents, in the order in which somebody needs to see them.

use std::collections::{BTreeMap, BTreeSet};

use countersign_protocol::{HostAgent, HostAgentRole, HostAgentState, Time};

/// An agent in the list, and how deep it stands below its orchestrator.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentEntry<'a> {
    pub agent: &'a HostAgent,
    pub depth: usize,
}

/// What waits for somebody first, then what runs, rests, failed and ended; the most recent first; children below
/// their orchestrator; archived ones last, if at all.
pub fn ordered_agents<'a>(
    agents: &'a BTreeMap<String, HostAgent>,
    with_archived: bool,
    filter: &str,
) -> Vec<AgentEntry<'a>> {
    let shown: BTreeMap<&str, &HostAgent> = agents
        .iter()
        .filter(|(_, agent)| (with_archived || !is_archived(agent)) && matches(agent, filter))
        .map(|(id, agent)| (id.as_str(), agent))
        .collect();
    let mut children: BTreeMap<&str, Vec<&HostAgent>> = BTreeMap::new();
    let mut roots = Vec::new();
    for agent in shown.values() {
        match parent_of(agent).filter(|parent| shown.contains_key(parent)) {
            Some(parent) => children.entry(parent).or_default().push(agent),
            None => roots.push(*agent),
        }
    }
    let mut entries = Vec::new();
    let mut seen = BTreeSet::new();
    roots.sort_by_key(|agent| family_rank(agent, &children, 0));
    for root in roots {
        push_family(root, 0, &mut children, &mut entries, &mut seen);
    }
    // Parents in a circle have no root: nobody is left out of the list for that.
    for agent in shown.values() {
        push_family(agent, 0, &mut children, &mut entries, &mut seen);
    }
    entries
}

fn push_family<'a>(
    agent: &'a HostAgent,
    depth: usize,
    children: &mut BTreeMap<&str, Vec<&'a HostAgent>>,
    entries: &mut Vec<AgentEntry<'a>>,
    seen: &mut BTreeSet<&'a str>,
) {
    // A host that named a cycle of parents would otherwise be followed for ever.
    if !seen.insert(&agent.id) {
        return;
    }
    entries.push(AgentEntry { agent, depth });
    let mut below = children.remove(agent.id.as_str()).unwrap_or_default();
    below.sort_by_key(|agent| rank(agent));
    for child in below {
        push_family(child, depth + 1, children, entries, seen);
    }
}

/// How deep families are looked through for who needs somebody.
const DEPTH_MAX: usize = 8;

/// The rank of whoever in a family needs somebody most.
fn family_rank(
    agent: &HostAgent,
    children: &BTreeMap<&str, Vec<&HostAgent>>,
    depth: usize,
) -> (bool, u8, u64) {
    let own = rank(agent);
    if depth >= DEPTH_MAX {
        return own;
    }
    let below = children.get(agent.id.as_str()).into_iter().flatten();
    let below = below.map(|child| family_rank(child, children, depth + 1));
    below.chain([own]).min().unwrap_or(own)
}

fn rank(agent: &HostAgent) -> (bool, u8, u64) {
    let group = match agent.state {
        HostAgentState::AwaitingPermission | HostAgentState::Waiting => 0,
        HostAgentState::Running | HostAgentState::Starting => 1,
        HostAgentState::Idle | HostAgentState::Paused | HostAgentState::Unknown => 2,
        HostAgentState::Error => 3,
        HostAgentState::Done | HostAgentState::Stopped => 4,
    };
    (is_archived(agent), group, u64::MAX - last_activity(agent).0)
}

/// When it last sent something, or changed.
pub fn last_activity(agent: &HostAgent) -> Time {
    let managed = agent.managed.as_ref();
    managed.map_or(agent.updated_at, |managed| managed.last_activity)
}

pub fn is_archived(agent: &HostAgent) -> bool {
    agent
        .managed
        .as_ref()
        .is_some_and(|managed| managed.archived)
}

pub fn is_orchestrator(agent: &HostAgent) -> bool {
    let role = agent.managed.as_ref().and_then(|managed| managed.role);
    role == Some(HostAgentRole::Orchestrator)
}

pub fn parent_of(agent: &HostAgent) -> Option<&str> {
    agent.managed.as_ref()?.parent.as_deref()
}

/// Whether an agent is one of those that a person looks for.
fn matches(agent: &HostAgent, filter: &str) -> bool {
    let filter = filter.to_lowercase();
    filter.is_empty()
        || agent.name.to_lowercase().contains(&filter)
        || agent.state.as_str().contains(&filter)
        || agent.kind.to_lowercase().contains(&filter)
}

/// Agents that would be left without their orchestrator.
pub fn living_descendants(agents: &BTreeMap<String, HostAgent>, id: &str) -> usize {
    let below = agents.values().filter(|agent| parent_of(agent) == Some(id));
    below
        .map(|agent| {
            usize::from(!agent.state.is_ended()) + living_descendants_below(agents, agent, 1)
        })
        .sum()
}

fn living_descendants_below(
    agents: &BTreeMap<String, HostAgent>,
    agent: &HostAgent,
    depth: usize,
) -> usize {
    if depth >= DEPTH_MAX {
        return 0;
    }
    let below = agents
        .values()
        .filter(|child| parent_of(child) == Some(&agent.id));
    below
        .map(|child| {
            usize::from(!child.state.is_ended())
                + living_descendants_below(agents, child, depth + 1)
        })
        .sum()
}

/// Millionths of a dollar as people read them.
pub fn cost_text(micro_usd: u64) -> String {
    let cents = micro_usd.div_ceil(10_000);
    format!("${}.{:02}", cents / 100, cents % 100)
}

/// What all agents together cost.
pub fn total_cost(agents: &BTreeMap<String, HostAgent>) -> u64 {
    let managed = agents.values().filter_map(|agent| agent.managed.as_ref());
    managed
        .filter_map(|managed| managed.usage.cost_micro_usd)
        .sum()
}

/// How full its context is, in per cent.
pub fn context_percent(agent: &HostAgent) -> Option<u64> {
    let usage = agent.managed.as_ref()?.usage;
    let (used, size) = (usage.context_used?, usage.context_size?);
    (size > 0).then(|| used.saturating_mul(100) / size)
}

/// The repository or folder that an agent works in.
pub fn project_of(agent: &HostAgent) -> Option<&str> {
    let managed = agent.managed.as_ref();
    let repository = managed.and_then(|managed| managed.worktree.as_ref());
    repository
        .map(|worktree| worktree.repository.as_str())
        .or(managed.map(|managed| managed.cwd.as_str()))
        .or(agent.project.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;
    use countersign_protocol::ManagedRow;

    fn agent(id: &str, state: &str, parent: Option<&str>, at: u64) -> HostAgent {
        HostAgent {
            id: id.into(),
            name: id.into(),
            state: state.into(),
            managed: Some(ManagedRow {
                parent: parent.map(str::to_owned),
                last_activity: Time(at),
                archived: id.starts_with("old"),
                ..test_rows::managed()
            }),
            ..test_rows::agent()
        }
    }

    fn family() -> BTreeMap<String, HostAgent> {
        let agents = [
            agent("done", "done", None, 9),
            agent("idle", "idle", None, 5),
            agent("run1", "running", None, 1),
            agent("run2", "running", None, 2),
            agent("boss", "idle", None, 1),
            agent("kid", "awaiting_permission", Some("boss"), 1),
            agent("old", "done", None, 99),
        ];
        agents
            .into_iter()
            .map(|agent| (agent.id.clone(), agent))
            .collect()
    }

    #[test]
    fn who_needs_somebody_stands_first_with_its_family() {
        let agents = family();
        let names = |archived, filter: &str| -> Vec<(String, usize)> {
            let entries = ordered_agents(&agents, archived, filter);
            entries
                .iter()
                .map(|entry| (entry.agent.name.clone(), entry.depth))
                .collect()
        };
        let expected = [
            ("boss", 0),
            ("kid", 1),
            ("run2", 0),
            ("run1", 0),
            ("idle", 0),
            ("done", 0),
        ];
        assert_eq!(
            names(false, ""),
            expected.map(|(name, depth)| (name.to_owned(), depth))
        );
        assert_eq!(names(true, "").last().unwrap().0, "old");
        assert_eq!(names(false, "RUN1"), [("run1".to_owned(), 0)]);
        assert_eq!(living_descendants(&agents, "boss"), 1);
    }

    #[test]
    fn parents_in_a_circle_are_listed_once() {
        let mut agents = BTreeMap::new();
        for (id, parent) in [("a", "b"), ("b", "a")] {
            agents.insert(id.to_owned(), agent(id, "idle", Some(parent), 1));
        }
        assert_eq!(ordered_agents(&agents, false, "").len(), 2);
        assert_eq!(living_descendants(&agents, "a"), DEPTH_MAX);
    }

    #[test]
    fn cost_is_rounded_up_to_cents() {
        assert_eq!(cost_text(0), "$0.00");
        assert_eq!(cost_text(1), "$0.01");
        assert_eq!(cost_text(3_120_000), "$3.12");
    }
}

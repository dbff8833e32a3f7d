//! Families: agents under the orchestrator that started them.
//!
//! Invariant: every agent stands in the list once, whatever parents the rows name.

use std::collections::{BTreeMap, BTreeSet};

use countersign_protocol::HostAgent;

/// Puts each agent under its parent, with its depth. Families stand in the order of whoever of them
/// comes first in `agents`, and so do children.
pub(super) fn arrange_by_parent(agents: Vec<HostAgent>) -> Vec<(usize, HostAgent)> {
    let ids: BTreeSet<&str> = agents.iter().map(|agent| agent.id.as_str()).collect();
    let parents: BTreeMap<String, String> = agents
        .iter()
        .filter_map(|agent| {
            // A parent that is not listed, because it is archived for example, leaves its children at
            // the top.
            let parent = parent_of(agent).filter(|parent| ids.contains(parent))?;
            Some((agent.id.clone(), parent.to_owned()))
        })
        .collect();
    let lines: Vec<Vec<String>> = agents
        .iter()
        .map(|agent| path_from_top(&agent.id, &parents))
        .collect();
    // Where the first of those at or below each stands.
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        for id in line {
            first.entry(id).or_insert(at);
        }
    }
    let mut placed: Vec<_> = lines.iter().zip(agents).collect();
    placed.sort_by_cached_key(|(line, _)| -> Vec<_> {
        let ids = line.iter().map(String::as_str);
        ids.map(|id| (first.get(id).copied(), id)).collect()
    });
    placed
        .into_iter()
        .map(|(line, agent)| (line.len() - 1, agent))
        .collect()
}

fn parent_of(agent: &HostAgent) -> Option<&str> {
    agent.managed.as_ref()?.parent.as_deref()
}

/// An agent and those above it, the topmost first. Rows that name each other end where they repeat.
fn path_from_top(id: &str, parents: &BTreeMap<String, String>) -> Vec<String> {
    let mut line = vec![id.to_owned()];
    while let Some(parent) = line.last().and_then(|id| parents.get(id)) {
        if line.contains(parent) {
            return vec![id.to_owned()];
        }
        line.push(parent.clone());
    }
    line.reverse();
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rows;
    use countersign_protocol::ManagedRow;

    fn agent(id: &str, parent: Option<&str>) -> HostAgent {
        HostAgent {
            id: id.into(),
            managed: Some(ManagedRow {
                parent: parent.map(str::to_owned),
                ..test_rows::managed()
            }),
            ..test_rows::agent()
        }
    }

    fn places(agents: Vec<HostAgent>) -> Vec<(usize, String)> {
        let placed = arrange_by_parent(agents).into_iter();
        placed.map(|(depth, agent)| (depth, agent.id)).collect()
    }

    #[test]
    fn children_stand_under_their_parent_where_the_first_of_the_family_would() {
        let agents = vec![
            agent("grandchild", Some("child")),
            agent("other", None),
            agent("second", Some("boss")),
            agent("boss", None),
            agent("child", Some("boss")),
            agent("orphan", Some("gone")),
        ];
        let expected = [
            (0, "boss"),
            (1, "child"),
            (2, "grandchild"),
            (1, "second"),
            (0, "other"),
            (0, "orphan"),
        ];
        assert_eq!(
            places(agents),
            expected.map(|(depth, id)| (depth, id.to_owned()))
        );
    }

    #[test]
    fn rows_that_name_each_other_all_stand_there_once() {
        let agents = vec![
            agent("a", Some("b")),
            agent("b", Some("a")),
            agent("c", Some("c")),
        ];
        let expected = [(0, "a"), (0, "b"), (0, "c")];
        assert_eq!(
            places(agents),
            expected.map(|(depth, id)| (depth, id.to_owned()))
        );
    }
}

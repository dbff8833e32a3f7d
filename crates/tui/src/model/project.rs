//! One project folder that every panel is narrowed to.
//!
//! Invariant: what waits and belongs to no agent, or is selected, is listed all the same; the top line counts all.

use std::collections::BTreeSet;

use countersign_protocol::{HostAgent, HostEvent, SearchHitRow};

use super::Model;
use crate::agent_list::project_of;
use crate::inbox::agent_of;
use crate::render::inbox_item::InboxItem;

impl Model {
    /// Whether an agent works in the folder that panels are narrowed to, if they are.
    pub fn is_in_project(&self, agent: &HostAgent) -> bool {
        let Some(project) = &self.project else {
            return true;
        };
        project_of(agent).is_some_and(|folder| is_inside(folder, project))
    }

    pub fn lists_item(&self, item: &InboxItem) -> bool {
        let agent = agent_of(item).and_then(|id| self.host.agents.get(id));
        agent.is_none_or(|agent| self.is_in_project(agent))
            || self.inbox.selected_id() == Some(item.id())
    }

    /// The rows of the inbox that are listed, by their place among all.
    pub fn inbox_rows(&self) -> Vec<usize> {
        let items = self.inbox.items().iter().enumerate();
        let listed = items.filter(|(_, item)| self.lists_item(item));
        listed.map(|(index, _)| index).collect()
    }

    /// The events that a feed shows.
    pub fn feed_rows(&self, filter: &str) -> Vec<&HostEvent> {
        let mut events = self.feed.shown(filter);
        events.retain(|event| {
            let agent = event.agent_id.as_ref();
            let agent = agent.and_then(|id| self.host.agents.get(id));
            agent.is_none_or(|agent| self.is_in_project(agent))
        });
        events
    }

    /// What a search found, as it is listed.
    pub fn search_rows(&self) -> Vec<&SearchHitRow> {
        let hits = self.search.hits().iter();
        let listed = hits.filter(|hit| {
            let agent = self.host.agents.get(&hit.agent_id);
            agent.is_none_or(|agent| self.is_in_project(agent))
        });
        listed.collect()
    }

    /// Folders that panels can be narrowed to.
    pub fn project_folders(&self) -> Vec<String> {
        let agents = self.host.agents.values().filter_map(project_of);
        let folders: BTreeSet<&str> = agents.chain(self.folder.as_deref()).collect();
        folders.into_iter().map(str::to_owned).collect()
    }
}

fn is_inside(folder: &str, project: &str) -> bool {
    let rest = folder.strip_prefix(project.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use crate::test_screen::{TestScreen, agent};

    /// A screen with agents in two folders, and an ask of each.
    fn two_projects() -> TestScreen {
        let mut screen = TestScreen::new(120, 40);
        let mut other = crate::test_rows::bash("true");
        other.id = "approval-other".into();
        other.agent_id = Some("docs".into());
        screen.connect(vec![crate::test_rows::approval(), other]);
        for (name, folder) in [("builder", "/srv/app"), ("docs", "/srv/apple")] {
            let mut row = agent(name, "running");
            if let Some(managed) = &mut row.managed {
                managed.cwd = folder.into();
                managed.worktree = None;
            }
            screen.model.host.update_agent(row);
        }
        screen
    }

    #[test]
    fn panels_are_narrowed_to_a_folder_and_nothing_waiting_is_lost() {
        let mut screen = two_projects();
        assert_eq!(screen.model.project_folders(), ["/srv/app", "/srv/apple"]);
        screen.press("g i g g Ctrl-g p j Enter");
        assert_eq!(screen.model.project.as_deref(), Some("/srv/app"));
        let shown = screen.draw();
        assert!(shown.contains("in /srv/app"), "{shown}");
        assert!(
            shown
                .lines()
                .next()
                .is_some_and(|line| line.contains("2 asks")),
            "{shown}"
        );
        assert_eq!(screen.model.inbox.items().len(), 3);
        assert_eq!(screen.model.inbox_rows().len(), 1, "{shown}");
        let panel = crate::layout::PanelSpec::new(crate::layout::PanelKind::Agents);
        assert_eq!(screen.model.agent_entries(&panel).len(), 1);
        assert_eq!(screen.model.history("history").len(), 1);
        // What waits elsewhere is still reached, and listed while it is selected.
        for _ in 0..3 {
            screen.press("w");
            if screen.model.inbox.selected_id() == Some("approval-other") {
                break;
            }
        }
        assert_eq!(screen.model.inbox.selected_id(), Some("approval-other"));
        assert_eq!(screen.model.inbox_rows().len(), 2);
        screen.press("Ctrl-g p Enter");
        assert_eq!(screen.model.project, None);
    }

    #[test]
    fn new_agents_begin_in_the_folder() {
        let mut screen = two_projects();
        screen.model.project = Some("/srv/apple".into());
        screen.model.selected_agent = Some("builder".into());
        let tag = crate::host_call::ReplyTag::Catalog;
        screen.reply(
            tag,
            &serde_json::json!([{ "name": "claude", "title": "Claude", "installed": true }]),
        );
        screen.press("Enter");
        let effects = screen.press("Ctrl-s");
        let started = effects.iter().find_map(|effect| match effect {
            crate::message::Effect::Call(call) if call.method == "host.spawn_agent" => {
                Some(call.params.as_str())
            }
            _ => None,
        });
        let params: serde_json::Value = serde_json::from_str(started.unwrap()).unwrap();
        assert_eq!(
            (&params["cwd"], &params["worktree"]),
            (&"/srv/apple".into(), &serde_json::Value::Null)
        );
    }
}

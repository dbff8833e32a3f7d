//! Orchestrators and their descendants: who may see whom, parent messages, and ceilings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::{Ceiling, Effect, SpawnOptions};
use countersign_core::{
    Agent, AgentId, Approval, Caller, Event, Input, NotifyParent, OpenCounts, Question, Rejection,
};

use crate::subscription::EventFilter;
use crate::supervisor::StateView;

use super::rules::warnings_of;
use super::{Service, ServiceResult, agent};

/// Facts with which an agent begins to wait for an answer.
const ASK_EVENTS: [&str; 2] = ["question.asked", "approval.requested"];

impl Service {
    /// Whether a caller may see what is about an agent: its own, and what is about those below it.
    pub(super) async fn reaches(
        &self,
        caller: &Caller,
        agent: Option<&AgentId>,
    ) -> ServiceResult<bool> {
        let Some(bound) = caller.principal.agent().cloned() else {
            return Ok(true);
        };
        let Some(wanted) = agent.cloned() else {
            return Ok(false);
        };
        if bound == wanted {
            return Ok(true);
        }
        self.read(move |view| view.state.is_ancestor(&bound, &wanted))
            .await
    }

    /// Refuses an agent that is not above the other.
    pub(super) async fn check_reach(&self, caller: &Caller, agent: &AgentId) -> ServiceResult<()> {
        if self.reaches(caller, Some(agent)).await? {
            return Ok(());
        }
        let refusal = match caller.principal.agent().cloned() {
            Some(bound) if !self.is_orchestrator(caller).await? => {
                Rejection::AgentNotAllowed(bound)
            }
            _ => Rejection::NotADescendant(agent.clone()),
        };
        Err(refusal.into())
    }

    /// The descendants of the agent that calls, by id.
    pub async fn descendants(&self, caller: &Caller) -> ServiceResult<Vec<(Agent, OpenCounts)>> {
        let agent = calling_agent(caller)?;
        self.read(move |view| {
            let below = view.state.descendants_of(&agent).into_iter();
            below
                .map(|agent| (agent.clone(), view.state.open_of(agent.id())))
                .collect()
        })
        .await
    }

    /// Asks of its descendants that wait, for the agent that calls, oldest first.
    pub async fn open_asks_below(&self, caller: &Caller) -> ServiceResult<Vec<Approval>> {
        let bound = calling_agent(caller)?;
        self.read(move |view| {
            let open = view.state.open_approvals();
            let mut below: Vec<Approval> = open
                .filter(|open| is_below(view, &bound, open.ask.agent.as_ref()))
                .cloned()
                .collect();
            below.sort_by_key(|approval| approval.opened);
            below
        })
        .await
    }

    /// Questions of its descendants that wait, for the agent that calls, oldest first.
    pub async fn open_questions_below(&self, caller: &Caller) -> ServiceResult<Vec<Question>> {
        let bound = calling_agent(caller)?;
        self.read(move |view| {
            let open = view.state.open_questions();
            let mut below: Vec<Question> = open
                .filter(|open| is_below(view, &bound, open.text.agent.as_ref()))
                .cloned()
                .collect();
            below.sort_by_key(|question| question.opened);
            below
        })
        .await
    }

    /// Waits until one of these agents asks something. A question that is open counts at once; an
    /// ask for permission only if it comes now, since its answer may be a person's alone to give.
    pub async fn wait_asked(
        &self,
        caller: &Caller,
        agents: &BTreeSet<AgentId>,
    ) -> ServiceResult<()> {
        for agent in agents {
            self.check_reach(caller, agent).await?;
        }
        let filter = EventFilter {
            kinds: Some(ASK_EVENTS.map(str::to_owned).to_vec()),
            ..EventFilter::default()
        };
        let mut events = self.read_events_after(self.head(), filter);
        loop {
            let wanted = agents.clone();
            let has_question = self.read(move |view| {
                let mut open = view.state.open_questions();
                open.any(|open| {
                    open.text
                        .agent
                        .as_ref()
                        .is_some_and(|id| wanted.contains(id))
                })
            });
            if has_question.await? {
                return Ok(());
            }
            for entry in events.next().await? {
                let Event::ApprovalRequested(asked) = &entry.committed.event else {
                    continue;
                };
                let Some(agent) = asked.ask.agent.as_ref().filter(|id| agents.contains(*id)) else {
                    continue;
                };
                // One that a rule settled at once waits for nobody.
                let (_, open) = self.read_agent(agent.clone()).await?;
                if open.approvals > 0 {
                    return Ok(());
                }
            }
        }
    }

    /// Whether the caller is an agent that steers others.
    pub async fn is_orchestrator(&self, caller: &Caller) -> ServiceResult<bool> {
        let Some(agent) = caller.principal.agent().cloned() else {
            return Ok(false);
        };
        self.read(move |view| view.state.find_orchestrator(&agent).is_some())
            .await
    }

    /// Sends a note to the agent's parent, or to people if it has none. One key sends one note.
    pub async fn notify_parent(
        &self,
        caller: Caller,
        text: String,
        key: Option<String>,
    ) -> ServiceResult<()> {
        let input = NotifyParent { caller, text, key };
        self.submit(Input::NotifyParent(input)).await.map(drop)
    }

    /// Says what an orchestrator may settle for those below it; no rules for nothing.
    pub async fn set_ceiling(
        &self,
        caller: Caller,
        orchestrator: AgentId,
        rules: Vec<String>,
        lasts: Option<Duration>,
    ) -> ServiceResult<(Agent, OpenCounts)> {
        for rule in &rules {
            warnings_of(Effect::Allow, rule)?;
        }
        let lasts = lasts.map(|lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
        let until = lasts.map(|ms| self.now().plus_ms(ms));
        let rules: Arc<[String]> = rules.into();
        let ceiling = (!rules.is_empty()).then_some(Ceiling { rules, until });
        let input = Input::SetCeiling {
            caller,
            agent: orchestrator,
            ceiling,
        };
        agent(self.submit(input).await?)
    }

    /// A child works in its parent's folder or below it. Links are followed before that is judged, and
    /// the folder is kept under the parent's own name for it.
    pub(super) async fn confine_child(
        &self,
        caller: &Caller,
        options: &mut SpawnOptions,
    ) -> ServiceResult<()> {
        let Some(parent) = caller.principal.agent().cloned() else {
            return Ok(());
        };
        let (folder, _) = self.read_agent(parent.clone()).await?;
        let Some(managed) = &folder.managed else {
            return Err(Rejection::AgentNotAllowed(parent).into());
        };
        let (own, wanted) = (PathBuf::from(managed.folder()), PathBuf::from(&options.cwd));
        // Links are resolved on a blocking thread: a folder can lie on a mount that does not answer.
        let inside = tokio::task::spawn_blocking(move || path_inside(&own, &wanted));
        let inside = inside.await.ok().flatten();
        options.cwd = inside.ok_or(Rejection::Wider("a folder"))?;
        Ok(())
    }
}

impl Service {
    /// Refuses a child whose folder leads elsewhere by now. Its parent, which may write there, can put a link in its
    /// place at any time after the folder was judged, and a sandbox gives what the folder leads to.
    pub(crate) async fn check_child_folder(&self, options: &SpawnOptions) -> Result<(), String> {
        let Some(parent) = options.parent.clone() else {
            return Ok(());
        };
        // A parent that is not there any more replaces nothing.
        let parent = self.read_agent(parent).await.ok();
        let Some(managed) = parent.and_then(|(parent, _)| parent.managed) else {
            return Ok(());
        };
        let (own, cwd) = (PathBuf::from(managed.folder()), options.cwd.clone());
        let looking = tokio::task::spawn_blocking(move || is_still_inside(&own, &cwd));
        if looking.await.unwrap_or_default() {
            return Ok(());
        }
        Err(format!(
            "`{}` leads out of the folder of the agent's orchestrator",
            options.cwd
        ))
    }
}

fn is_still_inside(own: &Path, cwd: &str) -> bool {
    path_inside(own, Path::new(cwd)).as_deref() == Some(cwd)
}

fn calling_agent(caller: &Caller) -> Result<AgentId, Rejection> {
    let agent = caller.principal.agent().cloned();
    agent.ok_or(Rejection::OnlyAgents)
}

fn is_below(view: StateView<'_>, ancestor: &AgentId, agent: Option<&AgentId>) -> bool {
    agent.is_some_and(|agent| view.state.is_ancestor(ancestor, agent))
}

fn path_inside(own: &Path, wanted: &Path) -> Option<String> {
    let wanted = own.join(wanted).canonicalize().ok()?;
    let rest = wanted.strip_prefix(own.canonicalize().ok()?).ok()?;
    let kept = if rest == Path::new("") {
        own.to_owned()
    } else {
        own.join(rest)
    };
    kept.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_became_a_link_is_not_a_childs_any_more() {
        let root = tempfile::tempdir().unwrap();
        let (own, other) = (root.path().join("own"), root.path().join("other"));
        let sub = own.join("sub");
        std::fs::create_dir_all(sub.join("deep")).unwrap();
        std::fs::create_dir_all(own.join("near/deep")).unwrap();
        std::fs::create_dir_all(other.join("deep")).unwrap();
        let deep = sub.join("deep").to_str().unwrap().to_owned();
        assert!(is_still_inside(&own, &deep));
        assert!(is_still_inside(&own, own.to_str().unwrap()));
        for target in [other, own.join("near")] {
            std::fs::rename(&sub, root.path().join("moved")).unwrap();
            std::os::unix::fs::symlink(target, &sub).unwrap();
            assert!(!is_still_inside(&own, &deep));
            std::fs::remove_file(&sub).unwrap();
            assert!(!is_still_inside(&own, &deep));
            std::fs::rename(root.path().join("moved"), &sub).unwrap();
        }
    }

    #[test]
    fn a_child_stays_inside_whatever_links_say() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("own");
        let sub = own.join("sub");
        std::fs::create_dir_all(&sub).unwrap();
        std::fs::create_dir(root.path().join("other")).unwrap();
        std::os::unix::fs::symlink(root.path().join("other"), own.join("out")).unwrap();
        std::os::unix::fs::symlink(&own, root.path().join("link")).unwrap();
        let text = |path: &Path| path.to_str().map(str::to_owned);
        assert_eq!(path_inside(&own, &own), text(&own));
        assert_eq!(path_inside(&own, &sub), text(&sub));
        assert_eq!(path_inside(&own, Path::new("sub")), text(&sub));
        assert_eq!(path_inside(&own, &root.path().join("link/sub")), text(&sub));
        for outside in ["..", "out", "/", "../other", "sub/../.."] {
            assert_eq!(path_inside(&own, &own.join(outside)), None, "{outside}");
        }
        let link = root.path().join("link");
        assert_eq!(path_inside(&link, &sub), text(&link.join("sub")));
    }
}

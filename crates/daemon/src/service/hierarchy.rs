//! Orchestrators and their descendants: who may see whom, parent messages, and ceilings.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::{Ceiling, Effect, SpawnOptions};
use countersign_core::{Agent, AgentId, Caller, Input, NotifyParent, OpenCounts, Rejection};

use super::rules::warnings_of;
use super::{Service, ServiceResult, agent};

impl Service {
    /// Whether a caller may see what is about an agent: its own, and what is about those below it.
    pub async fn reaches(&self, caller: &Caller, agent: Option<&AgentId>) -> ServiceResult<bool> {
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
    pub async fn check_reach(&self, caller: &Caller, agent: &AgentId) -> ServiceResult<()> {
        if self.reaches(caller, Some(agent)).await? {
            return Ok(());
        }
        let refusal = match caller.principal.agent().cloned() {
            Some(bound) if !self.is_orchestrator(bound.clone()).await? => {
                Rejection::AgentNotAllowed(bound)
            }
            _ => Rejection::NotADescendant(agent.clone()),
        };
        Err(refusal.into())
    }

    /// Everybody below an agent, by id.
    pub async fn descendants_of(&self, agent: AgentId) -> ServiceResult<Vec<(Agent, OpenCounts)>> {
        self.read(move |view| {
            let below = view.state.descendants_of(&agent).into_iter();
            below
                .map(|agent| (agent.clone(), view.state.open_of(agent.id())))
                .collect()
        })
        .await
    }

    /// Whether an agent is an orchestrator.
    pub async fn is_orchestrator(&self, agent: AgentId) -> ServiceResult<bool> {
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
        let (folder, _) = self.load_agent(parent.clone()).await?;
        let Some(managed) = &folder.managed else {
            return Err(Rejection::AgentNotAllowed(parent).into());
        };
        let (own, wanted) = (PathBuf::from(managed.folder()), PathBuf::from(&options.cwd));
        let inside = tokio::task::spawn_blocking(move || path_inside(&own, &wanted));
        let inside = inside.await.ok().flatten();
        options.cwd = inside.ok_or(Rejection::Wider("a folder"))?;
        Ok(())
    }
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

//! Worktrees of managed agents, and the catalog of agents that can be had.

use std::sync::Arc;

use countersign_agents::ContainmentMethod;
use countersign_agents::catalog::{self, AgentSearchPaths, KnownAgent, ResolvedAgent};
use countersign_agents::worktree::{self, DiscardWork, MergeOutcome, RemovalOutcome, WorktreeDiff};
use countersign_core::event::Worktree;
use countersign_core::{AgentId, Caller, ManagedAgent, ManagedInput, Rejection};

use crate::reply::ServiceError;

use super::{Service, ServiceResult};

/// A known agent, and whether it is installed.
#[derive(Clone, Debug)]
pub struct CatalogEntry {
    /// What is known of it.
    pub entry: &'static KnownAgent,
    /// Its command, or what to do to have it.
    pub resolved: ResolvedAgent,
}

/// Worktrees and the catalog.
impl Service {
    /// What an agent changed since its worktree was made.
    pub async fn agent_diff(
        &self,
        caller: &Caller,
        agent: AgentId,
        path: Option<&str>,
    ) -> ServiceResult<WorktreeDiff> {
        caller.refuse_agents()?;
        let (_, worktree) = self.load_worktree(agent).await?;
        let diff = worktree::diff(&worktree, path).await;
        diff.map_err(|error| failed(&error))
    }

    /// Removes the worktree of an agent that does not run. Work that is not committed keeps it, unless
    /// it may be discarded.
    pub async fn remove_worktree(
        &self,
        caller: &Caller,
        agent: AgentId,
        discard: DiscardWork,
    ) -> ServiceResult<RemovalOutcome> {
        caller.require_operator()?;
        let (managed, worktree) = self.load_worktree(agent.clone()).await?;
        if managed.is_live() {
            return Err(Rejection::StillRuns(agent).into());
        }
        let removed = worktree::remove(&worktree, discard).await;
        let removed = removed.map_err(|error| failed(&error))?;
        if matches!(removed, RemovalOutcome::Removed { .. }) {
            self.submit_managed(ManagedInput::WorktreeRemoved(agent))
                .await?;
        }
        Ok(removed)
    }

    /// Merges what an agent committed in its worktree into another branch.
    pub async fn merge_worktree(
        &self,
        caller: &Caller,
        agent: AgentId,
        into: Option<&str>,
    ) -> ServiceResult<MergeOutcome> {
        caller.require_operator()?;
        let (_, worktree) = self.load_worktree(agent).await?;
        let merged = worktree::merge(&worktree, into).await;
        merged.map_err(|error| failed(&error))
    }

    async fn load_worktree(&self, agent: AgentId) -> ServiceResult<(Arc<ManagedAgent>, Worktree)> {
        let (found, _) = self.read_agent(agent.clone()).await?;
        let managed = found
            .managed
            .ok_or_else(|| Rejection::NotManaged(agent.clone()))?;
        let worktree = managed.worktree.clone();
        let worktree = worktree.ok_or(Rejection::NoWorktree(agent))?;
        Ok((managed, worktree))
    }

    /// What holds the processes of agents together here. Nothing if it cannot be found out.
    pub async fn means(&self) -> Option<ContainmentMethod> {
        if let Some(means) = self.shared.means.get() {
            return Some(means.clone());
        }
        let found = tokio::task::spawn_blocking(countersign_agents::probe_containment).await;
        found
            .ok()
            .map(|means| self.shared.means.get_or_init(|| means).clone())
    }

    /// Every known agent, and whether it is installed where the host looks.
    pub fn catalog(&self, caller: &Caller) -> ServiceResult<Vec<CatalogEntry>> {
        caller.refuse_agents()?;
        let entries = catalog::all().iter().map(|entry| {
            let paths = AgentSearchPaths::for_agent(entry, |name| std::env::var_os(name));
            let resolved = catalog::resolve(entry, &paths);
            CatalogEntry { entry, resolved }
        });
        Ok(entries.collect())
    }
}

fn failed(error: &worktree::WorktreeError) -> ServiceError {
    ServiceError::World(countersign_core::error_chain(error).into())
}

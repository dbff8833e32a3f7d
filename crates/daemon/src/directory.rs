//! The directory: agents, marks and tokens as of the newest commit, so that finding out who calls and
//! what an ask is about takes no pass through the loop.
//!
//! Invariants: it holds exactly what was committed, never what was only decided; each commit is
//! published as a whole before the feed is woken, duties are posted and replies are let out, so
//! whoever saw an effect of a commit reads it here too.
//!
//! A read here does not wait for a commit that is under way, and cannot widen access by that. A
//! process is marked, and the record of a run is written, before anything is done for the agent:
//! both wait for their commit. A call that reads the directory before that commit could have been
//! served before the mark was asked for at all, and [`AgentDirectory::trust_version`] makes its
//! connection find out again who calls before the next request is served or a result is shown.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use countersign_core::event::{AgentSandbox, ProcessKey};
use countersign_core::limits::HIERARCHY_DEPTH_MAX;
use countersign_core::{AccessToken, Agent, AgentId, CommitChanges, State, Timestamp, TokenId};
use tokio::sync::watch;

/// Agents, marks and tokens as of the newest commit.
#[derive(Debug)]
pub(crate) struct AgentDirectory {
    entries: RwLock<DirectoryEntries>,
    trust_version: AtomicU64,
    /// Changes when a token was withdrawn, which whoever uses it has to notice at once.
    revocations: watch::Sender<()>,
}

/// Everything that one commit publishes together.
#[derive(Debug, Default)]
pub(crate) struct DirectoryEntries {
    agents: HashMap<AgentId, Agent>,
    marks: BTreeMap<ProcessKey, AgentId>,
    tokens: HashMap<TokenId, AccessToken>,
    tokens_by_hash: HashMap<String, TokenId>,
}

impl AgentDirectory {
    pub(crate) fn new(state: &State) -> Self {
        Self {
            entries: RwLock::new(DirectoryEntries::from_state(state)),
            trust_version: AtomicU64::new(0),
            revocations: watch::channel(()).0,
        }
    }

    /// Wakes whenever a token was withdrawn.
    pub(crate) fn watch_revocations(&self) -> watch::Receiver<()> {
        self.revocations.subscribe()
    }

    /// Everything as of one commit. The loop cannot publish while the guard lives, so it is held
    /// for a lookup and never across an await.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, DirectoryEntries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what a commit changed.
    pub(crate) fn publish(&self, changes: &CommitChanges) {
        let CommitChanges {
            agents,
            tokens,
            marks_added,
            marks_removed,
            ..
        } = changes;
        let unchanged = agents.is_empty()
            && tokens.is_empty()
            && marks_added.is_empty()
            && marks_removed.is_empty();
        if unchanged {
            return;
        }
        let mut entries = self.write();
        entries.apply_changes(changes);
        let has_revoked = tokens.iter().any(|(_, token)| token.is_none());
        // Marks that are removed and tokens that are added take nothing away from a caller.
        if !marks_added.is_empty() || has_revoked {
            // Under the lock: whoever read the earlier entries took the earlier version before.
            self.trust_version.fetch_add(1, Ordering::Release);
        }
        drop(entries);
        if has_revoked {
            self.revocations.send_replace(());
        }
    }

    /// Takes a state that was loaded again: a commit that failed may be on the disk all the same.
    pub(crate) fn reset(&self, state: &State) {
        let mut entries = self.write();
        *entries = DirectoryEntries::from_state(state);
        self.trust_version.fetch_add(1, Ordering::Release);
        drop(entries);
        self.revocations.send_replace(());
    }

    /// Rises whenever a process is marked or a token withdrawn: who a caller was found to be before
    /// may no longer hold.
    pub(crate) fn trust_version(&self) -> u64 {
        self.trust_version.load(Ordering::Acquire)
    }

    fn write(&self) -> RwLockWriteGuard<'_, DirectoryEntries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DirectoryEntries {
    fn from_state(state: &State) -> Self {
        let mut entries = Self::default();
        for agent in state.agents() {
            entries.agents.insert(agent.id().clone(), agent.clone());
        }
        for (process, agent) in state.marks() {
            entries.marks.insert(*process, agent.clone());
        }
        for token in state.tokens() {
            entries.put_token(token);
        }
        entries
    }

    fn apply_changes(&mut self, changes: &CommitChanges) {
        for (id, agent) in &changes.agents {
            match agent {
                Some(agent) => self.agents.insert(id.clone(), agent.clone()),
                None => self.agents.remove(id),
            };
        }
        for mark in &changes.marks_added {
            self.marks.insert(mark.process, mark.agent.clone());
        }
        for process in &changes.marks_removed {
            self.marks.remove(process);
        }
        for (id, token) in &changes.tokens {
            match token {
                Some(token) => self.put_token(token),
                None => self.remove_token(id),
            }
        }
    }

    fn put_token(&mut self, token: &AccessToken) {
        self.tokens_by_hash
            .insert(token.hash.clone(), token.id.clone());
        self.tokens.insert(token.id.clone(), token.clone());
    }

    fn remove_token(&mut self, id: &TokenId) {
        if let Some(token) = self.tokens.remove(id) {
            self.tokens_by_hash.remove(&token.hash);
        }
    }

    pub(crate) fn agents(&self) -> impl Iterator<Item = &Agent> {
        self.agents.values()
    }

    pub(crate) fn find_agent(&self, id: &AgentId) -> Option<&Agent> {
        self.agents.get(id)
    }

    /// The project that an agent says it works in.
    pub(crate) fn project_of(&self, agent: &AgentId) -> Option<String> {
        self.agents.get(agent)?.profile.project.clone()
    }

    /// Whether the commands of an agent run in a sandbox of level `full`.
    pub(crate) fn is_confined(&self, agent: &AgentId) -> bool {
        let managed = self
            .agents
            .get(agent)
            .and_then(|agent| agent.managed.as_ref());
        let sandbox = managed.and_then(|managed| managed.sandbox.as_ref());
        sandbox.is_some_and(AgentSandbox::confines_commands)
    }

    /// The ancestors of an agent, the nearest first, each with the folder it works in.
    pub(crate) fn ancestor_folders(&self, agent: &AgentId) -> Vec<(AgentId, String)> {
        std::iter::successors(self.parent_of(agent), |above| self.parent_of(above))
            .take(HIERARCHY_DEPTH_MAX)
            .filter_map(|above| {
                let managed = self.agents.get(above)?.managed.as_ref()?;
                Some((above.clone(), managed.folder().to_owned()))
            })
            .collect()
    }

    fn parent_of(&self, agent: &AgentId) -> Option<&AgentId> {
        let managed = self.agents.get(agent)?.managed.as_ref()?;
        managed.options.parent.as_ref()
    }

    pub(crate) fn marks(&self) -> impl Iterator<Item = (&ProcessKey, &AgentId)> {
        self.marks.iter()
    }

    pub(crate) fn find_mark(&self, process: &ProcessKey) -> Option<&AgentId> {
        self.marks.get(process)
    }

    pub(crate) fn find_token(&self, id: &TokenId) -> Option<&AccessToken> {
        self.tokens.get(id)
    }

    /// The token with this hash, unless its time is over.
    pub(crate) fn find_token_by_hash(&self, hash: &str, now: Timestamp) -> Option<&AccessToken> {
        let token = self.tokens.get(self.tokens_by_hash.get(hash)?)?;
        token
            .expires_at
            .is_none_or(|end| now < end)
            .then_some(token)
    }
}

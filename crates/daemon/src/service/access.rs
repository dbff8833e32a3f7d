//! Tokens and processes: who a caller can turn out to be.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use countersign_agents::{marks_of, marks_of_cgroup};
use countersign_core::event::ProcessKey;
use countersign_core::{
    AccessToken, Agent, AgentId, Caller, CreateToken, Input, Principal, PrincipalKey, Role, State,
    TokenId, hex,
};
use sha2::{Digest as _, Sha256};

use crate::ids::{new_secret, random_hex};
use crate::reply::{CommandReply, ServiceError};

use super::{Service, ServiceResult, TokenIdentity, mismatch};

/// Tokens and processes.
impl Service {
    /// Makes a token and gives it away, the only time it is seen. Without `ttl` it never ends.
    pub async fn create_token(
        &self,
        caller: Caller,
        role: Role,
        name: String,
        ttl: Option<Duration>,
    ) -> ServiceResult<(String, AccessToken)> {
        let id = TokenId::new(format!("token-{}", random_hex::<6>()));
        self.create_token_as(id, caller, role, name, ttl).await
    }

    async fn create_token_as(
        &self,
        id: TokenId,
        caller: Caller,
        role: Role,
        name: String,
        ttl: Option<Duration>,
    ) -> ServiceResult<(String, AccessToken)> {
        let secret = new_secret();
        let ttl_ms = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        let input = CreateToken {
            caller,
            id,
            hash: hash_of(&secret),
            role,
            name,
            ttl_ms,
        };
        match self.submit(Input::CreateToken(input)).await? {
            CommandReply::Token(token) => Ok((secret, *token)),
            other => Err(mismatch(&other)),
        }
    }

    /// Withdraws a token. Connections it opened end with their next request.
    pub async fn revoke_token(&self, caller: Caller, token: TokenId) -> ServiceResult<()> {
        self.submit(Input::RevokeToken { caller, token }).await?;
        self.shared.trust.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Tokens that are valid, by name.
    pub async fn tokens(&self) -> ServiceResult<Vec<AccessToken>> {
        let now = self.now();
        self.read(move |view| {
            let valid = view
                .state
                .tokens()
                .filter(|token| token.expires_at.is_none_or(|end| now < end));
            let mut tokens: Vec<_> = valid.cloned().collect();
            tokens.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
            tokens
        })
        .await
    }

    /// Who bears this token, if anybody does.
    pub async fn identify(&self, secret: &str) -> ServiceResult<Option<TokenIdentity>> {
        // Looking up the hash of a random secret gives no timing away that helps to guess it.
        let hash = hash_of(secret);
        let now = self.now();
        self.read_identity(move |view| {
            view.state
                .find_token_by_hash(&hash, now)
                .map(|token| TokenIdentity {
                    principal: Arc::new(Principal {
                        role: token.role.clone(),
                        name: token.name.as_str().into(),
                        key: key_of(&token.role, &token.id),
                    }),
                    expires_at: token.expires_at,
                })
        })
        .await
    }

    /// Records that a process is an agent: it and whatever descends from it.
    pub async fn mark_process(&self, agent: AgentId, process: ProcessKey) -> ServiceResult<()> {
        self.submit(Input::MarkProcess { agent, process }).await?;
        self.shared.trust.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Drops marks of processes that are gone.
    pub async fn forget_processes(&self, processes: Vec<ProcessKey>) -> ServiceResult<()> {
        self.submit(Input::ForgetProcesses(processes))
            .await
            .map(drop)
    }

    /// Processes that are agents.
    pub async fn marked_processes(&self) -> ServiceResult<Vec<ProcessKey>> {
        self.read_identity(|view| view.state.marks().map(|(process, _)| *process).collect())
            .await
    }

    /// Processes that are this agent.
    pub async fn processes_of(&self, agent: AgentId) -> ServiceResult<Vec<ProcessKey>> {
        self.read_identity(move |view| {
            let own = view.state.marks().filter(|(_, marked)| **marked == agent);
            own.map(|(process, _)| *process).collect()
        })
        .await
    }

    /// Processes that are agents which the host does not run, and so does not hold together.
    pub async fn outside_processes(&self) -> ServiceResult<Vec<(ProcessKey, AgentId)>> {
        self.read_identity(|view| {
            let runs = |id: &AgentId| {
                let agent = view.state.find_agent(id);
                agent.is_some_and(|agent| agent.managed.is_some())
            };
            let outside = view.state.marks().filter(|(_, agent)| !runs(agent));
            outside
                .map(|(process, agent)| (*process, agent.clone()))
                .collect()
        })
        .await
    }

    /// The agent that one of these processes was marked as, whether it still lives or not.
    pub async fn find_marked(&self, processes: Vec<ProcessKey>) -> ServiceResult<Option<AgentId>> {
        self.read(move |view| {
            let mut marks = processes.iter().filter_map(|one| view.state.find_mark(one));
            marks.next().cloned()
        })
        .await
    }

    /// The agent that one of these processes is, nearest first: by descent, or by what holds the
    /// processes of a managed agent, which one that detached itself is still in.
    pub async fn find_agent_of(
        &self,
        processes: Vec<ProcessKey>,
    ) -> ServiceResult<Option<AgentId>> {
        let wanted = processes.clone();
        let found = self.read_identity(move |view| {
            let marked = wanted.iter().find_map(|one| view.state.find_mark(one));
            (marked.cloned(), has_trees(view.state))
        });
        match found.await? {
            (None, true) => self.agent_holding(processes).await,
            (marked, _) => Ok(marked),
        }
    }

    /// The agent in whose cgroup something was created, by the group's id.
    pub async fn find_cgroup_agent(&self, cgroup: u64) -> ServiceResult<CgroupAgent> {
        let found = tokio::task::spawn_blocking(move || marks_of_cgroup(cgroup)).await;
        let Some(marks) = found.map_err(|_| ServiceError::ShuttingDown)? else {
            return Ok(CgroupAgent::Unknown);
        };
        if marks.is_empty() {
            return Ok(CgroupAgent::None);
        }
        let found =
            self.read(move |view| marks.iter().find_map(|mark| find_holder(view.state, mark)));
        // A mark that no run of ours has is another host's, or that of a run that is over.
        Ok(found.await?.map_or(CgroupAgent::None, CgroupAgent::Agent))
    }

    /// Whether some process may be an agent's: one is marked, or the host runs or ran one. Costs nothing,
    /// and is true before the first process of an agent is started.
    pub fn has_agent_processes(&self) -> bool {
        let counters = &self.shared.counters;
        counters.agent_processes.load(Ordering::Acquire)
    }

    async fn agent_holding(&self, processes: Vec<ProcessKey>) -> ServiceResult<Option<AgentId>> {
        let look = move || {
            let marks = processes.iter().map(|process| marks_of(process.pid));
            marks.flatten().collect::<Vec<String>>()
        };
        let marks = tokio::task::spawn_blocking(look).await;
        let marks = marks.map_err(|_| ServiceError::ShuttingDown)?;
        if marks.is_empty() {
            return Ok(None);
        }
        self.read_identity(move |view| marks.iter().find_map(|mark| find_holder(view.state, mark)))
            .await
    }

    /// Rises whenever a process is marked or a token withdrawn: who a caller was found to be
    /// before may no longer hold.
    pub fn trust_version(&self) -> u64 {
        self.shared.trust.load(Ordering::Acquire)
    }
}

/// What the id of a cgroup says about who created something in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CgroupAgent {
    /// This agent did.
    Agent(AgentId),
    /// No agent of this host did.
    None,
    /// The group was removed or cannot be seen, so that nobody can say.
    Unknown,
}

fn has_trees(state: &State) -> bool {
    state.agents().any(|agent| agent.managed.is_some())
}

/// The agent whose last run had this mark.
fn find_holder(state: &State, mark: &str) -> Option<AgentId> {
    let has_it = |agent: &&Agent| {
        let managed = agent.managed.as_ref();
        managed.is_some_and(|managed| managed.runner.text().contains(mark))
    };
    let long_enough = mark.len() >= 16;
    let found = state.agents().find(has_it).filter(|_| long_enough)?;
    Some(found.id().clone())
}

/// An agent is one principal, whatever token it shows and however it was found out.
fn key_of(role: &Role, token: &TokenId) -> PrincipalKey {
    match role {
        Role::Agent(agent) => PrincipalKey::new(format!("agent:{agent}")),
        Role::Operator | Role::Observer | Role::Host => PrincipalKey::new(token.as_str()),
    }
}

fn hash_of(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

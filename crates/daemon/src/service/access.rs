//! Tokens and processes: who a caller can turn out to be.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use countersign_agents::{marks_of, marks_of_cgroup};
use countersign_core::event::ProcessKey;
use countersign_core::{
    AccessToken, Agent, AgentId, Caller, CreateToken, Input, Principal, PrincipalKey, Role,
    TokenId, hex,
};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use crate::ids::{new_secret, new_token_id};
use crate::reply::{CommandReply, ServiceError};

use super::{Service, ServiceResult, TokenIdentity, mismatch};

/// Fewer characters do not tell one run from another: a short text could be part of any record.
const RUN_MARK_CHARS_MIN: usize = 16;

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
        let ttl_ms = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        let input = CreateToken {
            caller,
            id: new_token_id(),
            hash: String::new(),
            role,
            name,
            ttl_ms,
            device: None,
        };
        self.create_secret(input).await
    }

    /// Logs a browser in: an operator's token that ends when it was not used for `session_ms`.
    pub async fn log_in_device(
        &self,
        name: String,
        device: String,
        session_ms: u64,
    ) -> ServiceResult<(String, AccessToken)> {
        let input = CreateToken {
            caller: Caller::host(),
            id: new_token_id(),
            hash: String::new(),
            role: Role::Operator,
            name,
            ttl_ms: Some(session_ms),
            device: Some(device),
        };
        self.create_secret(input).await
    }

    async fn create_secret(&self, mut input: CreateToken) -> ServiceResult<(String, AccessToken)> {
        let secret = new_secret();
        input.hash = hash_of(&secret);
        match self.submit(Input::CreateToken(input)).await? {
            CommandReply::Token(token) => Ok((secret, *token)),
            other => Err(mismatch(&other)),
        }
    }

    /// Withdraws a token. Connections that it opened end.
    pub async fn revoke_token(&self, caller: Caller, token: TokenId) -> ServiceResult<()> {
        let input = Input::RevokeToken { caller, token };
        self.submit(input).await.map(drop)
    }

    /// Tokens that are valid, by name.
    pub async fn tokens(&self, caller: &Caller) -> ServiceResult<Vec<AccessToken>> {
        caller.require_operator()?;
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
        .map(|mut tokens| {
            let uses = self.shared.device_uses.read();
            for token in &mut tokens {
                // The record has a use only now and then; memory has those since.
                token.last_seen = token.last_seen.max(uses.get(&token.id).copied());
            }
            tokens
        })
    }

    /// Notes that a device was used, and records it if the record is old, so that it stays logged
    /// in.
    pub async fn note_device_use(&self, token: &TokenId) {
        let now = self.now();
        self.shared.device_uses.note(token, now);
        let is_due = self
            .shared
            .directory
            .read()
            .find_token(token)
            .is_some_and(|token| token.renewal_due(now));
        // A use that could not be recorded changes nothing: the next one tries again.
        if is_due && let Err(error) = self.submit(Input::RenewToken(token.clone())).await {
            tracing::warn!(%error, "a device could not be kept logged in");
        }
    }

    /// Wakes whenever a token was withdrawn.
    pub fn watch_revocations(&self) -> watch::Receiver<()> {
        self.shared.directory.watch_revocations()
    }

    /// Who bears this token, if anybody does.
    pub fn identify(&self, secret: &str) -> Option<TokenIdentity> {
        // Looking up the hash of a random secret gives no timing away that helps to guess it.
        let hash = hash_of(secret);
        let directory = self.shared.directory.read();
        let token = directory.find_token_by_hash(&hash, self.now())?;
        Some(TokenIdentity {
            principal: Arc::new(Principal {
                role: token.role.clone(),
                name: token.name.as_str().into(),
                key: key_of(&token.role, &token.id),
            }),
            expires_at: token.expires_at,
            device: token.device.as_ref().map(|_| token.id.clone()),
        })
    }

    /// Records that a process is an agent: it and whatever descends from it.
    pub async fn mark_process(&self, agent: AgentId, process: ProcessKey) -> ServiceResult<()> {
        let input = Input::MarkProcess { agent, process };
        self.submit(input).await.map(drop)
    }

    /// Drops marks of processes that are gone.
    pub async fn forget_processes(&self, processes: Vec<ProcessKey>) -> ServiceResult<()> {
        let input = Input::ForgetProcesses(processes);
        self.submit(input).await.map(drop)
    }

    /// An agent as of the newest commit.
    pub fn find_agent(&self, id: &AgentId) -> Option<Agent> {
        self.shared.directory.read().find_agent(id).cloned()
    }

    /// The name of an agent as of the newest commit, for whoever is shown its id.
    pub fn agent_name(&self, id: &AgentId) -> Option<String> {
        let directory = self.shared.directory.read();
        let agent = directory.find_agent(id)?;
        Some(agent.profile.name.clone())
    }

    /// The agents that have this name.
    pub fn find_agents_named(&self, caller: &Caller, name: &str) -> ServiceResult<Vec<Agent>> {
        caller.refuse_agents()?;
        let directory = self.shared.directory.read();
        let named = directory
            .agents()
            .filter(|agent| agent.profile.name == name);
        Ok(named.cloned().collect())
    }

    /// Processes that are agents.
    pub fn marked_processes(&self) -> Vec<ProcessKey> {
        let directory = self.shared.directory.read();
        directory.marks().map(|(process, _)| *process).collect()
    }

    /// Processes that are this agent.
    pub fn processes_of(&self, agent: &AgentId) -> Vec<ProcessKey> {
        let directory = self.shared.directory.read();
        directory
            .marks()
            .filter(|(_, marked)| *marked == agent)
            .map(|(process, _)| *process)
            .collect()
    }

    /// Processes of agents that the host does not run, and so does not hold together.
    pub fn outside_processes(&self) -> Vec<(ProcessKey, AgentId)> {
        let directory = self.shared.directory.read();
        directory
            .marks()
            .filter(|(_, agent)| {
                let found = directory.find_agent(agent);
                found.is_none_or(|agent| agent.managed.is_none())
            })
            .map(|(process, agent)| (*process, agent.clone()))
            .collect()
    }

    /// The agent that one of these processes was marked as, whether it still lives or not.
    pub fn find_marked(&self, processes: &[ProcessKey]) -> Option<AgentId> {
        let directory = self.shared.directory.read();
        processes
            .iter()
            .find_map(|process| directory.find_mark(process))
            .cloned()
    }

    /// The agent that one of these processes is, nearest first: by descent, or by what holds the
    /// processes of a managed agent, which one that detached itself is still in.
    pub async fn find_agent_of(
        &self,
        processes: Vec<ProcessKey>,
    ) -> ServiceResult<Option<AgentId>> {
        if let Some(marked) = self.find_marked(&processes) {
            return Ok(Some(marked));
        }
        // What follows reads files of every process in the chain.
        if !self.runs_agents() {
            return Ok(None);
        }
        let reading = tokio::task::spawn_blocking(move || {
            let marks = processes.iter().map(|process| marks_of(process.pid));
            marks.flatten().collect::<Vec<String>>()
        });
        let marks = reading.await.map_err(|_| ServiceError::ShuttingDown)?;
        Ok(self.find_holder(&marks))
    }

    /// The agent in whose cgroup something was created, by the group's id.
    pub async fn find_cgroup_agent(&self, cgroup: u64) -> ServiceResult<CgroupAgent> {
        let found = tokio::task::spawn_blocking(move || marks_of_cgroup(cgroup)).await;
        let Some(marks) = found.map_err(|_| ServiceError::ShuttingDown)? else {
            return Ok(CgroupAgent::Unknown);
        };
        // A mark that no run of ours has is another host's, or that of a run that is over.
        let found = self.find_holder(&marks);
        Ok(found.map_or(CgroupAgent::None, CgroupAgent::Agent))
    }

    /// Whether some process may be an agent's: one is marked, or the host runs or ran one. Costs nothing,
    /// and is true before the first process of an agent is started.
    pub fn has_agent_processes(&self) -> bool {
        let counters = &self.shared.counters;
        counters.agent_processes.load(Ordering::Acquire)
    }

    fn runs_agents(&self) -> bool {
        let directory = self.shared.directory.read();
        directory.agents().any(|agent| agent.managed.is_some())
    }

    /// The agent whose last run had one of these marks.
    fn find_holder(&self, marks: &[String]) -> Option<AgentId> {
        let directory = self.shared.directory.read();
        let mut marks = marks.iter().filter(|mark| mark.len() >= RUN_MARK_CHARS_MIN);
        marks.find_map(|mark| {
            let mut agents = directory.agents();
            let holder = agents.find(|agent| {
                let managed = agent.managed.as_ref();
                managed.is_some_and(|managed| managed.runner.text().contains(mark.as_str()))
            })?;
            Some(holder.id().clone())
        })
    }

    /// Rises whenever a process is marked or a token withdrawn: who a caller was found to be
    /// before may no longer hold.
    pub fn trust_version(&self) -> u64 {
        self.shared.directory.trust_version()
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

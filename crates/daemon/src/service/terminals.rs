//! Terminals of agents, for people to read.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use countersign_agents::{
    KeptTerminals, ShellBackend, ShellError, TerminalId, TerminalPiece, TerminalSummary,
};
use countersign_core::limits::{KEEP_TERMINALS_MS, TERMINAL_READERS_MAX};
use countersign_core::{AgentId, Caller, Rejection, Seq, error_chain};

use super::{Service, ServiceResult};
use crate::agent_terminals::{ListedTerminals, RunTerminals};

/// Terminals of agents.
impl Service {
    /// The terminals of an agent's run, or of its last one, oldest first.
    pub async fn terminals(
        &self,
        caller: &Caller,
        agent: &AgentId,
    ) -> ServiceResult<Vec<TerminalSummary>> {
        let run = self.find_terminals(caller, agent).await?;
        let _reader = admit_reader(&run)?;
        let listed = run.shells.list().await;
        Ok(listed.map_err(|error| unreadable("all", &error))?)
    }

    /// Output of a terminal from a byte on. With `wait_ms` it returns when there is some, when there
    /// will be none, or when that time is over.
    pub async fn read_terminal(
        &self,
        caller: &Caller,
        agent: &AgentId,
        terminal: &str,
        after: u64,
        wait_ms: u64,
    ) -> ServiceResult<TerminalPiece> {
        let run = self.find_terminals(caller, agent).await?;
        let _reader = admit_reader(&run)?;
        let id = TerminalId::new(terminal);
        let read = run.shells.read_from(&id, after, wait_ms).await;
        Ok(read.map_err(|error| unreadable(terminal, &error))?)
    }

    /// Lets people read the terminals of a run for as long as the returned value lives.
    pub(crate) fn list_terminals(
        &self,
        agent: &AgentId,
        shells: Arc<dyn ShellBackend>,
    ) -> ListedTerminals {
        self.shared.terminals.add(agent.clone(), shells)
    }

    /// Keeps what the terminals of a run wrote last, which is over. Nothing depends on it, so that an
    /// agent's end is recorded also if this fails.
    pub(crate) async fn keep_terminals(&self, agent: &AgentId, shells: &dyn ShellBackend) {
        let limit = Duration::from_millis(KEEP_TERMINALS_MS);
        let collected = tokio::time::timeout(limit, KeptTerminals::collect(shells)).await;
        let terminals = match collected {
            Ok(Ok(terminals)) => terminals,
            Ok(Err(error)) => {
                let error = error_chain(&error);
                tracing::warn!(%agent, error, "the output of an agent's terminals is lost");
                return;
            }
            Err(_) => {
                tracing::warn!(%agent, "an agent's terminals did not give their output in time");
                return;
            }
        };
        let (files, owner, ended) = (
            self.shared.ended_terminals.clone(),
            agent.clone(),
            self.head(),
        );
        let saved = blocking(move || files.save(&owner, ended, &terminals)).await;
        if let Err(error) = saved {
            tracing::warn!(%agent, %error, "the output of an agent's terminals could not be kept");
        }
    }

    /// Forgets the terminals of runs that ended before this event.
    pub(super) async fn prune_terminals(&self, before: Seq) {
        let files = self.shared.ended_terminals.clone();
        if let Err(error) = blocking(move || files.prune(before)).await {
            tracing::warn!(%error, "output of terminals could not be removed");
        }
    }

    /// Never for agents: one could read what another does.
    async fn find_terminals(
        &self,
        caller: &Caller,
        agent: &AgentId,
    ) -> ServiceResult<RunTerminals> {
        caller.refuse_agents()?;
        let found = self.find_agent(agent);
        let found = found.ok_or_else(|| Rejection::UnknownAgent(agent.clone()))?;
        if found.managed.is_none() {
            return Err(Rejection::NotManaged(agent.clone()).into());
        }
        if let Some(run) = self.shared.terminals.find(agent) {
            return Ok(run);
        }
        let (files, owner) = (self.shared.ended_terminals.clone(), agent.clone());
        let kept = blocking(move || files.load(&owner)).await;
        let kept = kept.map_err(|error| Rejection::UnreadableTerminal {
            terminal: "all".to_owned(),
            why: error.to_string(),
        })?;
        Ok(self.shared.terminals.ended_run(kept))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn admit_reader(run: &RunTerminals) -> Result<tokio::sync::OwnedSemaphorePermit, Rejection> {
    let permit = run.readers.clone().try_acquire_owned();
    permit.map_err(|_| Rejection::TooMany {
        what: "readers of this agent's terminals",
        limit: TERMINAL_READERS_MAX,
    })
}

fn unreadable(terminal: &str, error: &ShellError) -> Rejection {
    let why = match error {
        ShellError::NotFound(_) => "it never was, or newer terminals took its place".to_owned(),
        ShellError::NotPermitted(_) | ShellError::Failed { .. } => error_chain(error),
    };
    Rejection::UnreadableTerminal {
        terminal: terminal.to_owned(),
        why,
    }
}

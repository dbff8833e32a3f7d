//! Terminals of agents, for people to read.

use std::sync::Arc;

use countersign_agents::{ShellBackend, ShellError, TerminalId, TerminalPiece, TerminalSummary};
use countersign_core::limits::TERMINAL_READERS_MAX;
use countersign_core::{AgentId, Caller, Rejection, error_chain};

use super::{Service, ServiceResult};
use crate::agent_terminals::{ListedTerminals, RunTerminals};

/// Terminals of agents.
impl Service {
    /// The terminals of an agent, oldest first. None are left once its run has ended.
    pub async fn terminals(
        &self,
        caller: &Caller,
        agent: &AgentId,
    ) -> ServiceResult<Vec<TerminalSummary>> {
        let Some(run) = self.find_terminals(caller, agent)? else {
            return Ok(Vec::new());
        };
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
        let Some(run) = self.find_terminals(caller, agent)? else {
            let why = "the output was lost when the agent ended".to_owned();
            let terminal = terminal.to_owned();
            return Err(Rejection::UnreadableTerminal { terminal, why }.into());
        };
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

    /// Never for agents: one could read what another does.
    fn find_terminals(
        &self,
        caller: &Caller,
        agent: &AgentId,
    ) -> ServiceResult<Option<RunTerminals>> {
        caller.refuse_agents()?;
        let found = self.find_agent(agent);
        let found = found.ok_or_else(|| Rejection::UnknownAgent(agent.clone()))?;
        if found.managed.is_none() {
            return Err(Rejection::NotManaged(agent.clone()).into());
        }
        Ok(self.shared.terminals.find(agent))
    }
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

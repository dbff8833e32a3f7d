//! Adopts agents: finds the runners that an earlier host left, and connects to them.
//!
//! Invariants: an agent is adopted only by what was committed about it; what cannot be adopted is
//! ended before anybody is told that it is gone.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use countersign_agents::KeptTerminals;
use countersign_agents::adapter::ProcessExit;
use countersign_agents::runner::{ExitReport, Link, LinkError, RunnerRecord};
use countersign_core::event::ProcessKey;
use countersign_core::limits::{HOST_FILES, RUNNER_FILES};
use countersign_core::{Agent, AgentId, Checkpoint, Snapshot};
use tokio::task::JoinSet;

use crate::service::Service;

use super::agent_connection::open_request_lines;
use super::connection_state::ConnectionState;
use super::run::RunKey;
use super::runner_host::RunnerHost;

/// A link to an agent's runner, and where to continue.
pub(super) struct RunnerConnection {
    pub(super) link: Link,
    pub(super) offset: u64,
    pub(super) state: Option<ConnectionState>,
    pub(super) record: RunnerRecord,
    pub(super) runner: ProcessKey,
}

/// Agents that an earlier host left and that this one continues.
#[derive(Default)]
pub(crate) struct AdoptedAgents(pub(super) HashMap<AgentId, RunnerConnection>);

impl AdoptedAgents {
    /// Who they are.
    pub(crate) fn agents(&self) -> BTreeSet<AgentId> {
        self.0.keys().cloned().collect()
    }
}

/// Reaches every runner that an earlier host left. Whatever cannot be reached is ended.
/// Refuses if this host could not hold a link to each: they wait for one that can.
pub(crate) async fn find_runners(
    snapshot: &mut Snapshot,
    runners: &Arc<dyn RunnerHost>,
) -> Result<AdoptedAgents, FileLimitError> {
    let mut checkpoints: HashMap<AgentId, Checkpoint> = std::mem::take(&mut snapshot.checkpoints)
        .into_iter()
        .map(|checkpoint| (checkpoint.agent.clone(), checkpoint))
        .collect();
    let mut reaching = JoinSet::new();
    let left: Vec<LeftRun> = snapshot
        .agents
        .iter()
        .filter_map(LeftRun::find)
        .filter(|left| left.is_here(&**runners))
        .collect();
    check_files(left.len() as u64)?;
    for left in left {
        let checkpoint = checkpoints.remove(&left.id);
        let runners = runners.clone();
        reaching.spawn(async move {
            let connected = left.reach(&*runners, checkpoint).await;
            (left.id, connected)
        });
    }
    let mut adopted = HashMap::new();
    while let Some(reached) = reaching.join_next().await {
        // One that panicked counts as not reached, and its runner is ended with the unknown ones.
        if let Ok((id, Some(connected))) = reached {
            adopted.insert(id, connected);
        }
    }
    end_unknown_runners(&**runners, &adopted).await;
    Ok(AdoptedAgents(adopted))
}

/// The machine does not let this host adopt all agents that were left.
#[derive(Debug, thiserror::Error)]
#[error(
    "{agents} agents were left running, and with {files} open files a host cannot adopt all of them: raise the limit (`ulimit -n`) or end them (`countersign down --all`)"
)]
pub(crate) struct FileLimitError {
    agents: u64,
    files: u64,
}

/// Without enough open files, a runner that lives would look as if it had gone.
fn check_files(agents: u64) -> Result<(), FileLimitError> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let files = limit.current.unwrap_or(u64::MAX);
    let needed = agents * RUNNER_FILES + HOST_FILES;
    if agents == 0 || files >= needed {
        Ok(())
    } else {
        Err(FileLimitError { agents, files })
    }
}

/// Ends runners that no agent on the record has.
async fn end_unknown_runners(
    runners: &dyn RunnerHost,
    adopted: &HashMap<AgentId, RunnerConnection>,
) {
    let kept: HashSet<ProcessKey> = adopted.values().map(|one| one.runner).collect();
    for (record, runner) in runners.find_orphans() {
        if !kept.contains(&runner) {
            end_runner(runners, &record, runner, "nobody").await;
            runners.remove_files(&record);
        }
    }
    let records: Vec<_> = adopted.values().map(|one| &one.record).collect();
    runners.clear_orphans(&records);
}

/// An agent that an earlier host left running.
struct LeftRun {
    id: AgentId,
    run: u32,
    runner: Option<ProcessKey>,
    record: RunnerRecord,
}

impl LeftRun {
    fn find(agent: &Agent) -> Option<Self> {
        let managed = agent.managed.as_ref().filter(|managed| managed.is_live())?;
        Some(Self {
            id: agent.id().clone(),
            run: managed.run,
            runner: managed.process,
            // Without a record nobody can be reached; a runner that lives is ended with the unknown
            // ones.
            record: serde_json::from_str(managed.runner.text()).ok()?,
        })
    }

    /// Whether it is this host's. Where the record is a copy of another host's, it is not.
    fn is_here(&self, runners: &dyn RunnerHost) -> bool {
        let elsewhere = runners.belongs_to_another_host(&self.record);
        if elsewhere {
            tracing::warn!(agent = %self.id, "agent belongs to the host that this record was copied from");
        }
        !elsewhere
    }

    /// Connects to its runner. If that fails it is ended, and the link that is given only says why.
    async fn reach(
        &self,
        runners: &dyn RunnerHost,
        checkpoint: Option<Checkpoint>,
    ) -> Option<RunnerConnection> {
        // The offset of an earlier run counts the output of another process.
        let checkpoint = checkpoint.filter(|checkpoint| checkpoint.run == self.run);
        let runner = self.runner?;
        match reach(runners, &self.record, runner, checkpoint.as_ref()).await {
            Ok(connected) => Some(connected),
            Err(error) => {
                let why = countersign_core::error_chain(&error);
                tracing::warn!(agent = %self.id, error = why, "agent was not adopted");
                // Ended before anybody is told that it is gone.
                end_runner(runners, &self.record, runner, self.id.as_str()).await;
                let left = self.end_of(&error, why, checkpoint);
                if left.is_none() {
                    runners.remove_files(&self.record);
                }
                left
            }
        }
    }

    /// A link that only says why an agent was ended, if its runner lived and could not be used. The
    /// end of an agent whose runner was gone needs no link.
    fn end_of(
        &self,
        error: &AdoptionError,
        why: String,
        at: Option<Checkpoint>,
    ) -> Option<RunnerConnection> {
        let AdoptionError::Link(LinkError::Refused(_) | LinkError::Failed(_)) = error else {
            return None;
        };
        let offset = at.as_ref().map_or(0, |checkpoint| checkpoint.offset);
        let report = ExitReport {
            from: offset,
            output: Vec::new(),
            exit: ProcessExit::default(),
            why: Some(why),
            log: String::new(),
            written: Vec::new(),
            terminals: KeptTerminals::default(),
        };
        Some(RunnerConnection {
            link: report.into_link(offset),
            offset,
            state: at.and_then(|checkpoint| ConnectionState::read(&checkpoint).ok()),
            record: self.record.clone(),
            runner: self.runner?,
        })
    }
}

/// Why an agent could not be adopted.
#[derive(Debug, thiserror::Error)]
enum AdoptionError {
    #[error("its checkpoint cannot be read")]
    Checkpoint(#[from] serde_json::Error),
    #[error("its runner cannot be reached")]
    Link(#[from] LinkError),
    #[error("its host ended before it was started")]
    NotStarted,
}

async fn reach(
    runners: &dyn RunnerHost,
    record: &RunnerRecord,
    runner: ProcessKey,
    checkpoint: Option<&Checkpoint>,
) -> Result<RunnerConnection, AdoptionError> {
    let state = checkpoint.map(ConnectionState::read).transpose()?;
    let offset = checkpoint.map_or(0, |checkpoint| checkpoint.offset);
    let open = state
        .as_ref()
        .map(|state| open_request_lines(record.protocol, state))
        .unwrap_or_default();
    let link = match runners.connect(record, runner, offset, open).await {
        Ok(link) if link.agent.is_none() => return Err(AdoptionError::NotStarted),
        Ok(link) => link,
        Err(LinkError::Gone) => {
            // An exit report does not say that nothing runs: an agent that killed its runner may
            // have written the report itself.
            end_runner(runners, record, runner, &record.folder.to_string_lossy()).await;
            match runners.read_exit_report(record) {
                Ok(Some(report)) => report.into_link(offset),
                _ => return Err(LinkError::Gone.into()),
            }
        }
        Err(error) => return Err(error.into()),
    };
    Ok(RunnerConnection {
        link,
        offset,
        state,
        record: record.clone(),
        runner,
    })
}

/// Ends a runner and everything it held.
pub(super) async fn end_runner(
    runners: &dyn RunnerHost,
    record: &RunnerRecord,
    runner: ProcessKey,
    agent: &str,
) {
    match runners.end(record, runner).await {
        Ok(0) => {}
        Ok(ended) => tracing::warn!(agent, ended, "ended processes that an agent left"),
        Err(error) => {
            tracing::error!(agent, %error, "processes of an agent may still run");
        }
    }
}

/// Reaches an agent's runner again from what is committed now.
pub(super) async fn reconnect(
    service: &Service,
    runners: &dyn RunnerHost,
    key: &RunKey,
    record: &RunnerRecord,
    runner: ProcessKey,
) -> Result<RunnerConnection, String> {
    let checkpoint = service
        .find_checkpoint(key.agent.clone())
        .await
        .map_err(|error| error.to_string())?
        .filter(|checkpoint| checkpoint.run == key.number);
    reach(runners, record, runner, checkpoint.as_ref())
        .await
        .map_err(|error| countersign_core::error_chain(&error))
}

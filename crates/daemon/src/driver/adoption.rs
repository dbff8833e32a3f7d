//! Adopting: a host finds the runners that an earlier one left, and goes on with their agents.
//!
//! Invariants: an agent is adopted only by what was committed about it; what cannot be adopted is
//! ended before anybody is told that it is gone; a request whose ask is no longer open is cancelled,
//! never granted.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use countersign_agents::adapter::ProcessExit;
use countersign_agents::runner::{self, ExitReport, Link, LinkError, RunnerRecord};
use countersign_core::event::ProcessKey;
use countersign_core::limits::{HOST_FILES, RUNNER_FILES};
use countersign_core::{Agent, AgentId, ApprovalId, Checkpoint, ManagedAgent, Snapshot};
use tokio::task::JoinSet;

use crate::service::{RunnerSettings, Service};
use crate::supervisor::StateView;

use super::client_requests::is_terminal_request;
use super::connection_state::{ConnectionState, WaitingRequest};
use super::run::Run;

/// A link to an agent, and from where to go on.
pub(super) struct RunnerConnection {
    pub(super) link: Link,
    pub(super) offset: u64,
    pub(super) state: Option<ConnectionState>,
    pub(super) record: RunnerRecord,
    pub(super) runner: ProcessKey,
}

/// Agents that an earlier host left and that go on.
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
    settings: &RunnerSettings,
) -> Result<AdoptedAgents, FileLimitError> {
    let mut checkpoints: HashMap<AgentId, Checkpoint> = std::mem::take(&mut snapshot.checkpoints)
        .into_iter()
        .map(|checkpoint| (checkpoint.agent.clone(), checkpoint))
        .collect();
    let mut reaching = JoinSet::new();
    let left = snapshot.agents.iter().filter_map(LeftRun::of);
    let left: Vec<_> = left.filter(|agent| agent.is_here(settings)).collect();
    check_files(left.len() as u64)?;
    for agent in left {
        let checkpoint = checkpoints.remove(&agent.id);
        reaching.spawn(async move { (agent.id.clone(), agent.reach(checkpoint).await) });
    }
    let mut adopted = HashMap::new();
    while let Some(reached) = reaching.join_next().await {
        if let Ok((id, Some(connected))) = reached {
            adopted.insert(id, connected);
        }
    }
    end_unknown_runners(settings, &adopted).await;
    Ok(AdoptedAgents(adopted))
}

/// The machine does not let this host go on with all agents that were left.
#[derive(Debug, thiserror::Error)]
#[error(
    "{agents} agents were left running, and with {files} open files a host cannot go on with all of \
     them: raise the limit (`ulimit -n`) or end them (`countersign down --all`)"
)]
pub(crate) struct FileLimitError {
    agents: u64,
    files: u64,
}

/// Without enough of them a runner that lives would look as if it had gone.
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

/// Runners that no agent on the record needs any more.
async fn end_unknown_runners(
    settings: &RunnerSettings,
    adopted: &HashMap<AgentId, RunnerConnection>,
) {
    let kept: HashSet<ProcessKey> = adopted.values().map(|one| one.runner).collect();
    for (record, runner) in runner::find_orphans(&settings.folder) {
        if !kept.contains(&runner) {
            end_runner(&record, Some(runner), "nobody").await;
            runner::remove_run_files(&record);
        }
    }
    let records: Vec<_> = adopted.values().map(|one| &one.record).collect();
    runner::clear_orphans(&settings.folder, &settings.sockets, &records);
}

/// An agent that an earlier host left running.
struct LeftRun {
    id: AgentId,
    run: u32,
    runner: Option<ProcessKey>,
    record: RunnerRecord,
}

impl LeftRun {
    fn of(agent: &Agent) -> Option<Self> {
        let managed = agent.managed.as_ref().filter(|managed| managed.is_live())?;
        Some(Self {
            id: agent.id().clone(),
            run: managed.run,
            runner: managed.process,
            record: serde_json::from_str(managed.runner.text()).ok()?,
        })
    }

    /// Not, where these files are a copy of another host's: it is that host's to go on with.
    fn is_here(&self, settings: &RunnerSettings) -> bool {
        let elsewhere = runner::belongs_to_another_host(&self.record, &settings.folder);
        if elsewhere {
            tracing::warn!(agent = %self.id, "an agent is left to the host whose files these were");
        }
        !elsewhere
    }

    /// A link to it; if it cannot be gone on with, one that only says why, and nothing of it is left.
    async fn reach(&self, checkpoint: Option<Checkpoint>) -> Option<RunnerConnection> {
        let checkpoint = checkpoint.filter(|checkpoint| checkpoint.run == self.run);
        let runner = self.runner?;
        match reach(&self.record, runner, checkpoint.as_ref()).await {
            Ok(connected) => Some(connected),
            Err(error) => {
                let why = countersign_core::error_chain(&error);
                tracing::warn!(agent = %self.id, error = why, "an agent is not taken up again");
                end_runner(&self.record, Some(runner), self.id.as_str()).await;
                let left = self.end_of(&error, why, checkpoint);
                if left.is_none() {
                    runner::remove_run_files(&self.record);
                }
                left
            }
        }
    }

    /// A link that only says why an agent was ended whose runner was there and of no use.
    fn end_of(
        &self,
        error: &AdoptionError,
        why: String,
        at: Option<Checkpoint>,
    ) -> Option<RunnerConnection> {
        let AdoptionError::Link(LinkError::Refused(_) | LinkError::Failed(_)) = error else {
            return None;
        };
        let heard = at.as_ref().map_or(0, |checkpoint| checkpoint.offset);
        let words = ExitReport {
            from: heard,
            output: Vec::new(),
            exit: ProcessExit::default(),
            why: Some(why),
            log: String::new(),
            written: Vec::new(),
            claimed: Vec::new(),
        };
        Some(RunnerConnection {
            link: words.into_link(heard),
            offset: heard,
            state: at.and_then(|checkpoint| ConnectionState::read(&checkpoint).ok()),
            record: self.record.clone(),
            runner: self.runner?,
        })
    }
}

/// Why a runner could not be gone on with.
#[derive(Debug, thiserror::Error)]
enum AdoptionError {
    #[error("what was kept of it cannot be read")]
    Kept(#[from] serde_json::Error),
    #[error("its runner cannot be reached")]
    Link(#[from] LinkError),
    #[error("its host ended before it was started")]
    NotStarted,
}

async fn reach(
    record: &RunnerRecord,
    runner: ProcessKey,
    checkpoint: Option<&Checkpoint>,
) -> Result<RunnerConnection, AdoptionError> {
    let kept = checkpoint.map(ConnectionState::read).transpose()?;
    let heard = checkpoint.map_or(0, |checkpoint| checkpoint.offset);
    let open = kept
        .as_ref()
        .map(|kept| super::agent_connection::open_request_lines(record.protocol, kept))
        .unwrap_or_default();
    let link = match runner::connect(record, runner, heard, open).await {
        Ok(link) if link.agent.is_none() => return Err(AdoptionError::NotStarted),
        Ok(link) => link,
        Err(LinkError::Gone) => {
            // Whatever it left, an agent that killed it may have written it and may still run.
            end_runner(record, Some(runner), &record.folder.to_string_lossy()).await;
            match runner::read_exit_report(&record.folder) {
                Ok(Some(words)) => words.into_link(heard),
                _ => return Err(LinkError::Gone.into()),
            }
        }
        Err(error) => return Err(error.into()),
    };
    Ok(RunnerConnection {
        link,
        offset: heard,
        state: kept,
        record: record.clone(),
        runner,
    })
}

/// Ends a runner and everything it held.
pub(super) async fn end_runner(record: &RunnerRecord, runner: Option<ProcessKey>, whose: &str) {
    match runner::end_orphan(record, runner).await {
        Ok(0) => {}
        Ok(ended) => tracing::warn!(agent = whose, ended, "ended what was left of an agent"),
        Err(error) => {
            tracing::error!(agent = whose, %error, "processes of an agent may still run");
        }
    }
}

/// Reaches an agent's runner again from what is committed now.
pub(super) async fn reconnect(
    service: &Service,
    agent: &AgentId,
    (record, runner): (&RunnerRecord, ProcessKey),
    run: u32,
) -> Result<RunnerConnection, String> {
    let checkpoint = service.find_checkpoint(agent.clone()).await;
    let checkpoint = checkpoint.map_err(|error| error.to_string())?;
    let checkpoint = checkpoint.filter(|checkpoint| checkpoint.run == run);
    reach(record, runner, checkpoint.as_ref())
        .await
        .map_err(|error| countersign_core::error_chain(&error))
}

/// What the record says of an agent's requests.
#[derive(Default)]
struct RecordedRequests {
    waiting: HashSet<ApprovalId>,
    covered: HashSet<ApprovalId>,
}

impl Run {
    /// Goes on with the requests that an earlier host left: those that were allowed are done, those
    /// that wait go on waiting, the others are cancelled.
    pub(super) async fn resume_requests(self: &Arc<Self>, managed: &ManagedAgent) {
        let left = self.connection().waiting_requests();
        let repeated = self.connection().resend_unwritten();
        self.confirm_when_written(repeated);
        if left.is_empty() {
            return;
        }
        let agent = self.agent.clone();
        let looked = self
            .service
            .read_state(move |view| find_recorded_requests(view, &agent));
        let mut known = looked.await.unwrap_or_default();
        known.covered.extend(managed.covered.iter().cloned());
        for kept in left {
            self.resume_request(kept, &known);
        }
    }

    fn resume_request(self: &Arc<Self>, kept: WaitingRequest, known: &RecordedRequests) {
        let request = (kept.request, kept.line);
        match (kept.ask, kept.want) {
            (None, Some(want)) if is_terminal_request(&want) => self.serve_terminal(request, want),
            (Some(ask), _) if known.waiting.contains(&ask) => {}
            (Some(ask), Some(_)) if known.covered.contains(&ask) => {
                self.serve_covered(request, &ask);
            }
            (_, Some(_)) => self.cancel_request(request, "the host was replaced"),
            (Some(ask), None) => self.cancel_ask(&request.0, &ask),
            (None, None) => {}
        }
    }
}

fn find_recorded_requests(view: StateView<'_>, agent: &AgentId) -> RecordedRequests {
    let state = view.state;
    let of_agent = state
        .open_approvals()
        .filter(|open| open.ask.agent.as_ref() == Some(agent));
    let open = of_agent.map(|open| open.ask.id.clone());
    let duties = state
        .duties_of(agent)
        .into_iter()
        .filter_map(|duty| match duty {
            countersign_core::Duty::Answer(approval) => Some(approval.ask.id.clone()),
            _ => None,
        });
    let covered = state
        .find_agent(agent)
        .and_then(|agent| agent.managed.as_ref());
    RecordedRequests {
        waiting: open.chain(duties).collect(),
        covered: covered
            .map(|managed| managed.covered.iter().cloned().collect())
            .unwrap_or_default(),
    }
}

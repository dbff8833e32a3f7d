//! The service: everything a caller can ask of the host, whatever door it came through.
//!
//! Invariant: each operation has its one implementation here or below; doors only translate.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use countersign_agents::ContainmentMethod;
use countersign_core::event::{AnswerDelivery, Device};
use countersign_core::limits::INPUT_QUEUE;
use countersign_core::{
    Agent, AgentId, Approval, ConnectionPresence, GrantState, Input, ManagedAgent, OpenCounts,
    Principal, Question, Seq, Snapshot, State, Timestamp, TokenId,
};
use countersign_store::{EventHistory, EventLog, StoreError};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};
use tokio_util::task::TaskTracker;

use crate::agent_editors::AgentEditors;
use crate::agent_terminals::TerminalDirectory;
use crate::clock::HostClock;
use crate::crash;
use crate::device_uses::DeviceUses;
use crate::directory::AgentDirectory;
use crate::driver::{self, AdoptedAgents, AgentDrivers, ProcessRunners, RunnerHost};
use crate::duty_board::{DutyBoard, DutyReceiver};
use crate::ended_terminals::EndedTerminals;
use crate::feed::{EventFeed, FeedEntry};
use crate::gate::Gate;
use crate::notify::NotifyCenter;
use crate::own_terminals::OwnTerminals;
use crate::reply::{CommandReply, ServiceError};
use crate::rulebook::Rulebook;
use crate::secrets::AgentSecrets;
use crate::supervisor::{
    AnswerWaiters, CommitOutlets, CommitWriter, HostCounters, StateRead, StateView, StoreOutage,
    Supervisor, SupervisorCommand,
};
use crate::timekeeper;

mod access;
mod agent_files;
mod agents;
mod approvals;
mod blocking_fs;
mod connections;
mod editors;
mod hierarchy;
mod judgement;
mod lookup;
mod managed;
mod notify;
mod own_terminals;
mod questions;
mod record;
mod replay;
mod rules;
mod search;
mod settings;
mod terminals;
mod worktrees;

pub use access::CgroupAgent;
pub use agent_files::FolderLook;
pub use editors::{EditorCallRange, EditorPresence};
pub(crate) use judgement::AgentOutput;
pub use managed::{AgentGoal, SpawnRequest, TranscriptPage, TranscriptRange};
pub use notify::NotifyOverview;
pub use own_terminals::OwnTerminalRequest;
pub use replay::{BacktestContradiction, BacktestReport, RuleProposal};
pub use rules::{CheckRequest, GrantAdded, RuleCheck, RulesOverview};
pub use search::SearchRequest;
pub use settings::{HostSettings, RunnerSettings};
pub use worktrees::CatalogEntry;

type ServiceResult<T> = Result<T, ServiceError>;

/// How long the end of the host waits for tasks that were begun.
const TASKS_END: Duration = Duration::from_secs(2);

/// The only way in. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    shared: Arc<ServiceInner>,
}

struct ServiceInner {
    commands: mpsc::Sender<SupervisorCommand>,
    history: Arc<dyn EventHistory>,
    feed: Arc<EventFeed>,
    clock: HostClock,
    counters: Arc<HostCounters>,
    outage: watch::Receiver<Option<StoreOutage>>,
    directory: Arc<AgentDirectory>,
    device_uses: DeviceUses,
    terminals: TerminalDirectory,
    ended_terminals: Arc<EndedTerminals>,
    own_terminals: OwnTerminals,
    editors: AgentEditors,
    /// Whatever runs beside its caller. All of it ends soon after the loop does.
    tasks: TaskTracker,
    rulebook: Arc<Rulebook>,
    secrets: AgentSecrets,
    runners: RunnerSettings,
    drivers: OnceLock<AgentDrivers>,
    notify: Arc<NotifyCenter>,
    means: OnceLock<ContainmentMethod>,
    /// Wakes the task that judges open asks again.
    rejudge: Arc<Notify>,
    /// Permits for threads that read rule files.
    rule_readers: Arc<Semaphore>,
    /// Permits for threads that look into folders of agents.
    folder_readers: Arc<Semaphore>,
}

/// Resolves when the loop has ended, orderly or not.
pub struct SupervisorExit(oneshot::Receiver<()>);

impl SupervisorExit {
    /// Waits for the end.
    pub async fn wait(&mut self) {
        // Both an orderly end and a panic drop the sender.
        drop((&mut self.0).await);
    }
}

/// Opens the record at `path` and starts the host on it.
pub async fn open(
    path: &Path,
    settings: HostSettings,
) -> Result<(Service, SupervisorExit), OpenError> {
    let (log, history) = countersign_store::open(path)?;
    Ok(start(Box::new(log), history, settings).await?)
}

/// Why a host could not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The record cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The loop could not be started.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

/// Loads what was committed, settles the answers that an earlier host had begun to deliver, and starts
/// the loop and the drivers.
pub async fn start(
    mut log: Box<dyn EventLog>,
    history: Arc<dyn EventHistory>,
    settings: HostSettings,
) -> ServiceResult<(Service, SupervisorExit)> {
    let clock = HostClock::start();
    let mut snapshot = log.load().map_err(|error| to_service_error(&error))?;
    // Before the loop runs: whether an agent is adopted decides what becomes of its open asks, and
    // that is part of the first commit.
    let runners: Arc<dyn RunnerHost> = Arc::new(ProcessRunners(settings.runners.clone()));
    let adopted = driver::find_runners(&mut snapshot, &runners).await;
    let adopted = adopted.map_err(|error| ServiceError::World(error.to_string().into()))?;
    let version = settings.version.clone();
    let (service, board, stopped) = assemble(log, history, snapshot, settings, clock)?;
    // Before any driver runs: what a driver then settles was left by the earlier host.
    service.record_start(version, adopted.agents()).await?;
    service.start_drivers(board, runners, adopted).await?;
    service.adopt_own_terminals().await?;
    service.start_notifier().await?;
    let rejudging = service.clone().rejudge_when_rules_change();
    service.shared.tasks.spawn(rejudging);
    Ok((service, stopped))
}

/// Starts the loop, which has not decided anything yet.
fn assemble(
    log: Box<dyn EventLog>,
    history: Arc<dyn EventHistory>,
    snapshot: Snapshot,
    settings: HostSettings,
    clock: HostClock,
) -> ServiceResult<(Service, Arc<DutyBoard>, SupervisorExit)> {
    let (commands, inputs) = mpsc::channel(INPUT_QUEUE);
    let (outage, outage_seen) = watch::channel(None);
    let (deadline, deadline_seen) = watch::channel(None);
    let board = Arc::new(DutyBoard::default());
    let feed = Arc::new(EventFeed::new(snapshot.head));
    let counters = Arc::new(HostCounters::default());
    let state = State::restore(snapshot);
    let directory = Arc::new(AgentDirectory::new(&state));
    counters.note_agent_processes(&state);
    let rulebook = settings.rulebook;
    load_trusted_files(&rulebook, &state);
    let outlets = CommitOutlets {
        feed: feed.clone(),
        directory: directory.clone(),
        board: board.clone(),
        counters: counters.clone(),
        outage,
    };
    let mut writer = CommitWriter::new(log, outlets);
    writer
        .start()
        .map_err(|error| ServiceError::Store(error.to_string().into()))?;
    let supervisor = Supervisor {
        writer,
        gate: Gate::from_state(&state),
        state,
        presence: ConnectionPresence::default(),
        clock,
        counters: counters.clone(),
        expiry_held_until: clock.started_at().plus_ms(settings.expiry_hold_ms),
        owner_grace_ms: settings.owner_grace_ms,
        escalation_ms: settings.escalation_ms,
        deadline,
        waiters: AnswerWaiters::default(),
    };
    let stopped = spawn_supervisor(supervisor, inputs)?;
    let tasks = TaskTracker::new();
    tasks.spawn(timekeeper::run_timekeeper(
        clock,
        deadline_seen,
        commands.clone(),
    ));
    let shared = ServiceInner {
        commands,
        history,
        feed,
        clock,
        counters,
        outage: outage_seen,
        directory,
        tasks,
        rulebook,
        device_uses: DeviceUses::default(),
        terminals: TerminalDirectory::default(),
        ended_terminals: Arc::new(EndedTerminals::new(settings.terminals_folder)),
        own_terminals: OwnTerminals::new(settings.own_terminals),
        editors: AgentEditors::default(),
        secrets: AgentSecrets::default(),
        runners: settings.runners,
        drivers: OnceLock::new(),
        notify: Arc::new(NotifyCenter::new(settings.notify)),
        means: OnceLock::new(),
        rejudge: Arc::default(),
        rule_readers: Arc::new(Semaphore::new(blocking_fs::RULE_READERS_MAX)),
        folder_readers: Arc::new(Semaphore::new(countersign_core::limits::FOLDER_READERS_MAX)),
    };
    let service = Service {
        shared: Arc::new(shared),
    };
    Ok((service, board, stopped))
}

/// Runs the loop on a thread of its own.
fn spawn_supervisor(
    supervisor: Supervisor,
    inputs: mpsc::Receiver<SupervisorCommand>,
) -> ServiceResult<SupervisorExit> {
    let (ended, stopped) = oneshot::channel();
    std::thread::Builder::new()
        .name("supervisor".to_owned())
        .spawn(move || {
            supervisor.run(inputs);
            drop(ended);
        })
        .map_err(|error| ServiceError::Store(error.to_string().into()))?;
    Ok(SupervisorExit(stopped))
}

/// Tells the rulebook which files were trusted, and as what.
fn load_trusted_files(rulebook: &Rulebook, state: &State) {
    let trusted = state.trusted_files();
    rulebook.set_trusted(
        trusted
            .map(|(file, digest)| (file.to_owned(), digest.to_owned()))
            .collect(),
    );
}

/// A read of the state whose caller waits on a channel.
struct AnsweredRead<F, T> {
    look: F,
    found: Option<T>,
    answer: oneshot::Sender<T>,
}

impl<T: Send, F: Fn(StateView<'_>) -> T + Send> StateRead for AnsweredRead<F, T> {
    fn look(&mut self, view: StateView<'_>) {
        self.found = Some((self.look)(view));
    }

    fn answer(self: Box<Self>) {
        if let Some(found) = self.found {
            // A caller that no longer listens has lost nothing.
            drop(self.answer.send(found));
        }
    }
}

/// Runs a read of history off the async threads.
pub(crate) async fn read_blocking<T: Send + 'static>(
    history: &Arc<dyn EventHistory>,
    read: impl FnOnce(&dyn EventHistory) -> Result<T, StoreError> + Send + 'static,
) -> ServiceResult<T> {
    let history = history.clone();
    let reading = tokio::task::spawn_blocking(move || read(history.as_ref()));
    reading
        .await
        .map_err(|_| ServiceError::ShuttingDown)?
        .map_err(|error| to_service_error(&error))
}

fn to_service_error(error: &StoreError) -> ServiceError {
    ServiceError::Store(countersign_core::error_chain(error).into())
}

/// What a fresh subscriber is shown, as of one sequence number.
#[derive(Clone, Debug)]
pub struct HostOverview {
    /// The newest event counted in.
    pub head: Seq,
    /// Agents and what each has open.
    pub agents: Vec<(Agent, OpenCounts)>,
    /// Open approvals and the newest that ended, newest first.
    pub approvals: Vec<Approval>,
    /// Open questions, newest first.
    pub questions: Vec<Question>,
    pub devices: Vec<Arc<Device>>,
    /// Connections open now.
    pub connections: usize,
}

/// Who a token's bearer is.
#[derive(Clone, Debug)]
pub struct TokenIdentity {
    pub principal: Arc<Principal>,
    /// When the token ends.
    pub expires_at: Option<Timestamp>,
    /// The token, if a device is logged in with it.
    pub device: Option<TokenId>,
}

impl Service {
    /// Records the start, and that answers which were being delivered when the earlier host ended may
    /// or may not have arrived. Only the runner of an adopted agent knows: such an answer stays a duty
    /// until its driver has asked there.
    async fn record_start(&self, version: String, adopted: BTreeSet<AgentId>) -> ServiceResult<()> {
        self.submit(Input::HostStarted {
            version,
            pid: std::process::id(),
            adopted: adopted.clone(),
        })
        .await?;
        crash::point("host_started");
        let mut after = None;
        loop {
            let page = self.history(move |history| history.attempted_answers(after));
            let undelivered = page.await?;
            let Some(last) = undelivered.last() else {
                return Ok(());
            };
            after = Some(last.opened);
            for approval in undelivered.iter().filter(|owed| !is_for(owed, &adopted)) {
                crash::point("before_settling");
                self.submit(settle_input(approval, AnswerDelivery::Unknown))
                    .await?;
            }
        }
    }

    async fn send(&self, command: SupervisorCommand) -> ServiceResult<()> {
        self.shared
            .commands
            .send(command)
            .await
            .map_err(|_| ServiceError::ShuttingDown)
    }

    async fn submit(&self, input: Input) -> ServiceResult<CommandReply> {
        let (answer, wait) = oneshot::channel();
        self.send(SupervisorCommand::Input(input, Some(answer)))
            .await?;
        wait.await.map_err(|_| self.unavailable())?
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        look: impl Fn(StateView<'_>) -> T + Send + 'static,
    ) -> ServiceResult<T> {
        let (answer, wait) = oneshot::channel();
        let read = AnsweredRead {
            look,
            found: None,
            answer,
        };
        let command = SupervisorCommand::Read(Box::new(read));
        self.send(command).await?;
        wait.await.map_err(|_| self.unavailable())
    }

    async fn history<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn EventHistory) -> Result<T, StoreError> + Send + 'static,
    ) -> ServiceResult<T> {
        // Readers have connections of their own to the database, which may hold a commit that
        // failed and that nobody was told of.
        let outage = self.shared.outage.borrow().clone();
        if let Some(outage) = outage.filter(|outage| outage.unreadable) {
            return Err(ServiceError::Store(outage.message));
        }
        match read_blocking(&self.shared.history, read).await {
            Err(ServiceError::Store(message)) => {
                // A reader may be the first to meet what became of the files.
                self.check_record().await;
                let outage = self.store_error();
                Err(ServiceError::Store(outage.unwrap_or(message)))
            }
            found => found,
        }
    }

    fn unavailable(&self) -> ServiceError {
        self.store_error()
            .map_or(ServiceError::ShuttingDown, ServiceError::Store)
    }

    /// Why nothing can be committed, if nothing can.
    pub fn store_error(&self) -> Option<Arc<str>> {
        let outage = self.shared.outage.borrow();
        outage.as_ref().map(|outage| outage.message.clone())
    }

    /// Whether the record is lost, so that nothing will be committed until another host starts.
    pub fn record_is_lost(&self) -> bool {
        let outage = self.shared.outage.borrow();
        outage.as_ref().is_some_and(|outage| outage.lost)
    }

    /// This instant, by the host's clock.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// When the host started.
    pub fn started_at(&self) -> Timestamp {
        self.shared.clock.started_at()
    }

    /// The newest committed event.
    pub fn head(&self) -> Seq {
        self.shared.feed.head()
    }

    /// Counters for whoever watches the host.
    pub fn counters(&self) -> &HostCounters {
        &self.shared.counters
    }

    /// Starts a driver for each managed agent, first for those that an earlier host left running.
    async fn start_drivers(
        &self,
        board: Arc<DutyBoard>,
        runners: Arc<dyn RunnerHost>,
        mut adopted: AdoptedAgents,
    ) -> ServiceResult<()> {
        let (channels, agents) = (board.clone(), adopted.agents());
        let left = self
            .read(move |view| find_adopted(view, &channels, &agents))
            .await?;
        let left = left.into_iter().filter_map(|agent| {
            adopted.remove_agent(agent.id, agent.name, agent.managed, agent.duties)
        });
        let left = left.collect();
        self.shared
            .drivers
            .get_or_init(|| AgentDrivers::start(self, board, runners, left));
        Ok(())
    }

    /// Disconnects from every managed agent, finishes what is queued and ends the loop. Runners keep
    /// their agents running.
    pub async fn stop(&self) {
        self.shared.own_terminals.ending.cancel();
        // Before the loop: drivers still send what they settled.
        if let Some(drivers) = self.shared.drivers.get() {
            drivers.end().await;
        }
        // A loop that is gone already has nothing left to stop.
        drop(self.send(SupervisorCommand::Stop).await);
        self.shared.tasks.close();
        // Something that reads a folder which never answers does not keep the host from ending.
        with_limit(Some(TASKS_END), self.shared.tasks.wait()).await;
    }
}

/// Whether this answer is delivered by the host itself, to one of these agents.
fn is_for(approval: &Approval, agents: &BTreeSet<AgentId>) -> bool {
    let agent = approval.ask.agent.as_ref();
    approval.ask.request.is_some() && agent.is_some_and(|agent| agents.contains(agent))
}

/// An agent whose runner lives, as the state has it.
struct LeftAgent {
    id: AgentId,
    name: String,
    managed: Arc<ManagedAgent>,
    duties: DutyReceiver,
}

/// Opens a channel of duties for each adopted agent. Inside the loop, so that no duties are posted
/// between the look at the state and the channel.
fn find_adopted(
    view: StateView<'_>,
    board: &DutyBoard,
    adopted: &BTreeSet<AgentId>,
) -> Vec<LeftAgent> {
    let left = adopted.iter().filter_map(|id| {
        let agent = view.state.find_agent(id)?;
        Some(LeftAgent {
            id: id.clone(),
            name: agent.profile.name.clone(),
            managed: agent.managed.clone()?,
            duties: board.open_channel(id, view.state.duties_of(id)),
        })
    });
    left.collect()
}

/// What became of an answer, as an input of the loop.
pub(crate) fn settle_input(approval: &Approval, delivery: AnswerDelivery) -> Input {
    Input::SettleAnswer {
        approval: approval.ask.id.clone(),
        opened: approval.opened,
        delivery,
    }
}

async fn with_limit<T>(limit: Option<Duration>, wait: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, wait).await.ok(),
        None => Some(wait.await),
    }
}

/// Tells the loop that a wait is over, however it ended.
struct WaitGuard<'a>(&'a mpsc::Sender<SupervisorCommand>);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        // A full queue only delays the sweep to the next dropped wait.
        drop(self.0.try_send(SupervisorCommand::WaitDropped));
    }
}

fn agent(reply: CommandReply) -> ServiceResult<(Agent, OpenCounts)> {
    if let CommandReply::Agent(agent, open) = reply {
        Ok((*agent, open))
    } else {
        Err(mismatch(&reply))
    }
}

fn approval(reply: CommandReply) -> ServiceResult<Approval> {
    if let CommandReply::Approval(approval) = reply {
        Ok(*approval)
    } else {
        Err(mismatch(&reply))
    }
}

fn question(reply: CommandReply) -> ServiceResult<Question> {
    if let CommandReply::Question(question) = reply {
        Ok(*question)
    } else {
        Err(mismatch(&reply))
    }
}

fn device(reply: CommandReply) -> ServiceResult<Arc<Device>> {
    if let CommandReply::Device(device) = reply {
        Ok(device)
    } else {
        Err(mismatch(&reply))
    }
}

fn grant(reply: CommandReply) -> ServiceResult<GrantState> {
    if let CommandReply::Grant(grant) = reply {
        Ok(*grant)
    } else {
        Err(mismatch(&reply))
    }
}

fn event(reply: CommandReply) -> ServiceResult<Arc<FeedEntry>> {
    if let CommandReply::Event(entry) = reply {
        Ok(entry)
    } else {
        Err(mismatch(&reply))
    }
}

fn mismatch(reply: &CommandReply) -> ServiceError {
    debug_assert!(false, "the loop answered with {reply:?}");
    ServiceError::Store("the host answered itself with something it did not ask for".into())
}

#[cfg(test)]
pub(crate) mod tests;

//! One run of an agent: from its start, or from where an earlier host left it, to its end.
//!
//! A run has three parts: the [`OutputReader`] is a task of its own, the [`DutyPerformer`] is called
//! whenever the duties change, and [`ClientRequests`] serves files and terminals for both.

use std::sync::Arc;
use std::time::Duration;

use countersign_agents::adapter::{AgentCommand, ProcessExit, RestoreError, SessionSpec};
use countersign_agents::protocols;
use countersign_agents::runner::{Link, LinkEvent};
use countersign_agents::{AcpShells, NoShells, ShellBackend};
use countersign_core::event::{RunEnd, TerminalBackend};
use countersign_core::limits::{AGENT_START_MS, AGENT_STOP_MS, TREE_KILL_MS};
use countersign_core::{
    AgentId, Caller, Input, ManagedAgent, ManagedInput, Principal, PrincipalKey, Role, RunEvent,
    RunState,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::agent_terminals::ListedTerminals;
use crate::duty_board::DutyReceiver;
use crate::service::Service;

use super::adoption::RunnerConnection;
use super::agent_connection::{AgentConnection, SharedConnection};
use super::agent_loop::{FinishedRun, RunOutcome};
use super::client_requests::{ClientRequests, RecordedAsks};
use super::connection_state::ConnectionState;
use super::deliveries::Deliveries;
use super::duty_performer::{DutyPerformer, DutyProgress};
use super::launch;
use super::output_reader::{FinalOutput, OutputReader, ReaderParts, ReaderStart};
use super::request_description::AgentWorkspace;

/// Which run of which agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunKey {
    pub(super) agent: AgentId,
    pub(super) number: u32,
}

impl RunKey {
    /// An event of this run, as an input of the loop.
    pub(super) fn input(&self, event: RunEvent) -> Input {
        Input::Managed(ManagedInput::RunReported(
            self.agent.clone(),
            self.number,
            event,
        ))
    }
}

/// The agent of a run, as the host knows it when the run begins or continues.
pub(super) struct RunIdentity<'a> {
    pub(super) agent: &'a AgentId,
    pub(super) name: &'a str,
    pub(super) managed: &'a ManagedAgent,
}

/// See the module.
pub(super) struct Run {
    service: Service,
    key: RunKey,
    connection: SharedConnection,
    deliveries: Arc<Deliveries>,
    requests: Arc<ClientRequests>,
    performer: DutyPerformer,
    ready: watch::Receiver<bool>,
    fatal: watch::Receiver<Option<String>>,
    tasks: TaskTracker,
    over: CancellationToken,
    /// Lets people read the terminals until the run is over.
    _terminals: ListedTerminals,
}

impl Run {
    /// Runs an agent to its end, or until the link to its runner is lost, or until the host ends.
    pub(super) async fn perform(
        service: &Service,
        identity: RunIdentity<'_>,
        connected: RunnerConnection,
        duties: &mut DutyReceiver,
        shutdown: &CancellationToken,
    ) -> RunOutcome {
        let managed = identity.managed;
        let spec = launch::session_spec(service, managed, &connected.record);
        match Self::assemble(service, &identity, connected) {
            Ok((mut run, reader, events)) => {
                run.resume(managed, spec, duties).await;
                run.read_and_perform(reader, events, duties, shutdown).await
            }
            Err(error) => {
                let failed = failed_run(managed.run, RunEnd::Failed, error.to_string());
                RunOutcome::Over(Box::new(failed))
            }
        }
    }

    /// Puts the parts of a run together. Refuses a state that the adapter did not write.
    fn assemble(
        service: &Service,
        identity: &RunIdentity<'_>,
        connected: RunnerConnection,
    ) -> Result<(Self, OutputReader, mpsc::Receiver<LinkEvent>), RestoreError> {
        let managed = identity.managed;
        let key = RunKey {
            agent: identity.agent.clone(),
            number: managed.run,
        };
        let state = connected.state.unwrap_or_else(|| ConnectionState {
            performed: managed.into(),
            ..ConnectionState::default()
        });
        let adapter = protocols::restore_adapter(connected.record.protocol, &state.adapter)?;
        let (link, offset) = (connected.link, connected.offset);
        let (tasks, over) = (TaskTracker::new(), CancellationToken::new());
        let connection = AgentConnection::new(link.sender.clone(), adapter, state, offset);
        let connection = SharedConnection::new(connection, tasks.clone());
        let deliveries = Arc::new(Deliveries::new(
            service.clone(),
            connection.clone(),
            tasks.clone(),
            over.clone(),
        ));
        let shells = choose_shells(service, identity, &link);
        let terminals = service.list_terminals(identity.agent, shells.clone());
        let requests = Arc::new(ClientRequests {
            workspace: AgentWorkspace::new(launch::work_folder(managed)),
            shells,
            editor: Some(service.editor_link(identity.agent)),
            link: link.sender,
            connection: connection.clone(),
            deliveries: deliveries.clone(),
            tasks: tasks.clone(),
            over: over.clone(),
        });
        let performer = DutyPerformer::new(
            key.clone(),
            connection.clone(),
            deliveries.clone(),
            requests.clone(),
            tasks.clone(),
        );
        let is_ready = matches!(managed.run_state, RunState::Ready | RunState::Stopping);
        let (ready_sender, ready) = watch::channel(is_ready);
        let (fatal_sender, fatal) = watch::channel(None);
        let run = Self {
            service: service.clone(),
            key,
            connection,
            deliveries,
            requests,
            performer,
            ready,
            fatal,
            tasks,
            over,
            _terminals: terminals,
        };
        let start = ReaderStart {
            log: link.log,
            offset,
            in_turn: managed.turn.is_some(),
        };
        let parts = run.reader_parts(identity, ready_sender, fatal_sender);
        Ok((run, OutputReader::new(parts, start), link.events))
    }

    fn reader_parts(
        &self,
        identity: &RunIdentity<'_>,
        ready: watch::Sender<bool>,
        fatal: watch::Sender<Option<String>>,
    ) -> ReaderParts {
        ReaderParts {
            service: self.service.clone(),
            key: self.key.clone(),
            caller: agent_caller(identity.agent, identity.name),
            ask_timeout_ms: identity.managed.options.ask_timeout_ms,
            connection: self.connection.clone(),
            deliveries: self.deliveries.clone(),
            requests: self.requests.clone(),
            ready,
            fatal,
        }
    }

    /// Sends what has to be sent before anything is read: a line that is read may be the answer to it.
    async fn resume(
        &mut self,
        managed: &ManagedAgent,
        spec: SessionSpec,
        duties: &mut DutyReceiver,
    ) {
        if matches!(managed.run_state, RunState::Requested | RunState::Launched) {
            // A start that cannot be sent shows as a session that never opens.
            let sent = self.connection.lock().order(AgentCommand::Start(spec));
            self.connection.confirm_when_written(sent.ok().flatten());
        }
        let left = self.connection.lock().waiting_requests();
        // Before anything new: the order in the pipe is the order in which it was decided.
        self.connection.resend_unwritten();
        if !left.is_empty() {
            let asks = RecordedAsks::load(&self.service, &self.key.agent).await;
            self.requests.resume(left, &asks.with_covered(managed));
        }
        self.performer.perform(duties);
    }

    async fn read_and_perform(
        mut self,
        reader: OutputReader,
        mut events: mpsc::Receiver<LinkEvent>,
        duties: &mut DutyReceiver,
        shutdown: &CancellationToken,
    ) -> RunOutcome {
        let reading = async move {
            let output = reader.read_all(&mut events).await;
            let link = Some(events);
            ReaderExit { output, link }
        };
        let mut reader = self.tasks.spawn(reading.in_current_span());
        let reason = self.wait_until_over(&mut reader, duties, shutdown).await;
        let mut outcome = self.finish(reason, reader).await;
        if let RunOutcome::Over(_) = &outcome {
            // Before the end is recorded: after that the runner goes, and its terminals with it.
            let shells = &*self.requests.shells;
            self.service.keep_terminals(&self.key.agent, shells).await;
        }
        // First, because some tasks wait for it: a wait for a terminal's exit has no other end.
        self.over.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        if let RunOutcome::Over(finished) = &mut outcome {
            finished.unsent = self.deliveries.take_unsent().into_inputs();
        } else if let Err(error) = self.deliveries.send_unsent().await {
            // The answers are still owed, and whoever continues asks the runner about them.
            tracing::debug!(%error, "what became of answers is left to be found out again");
        }
        outcome
    }

    async fn wait_until_over(
        &mut self,
        reader: &mut JoinHandle<ReaderExit>,
        duties: &mut DutyReceiver,
        shutdown: &CancellationToken,
    ) -> RunStopReason {
        // From now, also for a host that takes over: how long the earlier one waited is not
        // recorded.
        let start_timeout = tokio::time::sleep(Duration::from_millis(AGENT_START_MS));
        tokio::pin!(start_timeout);
        loop {
            if self.performer.perform(duties) == DutyProgress::Stop {
                return RunStopReason::Killed;
            }
            let is_ready = *self.ready.borrow();
            tokio::select! {
                exit = &mut *reader => {
                    // A reader that panicked leaves no end, which reads as a lost link: the run
                    // continues from the last checkpoint.
                    return RunStopReason::OutputEnded(Box::new(exit.unwrap_or_default()));
                }
                changed = duties.changed() => {
                    if changed.is_err() {
                        return RunStopReason::HostEnds;
                    }
                }
                Ok(message) = self.fatal.wait_for(Option::is_some) => {
                    return RunStopReason::Failed(message.clone().unwrap_or_default());
                }
                // The first prompt becomes a duty with it, or will soon.
                Ok(()) = self.ready.changed() => {}
                () = &mut start_timeout, if !is_ready => {
                    return RunStopReason::Failed(start_timeout_message());
                }
                () = shutdown.cancelled() => return RunStopReason::HostEnds,
            }
        }
    }

    async fn finish(&self, reason: RunStopReason, reader: JoinHandle<ReaderExit>) -> RunOutcome {
        let (end, message) = match reason {
            // Nothing is stopped: the process ended by itself, or the link to it is lost.
            RunStopReason::OutputEnded(exit) => return self.conclude(*exit, None),
            RunStopReason::HostEnds => {
                // The agent goes on. What was not committed is read again by the next host.
                reader.abort();
                return RunOutcome::HostEnds;
            }
            RunStopReason::Killed => (RunEnd::Killed, "killed".to_owned()),
            RunStopReason::Failed(message) => (RunEnd::Failed, message),
        };
        let grace = Duration::from_millis(AGENT_STOP_MS);
        self.connection.lock().stop(grace);
        let abort = reader.abort_handle();
        // What the agent still says is recorded, so the reader is waited for.
        let patience = 2 * grace + Duration::from_millis(2 * TREE_KILL_MS);
        let Ok(exit) = tokio::time::timeout(patience, reader).await else {
            abort.abort();
            return RunOutcome::Over(Box::new(failed_run(self.key.number, end, message)));
        };
        self.conclude(exit.unwrap_or_default(), Some((end, message)))
    }

    fn conclude(&self, exit: ReaderExit, wanted: Option<(RunEnd, String)>) -> RunOutcome {
        let ReaderExit { output, link } = exit;
        let (end, message) = match (wanted, &output.ended) {
            (Some((end, message)), _) => (end, append_log(message, end, &output)),
            (None, Some((exit, why))) => describe_exit(exit, why.as_deref(), &output),
            (None, None) => return RunOutcome::Lost(Box::new(ReaderExit { output, link })),
        };
        RunOutcome::Over(Box::new(FinishedRun {
            run: self.key.number,
            is_clean: output.ended.is_some(),
            link,
            unsent: Vec::new(),
            events: output.events,
            exited: RunEvent::Exited {
                entries: output.entries,
                end,
                message,
            },
        }))
    }
}

/// The agent itself as a caller.
fn agent_caller(agent: &AgentId, name: &str) -> Caller {
    let principal = Principal {
        role: Role::Agent(agent.clone()),
        name: name.into(),
        key: PrincipalKey::new(format!("agent:{agent}")),
    };
    Caller {
        principal: Arc::new(principal),
        client: None,
        door: None,
    }
}

/// What the reader's task leaves.
#[derive(Default)]
pub(super) struct ReaderExit {
    pub(super) output: FinalOutput,
    /// The link lives as long as this.
    pub(super) link: Option<mpsc::Receiver<LinkEvent>>,
}

/// Why a run is no longer driven.
enum RunStopReason {
    OutputEnded(Box<ReaderExit>),
    Killed,
    Failed(String),
    HostEnds,
}

fn start_timeout_message() -> String {
    format!(
        "it did not open a session within {} s",
        AGENT_START_MS / 1000
    )
}

/// What the end of a process means. Code 0 between two turns is a good end.
fn describe_exit(exit: &ProcessExit, why: Option<&str>, last: &FinalOutput) -> (RunEnd, String) {
    let how = match (why, &exit.signal, exit.code) {
        (Some(why), ..) => format!("ended: {why}"),
        (None, Some(signal), _) => format!("its process was ended by {signal}"),
        (None, None, Some(code)) => format!("its process ended with code {code}"),
        (None, None, None) => "its process ended".to_owned(),
    };
    let end = if why.is_some() {
        RunEnd::HostEnded
    } else if exit.code == Some(0) && !last.in_turn {
        RunEnd::Done
    } else {
        RunEnd::Failed
    };
    let message = if last.in_turn {
        format!("{how} in the middle of a turn")
    } else {
        how
    };
    (end, append_log(message, end, last))
}

/// The end of an agent's log may explain why it failed.
fn append_log(message: String, end: RunEnd, last: &FinalOutput) -> String {
    let log = last.log.trim();
    if end == RunEnd::Failed && !log.is_empty() {
        format!("{message}: {log}")
    } else {
        message
    }
}

/// A run that ended without anything more to record.
pub(super) fn failed_run(run: u32, end: RunEnd, message: String) -> FinishedRun {
    FinishedRun {
        run,
        is_clean: false,
        link: None,
        unsent: Vec::new(),
        events: Vec::new(),
        exited: RunEvent::Exited {
            entries: Vec::new(),
            end,
            message,
        },
    }
}

/// What runs the commands of an agent, as it was set up when it was started.
fn choose_shells(
    service: &Service,
    identity: &RunIdentity<'_>,
    link: &Link,
) -> Arc<dyn ShellBackend> {
    match identity.managed.options.terminals {
        TerminalBackend::Host => link.shells.clone(),
        TerminalBackend::Editor => {
            let editor = Arc::new(service.editor_link(identity.agent));
            Arc::new(AcpShells::new(editor, Some(link.sender.clone())))
        }
        TerminalBackend::None => Arc::new(NoShells),
    }
}

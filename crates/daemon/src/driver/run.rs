//! One run of an agent: from its start, or from where an earlier host left it, to its end, whatever
//! ends it.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_agents::adapter::{AdapterOutput, AgentCommand, ProcessExit, SessionSpec};
use countersign_agents::runner::{LinkEvent, RunnerShells};
use countersign_agents::{FileRoots, ShellBackend};
use countersign_core::event::{AgentReported, RunEnd, TranscriptEntry};
use countersign_core::limits::{AGENT_START_MS, AGENT_STOP_MS, TREE_KILL_MS};
use countersign_core::{
    AgentId, Caller, Input, ManagedAgent, Principal, PrincipalKey, Role, RunEvent, RunState, Seq,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::duty_board::DutyReceiver;
use crate::service::Service;

use super::AgentDrivers;
use super::adoption::RunnerConnection;
use super::agent_connection::{AgentConnection, SentLines};
use super::agent_loop::{FinishedRun, RunOutcome};
use super::perform::DutyProgress;

/// What the two sides of a run share: one hears, the other tells.
pub(super) struct Run {
    pub(super) service: Service,
    pub(super) agent: AgentId,
    pub(super) caller: Caller,
    pub(super) number: u32,
    pub(super) folder: PathBuf,
    pub(super) roots: FileRoots,
    pub(super) ask_timeout_ms: Option<u64>,
    pub(super) shells: Arc<dyn ShellBackend>,
    pub(super) tasks: TaskTracker,
    pub(super) over: CancellationToken,
    /// Whether its session is open.
    pub(super) ready: watch::Sender<bool>,
    /// Why it is of no use, once it is.
    pub(super) fatal: watch::Sender<Option<String>>,
    /// Answers that were told; they ride on a later commit.
    pub(super) unsent_settlements: Mutex<Vec<Input>>,
    /// Answers that are on their way or were told; each is followed once.
    pub(super) followed: Mutex<HashSet<Seq>>,
    connection: Mutex<AgentConnection>,
}

/// Who is run, as the host knows it when it begins or goes on.
pub(super) struct RunIdentity<'a> {
    pub(super) agent: &'a AgentId,
    pub(super) name: &'a str,
    pub(super) managed: &'a ManagedAgent,
}

impl Run {
    /// Runs an agent to its end, or until nobody can say any more what becomes of it.
    pub(super) async fn perform(
        service: &Service,
        who: RunIdentity<'_>,
        connected: RunnerConnection,
        duties: &mut DutyReceiver,
        all: &AgentDrivers,
    ) -> RunOutcome {
        let managed = who.managed;
        let protocol = connected.record.protocol;
        let start = super::launch::session_start(service, managed, &connected.record);
        let kept = connected
            .state
            .unwrap_or_else(|| super::connection_state::ConnectionState {
                performed: managed.into(),
                ..super::connection_state::ConnectionState::default()
            });
        let connection = match AgentConnection::new(
            connected.link.sender.clone(),
            protocol,
            kept,
            connected.offset,
        ) {
            Ok(connection) => connection,
            Err(error) => {
                return RunOutcome::Over(Box::new(failed_run(
                    managed.run,
                    RunEnd::Failed,
                    error.to_string(),
                )));
            }
        };
        let folder = super::launch::work_folder(managed);
        let run = Arc::new(Self {
            service: service.clone(),
            agent: who.agent.clone(),
            caller: agent_caller(who.agent, who.name),
            number: managed.run,
            roots: FileRoots::resolve([folder.clone()]),
            folder,
            ask_timeout_ms: managed.options.ask_timeout_ms,
            shells: Arc::new(RunnerShells::new(connected.link.sender)),
            tasks: TaskTracker::new(),
            over: CancellationToken::new(),
            ready: watch::Sender::new(matches!(
                managed.run_state,
                RunState::Ready | RunState::Stopping
            )),
            fatal: watch::Sender::new(None),
            unsent_settlements: Mutex::default(),
            followed: Mutex::default(),
            connection: Mutex::new(connection),
        });
        let heard = (connected.link.log, connected.offset, managed.turn.is_some());
        run.resume(managed, start, duties).await;
        run.read_and_perform(connected.link.events, heard, duties, all)
            .await
    }

    /// Says what is to be said before anything is heard: what comes may be the answer to it.
    async fn resume(
        self: &Arc<Self>,
        managed: &ManagedAgent,
        start: SessionSpec,
        duties: &mut DutyReceiver,
    ) {
        if managed.run_state == RunState::Requested || managed.run_state == RunState::Launched {
            // What cannot be said shows as a session that never opens.
            let sent = self.connection().order(AgentCommand::Start(start));
            self.confirm_when_written(sent.ok().flatten());
        }
        self.resume_requests(managed).await;
        self.perform_duties(duties);
    }

    async fn read_and_perform(
        self: &Arc<Self>,
        events: mpsc::Receiver<LinkEvent>,
        heard: (String, u64, bool),
        duties: &mut DutyReceiver,
        all: &AgentDrivers,
    ) -> RunOutcome {
        let mut reader = self.tasks.spawn(self.clone().read_all(events, heard));
        let why = self.wait_until_over(&mut reader, duties, all).await;
        let ended = self.finish(why, reader).await;
        self.over.cancel();
        self.send_settlements().await;
        self.tasks.close();
        self.tasks.wait().await;
        ended
    }

    async fn wait_until_over(
        self: &Arc<Self>,
        reader: &mut JoinHandle<FinalOutput>,
        duties: &mut DutyReceiver,
        all: &AgentDrivers,
    ) -> RunStopReason {
        let mut ready = self.ready.subscribe();
        let mut useless = self.fatal.subscribe();
        let late = tokio::time::sleep(Duration::from_millis(AGENT_START_MS));
        tokio::pin!(late);
        loop {
            if self.perform_duties(duties) == DutyProgress::Stop {
                return RunStopReason::Killed;
            }
            tokio::select! {
                last = &mut *reader => return RunStopReason::Heard(Box::new(last.unwrap_or_default())),
                changed = duties.changed() => if changed.is_err() { return RunStopReason::HostEnds },
                Ok(words) = useless.wait_for(Option::is_some) => {
                    return RunStopReason::Useless(words.clone().unwrap_or_default());
                }
                // Its duties changed with it, or will soon.
                Ok(()) = ready.changed() => {}
                () = &mut late, if !*self.ready.borrow() => return RunStopReason::Useless(start_timeout_message()),
                () = all.shutdown.cancelled() => return RunStopReason::HostEnds,
            }
        }
    }

    async fn finish(&self, why: RunStopReason, reader: JoinHandle<FinalOutput>) -> RunOutcome {
        let (end, words) = match why {
            RunStopReason::Heard(last) => return self.conclude(*last, None),
            RunStopReason::HostEnds => {
                // The agent goes on; what was not committed is told to the next host.
                reader.abort();
                return RunOutcome::HostEnds;
            }
            RunStopReason::Killed => (RunEnd::Killed, "killed".to_owned()),
            RunStopReason::Useless(words) => (RunEnd::Failed, words),
        };
        let grace = Duration::from_millis(AGENT_STOP_MS);
        self.connection().stop(grace);
        let abort = reader.abort_handle();
        let patience = 2 * grace + Duration::from_millis(2 * TREE_KILL_MS);
        let Ok(last) = tokio::time::timeout(patience, reader).await else {
            abort.abort();
            return RunOutcome::Over(Box::new(failed_run(self.number, end, words)));
        };
        self.conclude(last.unwrap_or_default(), Some((end, words)))
    }

    fn conclude(&self, last: FinalOutput, wanted: Option<(RunEnd, String)>) -> RunOutcome {
        let (end, words) = match (wanted, &last.ended) {
            (Some((end, words)), _) => (end, append_log(words, end, &last)),
            (None, Some((exit, why))) => describe_exit(exit, why.as_deref(), &last),
            (None, None) => return RunOutcome::Lost(Box::new(last)),
        };
        RunOutcome::Over(Box::new(FinishedRun {
            run: self.number,
            is_clean: last.ended.is_some(),
            link: last.link,
            report: last.report,
            exited: RunEvent::Exited {
                entries: last.said,
                end,
                message: words,
            },
        }))
    }

    /// What a line of the agent means. What has to be said at once is on its way.
    pub(super) fn hear(self: &Arc<Self>, line: &[u8], number: u64) -> AdapterOutput {
        let (heard, sent) = self.connection().hear(line, number);
        self.confirm_when_written(sent);
        heard
    }

    /// Notes when lines are in the pipe.
    pub(super) fn confirm_when_written(self: &Arc<Self>, sent: Option<SentLines>) {
        let Some(sent) = sent else { return };
        let run = self.clone();
        self.tasks.spawn(async move {
            if let Ok(outcome) = sent.outcome(None).await {
                run.connection().confirm(&outcome.names);
            }
        });
    }

    /// A line that cannot be read was heard all the same.
    pub(super) fn skip_to(&self, number: u64) {
        self.connection().skip_to(number);
    }

    pub(super) fn connection(&self) -> MutexGuard<'_, AgentConnection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// How an agent itself asks.
fn agent_caller(agent: &AgentId, name: &str) -> Caller {
    let principal = Principal {
        role: Role::Agent(agent.clone()),
        name: name.into(),
        key: PrincipalKey::new(format!("agent:{agent}")),
    };
    Caller {
        principal: Arc::new(principal),
        client: None,
    }
}

/// What the output reader had when it ended.
#[derive(Default)]
pub(super) struct FinalOutput {
    pub(super) report: Option<AgentReported>,
    pub(super) said: Vec<TranscriptEntry>,
    /// How the process ended, and why its runner ended it; nothing if the link was lost.
    pub(super) ended: Option<(ProcessExit, Option<String>)>,
    pub(super) in_turn: bool,
    /// The end of what it wrote for its log.
    pub(super) log: String,
    /// The link lives as long as this.
    pub(super) link: Option<mpsc::Receiver<LinkEvent>>,
}

/// Why a run is no longer driven.
enum RunStopReason {
    Heard(Box<FinalOutput>),
    Killed,
    Useless(String),
    HostEnds,
}

fn start_timeout_message() -> String {
    format!(
        "it did not open a session within {} s",
        AGENT_START_MS / 1000
    )
}

/// An end between turns with a good code is a good end.
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
    let how = if last.in_turn {
        format!("{how} in the middle of a turn")
    } else {
        how
    };
    let words = append_log(how, end, last);
    (end, words)
}

/// What failed is explained by what it wrote last, if anything does.
fn append_log(words: String, end: RunEnd, last: &FinalOutput) -> String {
    let log = last.log.trim();
    if end == RunEnd::Failed && !log.is_empty() {
        format!("{words}: {log}")
    } else {
        words
    }
}

pub(super) fn failed_run(run: u32, end: RunEnd, message: String) -> FinishedRun {
    FinishedRun {
        run,
        is_clean: false,
        link: None,
        report: None,
        exited: RunEvent::Exited {
            entries: Vec::new(),
            end,
            message,
        },
    }
}

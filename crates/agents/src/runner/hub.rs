//! The runner's one place where its agent, its hosts and what it knows meet.
//!
//! Invariant: what is known is held by one lock, never across a wait.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_core::event::ProcessKey;
use countersign_core::limits;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::RunnerRecord;
use super::agent::LaunchedAgent;
use super::exit_report::{self, ExitReportHeader};
use super::state::RunnerState;
use super::wire::{LaunchRequest, WriteHeader};
use super::write_queue::{QueuedReply, QueuedWrite};
use crate::adapter::ProcessExit;
use crate::shells::KeptTerminals;
use crate::tree::ProcessTree;

#[derive(Debug)]
pub(super) struct Runner {
    pub(super) record: RunnerRecord,
    pub(super) tree: ProcessTree,
    /// A host said that nothing is needed any more.
    pub(super) bye: CancellationToken,
    /// Nothing of the agent is left, and all it said is known.
    pub(super) agent_over: CancellationToken,
    /// Callers that have not said who they are.
    pub(super) greetings: Arc<Semaphore>,
    stops: Arc<Semaphore>,
    state: Mutex<RunnerState>,
}

impl Runner {
    pub(super) fn new(record: RunnerRecord, tree: ProcessTree) -> Self {
        let state = RunnerState::new(record.folder.join(super::SPILL_FILE));
        Self {
            record,
            tree,
            bye: CancellationToken::new(),
            agent_over: CancellationToken::new(),
            greetings: Arc::new(Semaphore::new(limits::RUNNER_GREETINGS_MAX)),
            stops: Arc::new(Semaphore::new(limits::RUNNER_STOPS_MAX)),
            state: Mutex::new(state),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, RunnerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the agent, once; gives what the first launch came to.
    pub(super) fn launch_once(
        self: &Arc<Self>,
        launch: LaunchRequest,
    ) -> Result<ProcessKey, String> {
        // A host that lost its link may ask again: the agent is started once per runner, ever.
        // The lock may be released in between: the runner has one thread, and nothing here waits.
        let (came_to, stopped) = {
            let state = self.state();
            (state.launched.clone(), state.stopped)
        };
        if let Some(came_to) = came_to {
            return came_to;
        }
        let launched = if stopped {
            Err("the agent was told to stop before it was started".to_owned())
        } else {
            LaunchedAgent::launch(self, launch)
        };
        let came_to = launched.as_ref().map(|agent| agent.key());
        let came_to = came_to.map_err(Clone::clone);
        let failed = came_to.is_err();
        {
            let mut state = self.state();
            state.launched = Some(came_to.clone());
            state.agent = launched.ok();
        }
        if failed {
            self.end_writes();
            self.agent_over.cancel();
        }
        came_to
    }

    /// Begins to end the agent and everything it started.
    pub(super) fn stop(self: &Arc<Self>, grace: Duration) {
        let agent = {
            let mut state = self.state();
            state.stopped = true;
            if state.launched.is_none() {
                // A host that waits for an exit gets one, although there never was a process.
                state.set_exited(ProcessExit::default(), None);
            }
            state.agent.clone()
        };
        // Nothing was started, and `stopped` keeps it so.
        let Some(agent) = agent else {
            return self.agent_over.cancel();
        };
        // Whoever says it more often changes nothing.
        if let Ok(turn) = self.stops.clone().try_acquire_owned() {
            self.tree.tasks().spawn(async move {
                agent.stop(grace).await;
                drop(turn);
            });
        }
    }

    /// Waits until more of the agent may be read, and says how much.
    pub(super) async fn wait_for_room(&self) -> usize {
        let notice = self.state().room.clone();
        loop {
            let room = self.state().room();
            if room > 0 {
                return usize::try_from(room).unwrap_or(usize::MAX);
            }
            // A notice that came since `room` was read is kept by `Notify`, so it is not missed.
            notice.notified().await;
        }
    }

    /// Fails with a message for the host if it cannot be queued.
    pub(super) fn queue_writes(
        &self,
        host: u64,
        items: Vec<WriteHeader>,
        body: &[u8],
    ) -> Result<(), String> {
        // If nothing can be written any more, nobody else would ever answer these.
        let over = {
            let mut state = self.state();
            state.writes.queue(host, items, body)?;
            state.writes.is_over()
        };
        if over {
            self.end_writes();
        }
        Ok(())
    }

    /// The next item to write, after what need not be written was answered.
    pub(super) fn next_write(&self) -> Option<QueuedWrite> {
        let mut answers = Vec::new();
        let mut state = self.state();
        let item = state.writes.next(&mut answers);
        answer(&mut state, answers);
        item
    }

    pub(super) fn confirm_write(&self, item: QueuedWrite, whole: bool) {
        let mut state = self.state();
        let told = state.writes.written(item, whole);
        answer(&mut state, vec![told]);
    }

    /// Nothing can be written any more.
    pub(super) fn end_writes(&self) {
        let mut state = self.state();
        let answers = state.writes.end();
        answer(&mut state, answers);
    }

    /// When a runner without a host has waited long enough; nothing while there is one.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let state = self.state();
        let patience = match state.launched {
            // No agent would be lost, and the host that started the runner did not get as far as
            // its launch.
            None => limits::RUNNER_LAUNCH_MS.min(self.record.patience_ms),
            Some(_) => self.record.patience_ms,
        };
        (!state.has_host()).then(|| state.hostless_since + Duration::from_millis(patience))
    }

    /// Leaves what the next host has to know. `why` is why the runner ended its agent.
    pub(super) fn write_exit_report(
        &self,
        why: Option<String>,
        terminals: KeptTerminals,
    ) -> std::io::Result<()> {
        let state = self.state();
        let (exit, trouble) = state.exited.clone().unwrap_or_default();
        let not_launched = match &state.launched {
            Some(Err(reason)) => Some(reason.clone()),
            _ => None,
        };
        let from = state.backlog.from();
        let head = ExitReportHeader {
            from,
            bytes: state.backlog.end() - from,
            exit,
            // The earliest cause first: an agent that was not started did not end for the later
            // reasons.
            why: not_launched.or(why).or(trouble),
            log: state.log.clone(),
            written: state.writes.list(),
            terminals,
        };
        exit_report::write(&self.record.folder, &head, &state.backlog)
    }
}

fn answer(state: &mut RunnerState, answers: Vec<QueuedReply>) {
    for (host, told) in answers {
        state.send_to(host, &told, &[], None);
    }
}

//! Opens outside of an agent's roots: each waits in its system call until a host has decided.
//!
//! Every program that the runner confines sends a listener, from which one thread reads. What has to be asked about
//! waits as a task; the thread goes on, because all other opens of the sandbox wait for it.
//!
//! Invariant: nothing is opened that no host allowed.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::time::Duration;

use countersign_core::limits::{HELD_OPENS_MAX, RUNNER_LAUNCH_MS};
use countersign_sandbox::{ConfinementPlan, HeldCall, OpenListener, WriteBoundary};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Runner;
use super::holds::{HeldFile, HeldTarget, HoldOutcome};
use crate::stream::receive_once;

/// Holds the opens of one agent and of its terminals.
#[derive(Debug)]
pub(crate) struct OpenHolder {
    /// The runner owns the agent, which owns this.
    runner: Weak<Runner>,
    boundary: Arc<WriteBoundary>,
    hold: Duration,
    room: Arc<Semaphore>,
    gone: CancellationToken,
}

impl OpenHolder {
    /// Nothing if the plan lets nothing wait.
    pub(super) fn new(
        runner: &Arc<Runner>,
        plan: &ConfinementPlan,
        gone: CancellationToken,
    ) -> Option<Arc<Self>> {
        (plan.hold_ms > 0).then(|| {
            Arc::new(Self {
                runner: Arc::downgrade(runner),
                boundary: Arc::new(WriteBoundary::new(plan)),
                hold: Duration::from_millis(plan.hold_ms),
                room: Arc::new(Semaphore::new(HELD_OPENS_MAX)),
                gone,
            })
        })
    }

    /// Waits for the listener of a program that is about to be started with what this returns.
    pub(crate) fn attach(self: &Arc<Self>) -> io::Result<OwnedFd> {
        let runner = self.runner.upgrade().ok_or(io::ErrorKind::NotFound)?;
        let (ours, theirs) = UnixStream::pair()?;
        let holder = self.clone();
        let tasks = runner.tree.tasks();
        tasks.spawn(async move {
            let wait = Duration::from_millis(RUNNER_LAUNCH_MS);
            let boundary = holder.boundary.clone();
            let receive = |from: &OwnedFd| OpenListener::receive(from, boundary.clone());
            let received = tokio::select! {
                received = timeout(wait, receive_once(ours.into(), receive)) => received,
                () = holder.gone.cancelled() => return,
            };
            if let Ok(Ok(listener)) = received {
                holder.listen(listener);
            } else {
                // It was not started; if it was, its opens fail.
                tracing::debug!("no listener came from a confined program");
            }
        });
        Ok(theirs.into())
    }

    fn listen(self: Arc<Self>, listener: OpenListener) {
        let Some(runner) = self.runner.upgrade() else {
            return;
        };
        // It ends with the last process of the sandbox, all of which end before the runner does.
        runner.tree.tasks().spawn_blocking(move || {
            loop {
                match listener.next_held() {
                    Ok(Some(call)) => self.hold(call),
                    Ok(None) => return,
                    Err(error) => {
                        // Closing the listener makes every further open fail.
                        return tracing::warn!(%error, "opens out of a sandbox are not heard");
                    }
                }
            }
        });
    }

    fn hold(self: &Arc<Self>, call: HeldCall) {
        let turn = self.room.clone().try_acquire_owned();
        let (Ok(turn), Some(runner)) = (turn, self.runner.upgrade()) else {
            return call.resume();
        };
        let holder = self.clone();
        let task_runner = runner.clone();
        runner.tree.tasks().spawn(async move {
            let wait = task_runner.wait_for_word(describe(&call), holder.hold);
            // Dropped without an answer the call fails.
            if let Some(outcome) = holder.gone.run_until_cancelled(wait).await {
                answer(call, outcome).await;
            }
            drop(turn);
        });
    }
}

fn describe(call: &HeldCall) -> HeldTarget {
    HeldTarget::Open(HeldFile {
        path: call.path().to_owned(),
        kind: call.kind(),
        command: call.command().to_owned(),
    })
}

async fn answer(call: HeldCall, outcome: HoldOutcome) {
    match outcome {
        HoldOutcome::Allowed => {
            // Opening may wait for a disk or a server. If the runner ends meanwhile the call fails.
            drop(tokio::task::spawn_blocking(move || call.allow()).await);
        }
        HoldOutcome::Denied => call.deny(),
        HoldOutcome::NotDecided => call.time_out(),
        HoldOutcome::TooMany => call.resume(),
    }
}

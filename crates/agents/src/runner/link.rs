//! The host's end of a link to a runner.
//!
//! One task reads the socket: answers go to whoever waits for them, what the agent said to
//! [`Link::events`]. Whoever says something writes it to the socket at once.
//!
//! Invariants: the other end is the process it should be; nothing that was written counts as written
//! before the runner says so; a host that does not take events makes the runner wait, and may do so
//! because taking them never needs an answer of the runner; a link that breaks a rule is cut.

mod connect;
mod ended_link;
mod line_queue;
mod link_reader;
mod outbox;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use countersign_core::event::ProcessKey;
use countersign_sandbox::ConfinementPlan;
use tokio::sync::{mpsc, oneshot};

use super::holds::HeldTarget;
use super::wire::{LaunchRequest, ToHost, ToRunner};
use crate::adapter::{AgentWrite, ProcessExit, WriteId, WriteKind};
use crate::shells::ShellBackend;
pub(super) use outbox::LinkOutbox;

pub use connect::{LinkError, connect};

/// A connection to a runner, or what a runner left of it.
pub struct Link {
    /// What comes from the agent, in order. Dropping it ends the link.
    pub events: mpsc::Receiver<LinkEvent>,
    /// The way to it.
    pub sender: Arc<dyn RunnerLink>,
    /// Where its terminals run.
    pub shells: Arc<dyn ShellBackend>,
    /// The agent's process, if it was started before.
    pub agent: Option<ProcessKey>,
    /// The end of what the agent wrote for its log before.
    pub log: String,
}

impl fmt::Debug for Link {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Link")
            .field("sender", &self.sender)
            .field("agent", &self.agent)
            .finish_non_exhaustive()
    }
}

/// What comes through a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// One line, without its newline. The last one may have had none.
    Line {
        /// How much the agent had said when it ended.
        number: u64,
        /// What it says.
        bytes: Vec<u8>,
    },
    /// A line that was too long and was dropped.
    Oversized {
        /// As of a line.
        number: u64,
        /// How long it was.
        bytes: u64,
    },
    /// Connections or opens wait for a word. May come again for a number that is known.
    Held {
        /// Under which they wait.
        hold: u64,
        /// What they would reach.
        target: HeldTarget,
    },
    /// What the agent wrote for its log: a line, or a part of a long one.
    Log(String),
    /// The agent ended, with everything it had started. All it said came before this.
    Exited {
        /// How.
        exit: ProcessExit,
        /// Why the runner ended it, if it did.
        why: Option<String>,
    },
    /// The connection ended and not by the agent's end. Last event.
    Lost,
}

/// What was written under a name, now or before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteReceipt {
    /// The name.
    pub id: WriteId,
    /// What was written under it, perhaps by an earlier host.
    pub kind: WriteKind,
}

/// Why something was not written, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The agent does not read, and too much waits for it already. Nothing was written.
    #[error("the agent does not read its input")]
    Full,
    /// The agent went away; some may be in the pipe.
    #[error("the agent has ended")]
    Gone,
    /// The link is gone; nobody knows yet.
    #[error("the connection to the agent's runner was lost")]
    Lost,
}

/// Why an agent was not started, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LaunchRefused(pub String);

impl LaunchRefused {
    fn lost() -> Self {
        Self("the connection to the agent's runner was lost".to_owned())
    }
}

/// The host's way to one runner, or to what is left of one.
///
/// Implementors guarantee: lines reach the agent in the order of the calls, all lines of a call or
/// none; a write resolves with receipts only when its lines are in the agent's pipe; a line whose id
/// was written before is not written again, and its receipt says what was. Only the methods that
/// return a [`LinkFuture`] wait for the runner.
pub trait RunnerLink: fmt::Debug + Send + Sync {
    /// Queues lines for the agent.
    fn write(&self, lines: Vec<AgentWrite>) -> PendingWrite;

    /// Whether the connection ended, and not by the agent's end.
    fn is_lost(&self) -> bool;

    /// Says that the output up to `through` is committed, and which lines may still be answered. Only
    /// the newest call counts.
    fn committed(&self, through: u64, open: Vec<u64>);

    /// Starts the agent. If the link was lost meanwhile, an error does not say that the agent was not
    /// started.
    fn launch(
        &self,
        program: OsString,
        args: Vec<OsString>,
        cwd: PathBuf,
        env: Vec<(OsString, OsString)>,
        confinement: Option<ConfinementPlan>,
    ) -> LinkFuture<'_, Result<ProcessKey, LaunchRefused>>;

    /// Whether nobody claimed this id before: then the caller may do what must be done once.
    fn claim(&self, id: WriteId) -> LinkFuture<'_, Result<bool, WriteError>>;

    /// Lets through what waits under this number, or ends it. False if nobody knows the number.
    fn release(&self, hold: u64, allow: bool) -> LinkFuture<'_, Result<bool, WriteError>>;

    /// Ends the agent and everything it started, with this much time before each next step.
    fn stop(&self, grace: Duration);

    /// Tells the runner that the agent's end is committed. Returns when that was sent, or when the
    /// link is gone.
    fn bye(&self) -> LinkFuture<'_, ()>;
}

/// What a link gives once the runner answered.
pub type LinkFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Resolves when all lines are in the pipe, or when that is no longer to be hoped for. Dropping it
/// does not take them back.
#[derive(Debug)]
pub struct PendingWrite(oneshot::Receiver<Result<Vec<WriteReceipt>, WriteError>>);

impl Future for PendingWrite {
    type Output = Result<Vec<WriteReceipt>, WriteError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(context)
            // A sender is dropped without an answer only if the link has ended.
            .map(|told| told.unwrap_or(Err(WriteError::Lost)))
    }
}

impl From<oneshot::Receiver<Result<Vec<WriteReceipt>, WriteError>>> for PendingWrite {
    fn from(written: oneshot::Receiver<Result<Vec<WriteReceipt>, WriteError>>) -> Self {
        Self(written)
    }
}

impl RunnerLink for LinkOutbox {
    fn write(&self, lines: Vec<AgentWrite>) -> PendingWrite {
        let (waiter, written) = oneshot::channel();
        if lines.is_empty() {
            drop(waiter.send(Ok(Vec::new())));
        } else {
            self.queue_write(lines, waiter);
        }
        PendingWrite(written)
    }

    fn is_lost(&self) -> bool {
        self.ended_early()
    }

    fn committed(&self, through: u64, open: Vec<u64>) {
        self.commit(through, open);
    }

    fn launch(
        &self,
        program: OsString,
        args: Vec<OsString>,
        cwd: PathBuf,
        env: Vec<(OsString, OsString)>,
        confinement: Option<ConfinementPlan>,
    ) -> LinkFuture<'_, Result<ProcessKey, LaunchRefused>> {
        let launch = ToRunner::Launch(LaunchRequest {
            program,
            args,
            cwd,
            env,
            confinement: confinement.map(Box::new),
        });
        Box::pin(async move {
            let (waiter, launched) = oneshot::channel();
            self.queue_launch(&launch, waiter)?;
            launched
                .await
                .unwrap_or_else(|_| Err(LaunchRefused::lost()))
        })
    }

    fn claim(&self, name: WriteId) -> LinkFuture<'_, Result<bool, WriteError>> {
        Box::pin(async move {
            let (waiter, claimed) = oneshot::channel();
            self.ask(waiter, |id| ToRunner::Claim { id, name })?;
            match claimed.await {
                Ok((ToHost::Claimed { fresh, .. }, _)) => Ok(fresh),
                Ok(_) | Err(_) => Err(self.why_ended()),
            }
        })
    }

    fn release(&self, hold: u64, allow: bool) -> LinkFuture<'_, Result<bool, WriteError>> {
        Box::pin(async move {
            let (waiter, released) = oneshot::channel();
            self.ask(waiter, |id| ToRunner::Release { id, hold, allow })?;
            match released.await {
                Ok((ToHost::Released { known, .. }, _)) => Ok(known),
                Ok(_) | Err(_) => Err(self.why_ended()),
            }
        })
    }

    fn stop(&self, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        drop(self.send_message(&ToRunner::Stop { grace_ms }));
    }

    fn bye(&self) -> LinkFuture<'_, ()> {
        Box::pin(async move {
            // It is an error in both cases: nothing is ever sent there.
            let _ = self.send_message(&ToRunner::Bye).await;
        })
    }
}

/// Starts a task that ends with its connection, or with the receiver of the events.
#[expect(
    clippy::disallowed_methods,
    reason = "it belongs to its link and ends with it, so nobody has to wait for it"
)]
fn spawn_for_link(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

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
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use countersign_core::event::ProcessKey;
use tokio::sync::{mpsc, oneshot};

use super::wire::{LaunchRequest, ShellCall, ShellFailure, ToHost, ToRunner};
use crate::adapter::{AgentWrite, ProcessExit, WriteId, WriteKind};
use ended_link::EndedLink;
use outbox::LinkOutbox;

pub use connect::{LinkError, connect};

/// A connection to a runner, or what a runner left of it.
#[derive(Debug)]
pub struct Link {
    /// What comes from the agent, in order. Dropping it ends the link.
    pub events: mpsc::Receiver<LinkEvent>,
    /// The way to it.
    pub sender: LinkSender,
    /// The agent's process, if it was started before.
    pub agent: Option<ProcessKey>,
    /// The end of what the agent wrote for its log before.
    pub log: String,
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
    #[error("the agent does not read what it is sent")]
    Full,
    /// The agent went away; some may be in the pipe.
    #[error("the agent has gone")]
    Gone,
    /// The link is gone; nobody knows yet.
    #[error("the link to the agent's runner is gone")]
    Lost,
}

/// Why an agent was not started, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LaunchRefused(pub String);

impl LaunchRefused {
    fn lost() -> Self {
        Self("the link to the agent's runner is gone".to_owned())
    }
}

/// Says things to a runner. Clones say them to the same one.
#[derive(Clone, Debug)]
pub struct LinkSender(LinkKind);

#[derive(Clone, Debug)]
enum LinkKind {
    Live(Arc<LinkOutbox>),
    Over(Arc<EndedLink>),
}

/// Resolves when all lines are in the pipe, or when that is no longer to be hoped for. Dropping it
/// does not take them back.
#[derive(Debug)]
pub struct PendingWrite(oneshot::Receiver<Result<Vec<WriteReceipt>, WriteError>>);

impl Future for PendingWrite {
    type Output = Result<Vec<WriteReceipt>, WriteError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|told| told.unwrap_or(Err(WriteError::Lost)))
    }
}

impl LinkSender {
    /// Queues the lines at once, so that the order of calls is the order in the pipe. All of them are
    /// taken or none.
    pub fn write(&self, lines: Vec<AgentWrite>) -> PendingWrite {
        let (told, written) = oneshot::channel();
        match &self.0 {
            _ if lines.is_empty() => drop(told.send(Ok(Vec::new()))),
            LinkKind::Live(outbox) => outbox.write(lines, told),
            LinkKind::Over(over) => drop(told.send(over.write(lines))),
        }
        PendingWrite(written)
    }

    /// Whether the connection ended, and not by the agent's end.
    pub fn is_lost(&self) -> bool {
        match &self.0 {
            LinkKind::Live(outbox) => outbox.is_lost(),
            LinkKind::Over(_) => false,
        }
    }

    /// Says what is committed. Never waits, and only the newest counts.
    pub fn committed(&self, through: u64, open: Vec<u64>) {
        if let LinkKind::Live(outbox) = &self.0 {
            outbox.commit(through, open);
        }
    }

    /// Starts the agent. An error does not say that it was not started if the link went meanwhile.
    pub async fn launch(
        &self,
        program: OsString,
        args: Vec<OsString>,
        cwd: PathBuf,
        env: Vec<(OsString, OsString)>,
    ) -> Result<ProcessKey, LaunchRefused> {
        let LinkKind::Live(outbox) = &self.0 else {
            return Err(LaunchRefused("the agent's runner has gone".to_owned()));
        };
        let launch = ToRunner::Launch(LaunchRequest {
            program,
            args,
            cwd,
            env,
        });
        let (told, launched) = oneshot::channel();
        outbox.launch(&launch, told)?;
        launched
            .await
            .unwrap_or_else(|_| Err(LaunchRefused::lost()))
    }

    /// Whether nobody claimed this name before: then the caller may do what must be done once.
    pub async fn claim(&self, name: WriteId) -> Result<bool, WriteError> {
        let LinkKind::Live(outbox) = &self.0 else {
            return Ok(false);
        };
        let (told, claimed) = oneshot::channel();
        outbox.ask(told, |id| ToRunner::Claim { id, name })?;
        match claimed.await {
            Ok((ToHost::Claimed { fresh, .. }, _)) => Ok(fresh),
            Ok(_) | Err(_) => Err(outbox.why_ended()),
        }
    }

    /// Ends the agent and everything it started, with this much time before each next step.
    pub fn stop(&self, grace: Duration) {
        if let LinkKind::Live(outbox) = &self.0 {
            let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
            drop(outbox.send_message(&ToRunner::Stop { grace_ms }));
        }
    }

    /// Tells the runner that the agent's end is committed. Returns when it was said, or when the link
    /// is gone.
    pub async fn bye(&self) {
        if let LinkKind::Live(outbox) = &self.0 {
            // It is an error in both cases: nothing is ever sent there.
            let _ = outbox.send_message(&ToRunner::Bye).await;
        }
    }

    /// What a call of the shell backend came to, with what it gave.
    pub(super) async fn call(
        &self,
        call: ShellCall,
    ) -> Result<(super::wire::ShellReply, Vec<u8>), ShellFailure> {
        let lost = |error: WriteError| ShellFailure::Failed(error.to_string());
        let LinkKind::Live(outbox) = &self.0 else {
            return Err(lost(WriteError::Gone));
        };
        let (told, replied) = oneshot::channel();
        outbox
            .ask(told, |id| ToRunner::Shell { id, call })
            .map_err(lost)?;
        match replied.await {
            Ok((ToHost::Shell { result, .. }, body)) => result.map(|done| (done, body)),
            Ok(_) | Err(_) => Err(lost(outbox.why_ended())),
        }
    }
}

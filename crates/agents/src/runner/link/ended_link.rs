//! A link to a runner that has gone, made of what it left.
//!
//! Invariant: nothing is done any more. What was written stays written, and the rest never will be.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use countersign_core::event::ProcessKey;
use countersign_core::limits;
use countersign_sandbox::ConfinementPlan;
use tokio::sync::{mpsc, oneshot};

use super::line_queue::LineQueue;
use super::{
    LaunchRefused, Link, LinkEvent, LinkFuture, PendingWrite, RunnerLink, WriteError, WriteReceipt,
    spawn_for_link,
};
use crate::adapter::{AgentWrite, WriteId};
use crate::runner::exit_report::ExitReport;
use crate::runner::used_ids::UsedIds;

/// What is known of what was said to the agent.
#[derive(Debug)]
pub(super) struct EndedLink {
    written: UsedIds,
}

impl ExitReport {
    /// A link that gives what the agent said after `heard`, and then its end.
    pub fn into_link(self, heard: u64) -> Link {
        let mut queue = LineQueue::new(heard.max(self.from));
        if heard < self.from {
            // What is missing is lost for good; the rest is still worth reading.
            let (from, missing) = (self.from, self.from - heard);
            tracing::error!(
                from,
                missing,
                "a runner did not keep what was not committed"
            );
        }
        queue.push_output(heard.max(self.from), skip(self.output, heard, self.from));
        let (exit, why) = (self.exit, self.why);
        queue.push_end(LinkEvent::Exited { exit, why });
        let (tell, events) = mpsc::channel(limits::AGENT_LINES_QUEUED);
        spawn_for_link(async move { queue.send_all(&tell).await });
        let mut written = UsedIds::default();
        for (id, kind) in self.written {
            written.insert(id, kind);
        }
        Link {
            events,
            sender: Arc::new(EndedLink { written }),
            shells: Arc::new(self.terminals),
            agent: None,
            log: self.log,
        }
    }
}

fn skip(mut output: Vec<u8>, heard: u64, from: u64) -> Vec<u8> {
    let known = usize::try_from(heard.saturating_sub(from)).unwrap_or(usize::MAX);
    output.drain(..known.min(output.len()));
    output
}

impl EndedLink {
    fn find_receipts(&self, lines: Vec<AgentWrite>) -> Result<Vec<WriteReceipt>, WriteError> {
        let receipts = lines.into_iter().map(|line| {
            let kind = self.written.find_kind(&line.id)?;
            let name = line.id;
            Some(WriteReceipt { id: name, kind })
        });
        receipts.collect::<Option<_>>().ok_or(WriteError::Gone)
    }
}

impl RunnerLink for EndedLink {
    fn write(&self, lines: Vec<AgentWrite>) -> PendingWrite {
        let (waiter, written) = oneshot::channel();
        drop(waiter.send(self.find_receipts(lines)));
        written.into()
    }

    fn is_lost(&self) -> bool {
        false
    }

    fn committed(&self, _: u64, _: Vec<u64>) {}

    fn launch(
        &self,
        _: OsString,
        _: Vec<OsString>,
        _: PathBuf,
        _: Vec<(OsString, OsString)>,
        _: Option<ConfinementPlan>,
    ) -> LinkFuture<'_, Result<ProcessKey, LaunchRefused>> {
        let refused = LaunchRefused("the agent's runner has ended".to_owned());
        Box::pin(async { Err(refused) })
    }

    fn claim(&self, _: WriteId) -> LinkFuture<'_, Result<bool, WriteError>> {
        // Nothing may be begun for an agent that has ended.
        Box::pin(async { Ok(false) })
    }

    fn release(&self, _hold: u64, _allow: bool) -> LinkFuture<'_, Result<bool, WriteError>> {
        // Its connections ended with it.
        Box::pin(async { Ok(false) })
    }

    fn stop(&self, _: Duration) {}

    fn bye(&self) -> LinkFuture<'_, ()> {
        Box::pin(async {})
    }
}

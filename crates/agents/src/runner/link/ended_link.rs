//! A link to a runner that has gone, made of what it left.
//!
//! Invariant: nothing is done any more. What was written stays written, and the rest never will be.

use countersign_core::limits;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::line_queue::LineQueue;
use super::{Link, LinkEvent, LinkKind, LinkSender, WriteError, WriteReceipt};
use crate::adapter::AgentWrite;
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
        let mut hearing = LineQueue::new(heard.max(self.from));
        if heard < self.from {
            let (from, missing) = (self.from, self.from - heard);
            tracing::error!(
                from,
                missing,
                "a runner did not keep what was not committed"
            );
        }
        hearing.push_output(heard.max(self.from), skip(self.output, heard, self.from));
        let (exit, why) = (self.exit, self.why);
        hearing.push_end(LinkEvent::Exited { exit, why });
        let (tell, events) = mpsc::channel(limits::AGENT_LINES_QUEUED);
        // It ends with the receiver at the latest.
        TaskTracker::new().spawn(async move { hearing.send_all(&tell).await });
        let mut written = UsedIds::default();
        for (id, kind) in self.written {
            written.insert(id, kind);
        }
        Link {
            events,
            sender: LinkSender(LinkKind::Over(EndedLink { written }.into())),
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
    pub(super) fn write(&self, lines: Vec<AgentWrite>) -> Result<Vec<WriteReceipt>, WriteError> {
        let receipts = lines.into_iter().map(|line| {
            let kind = self.written.find_kind(&line.id)?;
            let name = line.id;
            Some(WriteReceipt { id: name, kind })
        });
        receipts.collect::<Option<_>>().ok_or(WriteError::Gone)
    }
}

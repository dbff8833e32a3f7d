//! Reads what an agent says and turns it into inputs of the loop, in the order in which it was said.
//!
//! Text is buffered and committed in pieces, always before whatever came after it. An ask is submitted
//! and its decision is not waited for.
//!
//! Invariant: an input that follows from a line is committed together with a checkpoint at the end of
//! that line or later, so that the next host neither misses a line nor reads one twice.

mod asks;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use countersign_agents::adapter::{
    AgentEvent, AgentReport, ProcessExit, RequestId, SessionReady, TurnEnd,
};
use countersign_agents::runner::LinkEvent;
use countersign_core::event::{AgentReported, TranscriptEntry, TurnEnded};
use countersign_core::limits::{AGENT_LINE_BYTES_SHORT, AGENT_LOG_BYTES_KEPT, RUNNER_BYTES_HELD};
use countersign_core::{Caller, Checkpoint, Input, RunEvent};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::crash;
use crate::service::Service;

use super::agent_connection::{ConnectionSnapshot, LinkLost, SharedConnection};
use super::client_requests::ClientRequests;
use super::deliveries::Deliveries;
use super::run::RunKey;
use super::throttle::OutputThrottle;
use super::transcript_buffer::TranscriptBuffer;

/// What a reader works with.
pub(super) struct ReaderParts {
    pub(super) service: Service,
    pub(super) key: RunKey,
    /// The agent itself, which is who asks.
    pub(super) caller: Caller,
    pub(super) ask_timeout_ms: Option<u64>,
    pub(super) connection: SharedConnection,
    pub(super) deliveries: Arc<Deliveries>,
    pub(super) requests: Arc<ClientRequests>,
    /// Whether the agent's session is open.
    pub(super) ready: watch::Sender<bool>,
    /// Why the agent cannot be used, once that is known.
    pub(super) fatal: watch::Sender<Option<String>>,
}

/// Where a reader begins.
#[derive(Default)]
pub(super) struct ReaderStart {
    /// The end of what the agent wrote to its log before.
    pub(super) log: String,
    /// How far its output was committed.
    pub(super) offset: u64,
    pub(super) in_turn: bool,
}

/// See the module.
pub(super) struct OutputReader {
    parts: ReaderParts,
    transcript: TranscriptBuffer,
    log: String,
    in_turn: bool,
    /// Whether more of the newest line is still to be handled.
    is_partial: bool,
    /// The number of the newest line.
    offset: u64,
    /// The number of the newest line that is committed.
    committed: u64,
}

/// What the reader had when it ended.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FinalOutput {
    pub(super) report: Option<AgentReported>,
    pub(super) entries: Vec<TranscriptEntry>,
    /// How the process ended, and why its runner ended it; nothing if the link was lost.
    pub(super) ended: Option<(ProcessExit, Option<String>)>,
    pub(super) in_turn: bool,
    /// The end of what it wrote to its log.
    pub(super) log: String,
}

impl OutputReader {
    pub(super) fn new(parts: ReaderParts, start: ReaderStart) -> Self {
        Self {
            parts,
            transcript: TranscriptBuffer::default(),
            log: start.log,
            in_turn: start.in_turn,
            is_partial: false,
            offset: start.offset,
            committed: start.offset,
        }
    }

    /// Reads the agent's output to its end.
    pub(super) async fn read_all(mut self, events: &mut mpsc::Receiver<LinkEvent>) -> FinalOutput {
        let ended = self.read_until_over(events).await;
        FinalOutput {
            report: self.transcript.take_report(&self.parts.key.agent),
            entries: self.transcript.take(),
            ended: ended.ok(),
            in_turn: self.in_turn,
            log: self.log,
        }
    }

    async fn read_until_over(
        &mut self,
        events: &mut mpsc::Receiver<LinkEvent>,
    ) -> Result<(ProcessExit, Option<String>), LinkLost> {
        let mut throttle = OutputThrottle::begin(Instant::now());
        loop {
            match wait_for_event(events, &self.transcript).await {
                ReaderWake::CommitDue => self.commit(Vec::new()).await?,
                ReaderWake::Event(Some(LinkEvent::Exited { exit, why })) => return Ok((exit, why)),
                ReaderWake::Event(None | Some(LinkEvent::Lost)) => return Err(LinkLost),
                ReaderWake::Event(Some(event)) => {
                    let rest = throttle.count_line(event_bytes(&event), Instant::now());
                    self.handle_link_event(event).await?;
                    if let Some(until) = rest {
                        tokio::time::sleep_until(until).await;
                    }
                }
            }
        }
    }

    async fn handle_link_event(&mut self, event: LinkEvent) -> Result<(), LinkLost> {
        match event {
            LinkEvent::Line { number, bytes } => self.handle_line(number, &bytes).await?,
            LinkEvent::Oversized { number, bytes } => {
                let message = format!("a line of {bytes} bytes was too long to be read");
                self.transcript.note(message);
                self.parts.connection.lock().skip_to(number);
                self.offset = number;
            }
            LinkEvent::Log(text) => {
                tracing::debug!(agent = %self.parts.key.agent, text, "log of an agent");
                append_log_tail(&mut self.log, &text);
            }
            LinkEvent::Exited { .. } | LinkEvent::Lost => {}
        }
        // Lines without anything to commit still have to be acknowledged now and then: the runner
        // keeps them until they are, and holds the agent back when it keeps too much.
        let unacknowledged = self.offset.saturating_sub(self.committed);
        if self.transcript.is_full() || unacknowledged > RUNNER_BYTES_HELD as u64 / 2 {
            self.commit(Vec::new()).await?;
        }
        Ok(())
    }

    async fn handle_line(&mut self, number: u64, bytes: &[u8]) -> Result<(), LinkLost> {
        let (output, sent) = run_blocking_if_long(bytes.len(), || {
            self.parts.connection.lock().handle_line(bytes, number)
        });
        self.parts.connection.confirm_when_written(sent);
        self.offset = number;
        let mut events = output.events.into_iter();
        while let Some(event) = events.next() {
            // A commit in the middle of a line carries no checkpoint: the next host would take the
            // rest of the line for read.
            self.is_partial = events.as_slice().iter().any(is_recorded);
            self.handle_agent_event(event).await?;
        }
        self.is_partial = false;
        Ok(())
    }

    async fn handle_agent_event(&mut self, event: AgentEvent) -> Result<(), LinkLost> {
        match event {
            AgentEvent::Transcript(entry) => {
                self.in_turn = true;
                self.transcript.add(entry);
                crash::point("text_heard");
            }
            AgentEvent::Reported(report) => self.transcript.report(report),
            AgentEvent::Ready(ready) => self.handle_ready(ready).await?,
            AgentEvent::StartFailed { message } => {
                self.parts.fatal.send_replace(Some(message));
            }
            AgentEvent::Asked(ask) => self.handle_permission_ask(*ask).await?,
            AgentEvent::Withdrawn { request } => self.handle_withdrawal(request).await?,
            AgentEvent::ClientRequested {
                request,
                line,
                client_request,
            } => {
                self.handle_client_request(request, line, client_request)
                    .await?;
            }
            AgentEvent::TurnEnded { turn, end } => self.handle_turn_end(turn, end).await?,
            AgentEvent::Noise(text) => {
                tracing::debug!(agent = %self.parts.key.agent, text, "noise of an agent");
            }
        }
        Ok(())
    }

    async fn handle_ready(&mut self, ready: SessionReady) -> Result<(), LinkLost> {
        self.in_turn = false;
        for warning in ready.warnings {
            self.transcript.note(warning);
        }
        self.transcript.report(AgentReport {
            mode: ready.mode,
            ..AgentReport::default()
        });
        let opened = RunEvent::Ready {
            session: ready.session,
            resumable: ready.resumable,
        };
        self.commit(vec![opened]).await?;
        crash::point("session_recorded");
        self.parts.ready.send_replace(true);
        Ok(())
    }

    async fn handle_turn_end(&mut self, turn: u32, end: TurnEnd) -> Result<(), LinkLost> {
        self.in_turn = false;
        let ended = RunEvent::TurnEnded {
            entries: self.transcript.take(),
            end: Box::new(TurnEnded {
                agent: self.parts.key.agent.clone(),
                turn,
                reason: end.reason,
                message: end.message,
                usage: end.usage,
            }),
            left_open: end.left_open,
        };
        self.commit(vec![ended]).await
    }

    async fn handle_withdrawal(&mut self, request: RequestId) -> Result<(), LinkLost> {
        let request = request.0;
        self.commit(vec![RunEvent::RequestWithdrawn { request }])
            .await
    }

    /// Commits what was read and then `more`, with how far that is.
    async fn commit(&mut self, more: Vec<RunEvent>) -> Result<(), LinkLost> {
        let mut inputs = self.take_inputs();
        let entries = self.transcript.take();
        let entries = (!entries.is_empty()).then_some(RunEvent::EntriesAdded(entries));
        let events = entries.into_iter().chain(more);
        inputs.extend(events.map(|event| self.parts.key.input(event)));
        let snapshot = self.snapshot_unless_partial();
        if inputs.is_empty() && snapshot.is_none() {
            return Ok(());
        }
        let checkpoint = snapshot.as_ref().map(|snapshot| self.checkpoint(snapshot));
        if let Err(error) = self.parts.service.record_output(inputs, checkpoint).await {
            let agent = &self.parts.key.agent;
            tracing::warn!(%agent, %error, "the output of an agent was not recorded");
            return Err(LinkLost);
        }
        self.acknowledge(snapshot);
        Ok(())
    }

    /// What goes before everything else in the next commit: settlements and the agent's report.
    fn take_inputs(&mut self) -> Vec<Input> {
        let mut inputs = self.parts.deliveries.take_settlements();
        if let Some(report) = self.transcript.take_report(&self.parts.key.agent) {
            inputs.push(self.parts.key.input(RunEvent::Reported(Box::new(report))));
        }
        inputs
    }

    fn snapshot_unless_partial(&self) -> Option<ConnectionSnapshot> {
        (!self.is_partial).then(|| self.parts.connection.lock().snapshot())
    }

    fn checkpoint(&self, snapshot: &ConnectionSnapshot) -> Checkpoint {
        Checkpoint {
            agent: self.parts.key.agent.clone(),
            run: self.parts.key.number,
            offset: snapshot.offset,
            state: snapshot.state.clone(),
        }
    }

    /// Tells the runner what it need not keep any longer. Only after the commit: what the runner has
    /// dropped cannot be read again.
    fn acknowledge(&mut self, snapshot: Option<ConnectionSnapshot>) {
        if let Some(snapshot) = snapshot {
            self.committed = snapshot.offset;
            let connection = self.parts.connection.lock();
            connection
                .link()
                .committed(snapshot.offset, snapshot.open_lines);
        }
    }
}

/// Whether an event changes what the host has to record.
fn is_recorded(event: &AgentEvent) -> bool {
    !matches!(event, AgentEvent::Noise(_))
}

/// A long line takes long to parse, which must not hold up the other tasks of the thread.
fn run_blocking_if_long<T>(bytes: usize, parse: impl FnOnce() -> T) -> T {
    let is_shared = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if is_shared && bytes > AGENT_LINE_BYTES_SHORT {
        tokio::task::block_in_place(parse)
    } else {
        parse()
    }
}

/// Why the reader goes on.
enum ReaderWake {
    Event(Option<LinkEvent>),
    CommitDue,
}

async fn wait_for_event(
    events: &mut mpsc::Receiver<LinkEvent>,
    transcript: &TranscriptBuffer,
) -> ReaderWake {
    let Some(due) = transcript.due() else {
        return ReaderWake::Event(events.recv().await);
    };
    tokio::select! {
        event = events.recv() => ReaderWake::Event(event),
        () = tokio::time::sleep_until(due) => ReaderWake::CommitDue,
    }
}

fn event_bytes(event: &LinkEvent) -> usize {
    match event {
        LinkEvent::Line { bytes, .. } => bytes.len(),
        LinkEvent::Log(text) => text.len(),
        LinkEvent::Oversized { .. } | LinkEvent::Exited { .. } | LinkEvent::Lost => 0,
    }
}

fn append_log_tail(log: &mut String, text: &str) {
    log.push_str(text);
    if !text.ends_with('\n') {
        log.push('\n');
    }
    countersign_core::truncate_to_tail(log, AGENT_LOG_BYTES_KEPT);
}

//! Reads what an agent says and turns it into inputs of the loop, in the order in which it was said.
//!
//! Text is buffered and committed in pieces, always before whatever came after it. An ask is submitted
//! and its decision is not waited for.
//!
//! Invariant: everything that follows from a line is one commit, together with a checkpoint at the end
//! of that line or later, so that the next host neither misses a line nor reads one twice. An ask that
//! the loop refuses changes nothing about that.

mod asks;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use countersign_agents::adapter::{
    AgentEvent, AgentReport, ProcessExit, RequestId, SessionReady, TurnEnd,
};
use countersign_agents::runner::LinkEvent;
use countersign_core::event::{TranscriptEntry, TurnEnded};
use countersign_core::limits::{AGENT_LINE_BYTES_SHORT, AGENT_LOG_BYTES_KEPT, RUNNER_BYTES_HELD};
use countersign_core::{Caller, Checkpoint, RunEvent};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::crash;
use crate::service::{AgentOutput, Service};

use super::agent_connection::{ConnectionSnapshot, LinkLost, SharedConnection};
use super::client_requests::ClientRequests;
use super::deliveries::{Deliveries, UnsentBatch};
use super::run::RunKey;
use super::throttle::OutputThrottle;
use super::transcript_buffer::TranscriptBuffer;
use asks::{AskSubject, QueuedAsk};

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
    /// What was read and is not committed, in the order of the pipe. The transcript comes after it.
    uncommitted: Vec<ReadOutput>,
    /// The number of the newest line.
    offset: u64,
    /// The number of the newest line that is committed.
    committed: u64,
}

/// What follows from a line, on its way into a commit.
enum ReadOutput {
    Event(RunEvent),
    Ask(QueuedAsk),
}

/// What one commit records, and what is left to do about it afterwards.
struct PreparedCommit {
    output: Vec<AgentOutput>,
    /// The events among the output, for the case that the commit fails.
    events: Vec<RunEvent>,
    /// What its asks are for, in their order.
    asks: Vec<AskSubject>,
}

/// What the reader had when it ended.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FinalOutput {
    /// What was read and not committed, in the order of the pipe. The entries come after it.
    pub(super) events: Vec<RunEvent>,
    pub(super) entries: Vec<TranscriptEntry>,
    /// How far the output is known to be committed.
    pub(super) committed: u64,
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
            uncommitted: Vec::new(),
            offset: start.offset,
            committed: start.offset,
        }
    }

    /// Reads the agent's output to its end.
    pub(super) async fn read_all(mut self, events: &mut mpsc::Receiver<LinkEvent>) -> FinalOutput {
        let ended = self.read_until_over(events).await;
        self.take_report();
        let uncommitted = std::mem::take(&mut self.uncommitted).into_iter();
        FinalOutput {
            // Of an ask nothing is left: nobody waits for its answer any more, or it is read again.
            events: uncommitted.filter_map(ReadOutput::into_event).collect(),
            entries: self.transcript.take(),
            committed: self.committed,
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
                ReaderWake::CommitDue => self.commit().await?,
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
            LinkEvent::Held { hold, target } => {
                self.handle_hold(hold, target).await;
                if !self.uncommitted.is_empty() {
                    self.commit().await?;
                }
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
            self.commit().await?;
        }
        Ok(())
    }

    async fn handle_line(&mut self, number: u64, bytes: &[u8]) -> Result<(), LinkLost> {
        let (output, sent) = run_blocking_if_long(bytes.len(), || {
            self.parts.connection.lock().handle_line(bytes, number)
        });
        self.parts.connection.confirm_when_written(sent);
        self.offset = number;
        for event in output.events {
            self.handle_agent_event(event).await;
        }
        // Not before the end of the line: the next host reads either all of it or nothing. The next
        // line waits for this commit: nothing may overtake an ask that could not be committed.
        if self.uncommitted.is_empty() {
            Ok(())
        } else {
            self.commit().await
        }
    }

    async fn handle_agent_event(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::Transcript(entry) => {
                self.in_turn = true;
                self.transcript.add(entry);
                crash::point("text_heard");
            }
            AgentEvent::Reported(report) => self.transcript.report(report),
            AgentEvent::Ready(ready) => self.handle_ready(ready),
            AgentEvent::StartFailed { message } => {
                self.parts.fatal.send_replace(Some(message));
            }
            AgentEvent::Asked(ask) => self.handle_permission_ask(*ask),
            AgentEvent::Withdrawn { request } => self.handle_withdrawal(request),
            AgentEvent::ClientRequested {
                request,
                line,
                client_request,
            } => {
                self.handle_client_request(request, line, client_request)
                    .await;
            }
            AgentEvent::TurnEnded { turn, end } => self.handle_turn_end(turn, end),
            AgentEvent::Noise(text) => {
                tracing::debug!(agent = %self.parts.key.agent, text, "noise of an agent");
            }
        }
    }

    fn handle_ready(&mut self, ready: SessionReady) {
        self.in_turn = false;
        for warning in ready.warnings {
            self.transcript.note(warning);
        }
        self.transcript.report(AgentReport {
            mode: ready.mode,
            ..AgentReport::default()
        });
        self.queue(ReadOutput::Event(RunEvent::Ready {
            session: ready.session,
            resumable: ready.resumable,
        }));
    }

    fn handle_turn_end(&mut self, turn: u32, end: TurnEnd) {
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
        self.queue(ReadOutput::Event(ended));
    }

    fn handle_withdrawal(&mut self, request: RequestId) {
        let request = request.0;
        self.queue(ReadOutput::Event(RunEvent::RequestWithdrawn { request }));
    }

    /// Adds what is committed at the end of the line, after the text that came before it.
    fn queue(&mut self, output: ReadOutput) {
        self.take_entries();
        self.uncommitted.push(output);
    }

    fn take_entries(&mut self) {
        let entries = self.transcript.take();
        if !entries.is_empty() {
            let added = RunEvent::EntriesAdded(entries);
            self.uncommitted.push(ReadOutput::Event(added));
        }
    }

    /// What the agent said about itself goes first: it has no place among what it said.
    fn take_report(&mut self) {
        if let Some(report) = self.transcript.take_report(&self.parts.key.agent) {
            let reported = RunEvent::Reported(Box::new(report));
            self.uncommitted.insert(0, ReadOutput::Event(reported));
        }
    }

    /// Commits what was read, with how far that is and what became of earlier answers.
    async fn commit(&mut self) -> Result<(), LinkLost> {
        let unsent = self.parts.deliveries.take_unsent();
        let prepared = self.prepare_commit(&unsent);
        let snapshot = self.parts.connection.lock().snapshot();
        let checkpoint = Some(self.checkpoint(&snapshot));
        let has_asked = !prepared.asks.is_empty();
        if has_asked {
            crash::point("ask_heard");
        }
        let service = &self.parts.service;
        let replies = match service.record_output(prepared.output, checkpoint).await {
            Ok(replies) => replies,
            Err(error) => {
                let agent = &self.parts.key.agent;
                tracing::warn!(%agent, %error, "the output of an agent was not recorded");
                // It is read again, unless the runner is gone.
                self.uncommitted = prepared.events.into_iter().map(ReadOutput::Event).collect();
                return Err(LinkLost);
            }
        };
        unsent.confirm();
        if has_asked {
            crash::point("ask_accepted");
        }
        self.acknowledge(snapshot);
        if has_asked {
            crash::point("ask_acknowledged");
        }
        if prepared.events.iter().any(is_ready) {
            crash::point("session_recorded");
            self.parts.ready.send_replace(true);
        }
        if prepared.events.iter().any(is_turn_end) {
            // Their asks ended with it.
            self.parts.requests.end_holds();
        }
        for (subject, reply) in prepared.asks.into_iter().zip(replies) {
            self.handle_ask_reply(subject, reply);
        }
        Ok(())
    }

    /// Takes everything that was read, in its order.
    fn prepare_commit(&mut self, unsent: &UnsentBatch) -> PreparedCommit {
        self.take_entries();
        self.take_report();
        let inputs = unsent.inputs().iter().cloned();
        let mut prepared = PreparedCommit {
            output: inputs.map(AgentOutput::from).collect(),
            events: Vec::new(),
            asks: Vec::new(),
        };
        for read in std::mem::take(&mut self.uncommitted) {
            match read {
                ReadOutput::Event(event) => {
                    let input = self.parts.key.input(event.clone());
                    prepared.output.push(AgentOutput::from(input));
                    prepared.events.push(event);
                }
                ReadOutput::Ask(ask) => {
                    prepared.output.push(AgentOutput::Ask(ask.request));
                    prepared.asks.push(ask.subject);
                }
            }
        }
        prepared
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
    fn acknowledge(&mut self, snapshot: ConnectionSnapshot) {
        self.committed = snapshot.offset;
        let connection = self.parts.connection.lock();
        connection
            .link()
            .committed(snapshot.offset, snapshot.open_lines);
    }
}

impl ReadOutput {
    fn into_event(self) -> Option<RunEvent> {
        match self {
            Self::Event(event) => Some(event),
            Self::Ask(_) => None,
        }
    }
}

fn is_turn_end(event: &RunEvent) -> bool {
    matches!(event, RunEvent::TurnEnded { .. })
}

fn is_ready(event: &RunEvent) -> bool {
    matches!(event, RunEvent::Ready { .. })
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
        LinkEvent::Oversized { .. }
        | LinkEvent::Held { .. }
        | LinkEvent::Exited { .. }
        | LinkEvent::Lost => 0,
    }
}

fn append_log_tail(log: &mut String, text: &str) {
    log.push_str(text);
    if !text.ends_with('\n') {
        log.push('\n');
    }
    countersign_core::truncate_to_tail(log, AGENT_LOG_BYTES_KEPT);
}

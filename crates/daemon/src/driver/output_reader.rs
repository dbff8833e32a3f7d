//! Hearing: what an agent says becomes inputs of the loop, in the order it was said.
//!
//! Text is held and committed in pieces, and before everything it came before. An ask enters the loop
//! and is not waited for.

use std::sync::Arc;

use countersign_agents::adapter::{
    AgentEvent, AgentReport, ProcessExit, RequestId, SessionReady, TurnEnd,
};
use countersign_agents::runner::LinkEvent;
use countersign_core::event::TurnEnded;
use countersign_core::limits::{AGENT_LINE_BYTES_SHORT, AGENT_LOG_BYTES_KEPT, RUNNER_BYTES_HELD};
use countersign_core::{Checkpoint, Input, ManagedInput, RunEvent};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::crash;

use super::agent_connection::{ConnectionSnapshot, LinkLost};
use super::run::{FinalOutput, Run};
use super::throttle::OutputThrottle;
use super::transcript_buffer::TranscriptBuffer;

/// What the output reader keeps.
#[derive(Default)]
pub(super) struct OutputReader {
    pub(super) transcript: TranscriptBuffer,
    log: String,
    pub(super) in_turn: bool,
    /// Whether more of the newest line is still to be taken in.
    is_partial: bool,
    /// The number of the newest line.
    offset: u64,
    /// The number of the newest line that is committed.
    committed: u64,
}

impl Run {
    /// Hears an agent to its end.
    pub(super) async fn read_all(
        self: Arc<Self>,
        mut events: mpsc::Receiver<LinkEvent>,
        (log, heard, in_turn): (String, u64, bool),
    ) -> FinalOutput {
        let mut reader = OutputReader {
            log,
            in_turn,
            offset: heard,
            committed: heard,
            ..OutputReader::default()
        };
        let ended = self.read_until_over(&mut events, &mut reader).await;
        FinalOutput {
            report: reader.transcript.take_report(&self.agent),
            said: reader.transcript.take(),
            ended: ended.ok(),
            in_turn: reader.in_turn,
            log: reader.log,
            link: Some(events),
        }
    }

    async fn read_until_over(
        self: &Arc<Self>,
        events: &mut mpsc::Receiver<LinkEvent>,
        reader: &mut OutputReader,
    ) -> Result<(ProcessExit, Option<String>), LinkLost> {
        let mut pace = OutputThrottle::begin(Instant::now());
        loop {
            match wait_for_event(events, &reader.transcript).await {
                ReaderWake::Due => self.commit(reader, Vec::new()).await?,
                ReaderWake::Came(Some(LinkEvent::Exited { exit, why })) => return Ok((exit, why)),
                ReaderWake::Came(None | Some(LinkEvent::Lost)) => return Err(LinkLost),
                ReaderWake::Came(Some(event)) => {
                    let rest = pace.count_line(event_bytes(&event), Instant::now());
                    self.handle_link_event(event, reader).await?;
                    if let Some(until) = rest {
                        tokio::time::sleep_until(until).await;
                    }
                }
            }
        }
    }

    async fn handle_link_event(
        self: &Arc<Self>,
        event: LinkEvent,
        reader: &mut OutputReader,
    ) -> Result<(), LinkLost> {
        match event {
            LinkEvent::Line { number, bytes } => self.handle_line(number, &bytes, reader).await?,
            LinkEvent::Oversized { number, bytes } => {
                let words = format!("a line of {bytes} bytes was too long to be read");
                reader.transcript.note(words);
                self.skip_to(number);
                reader.offset = number;
            }
            LinkEvent::Log(text) => {
                tracing::debug!(agent = %self.agent, text, "log of an agent");
                append_log_tail(&mut reader.log, &text);
            }
            LinkEvent::Exited { .. } | LinkEvent::Lost => {}
        }
        if reader.transcript.is_full() || must_acknowledge(reader) {
            self.commit(reader, Vec::new()).await?;
        }
        Ok(())
    }

    async fn handle_line(
        self: &Arc<Self>,
        number: u64,
        bytes: &[u8],
        reader: &mut OutputReader,
    ) -> Result<(), LinkLost> {
        let heard = run_blocking_if_long(bytes.len(), || self.hear(bytes, number));
        reader.offset = number;
        let mut happenings = heard.events.into_iter();
        while let Some(happening) = happenings.next() {
            reader.is_partial = happenings.as_slice().iter().any(is_recorded);
            self.handle_agent_event(happening, reader).await?;
        }
        reader.is_partial = false;
        Ok(())
    }

    async fn handle_agent_event(
        self: &Arc<Self>,
        happening: AgentEvent,
        reader: &mut OutputReader,
    ) -> Result<(), LinkLost> {
        match happening {
            AgentEvent::Transcript(entry) => {
                reader.in_turn = true;
                reader.transcript.add(entry);
                crash::point("text_heard");
            }
            AgentEvent::Reported(report) => reader.transcript.report(report),
            AgentEvent::Ready(ready) => self.handle_ready(ready, reader).await?,
            AgentEvent::StartFailed { message } => {
                self.fatal.send_replace(Some(message));
            }
            AgentEvent::Asked(ask) => self.handle_permission_ask(*ask, reader).await?,
            AgentEvent::Withdrawn { request } => self.handle_withdrawal(request, reader).await?,
            AgentEvent::ClientRequested {
                request,
                line,
                client_request: want,
            } => self.handle_request((request, line), want, reader).await?,
            AgentEvent::TurnEnded { turn, end } => self.handle_turn_end(turn, end, reader).await?,
            AgentEvent::Noise(text) => {
                tracing::debug!(agent = %self.agent, text, "noise of an agent");
            }
        }
        Ok(())
    }

    async fn handle_ready(
        &self,
        ready: SessionReady,
        reader: &mut OutputReader,
    ) -> Result<(), LinkLost> {
        reader.in_turn = false;
        for warning in ready.warnings {
            reader.transcript.note(warning);
        }
        reader.transcript.report(AgentReport {
            mode: ready.mode,
            ..AgentReport::default()
        });
        let opened = RunEvent::Ready {
            session: ready.session,
            resumable: ready.resumable,
        };
        self.commit(reader, vec![opened]).await?;
        crash::point("session_recorded");
        self.ready.send_replace(true);
        Ok(())
    }

    async fn handle_turn_end(
        &self,
        turn: u32,
        end: TurnEnd,
        reader: &mut OutputReader,
    ) -> Result<(), LinkLost> {
        reader.in_turn = false;
        let ended = RunEvent::TurnEnded {
            entries: reader.transcript.take(),
            end: Box::new(TurnEnded {
                agent: self.agent.clone(),
                turn,
                reason: end.reason,
                message: end.message,
                usage: end.usage,
            }),
            left_open: end.left_open,
        };
        self.commit(reader, vec![ended]).await
    }

    async fn handle_withdrawal(
        &self,
        request: RequestId,
        reader: &mut OutputReader,
    ) -> Result<(), LinkLost> {
        let request = request.0;
        self.commit(reader, vec![RunEvent::RequestWithdrawn { request }])
            .await
    }

    /// Commits what was heard and then `more`, with how far that is.
    async fn commit(&self, reader: &mut OutputReader, more: Vec<RunEvent>) -> Result<(), LinkLost> {
        let mut inputs = self.take_settlements();
        inputs.extend(self.reported(&mut reader.transcript));
        let said = reader.transcript.take();
        let said = (!said.is_empty()).then_some(RunEvent::EntriesAdded(said));
        inputs.extend(said.into_iter().chain(more).map(|ran| self.input(ran)));
        let mark = self.snapshot_unless_partial(reader);
        if inputs.is_empty() && mark.is_none() {
            return Ok(());
        }
        let checkpoint = mark.as_ref().map(|mark| self.checkpoint(mark));
        if let Err(error) = self.service.record_output(inputs, checkpoint).await {
            tracing::warn!(agent = %self.agent, %error, "what an agent did was not recorded");
            return Err(LinkLost);
        }
        self.acknowledge(reader, mark);
        Ok(())
    }

    /// A line counts as heard once all of it is taken in.
    pub(super) fn snapshot_unless_partial(
        &self,
        reader: &OutputReader,
    ) -> Option<ConnectionSnapshot> {
        (!reader.is_partial).then(|| self.connection().snapshot())
    }

    pub(super) fn checkpoint(&self, mark: &ConnectionSnapshot) -> Checkpoint {
        Checkpoint {
            agent: self.agent.clone(),
            run: self.number,
            offset: mark.heard,
            state: mark.kept.clone(),
        }
    }

    /// Tells the runner what it need not keep any longer.
    pub(super) fn acknowledge(&self, reader: &mut OutputReader, mark: Option<ConnectionSnapshot>) {
        if let Some(mark) = mark {
            reader.committed = mark.heard;
            self.connection().link().committed(mark.heard, mark.open);
        }
    }

    pub(super) fn reported(&self, transcript: &mut TranscriptBuffer) -> Option<Input> {
        let report = transcript.take_report(&self.agent)?;
        Some(self.input(RunEvent::Reported(Box::new(report))))
    }

    pub(super) fn input(&self, ran: RunEvent) -> Input {
        Input::Managed(ManagedInput::RunReported(
            self.agent.clone(),
            self.number,
            ran,
        ))
    }
}

/// Whether something of a line has to be taken in.
fn is_recorded(happening: &AgentEvent) -> bool {
    !matches!(happening, AgentEvent::Noise(_))
}

/// Whether so much was heard without anything to commit that the runner should let go of it.
fn must_acknowledge(reader: &OutputReader) -> bool {
    reader.offset.saturating_sub(reader.committed) > RUNNER_BYTES_HELD as u64 / 2
}

/// What takes long to understand must not hold up whoever shares the thread.
fn run_blocking_if_long<T>(bytes: usize, understand: impl FnOnce() -> T) -> T {
    let shares = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if shares && bytes > AGENT_LINE_BYTES_SHORT {
        tokio::task::block_in_place(understand)
    } else {
        understand()
    }
}

enum ReaderWake {
    Came(Option<LinkEvent>),
    Due,
}

async fn wait_for_event(
    events: &mut mpsc::Receiver<LinkEvent>,
    transcript: &TranscriptBuffer,
) -> ReaderWake {
    let Some(due) = transcript.due() else {
        return ReaderWake::Came(events.recv().await);
    };
    tokio::select! {
        event = events.recv() => ReaderWake::Came(event),
        () = tokio::time::sleep_until(due) => ReaderWake::Due,
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

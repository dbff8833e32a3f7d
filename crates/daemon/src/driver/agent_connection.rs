//! The connection to an agent: its adapter, what is on the way to it, and what it waits for.
//!
//! Invariants: whoever orders or hears also writes, so that the order of what is decided is the order
//! in the pipe; what is said is kept until it is known to be written; a request is answered only by
//! the ask that was made for it.

use std::collections::HashMap;
use std::time::Duration;

use countersign_agents::adapter::{
    Adapter, AdapterOutput, AgentCommand, AgentEvent, AgentWrite, ClientRequest,
    ClientRequestError, ClientResponse, CommandError, PermissionAnswer, RequestId, RestoreError,
    WriteId, WriteKind,
};
use countersign_agents::protocols;
use countersign_agents::runner::{LinkSender, PendingWrite, WriteError};
use countersign_core::event::{AnswerDelivery, Protocol};
use countersign_core::{Approval, ApprovalId, Json, Seq};

use super::client_requests::OpenedRequest;
use super::connection_state::{ConnectionState, PerformedDuties, SentAnswer, WaitingRequest};

/// See the module.
pub(super) struct AgentConnection {
    adapter: Box<dyn Adapter>,
    link: LinkSender,
    open: HashMap<RequestId, OpenRequest>,
    unwritten: Vec<AgentWrite>,
    pub(super) performed: PerformedDuties,
    offset: u64,
}

/// A request that waits. An agent may use an id again, so only the ask that was made for this very
/// request may answer it.
pub(super) struct OpenRequest {
    /// The line it came with.
    pub(super) line: u64,
    /// The ask that was made for it, if it needs one.
    pub(super) ask: Option<ApprovalId>,
    /// What is to be done, unless it only waits for an answer.
    pub(super) want: Option<ClientRequest>,
    /// What was opened for it; an earlier host's is gone.
    pub(super) opened: Option<OpenedRequest>,
    /// Whether it is being done.
    pub(super) started: bool,
}

/// A wish that is to be done now.
pub(super) struct StartedRequest {
    pub(super) line: u64,
    pub(super) want: ClientRequest,
    pub(super) held: Option<OpenedRequest>,
}

/// Lines on their way.
pub(super) struct SentLines {
    pub(super) names: Vec<WriteId>,
    written: PendingWrite,
}

/// How far an agent was heard, and all that is needed to go on from there.
pub(super) struct ConnectionSnapshot {
    pub(super) heard: u64,
    pub(super) kept: Json,
    /// Lines up to there about which something may still be said.
    pub(super) open: Vec<u64>,
}

impl AgentConnection {
    /// Goes on with what was kept, or begins.
    pub(super) fn new(
        link: LinkSender,
        protocol: Protocol,
        kept: ConnectionState,
        heard: u64,
    ) -> Result<Self, RestoreError> {
        let adapter = protocols::restore_adapter(protocol, &kept.adapter)?;
        let open = kept.open.into_iter().map(|kept| {
            let open = OpenRequest {
                line: kept.line,
                ask: kept.ask,
                want: kept.want,
                opened: None,
                started: false,
            };
            (kept.request, open)
        });
        Ok(Self {
            adapter,
            link,
            open: open.collect(),
            unwritten: kept.unwritten,
            performed: kept.performed,
            offset: heard,
        })
    }

    /// How far it is now.
    pub(super) fn snapshot(&self) -> ConnectionSnapshot {
        let open = self.open.iter().map(|(request, open)| WaitingRequest {
            request: request.clone(),
            line: open.line,
            ask: open.ask.clone(),
            want: open.want.clone(),
        });
        let mut lines = self.adapter.open_requests();
        lines.extend(self.unwritten.iter().filter_map(line_answered));
        let kept = ConnectionState {
            adapter: self.adapter.state(),
            unwritten: self.unwritten.clone(),
            performed: self.performed.clone(),
            open: open.collect(),
        };
        ConnectionSnapshot {
            heard: self.offset,
            kept: Json::from_value(&kept).unwrap_or_default(),
            open: lines,
        }
    }

    /// What a line of the agent means. What has to be said at once is on its way; an answer to what the
    /// line replaces or takes back no longer is.
    pub(super) fn hear(&mut self, line: &[u8], number: u64) -> (AdapterOutput, Option<SentLines>) {
        let mut heard = self.adapter.handle_line(line, number);
        self.offset = number;
        for request in heard.events.iter().filter_map(replaced_request) {
            self.open.remove(request);
        }
        let sent = self.send(std::mem::take(&mut heard.writes));
        (heard, sent)
    }

    /// A line that cannot be read was heard all the same.
    pub(super) fn skip_to(&mut self, number: u64) {
        self.offset = number;
    }

    /// Carries out an order: its lines are on their way, in order, when this returns.
    pub(super) fn order(&mut self, order: AgentCommand) -> Result<Option<SentLines>, CommandError> {
        let lines = self.adapter.apply_command(order)?;
        Ok(self.send(lines))
    }

    fn send(&mut self, lines: Vec<AgentWrite>) -> Option<SentLines> {
        if lines.is_empty() {
            return None;
        }
        self.unwritten.extend(lines.iter().cloned());
        Some(self.write(lines))
    }

    fn write(&self, lines: Vec<AgentWrite>) -> SentLines {
        SentLines {
            names: lines.iter().map(|line| line.id.clone()).collect(),
            written: self.link.write(lines),
        }
    }

    /// Says again what an earlier host may not have got through.
    pub(super) fn resend_unwritten(&self) -> Option<SentLines> {
        (!self.unwritten.is_empty()).then(|| self.write(self.unwritten.clone()))
    }

    /// Says one line again, if it may not be written yet.
    pub(super) fn resend_line(&self, name: &WriteId) -> Option<SentLines> {
        let line = self.unwritten.iter().find(|line| line.id == *name)?;
        Some(self.write(vec![line.clone()]))
    }

    /// These are in the pipe, or never will be.
    pub(super) fn confirm(&mut self, names: &[WriteId]) {
        self.unwritten.retain(|line| !names.contains(&line.id));
    }

    /// Keeps a request until it is known what comes of it.
    pub(super) fn add_request(&mut self, request: RequestId, open: OpenRequest) {
        self.open.insert(request, open);
    }

    /// How many wishes wait for somebody's word.
    pub(super) fn count_asked_requests(&self) -> usize {
        let asked = |open: &&OpenRequest| open.want.is_some() && open.ask.is_some();
        self.open.values().filter(asked).count()
    }

    /// Begins a wish, if it is the one that this ask is about and nobody has begun it.
    pub(super) fn start_request(
        &mut self,
        request: &RequestId,
        ask: &ApprovalId,
    ) -> Option<StartedRequest> {
        let open = self.open.get_mut(request)?;
        if open.ask.as_ref() != Some(ask) || open.started {
            return None;
        }
        let want = open.want.clone()?;
        open.started = true;
        Some(StartedRequest {
            line: open.line,
            want,
            held: open.opened.take(),
        })
    }

    /// Answers a wish, if it is still the one of that line.
    pub(super) fn serve(
        &mut self,
        (request, line): (RequestId, u64),
        served: Result<ClientResponse, ClientRequestError>,
        for_answer: Option<Seq>,
    ) -> Result<Option<SentLines>, CommandError> {
        if self.open.get(&request).is_none_or(|open| open.line != line) {
            return Err(CommandError::NotWaiting);
        }
        self.open.remove(&request);
        let sent = self.order(AgentCommand::Serve { request, served })?;
        if let Some(opened) = for_answer {
            self.record_sent_answer(opened, line);
        }
        Ok(sent)
    }

    /// Answers an ask for permission, if the request is the one that this ask is about.
    pub(super) fn answer(
        &mut self,
        approval: &Approval,
        answer: PermissionAnswer,
    ) -> Result<Option<SentLines>, CommandError> {
        let request = RequestId(approval.ask.request.clone().unwrap_or_default());
        let open = self.open.get(&request);
        let open = open.filter(|open| open.ask.as_ref() == Some(&approval.ask.id));
        let line = open.ok_or(CommandError::NotWaiting)?.line;
        self.open.remove(&request);
        let sent = self.order(AgentCommand::Answer { request, answer })?;
        self.record_sent_answer(approval.opened, line);
        Ok(sent)
    }

    fn record_sent_answer(&mut self, opened: Seq, line: u64) {
        let name = WriteId::Line(line);
        let said = self.unwritten.iter().find(|line| line.id == name);
        let kind = said.map(|line| line.kind).unwrap_or_default();
        self.performed
            .answers
            .insert(opened, SentAnswer { line, kind });
    }

    /// Denies or cancels a request for which nothing could be asked.
    pub(super) fn refuse(
        &mut self,
        request: &RequestId,
        ask: &ApprovalId,
        answer: PermissionAnswer,
    ) -> Option<SentLines> {
        let open = self.open.get(request);
        open.filter(|open| open.ask.as_ref() == Some(ask))?;
        self.open.remove(request);
        let request = request.clone();
        // It may have been withdrawn meanwhile.
        self.order(AgentCommand::Answer { request, answer })
            .ok()
            .flatten()
    }

    /// Wishes that wait and were not begun.
    pub(super) fn unstarted_requests(&self) -> Vec<(RequestId, u64)> {
        let waiting = self
            .open
            .iter()
            .filter(|(_, open)| open.want.is_some() && open.ask.is_some() && !open.started);
        waiting.map(|(id, open)| (id.clone(), open.line)).collect()
    }

    /// Everything that waits, for one who goes on.
    pub(super) fn waiting_requests(&self) -> Vec<WaitingRequest> {
        let kept = self.open.iter().map(|(request, open)| WaitingRequest {
            request: request.clone(),
            line: open.line,
            ask: open.ask.clone(),
            want: open.want.clone(),
        });
        kept.collect()
    }

    pub(super) fn link(&self) -> &LinkSender {
        &self.link
    }

    /// Ends the agent.
    pub(super) fn stop(&self, grace: Duration) {
        self.link.stop(grace);
    }
}

impl SentLines {
    /// What became of the lines: all that is known is settled with it. Nothing is known yet if the
    /// link was lost.
    pub(super) async fn outcome(
        self,
        expected: Option<(WriteId, WriteKind)>,
    ) -> Result<WriteOutcome, LinkLost> {
        let delivery = match self.written.await {
            Ok(receipts) => {
                let other = expected.is_some_and(|(name, kind)| {
                    let told = receipts.iter().find(|receipt| receipt.id == name);
                    told.is_some_and(|told| told.kind != kind)
                });
                // What was told instead was told before, and it was not this.
                if other {
                    AnswerDelivery::Withdrawn
                } else {
                    AnswerDelivery::Delivered
                }
            }
            // Some of it may be there.
            Err(WriteError::Gone) => AnswerDelivery::Unknown,
            Err(WriteError::Full) => AnswerDelivery::Withdrawn,
            Err(WriteError::Lost) => return Err(LinkLost),
        };
        Ok(WriteOutcome {
            names: self.names,
            delivery,
        })
    }
}

/// What became of lines.
pub(super) struct WriteOutcome {
    pub(super) names: Vec<WriteId>,
    pub(super) delivery: AnswerDelivery,
}

/// The link is gone, or nothing can be committed: whoever comes next goes on from the last checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkLost;

/// Lines about which one who goes on from what was kept may say something.
pub(super) fn open_request_lines(protocol: Protocol, kept: &ConnectionState) -> Vec<u64> {
    let adapter = protocols::restore_adapter(protocol, &kept.adapter).ok();
    let mut lines = adapter
        .map(|adapter| adapter.open_requests())
        .unwrap_or_default();
    lines.extend(kept.unwritten.iter().filter_map(line_answered));
    lines
}

/// The line that something is said about.
fn line_answered(line: &AgentWrite) -> Option<u64> {
    match line.id {
        WriteId::Line(number) => Some(number),
        WriteId::Own(..) => None,
    }
}

/// The request that something makes anew or takes back: what was asked for it before is over.
fn replaced_request(happening: &AgentEvent) -> Option<&RequestId> {
    match happening {
        AgentEvent::Asked(ask) => Some(&ask.request),
        AgentEvent::ClientRequested { request, .. } | AgentEvent::Withdrawn { request } => {
            Some(request)
        }
        _ => None,
    }
}

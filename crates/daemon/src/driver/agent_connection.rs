//! The connection to an agent: its adapter, what is on the way to it, and what it waits for.
//!
//! Invariants: commands and lines are handled and written under one lock, so that the order of what is
//! decided is the order in the pipe; what is sent is remembered until it is known to be written; a
//! request is answered only by the ask that was made for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_agents::adapter::{
    Adapter, AdapterOutput, AgentCommand, AgentEvent, AgentWrite, ClientRequest,
    ClientRequestError, ClientResponse, CommandError, PermissionAnswer, RequestId, WriteId,
    WriteKind,
};
use countersign_agents::protocols;
use countersign_agents::runner::{PendingWrite, RunnerLink, WriteError, WriteReceipt};
use countersign_core::event::Protocol;
use countersign_core::{Approval, ApprovalId, Json, Seq};

use tokio_util::task::TaskTracker;

use super::client_requests::OpenedRequest;
use super::connection_state::{ConnectionState, PerformedDuties, SentAnswer, WaitingRequest};

/// See the module.
pub(super) struct AgentConnection {
    adapter: Box<dyn Adapter>,
    link: Arc<dyn RunnerLink>,
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

/// Which request of the agent: an id may be used again, and the line tells the uses apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestKey {
    pub(super) id: RequestId,
    /// The line it came with.
    pub(super) line: u64,
}

/// A request that is to be served now.
pub(super) struct StartedRequest {
    pub(super) line: u64,
    pub(super) want: ClientRequest,
    pub(super) opened: Option<OpenedRequest>,
}

/// Lines that were sent to the runner and may not be in the pipe yet.
pub(super) struct SentLines {
    ids: Vec<WriteId>,
    written: PendingWrite,
}

/// How far an agent's output was read, and all that is needed to continue from there.
pub(super) struct ConnectionSnapshot {
    pub(super) offset: u64,
    pub(super) state: Json,
    /// Lines up to there that may still be answered.
    pub(super) open_lines: Vec<u64>,
}

impl AgentConnection {
    /// Continues from what an earlier host left, or begins.
    pub(super) fn new(
        link: Arc<dyn RunnerLink>,
        adapter: Box<dyn Adapter>,
        state: ConnectionState,
        offset: u64,
    ) -> Self {
        let open = state.open.into_iter().map(|kept| {
            let open = OpenRequest {
                line: kept.line,
                ask: kept.ask,
                want: kept.want,
                opened: None,
                started: false,
            };
            (kept.request, open)
        });
        Self {
            adapter,
            link,
            open: open.collect(),
            unwritten: state.unwritten,
            performed: state.performed,
            offset,
        }
    }

    /// How far it is now.
    pub(super) fn snapshot(&self) -> ConnectionSnapshot {
        let mut lines = self.adapter.open_requests();
        // To the adapter these are answered, but the runner must not forget their ids yet: the next
        // host may send the answers again.
        lines.extend(self.unwritten.iter().filter_map(line_answered));
        lines.extend(self.performed.serving.values());
        let kept = ConnectionState {
            adapter: self.adapter.state(),
            unwritten: self.unwritten.clone(),
            performed: self.performed.clone(),
            open: self.waiting_requests(),
        };
        ConnectionSnapshot {
            offset: self.offset,
            state: Json::from_value(&kept).unwrap_or_default(),
            open_lines: lines,
        }
    }

    /// Handles a line of the agent. What the adapter has to write at once is sent when this returns. A
    /// request that the line replaces or withdraws is forgotten, so that no answer to it is sent.
    pub(super) fn handle_line(
        &mut self,
        line: &[u8],
        number: u64,
    ) -> (AdapterOutput, Option<SentLines>) {
        let mut heard = self.adapter.handle_line(line, number);
        // With the adapter's state, under one lock: a snapshot with one and not the other would
        // have the next host read the line twice, or never.
        self.offset = number;
        for request in heard.events.iter().filter_map(replaced_request) {
            self.open.remove(request);
        }
        let sent = self.send(std::mem::take(&mut heard.writes));
        (heard, sent)
    }

    /// Passes over a line that cannot be read.
    pub(super) fn skip_to(&mut self, number: u64) {
        self.offset = number;
    }

    /// Carries out a command. Its lines are sent, in order, when this returns.
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
            ids: lines.iter().map(|line| line.id.clone()).collect(),
            written: self.link.write(lines),
        }
    }

    /// Sends one line again, if it is not known to be written.
    pub(super) fn resend_line(&self, id: &WriteId) -> Option<SentLines> {
        let line = self.unwritten.iter().find(|line| line.id == *id)?;
        Some(self.write(vec![line.clone()]))
    }

    /// Forgets lines that are in the pipe, or never will be.
    pub(super) fn confirm(&mut self, outcome: &WriteOutcome) {
        // Under the lock under which the lines are forgotten: a checkpoint taken in between would
        // leave the next host with an answer that it can no longer ask the runner about.
        for answer in self.performed.answers.values_mut() {
            if outcome.ids.contains(&WriteId::Line(answer.line)) {
                answer.note_write(&outcome.written);
            }
        }
        self.unwritten
            .retain(|line| !outcome.ids.contains(&line.id));
    }

    /// Remembers a request until it is answered.
    pub(super) fn add_request(&mut self, request: RequestId, open: OpenRequest) {
        self.open.insert(request, open);
    }

    /// How many requests wait for a decision.
    pub(super) fn count_asked_requests(&self) -> usize {
        self.open
            .values()
            .filter(|open| open.want.is_some() && open.ask.is_some())
            .count()
    }

    pub(super) fn has_request(&self, request: &RequestId) -> bool {
        self.open.contains_key(request)
    }

    /// What was decided about connections was carried out.
    pub(super) fn finish_hold(&mut self, request: &RequestId, opened: Seq, answer: SentAnswer) {
        self.open.remove(request);
        self.performed.answers.insert(opened, answer);
    }

    /// Forgets connections that wait, if the request is about some.
    pub(super) fn take_hold(&mut self, request: &RequestId) -> Option<u64> {
        let hold = hold_of(self.open.get(request)?)?;
        self.open.remove(request);
        Some(hold)
    }

    /// Forgets all connections that wait and were not decided about.
    pub(super) fn take_holds(&mut self) -> Vec<u64> {
        let mut holds = Vec::new();
        self.open.retain(|_, open| match hold_of(open) {
            Some(hold) if !open.started => {
                holds.push(hold);
                false
            }
            _ => true,
        });
        holds
    }

    /// Begins to serve a request, if it is the one that this ask is about and nobody has begun.
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
        // The request stays open while it is served, so that a host which is killed meanwhile
        // leaves it to the next one.
        open.started = true;
        Some(StartedRequest {
            line: open.line,
            want,
            opened: open.opened.take(),
        })
    }

    /// Answers a request, if it is still the one of that line.
    pub(super) fn serve(
        &mut self,
        request: RequestKey,
        served: Result<ClientResponse, ClientRequestError>,
    ) -> Result<Option<SentLines>, CommandError> {
        let RequestKey { id: request, line } = request;
        // The agent may have withdrawn the request and used its id for another one.
        if self.open.get(&request).is_none_or(|open| open.line != line) {
            return Err(CommandError::NotWaiting);
        }
        self.open.remove(&request);
        self.order(AgentCommand::Serve { request, served })
    }

    /// Finds out what became of the answer to a request that ended while it was served. An earlier host
    /// may have sent that answer, and the agent may have gone on with it. So nothing is written, under
    /// the id of the answer: the runner's receipt says what was written under it first.
    pub(super) fn probe_answer(&mut self, opened: Seq, answer: SentAnswer) -> SentLines {
        let probe = AgentWrite::reply_to(answer.line, WriteKind::Cancelled, Vec::new());
        self.performed.answers.insert(opened, answer);
        self.unwritten.push(probe.clone());
        self.write(vec![probe])
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
        if sent.is_some() {
            self.add_sent_answer(approval.opened, line);
        }
        Ok(sent)
    }

    /// Remembers an answer that was just sent, until its settlement is committed.
    fn add_sent_answer(&mut self, opened: Seq, line: u64) {
        let id = WriteId::Line(line);
        let sent = self.unwritten.iter().find(|sent| sent.id == id);
        let answer = SentAnswer {
            line,
            kind: sent.map(|sent| sent.kind).unwrap_or_default(),
            is_uncertain: false,
            delivery: None,
        };
        self.performed.answers.insert(opened, answer);
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
        // An error says that it was withdrawn meanwhile.
        self.order(AgentCommand::Answer { request, answer })
            .ok()
            .flatten()
    }

    /// Requests that wait for a decision and were not begun.
    pub(super) fn unstarted_requests(&self) -> Vec<RequestKey> {
        let waiting = self
            .open
            .iter()
            .filter(|(_, open)| open.want.is_some() && open.ask.is_some() && !open.started);
        waiting
            .map(|(id, open)| RequestKey {
                id: id.clone(),
                line: open.line,
            })
            .collect()
    }

    /// Everything that waits, for a host that continues.
    pub(super) fn waiting_requests(&self) -> Vec<WaitingRequest> {
        let kept = self.open.iter().map(|(request, open)| WaitingRequest {
            request: request.clone(),
            line: open.line,
            ask: open.ask.clone(),
            want: open.want.clone(),
        });
        kept.collect()
    }

    pub(super) fn link(&self) -> &dyn RunnerLink {
        &*self.link
    }

    /// Ends the agent.
    pub(super) fn stop(&self, grace: Duration) {
        self.link.stop(grace);
    }
}

/// The connection as the parts of a run share it.
#[derive(Clone)]
pub(super) struct SharedConnection {
    connection: Arc<Mutex<AgentConnection>>,
    tasks: TaskTracker,
}

impl SharedConnection {
    pub(super) fn new(connection: AgentConnection, tasks: TaskTracker) -> Self {
        Self {
            connection: Arc::new(Mutex::new(connection)),
            tasks,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, AgentConnection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends again what an earlier host may not have got through. The runner writes nothing twice.
    pub(super) fn resend_unwritten(&self) {
        let connection = self.lock();
        for line in &connection.unwritten {
            // Each by itself: a write has one outcome, and a line that was never written must not
            // make unknown what became of an answer that was.
            self.confirm_when_written(Some(connection.write(vec![line.clone()])));
        }
    }

    /// Forgets lines once they are known to be in the pipe.
    pub(super) fn confirm_when_written(&self, sent: Option<SentLines>) {
        let Some(sent) = sent else { return };
        let shared = self.clone();
        self.tasks.spawn(async move {
            if let Ok(outcome) = sent.outcome().await {
                shared.lock().confirm(&outcome);
            }
        });
    }
}

impl SentLines {
    /// Waits until it is known what became of the lines. If the link was lost, that is not known yet.
    pub(super) async fn outcome(self) -> Result<WriteOutcome, LinkLost> {
        match self.written.await {
            Err(WriteError::Lost) => Err(LinkLost),
            written => Ok(WriteOutcome {
                ids: self.ids,
                written,
            }),
        }
    }
}

/// What became of lines that were sent.
pub(super) struct WriteOutcome {
    ids: Vec<WriteId>,
    written: Result<Vec<WriteReceipt>, WriteError>,
}

fn hold_of(open: &OpenRequest) -> Option<u64> {
    match open.want {
        Some(ClientRequest::ReleaseHold { hold, .. }) => Some(hold),
        _ => None,
    }
}

/// The link is gone, or nothing can be committed: whoever comes next continues from the last checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkLost;

/// Lines that a host which continues from this state may still answer.
pub(super) fn open_request_lines(protocol: Protocol, kept: &ConnectionState) -> Vec<u64> {
    let adapter = protocols::restore_adapter(protocol, &kept.adapter).ok();
    let mut lines = adapter
        .map(|adapter| adapter.open_requests())
        .unwrap_or_default();
    lines.extend(kept.unwritten.iter().filter_map(line_answered));
    lines.extend(kept.performed.serving.values());
    lines
}

/// The line that a write answers.
fn line_answered(line: &AgentWrite) -> Option<u64> {
    match line.id {
        WriteId::Line(number) => Some(number),
        WriteId::Own(..) => None,
    }
}

/// The request that an event makes anew or withdraws: what was asked for it before is over.
fn replaced_request(happening: &AgentEvent) -> Option<&RequestId> {
    match happening {
        AgentEvent::Asked(ask) => Some(&ask.request),
        AgentEvent::ClientRequested { request, .. } | AgentEvent::Withdrawn { request } => {
            Some(request)
        }
        _ => None,
    }
}

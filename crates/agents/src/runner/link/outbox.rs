//! What is said to the runner, and who waits for what it answers.
//!
//! Invariants: frames go out whole and in the order of the calls; a frame is written by its caller if
//! the socket takes it and by [`LinkOutbox::flush_when_writable`] otherwise; everybody who waits is told, at the
//! latest when the link ends; how much waits is bounded.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use countersign_core::event::ProcessKey;
use countersign_core::limits;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::{Notify, oneshot};

use super::{LaunchRefused, WriteError, WriteReceipt};
use crate::adapter::{AgentWrite, WriteId, WriteKind};
use crate::runner::frame::encode;
use crate::runner::wire::{
    ShellCall, ShellFailure, ShellReply, ToHost, ToRunner, WriteHeader, WriteStatus,
};

pub(super) type WriteWaiter = oneshot::Sender<Result<Vec<WriteReceipt>, WriteError>>;
pub(super) type ReplyWaiter = oneshot::Sender<(ToHost, Vec<u8>)>;
pub(super) type LaunchWaiter = oneshot::Sender<Result<ProcessKey, LaunchRefused>>;

#[derive(Debug)]
pub(in crate::runner) struct LinkOutbox {
    socket: OwnedWriteHalf,
    state: Mutex<OutboxState>,
    /// Something is left for [`LinkOutbox::flush_when_writable`].
    left: Notify,
}

#[derive(Debug, Default)]
struct OutboxState {
    queue: VecDeque<OutgoingFrame>,
    queued_bytes: usize,
    committed: Option<ToRunner>,
    writes: VecDeque<UnconfirmedWrite>,
    unconfirmed_bytes: usize,
    replies: HashMap<u64, ReplyWaiter>,
    /// How many replies were ever asked for.
    asked: u64,
    launch: Option<LaunchWaiter>,
    /// The runner takes no more. What it said before is still read.
    closed: bool,
    exited: bool,
    ended: bool,
}

#[derive(Debug)]
struct OutgoingFrame {
    frame: Vec<u8>,
    sent: usize,
    /// Dropped when all of it was sent, or never will be.
    _sent: Option<oneshot::Sender<()>>,
}

/// One call of `write` that is not confirmed.
#[derive(Debug)]
struct UnconfirmedWrite {
    names: VecDeque<WriteId>,
    bytes: usize,
    receipts: Vec<WriteReceipt>,
    gone: bool,
    told: WriteWaiter,
}

impl LinkOutbox {
    pub(super) fn new(socket: OwnedWriteHalf) -> Self {
        Self {
            socket,
            state: Mutex::default(),
            left: Notify::new(),
        }
    }

    pub(super) fn queue_write(&self, lines: Vec<AgentWrite>, told: WriteWaiter) {
        let (head, body, names) = to_write(lines);
        let Ok(frame) = encode(&head, &body) else {
            drop(told.send(Err(WriteError::Full)));
            return;
        };
        let mut state = self.state();
        if let Err(error) = state.admit(body.len()) {
            drop(told.send(Err(error)));
            return;
        }
        state.unconfirmed_bytes += body.len();
        state.writes.push_back(UnconfirmedWrite {
            bytes: body.len(),
            receipts: Vec::with_capacity(names.len()),
            names,
            gone: false,
            told,
        });
        self.send(&mut state, frame, None);
    }

    /// Asks for a reply with the number that `head` is given. Refused if too much waits already.
    pub(super) fn ask(
        &self,
        told: ReplyWaiter,
        head: impl FnOnce(u64) -> ToRunner,
    ) -> Result<(), WriteError> {
        let mut state = self.state();
        state.admit_reply()?;
        state.asked += 1;
        let id = state.asked;
        let frame = encode(&head(id), &[]).map_err(|_| WriteError::Full)?;
        if state.queued_bytes + frame.len() > limits::LINK_FRAME_BYTES_MAX {
            return Err(WriteError::Full);
        }
        state.replies.insert(id, told);
        self.send(&mut state, frame, None);
        Ok(())
    }

    pub(super) fn queue_launch(
        &self,
        head: &ToRunner,
        told: LaunchWaiter,
    ) -> Result<(), LaunchRefused> {
        let frame = encode(head, &[]).map_err(|error| LaunchRefused(error.to_string()))?;
        let mut state = self.state();
        if state.ended {
            return Err(LaunchRefused::lost());
        }
        if state.launch.is_some() {
            return Err(LaunchRefused("it is being started already".to_owned()));
        }
        state.launch = Some(told);
        self.send(&mut state, frame, None);
        Ok(())
    }

    /// Says something that has no reply and is never refused. What is given back ends when it was
    /// said, or when nothing can be said any more.
    pub(super) fn send_message(&self, head: &ToRunner) -> oneshot::Receiver<()> {
        let (sent, done) = oneshot::channel();
        if let Ok(frame) = encode(head, &[]) {
            self.send(&mut self.state(), frame, Some(sent));
        }
        done
    }

    /// Goes out after what was written before, and only the newest does.
    pub(super) fn commit(&self, through: u64, open: Vec<u64>) {
        // Not sent here: of many commits only the newest counts, so that they cost one frame.
        self.state().committed = Some(ToRunner::Committed { through, open });
        self.left.notify_one();
    }

    /// Sends what the callers could not, for ever.
    pub(super) async fn flush_when_writable(&self) {
        loop {
            self.left.notified().await;
            if self.socket.writable().await.is_err() {
                return;
            }
            self.flush(&mut self.state());
        }
    }

    fn send(&self, state: &mut OutboxState, frame: Vec<u8>, sent: Option<oneshot::Sender<()>>) {
        // Nobody is told here: the socket may still hold confirmations, and `end` tells those who
        // wait for the rest.
        if state.closed || state.ended {
            return;
        }
        let first = state.queue.is_empty();
        state.queued_bytes += frame.len();
        state.queue.push_back(OutgoingFrame {
            frame,
            sent: 0,
            _sent: sent,
        });
        // Otherwise the socket is known to take nothing now.
        if first {
            self.flush(state);
        }
    }

    fn flush(&self, state: &mut OutboxState) {
        while let Some(outgoing) = state.find_next() {
            match self.socket.try_write(&outgoing.frame[outgoing.sent..]) {
                Ok(written) => state.count_sent(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.left.notify_one();
                    return;
                }
                Err(_) => state.close(),
            }
        }
    }

    /// An error if it answers nothing that was said.
    pub(super) fn confirm(
        &self,
        name: &WriteId,
        kind: WriteKind,
        outcome: WriteStatus,
    ) -> io::Result<()> {
        self.state().confirm(name, kind, outcome)
    }

    /// Whoever asked may be gone.
    pub(super) fn reply(&self, id: u64, reply: ToHost, body: Vec<u8>) {
        if let Some(told) = self.state().replies.remove(&id) {
            drop(told.send((reply, body)));
        }
    }

    pub(super) fn launched(&self, launched: Result<ProcessKey, LaunchRefused>) {
        if let Some(told) = self.state().launch.take() {
            drop(told.send(launched));
        }
    }

    pub(super) fn note_exit(&self) {
        self.state().exited = true;
    }

    /// Tells everybody who waits that nothing comes any more, and closes the connection.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        state.close();
        // Dropping a waiter is how it learns that no reply comes.
        state.replies.clear();
        let error = state.why_ended();
        for write in state.writes.drain(..) {
            drop(write.told.send(Err(error)));
        }
        if let Some(told) = state.launch.take() {
            drop(told.send(Err(LaunchRefused::lost())));
        }
        // The other half may be closed already.
        let _ = rustix::net::shutdown(self.socket.as_ref(), rustix::net::Shutdown::Both);
    }

    /// Whether the connection ended before the agent did.
    pub(super) fn ended_early(&self) -> bool {
        let state = self.state();
        state.ended && !state.exited
    }

    /// What to say of something that was not confirmed when the link ended.
    pub(super) fn why_ended(&self) -> WriteError {
        self.state().why_ended()
    }

    /// Calls the shell backend of the runner.
    pub(in crate::runner) async fn call(
        &self,
        call: ShellCall,
    ) -> Result<(ShellReply, Vec<u8>), ShellFailure> {
        let (waiter, replied) = oneshot::channel();
        self.ask(waiter, |id| ToRunner::Shell { id, call })
            .map_err(|error| ShellFailure::Failed(error.to_string()))?;
        match replied.await {
            Ok((ToHost::Shell { result, .. }, body)) => result.map(|done| (done, body)),
            Ok(_) | Err(_) => Err(ShellFailure::Failed(self.why_ended().to_string())),
        }
    }

    fn state(&self) -> MutexGuard<'_, OutboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutboxState {
    fn admit(&self, bytes: usize) -> Result<(), WriteError> {
        if self.ended {
            return Err(self.why_ended());
        }
        let room = self.writes.len() < limits::AGENT_WRITES_QUEUED
            && self.unconfirmed_bytes + bytes <= limits::AGENT_WRITE_BYTES_QUEUED;
        room.then_some(()).ok_or(WriteError::Full)
    }

    fn admit_reply(&mut self) -> Result<(), WriteError> {
        if self.ended {
            return Err(self.why_ended());
        }
        if self.replies.len() >= limits::AGENT_WRITES_QUEUED {
            // Callers that gave up leave their entry behind until there is no more room.
            self.replies.retain(|_, told| !told.is_closed());
        }
        let room = self.replies.len() < limits::AGENT_WRITES_QUEUED;
        room.then_some(()).ok_or(WriteError::Full)
    }

    /// What was committed follows when everything before it is out.
    fn find_next(&mut self) -> Option<&OutgoingFrame> {
        if self.queue.is_empty()
            && !self.closed
            && let Some(committed) = self.committed.take()
            && let Ok(frame) = encode(&committed, &[])
        {
            self.queued_bytes += frame.len();
            self.queue.push_back(OutgoingFrame {
                frame,
                sent: 0,
                _sent: None,
            });
        }
        self.queue.front()
    }

    fn count_sent(&mut self, bytes: usize) {
        let Some(first) = self.queue.front_mut() else {
            return;
        };
        first.sent += bytes;
        if first.sent == first.frame.len() {
            self.queued_bytes -= first.frame.len();
            self.queue.pop_front();
        }
    }

    fn close(&mut self) {
        self.closed = true;
        self.queue.clear();
        self.queued_bytes = 0;
    }

    fn confirm(&mut self, name: &WriteId, kind: WriteKind, outcome: WriteStatus) -> io::Result<()> {
        let first = self.writes.front_mut();
        let Some(write) = first.filter(|write| write.names.front() == Some(name)) else {
            let reason = format!("the runner confirms {name:?}, which is not its turn");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        };
        write.gone |= outcome == WriteStatus::Gone;
        write.receipts.extend(
            write
                .names
                .pop_front()
                .map(|name| WriteReceipt { id: name, kind }),
        );
        if write.names.is_empty()
            && let Some(write) = self.writes.pop_front()
        {
            self.unconfirmed_bytes -= write.bytes;
            write.notify();
        }
        Ok(())
    }

    fn why_ended(&self) -> WriteError {
        if self.exited {
            WriteError::Gone
        } else {
            WriteError::Lost
        }
    }
}

impl UnconfirmedWrite {
    fn notify(self) {
        let told = if self.gone {
            Err(WriteError::Gone)
        } else {
            Ok(self.receipts)
        };
        // Nobody may be waiting for it, which is their choice.
        drop(self.told.send(told));
    }
}

fn to_write(lines: Vec<AgentWrite>) -> (ToRunner, Vec<u8>, VecDeque<WriteId>) {
    let names = lines.iter().map(|line| line.id.clone()).collect();
    let mut body = Vec::with_capacity(lines.iter().map(|line| line.bytes.len()).sum());
    let items = lines.into_iter().map(|line| {
        body.extend_from_slice(&line.bytes);
        WriteHeader {
            id: line.id,
            kind: line.kind,
            bytes: line.bytes.len(),
        }
    });
    let items = items.collect();
    (ToRunner::Write { items }, body, names)
}

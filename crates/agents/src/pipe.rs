//! The pipe to an agent: lines out of it, lines into it, and its end.
//!
//! Nothing here or above knows what is at the other end; a child today.
//!
//! Invariants: reading never waits for writing; a line is written whole or its writer is told that it
//! never will be; [`PipeEvent::Exited`] is the last event. A reader that does not take events makes
//! the agent wait.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use countersign_core::limits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::adapter::ProcessExit;
use crate::child::ChildHandle;
use crate::lines::{LineSplitter, LogSplitter};
use crate::stream::{FdReader, FdWriter};

const STDOUT_CHUNK: usize = 64 * 1024;
const STDERR_CHUNK: usize = 4 * 1024;

/// Both directions of a connection to an agent.
#[derive(Debug)]
pub struct AgentPipe {
    /// What comes from the agent, in order.
    pub events: mpsc::Receiver<PipeEvent>,
    /// The way to it.
    pub writer: PipeWriter,
}

/// What comes through a pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PipeEvent {
    /// One line, without its newline. The last one may have had none.
    Line(Vec<u8>),
    /// A line that was longer than [`limits::AGENT_LINE_BYTES_MAX`] and was dropped.
    Oversized { bytes: u64 },
    /// What the agent wrote for its log: a line, or a part of a long one.
    Stderr(String),
    /// The process ended, and everything it wrote came before this.
    Exited(ProcessExit),
}

/// Writes to an agent. Clones write to the same one.
#[derive(Clone, Debug)]
pub struct PipeWriter {
    queue: mpsc::Sender<QueuedBytes>,
    room: Arc<Semaphore>,
    closing: CancellationToken,
}

#[derive(Debug)]
struct QueuedBytes {
    bytes: Vec<u8>,
    told: oneshot::Sender<Result<(), PipeWriteError>>,
    _room: OwnedSemaphorePermit,
}

/// Why bytes never were in the pipe as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PipeWriteError {
    /// The agent does not read, and too much waits for it already.
    #[error("the agent does not read what it is sent")]
    Full,
    /// The pipe was closed from our side.
    #[error("the pipe to the agent is closed")]
    Closed,
    /// The agent went away, or closed its end.
    #[error("the agent has gone")]
    Gone,
}

/// Resolves when the bytes are in the pipe, or when they never can be. Dropping it does not take
/// them back.
#[derive(Debug)]
pub struct PipeWrite(oneshot::Receiver<Result<(), PipeWriteError>>);

impl Future for PipeWrite {
    type Output = Result<(), PipeWriteError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|told| told.unwrap_or(Err(PipeWriteError::Gone)))
    }
}

impl PipeWriter {
    /// Queues the bytes at once, so that the order of calls is the order in the pipe.
    pub fn write(&self, bytes: Vec<u8>) -> PipeWrite {
        let (told, written) = oneshot::channel();
        if let Err((told, error)) = self.queue(bytes, told) {
            // Nobody may be waiting for it, which is their choice.
            let _ = told.send(Err(error));
        }
        PipeWrite(written)
    }

    /// Closes the agent's standard input, after what was written before.
    pub fn close(&self) {
        self.closing.cancel();
    }

    fn queue(
        &self,
        bytes: Vec<u8>,
        told: PipeWriteWaiter,
    ) -> Result<(), (PipeWriteWaiter, PipeWriteError)> {
        if self.closing.is_cancelled() {
            return Err((told, PipeWriteError::Closed));
        }
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let Ok(room) = self.room.clone().try_acquire_many_owned(size) else {
            return Err((told, PipeWriteError::Full));
        };
        let outgoing = QueuedBytes {
            bytes,
            told,
            _room: room,
        };
        self.queue.try_send(outgoing).map_err(|error| match error {
            mpsc::error::TrySendError::Full(back) => (back.told, PipeWriteError::Full),
            mpsc::error::TrySendError::Closed(back) => (back.told, PipeWriteError::Gone),
        })
    }
}

type PipeWriteWaiter = oneshot::Sender<Result<(), PipeWriteError>>;

/// The ends of a child's pipes that are ours.
#[derive(Debug)]
pub(crate) struct ChildPipes {
    pub(crate) stdin: FdWriter,
    pub(crate) stdout: FdReader,
    pub(crate) stderr: FdReader,
}

impl AgentPipe {
    pub(crate) fn open(ends: ChildPipes, child: Arc<ChildHandle>, tasks: &TaskTracker) -> Self {
        let (tell, events) = mpsc::channel(limits::AGENT_LINES_QUEUED);
        let (queue, queued) = mpsc::channel(limits::AGENT_WRITES_QUEUED);
        let writer = PipeWriter {
            queue,
            room: Arc::new(Semaphore::new(limits::AGENT_WRITE_BYTES_QUEUED)),
            closing: CancellationToken::new(),
        };
        let exited = CancellationToken::new();
        let writing = write_all(ends.stdin, queued, writer.closing.clone(), exited.clone());
        tasks.spawn(writing);
        let lines = tasks.spawn(read_lines(ends.stdout, tell.clone(), exited.clone()));
        let log = tasks.spawn(read_log(ends.stderr, tell.clone(), exited.clone()));
        tasks.spawn(async move {
            let exit = child.wait().await;
            exited.cancel();
            // A reader that failed has nothing more to give.
            drop(lines.await);
            drop(log.await);
            drop(tell.send(PipeEvent::Exited(exit)).await);
        });
        Self { events, writer }
    }
}

async fn write_all(
    stdin: FdWriter,
    mut queued: mpsc::Receiver<QueuedBytes>,
    closing: CancellationToken,
    exited: CancellationToken,
) {
    loop {
        let outgoing = tokio::select! {
            biased;
            () = exited.cancelled() => return,
            next = queued.recv() => next,
            () = closing.cancelled() => {
                queued.close();
                queued.recv().await
            }
        };
        let Some(outgoing) = outgoing else { return };
        // Whoever inherited the pipe may hold it open without reading.
        let written = tokio::select! {
            written = stdin.write_all(&outgoing.bytes) => written,
            () = exited.cancelled() => return,
        };
        let gone = written.is_err();
        let _ = outgoing
            .told
            .send(written.map_err(|_| PipeWriteError::Gone));
        if gone {
            return;
        }
    }
}

async fn read_lines(source: FdReader, tell: mpsc::Sender<PipeEvent>, exited: CancellationToken) {
    let mut splitter = LineSplitter::new(limits::AGENT_LINE_BYTES_MAX);
    let mut feed = ChunkReader::new(source, exited, STDOUT_CHUNK);
    while let Some(mut chunk) = feed.next().await {
        while let Some(event) = splitter.next_line(&mut chunk) {
            if send(&tell, event).await.is_err() {
                return;
            }
        }
    }
    if let Some(event) = splitter.finish() {
        let _ = send(&tell, event).await;
    }
}

async fn read_log(source: FdReader, tell: mpsc::Sender<PipeEvent>, exited: CancellationToken) {
    let mut cutter = LogSplitter::new(limits::AGENT_LOG_LINE_BYTES_MAX);
    let mut feed = ChunkReader::new(source, exited, STDERR_CHUNK);
    while let Some(mut chunk) = feed.next().await {
        while let Some(text) = cutter.next_piece(&mut chunk) {
            if tell.send(PipeEvent::Stderr(text)).await.is_err() {
                return;
            }
        }
    }
    if let Some(text) = cutter.finish() {
        drop(tell.send(PipeEvent::Stderr(text)).await);
    }
}

/// A long line waits until the queue is empty.
async fn send(
    tell: &mpsc::Sender<PipeEvent>,
    event: PipeEvent,
) -> Result<(), mpsc::error::SendError<()>> {
    let slots = match &event {
        PipeEvent::Line(line) if line.len() > limits::AGENT_LINE_BYTES_SHORT => {
            limits::AGENT_LINES_QUEUED
        }
        _ => 1,
    };
    let mut permits = tell.reserve_many(slots).await?;
    if let Some(permit) = permits.next() {
        permit.send(event);
    }
    Ok(())
}

/// Chunks until the end of the source; after the process's exit only what is there already, since
/// whoever inherited the pipe may hold it open for ever.
struct ChunkReader {
    source: FdReader,
    exited: CancellationToken,
    buffer: Vec<u8>,
    drained: usize,
}

impl ChunkReader {
    fn new(source: FdReader, exited: CancellationToken, chunk: usize) -> Self {
        Self {
            source,
            exited,
            buffer: vec![0; chunk],
            drained: 0,
        }
    }

    async fn next(&mut self) -> Option<&[u8]> {
        let read = tokio::select! {
            biased;
            () = self.exited.cancelled() => None,
            read = self.source.read(&mut self.buffer) => Some(read.unwrap_or(0)),
        };
        let read = read.unwrap_or_else(|| self.drain());
        (read > 0).then(|| &self.buffer[..read])
    }

    fn drain(&mut self) -> usize {
        let left = limits::AGENT_DRAIN_BYTES_MAX - self.drained;
        let chunk = self.buffer.len().min(left);
        let read = self.source.read_now(&mut self.buffer[..chunk]);
        self.drained += read;
        read
    }
}

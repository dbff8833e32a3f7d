//! The one task that reads a link.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use countersign_core::limits;
use tokio::io::BufReader;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::line_queue::LineQueue;
use super::outbox::LinkOutbox;
use super::{LaunchRefused, LinkEvent, spawn_for_link};
use crate::runner::frame::read_frame;
use crate::runner::wire::ToHost;

pub(super) type SocketReader = BufReader<OwnedReadHalf>;
type FrameResult = io::Result<Option<(ToHost, Vec<u8>)>>;

/// Begins to read, after the greetings.
pub(super) fn begin(
    reader: SocketReader,
    writer: OwnedWriteHalf,
    heard: u64,
) -> (mpsc::Receiver<LinkEvent>, Arc<LinkOutbox>) {
    let (tell, events) = mpsc::channel(limits::AGENT_LINES_QUEUED);
    let outbox = Arc::new(LinkOutbox::new(writer));
    let ended = CancellationToken::new();
    let carrier = outbox.clone();
    let guard = ended.clone();
    spawn_for_link(async move {
        guard
            .run_until_cancelled(carrier.flush_when_writable())
            .await;
    });
    let reading = LinkReader {
        outbox: outbox.clone(),
        tell,
        queue: LineQueue::new(heard),
        exited: false,
    };
    spawn_for_link(async move {
        let _ended = ended.drop_guard();
        reading.run(reader).await;
    });
    (events, outbox)
}

struct LinkReader {
    outbox: Arc<LinkOutbox>,
    tell: mpsc::Sender<LinkEvent>,
    queue: LineQueue,
    exited: bool,
}

impl LinkReader {
    async fn run(mut self, reader: SocketReader) {
        if let Err(error) = self.read(reader).await {
            tracing::warn!(%error, "the link to a runner broke");
        }
        // Before the last event: whoever takes it must not find a write that still waits.
        self.outbox.end();
        if !self.exited {
            self.queue.push_end(LinkEvent::Lost);
        }
        self.queue.send_all(&self.tell).await;
    }

    /// Until the connection ends or nobody takes the events. A frame is read through, however often
    /// an event is given meanwhile.
    async fn read(&mut self, reader: SocketReader) -> io::Result<()> {
        let tell = self.tell.clone();
        let mut next = pin!(read_next(reader));
        loop {
            let slots = self.queue.find_next();
            tokio::select! {
                // Events first, so that what came is handed over before more is read. Without room
                // nothing is read, the socket fills up, and the runner holds its agent back.
                biased;
                permits = tell.reserve_many(slots.unwrap_or(0)), if slots.is_some() => {
                    let Ok(permits) = permits else { return Ok(()) };
                    self.queue.send_next(permits);
                }
                (reader, frame) = next.as_mut(), if self.queue.has_room() => {
                    let Some((head, body)) = frame? else { return Ok(()) };
                    self.handle_frame(head, body)?;
                    next.set(read_next(reader));
                }
                () = tell.closed() => return Ok(()),
            }
        }
    }

    fn handle_frame(&mut self, head: ToHost, body: Vec<u8>) -> io::Result<()> {
        match head {
            ToHost::Output { at } => self.handle_output(at, body)?,
            ToHost::Log { text } => self.queue.push_log(text),
            ToHost::Written {
                id: name,
                kind,
                outcome,
            } => self.outbox.confirm(&name, kind, outcome)?,
            ToHost::Held { hold, target } => self.queue.push_hold(hold, target),
            ToHost::Claimed { id, .. } | ToHost::Shell { id, .. } | ToHost::Released { id, .. } => {
                self.outbox.reply(id, head, body);
            }
            ToHost::Launched { process } => self.outbox.launched(Ok(process)),
            ToHost::NotLaunched { why } => self.outbox.launched(Err(LaunchRefused(why))),
            ToHost::Exited { exit, why } => {
                self.exited = true;
                self.outbox.note_exit();
                self.queue.push_end(LinkEvent::Exited { exit, why });
            }
            ToHost::Refused { why } => return Err(invalid(&format!("it was refused: {why}"))),
            ToHost::Hello { .. } => return Err(invalid("the runner greets a second time")),
        }
        Ok(())
    }

    fn handle_output(&mut self, at: u64, body: Vec<u8>) -> io::Result<()> {
        if self.exited || !self.queue.push_output(at, body) {
            return Err(invalid("the runner sent what is not next"));
        }
        Ok(())
    }
}

/// Gives the reader back, so that the next frame can be read with it.
async fn read_next(mut reader: SocketReader) -> (SocketReader, FrameResult) {
    let frame = read_frame(&mut reader).await;
    (reader, frame)
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

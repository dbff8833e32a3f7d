//! What comes from the agent, on its way to whoever takes the events.
//!
//! Invariants: events come in the order in which the runner sent what they were made of; bytes are
//! made into events only as fast as those are taken, so that what waits is never more than what came;
//! a byte that is missing or comes twice is found out.

use std::collections::VecDeque;
use std::mem;

use countersign_core::limits;
use tokio::sync::mpsc;

use super::LinkEvent;
use crate::lines::{LineSplitter, OutputLine};
use crate::runner::HeldTarget;

/// What one thing that waits costs besides its bytes.
const OVERHEAD: usize = 64;

#[derive(Debug)]
pub(super) struct LineQueue {
    splitter: LineSplitter,
    /// How much of what the agent said was made into lines, and how much came.
    split: u64,
    received: u64,
    waiting: VecDeque<QueuedInput>,
    waiting_bytes: usize,
    next: Option<LinkEvent>,
}

#[derive(Debug)]
enum QueuedInput {
    Output { bytes: Vec<u8>, taken: usize },
    Event(LinkEvent),
}

impl LineQueue {
    /// What came up to `heard` was made into lines before.
    pub(super) fn new(heard: u64) -> Self {
        Self {
            splitter: new_splitter(),
            split: heard,
            received: heard,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            next: None,
        }
    }

    /// False if it is not what comes next.
    pub(super) fn push_output(&mut self, at: u64, bytes: Vec<u8>) -> bool {
        if at != self.received {
            return false;
        }
        self.received += bytes.len() as u64;
        self.push(bytes.len(), QueuedInput::Output { bytes, taken: 0 });
        true
    }

    pub(super) fn push_log(&mut self, text: String) {
        self.push(text.len(), QueuedInput::Event(LinkEvent::Log(text)));
    }

    pub(super) fn push_hold(&mut self, hold: u64, target: HeldTarget) {
        self.push(0, QueuedInput::Event(LinkEvent::Held { hold, target }));
    }

    /// For an event that comes after everything the agent said.
    pub(super) fn push_end(&mut self, event: LinkEvent) {
        self.push(0, QueuedInput::Event(event));
    }

    pub(super) fn has_room(&self) -> bool {
        self.waiting_bytes <= limits::LINK_BYTES_WAITING_MAX
    }

    /// How many slots of the queue the next event takes, if there is one: a long line is queued alone.
    pub(super) fn find_next(&mut self) -> Option<usize> {
        while self.next.is_none() {
            self.advance()?;
        }
        match &self.next {
            Some(LinkEvent::Line { bytes, .. }) if bytes.len() > limits::AGENT_LINE_BYTES_SHORT => {
                Some(limits::AGENT_LINES_QUEUED)
            }
            _ => Some(1),
        }
    }

    /// Hands the next event over.
    pub(super) fn send_next(&mut self, mut permits: mpsc::PermitIterator<'_, LinkEvent>) {
        if let Some(event) = self.next.take()
            && let Some(permit) = permits.next()
        {
            permit.send(event);
        }
    }

    /// Gives everything that waits.
    pub(super) async fn send_all(mut self, tell: &mpsc::Sender<LinkEvent>) {
        while let Some(slots) = self.find_next() {
            match tell.reserve_many(slots).await {
                Ok(permits) => self.send_next(permits),
                Err(_) => return,
            }
        }
    }

    fn push(&mut self, bytes: usize, waiting: QueuedInput) {
        self.waiting_bytes += bytes + OVERHEAD;
        self.waiting.push_back(waiting);
    }

    /// Goes on to the end of a line or of what waits first. Nothing if nothing waits.
    fn advance(&mut self) -> Option<()> {
        if let QueuedInput::Output { bytes, taken } = self.waiting.front_mut()? {
            let mut rest = &bytes[*taken..];
            let line = self.splitter.next_line(&mut rest);
            let now = bytes.len() - rest.len();
            self.split += (now - *taken) as u64;
            self.waiting_bytes -= now - *taken;
            *taken = now;
            let whole = now == bytes.len();
            self.next = line.map(|line| to_link_event(line, self.split));
            if whole {
                self.pop();
            }
        } else if let Some(QueuedInput::Event(event)) = self.pop() {
            self.set_next(event);
        }
        Some(())
    }

    /// The end of the agent ends its last line.
    fn set_next(&mut self, event: LinkEvent) {
        let ends = matches!(event, LinkEvent::Exited { .. });
        let last = ends.then(|| mem::replace(&mut self.splitter, new_splitter()).finish());
        match last.flatten() {
            None => self.next = Some(event),
            Some(line) => {
                self.waiting_bytes += OVERHEAD;
                self.waiting.push_front(QueuedInput::Event(event));
                self.next = Some(to_link_event(line, self.split));
            }
        }
    }

    fn pop(&mut self) -> Option<QueuedInput> {
        let first = self.waiting.pop_front()?;
        let bytes = match &first {
            // Output was counted off as it was taken, so only its overhead is left.
            QueuedInput::Event(LinkEvent::Log(text)) => text.len(),
            _ => 0,
        };
        self.waiting_bytes -= bytes + OVERHEAD;
        Some(first)
    }
}

fn new_splitter() -> LineSplitter {
    LineSplitter::new(limits::AGENT_LINE_BYTES_MAX)
}

fn to_link_event(line: OutputLine, number: u64) -> LinkEvent {
    match line {
        OutputLine::Whole(bytes) => LinkEvent::Line { number, bytes },
        OutputLine::Oversized { bytes } => LinkEvent::Oversized { number, bytes },
    }
}

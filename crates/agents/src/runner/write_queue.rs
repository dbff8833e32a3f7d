//! What hosts want written to the agent, in order.
//!
//! Invariants: a write is made unless its id is used; an id is used once all of its bytes are in the
//! pipe; writes are answered in the order in which they were asked for.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use countersign_core::limits;
use tokio::sync::Notify;

use super::used_ids::UsedIds;
use super::wire::{ToHost, WriteHeader, WriteStatus};
use crate::adapter::{WriteId, WriteKind};

#[derive(Debug, Default)]
pub(super) struct WriteQueue {
    used: UsedIds,
    queue: VecDeque<QueuedWrite>,
    /// Ids whose bytes are queued or on their way.
    pending: HashSet<WriteId>,
    bytes: usize,
    /// Nothing can be written any more.
    gone: bool,
    /// There may be something to write.
    pub(super) more: Arc<Notify>,
}

/// One item on its way to the agent.
#[derive(Debug)]
pub(super) struct QueuedWrite {
    host: u64,
    id: WriteId,
    kind: WriteKind,
    pub(super) bytes: Vec<u8>,
}

/// An answer, and the host it is for.
pub(super) type QueuedReply = (u64, ToHost);

impl WriteQueue {
    /// Refuses, in words, more than may wait.
    pub(super) fn queue(
        &mut self,
        host: u64,
        items: Vec<WriteHeader>,
        body: &[u8],
    ) -> Result<(), String> {
        let mut rest = body;
        for item in items {
            let Some((bytes, after)) = rest.split_at_checked(item.bytes) else {
                return Err("the items are longer than their bytes".to_owned());
            };
            rest = after;
            self.queue_one(host, item, bytes)?;
        }
        self.more.notify_one();
        Ok(())
    }

    fn queue_one(&mut self, host: u64, item: WriteHeader, bytes: &[u8]) -> Result<(), String> {
        let fresh = self.used.find_kind(&item.id).is_none() && !self.pending.contains(&item.id);
        // A repeated write keeps its place in the queue, so that it is answered in order, but not its
        // bytes: `next` answers it once the first of its id is written.
        let bytes = if fresh && !self.gone { bytes } else { &[] };
        let is_full = self.bytes + bytes.len() > limits::AGENT_WRITE_BYTES_QUEUED
            || self.queue.len() >= limits::RUNNER_FRAMES_QUEUED
            || self.used.len() >= limits::RUNNER_USED_IDS_MAX;
        if is_full {
            return Err("too much waits to be written to the agent".to_owned());
        }
        if fresh {
            self.pending.insert(item.id.clone());
        }
        self.bytes += bytes.len();
        self.queue.push_back(QueuedWrite {
            host,
            id: item.id,
            kind: item.kind,
            bytes: bytes.to_vec(),
        });
        Ok(())
    }

    /// Gives the next item that is to be written, and the answers that come before it.
    pub(super) fn next(&mut self, answers: &mut Vec<QueuedReply>) -> Option<QueuedWrite> {
        // Looked up again here: an earlier write of the same id may have finished since this one was queued.
        while let Some(item) = self.queue.pop_front() {
            if self.used.find_kind(&item.id).is_none() && !self.gone {
                return Some(item);
            }
            answers.push(self.answer(item));
        }
        None
    }

    /// An item is in the pipe, or never will be as a whole.
    pub(super) fn written(&mut self, item: QueuedWrite, whole: bool) -> QueuedReply {
        self.bytes = self.bytes.saturating_sub(item.bytes.len());
        self.pending.remove(&item.id);
        // A part of it may be in the pipe. The id stays free, and the agent is gone or unusable anyway.
        if whole {
            self.used.insert(item.id.clone(), item.kind);
        }
        self.answer(item)
    }

    /// Nothing can be written any more; gives the answers to everything that waits.
    pub(super) fn end(&mut self) -> Vec<QueuedReply> {
        self.gone = true;
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.queue);
        waiting.into_iter().map(|item| self.answer(item)).collect()
    }

    pub(super) fn is_over(&self) -> bool {
        self.gone
    }

    pub(super) fn forget(&mut self, through: u64, open: &[u64]) {
        self.used.forget(through, open);
    }

    pub(super) fn list(&self) -> Vec<(WriteId, WriteKind)> {
        self.used.list()
    }

    fn answer(&self, item: QueuedWrite) -> QueuedReply {
        let (kind, outcome) = match self.used.find_kind(&item.id) {
            Some(kind) => (kind, WriteStatus::Written),
            None => (item.kind, WriteStatus::Gone),
        };
        let name = item.id;
        let written = ToHost::Written {
            id: name,
            kind,
            outcome,
        };
        (item.host, written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(line: u64, kind: WriteKind, bytes: usize) -> WriteHeader {
        WriteHeader {
            id: WriteId::Line(line),
            kind,
            bytes,
        }
    }

    fn told(host: u64, line: u64, kind: WriteKind, outcome: WriteStatus) -> QueuedReply {
        let written = ToHost::Written {
            id: WriteId::Line(line),
            kind,
            outcome,
        };
        (host, written)
    }

    #[test]
    fn a_repeated_item_is_answered_when_the_first_is_written() {
        let mut items = WriteQueue::default();
        let mut answers = Vec::new();
        items
            .queue(1, vec![item(7, WriteKind::Allow, 2)], b"ab")
            .unwrap();
        let first = items.next(&mut answers).unwrap();
        assert_eq!(first.bytes, b"ab");
        let repeated = vec![item(7, WriteKind::Deny, 2), item(8, WriteKind::Deny, 1)];
        items.queue(2, repeated, b"xyz").unwrap();
        answers.push(items.written(first, true));
        let second = items.next(&mut answers).unwrap();
        assert_eq!(second.bytes, b"z");
        answers.push(items.written(second, true));
        let expected = [
            told(1, 7, WriteKind::Allow, WriteStatus::Written),
            told(2, 7, WriteKind::Allow, WriteStatus::Written),
            told(2, 8, WriteKind::Deny, WriteStatus::Written),
        ];
        assert_eq!(answers, expected);
        assert!(items.next(&mut answers).is_none());
    }

    #[test]
    fn what_never_was_written_whole_is_gone() {
        let mut items = WriteQueue::default();
        let mut answers = Vec::new();
        let wanted = vec![
            item(1, WriteKind::Allow, 1),
            item(2, WriteKind::Deny, 1),
            item(3, WriteKind::Cancelled, 1),
        ];
        items.queue(1, wanted, b"123").unwrap();
        let first = items.next(&mut answers).unwrap();
        answers.push(items.written(first, true));
        let second = items.next(&mut answers).unwrap();
        answers.push(items.written(second, false));
        answers.extend(items.end());
        let late = vec![
            item(1, WriteKind::Refused, 1),
            item(4, WriteKind::Served, 1),
        ];
        items.queue(2, late, b"12").unwrap();
        assert!(items.next(&mut answers).is_none());
        let expected = [
            told(1, 1, WriteKind::Allow, WriteStatus::Written),
            told(1, 2, WriteKind::Deny, WriteStatus::Gone),
            told(1, 3, WriteKind::Cancelled, WriteStatus::Gone),
            told(2, 1, WriteKind::Allow, WriteStatus::Written),
            told(2, 4, WriteKind::Served, WriteStatus::Gone),
        ];
        assert_eq!(answers, expected);
    }

    #[test]
    fn more_than_may_wait_is_refused() {
        let mut items = WriteQueue::default();
        let body = vec![0; limits::AGENT_WRITE_BYTES_QUEUED];
        items
            .queue(1, vec![item(1, WriteKind::Unspecified, body.len())], &body)
            .unwrap();
        items
            .queue(1, vec![item(1, WriteKind::Unspecified, body.len())], &body)
            .unwrap();
        assert!(
            items
                .queue(1, vec![item(2, WriteKind::Unspecified, 1)], b"x")
                .is_err()
        );
        assert!(
            items
                .queue(1, vec![item(3, WriteKind::Unspecified, 9)], b"x")
                .is_err()
        );
    }
}

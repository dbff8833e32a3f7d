//! The commit writer: makes batches durable while the next one is decided, and then lets out what
//! waited for them.
//!
//! Invariants: batches are committed in the order in which they were decided, one at a time; nothing
//! of a batch leaves before its commit has returned; after a commit that failed nothing more is
//! committed until the supervisor has taken the failure.
//!
//! A batch that no other command waits behind is committed on the supervisor's own thread, so that a
//! single caller pays for no change of threads.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use countersign_core::{AgentId, CommitChanges, CommittedEvent, Duty, Event, REPLACED};
use countersign_store::{EventLog, StoreError};
use tokio::sync::watch;

use super::record_health::{RecordHealth, StoreOutage};
use super::waiters::EndedWaits;
use super::{HostCounters, PendingReply, ReplySender, StateRead, refuse_with};
use crate::crash;
use crate::directory::AgentDirectory;
use crate::duty_board::DutyBoard;
use crate::feed::{EventFeed, FeedEntry};
use crate::reply::{CommandReply, ServiceError};

/// A commit that takes longer than this is worth a warning: agents and people wait for each one.
const SLOW_COMMIT_MS: u64 = 250;

/// How long commands gather before they are decided, while a batch is being committed. Longer than a
/// flush of a fast disk; on a slow one it is short beside the flush.
const DECIDING_PAUSE: Duration = Duration::from_micros(200);

/// A batch that was decided, and everything that waits for its commit.
#[derive(Default)]
pub(super) struct DecidedBatch {
    /// How many inputs were decided.
    pub(super) inputs: usize,
    pub(super) entries: Vec<CommittedEvent>,
    pub(super) changes: CommitChanges,
    /// Whether there is nothing to commit: replies and reads that may rest on earlier commits.
    pub(super) unchanged: bool,
    /// The duties of the agents that it touched, as they are after it.
    pub(super) duties: Vec<(AgentId, Vec<Duty>)>,
    pub(super) replies: Vec<(
        ReplySender<CommandReply>,
        Result<PendingReply, ServiceError>,
    )>,
    pub(super) ended_waits: EndedWaits,
    pub(super) reads: Vec<Box<dyn StateRead>>,
}

/// Who is told of a commit.
pub(crate) struct CommitOutlets {
    pub(crate) feed: Arc<EventFeed>,
    pub(crate) directory: Arc<AgentDirectory>,
    pub(crate) board: Arc<DutyBoard>,
    pub(crate) counters: Arc<HostCounters>,
    pub(crate) outage: watch::Sender<Option<StoreOutage>>,
}

/// The log, and whether anything can be committed to it.
pub(super) struct RecordLog {
    pub(super) log: Box<dyn EventLog>,
    pub(super) health: RecordHealth,
}

/// What a failed commit leaves to the supervisor.
pub(super) struct CommitFailure {
    pub(super) error: ServiceError,
    /// Waits whose end was not committed.
    pub(super) ended_waits: EndedWaits,
    /// Reads that may have seen what was not committed.
    pub(super) reads: Vec<Box<dyn StateRead>>,
}

/// Commits batches, on its own thread or on the supervisor's.
pub(crate) struct CommitWriter {
    shared: Arc<WriterShared>,
    thread: Option<JoinHandle<()>>,
}

struct WriterShared {
    record: Mutex<RecordLog>,
    desk: Mutex<WriterDesk>,
    changed: Condvar,
    outlets: CommitOutlets,
}

/// What the two threads hand to each other.
#[derive(Default)]
struct WriterDesk {
    next: Option<DecidedBatch>,
    /// Whether a batch was handed over that is not committed yet.
    busy: bool,
    failure: Option<Box<CommitFailure>>,
    thread: WriterThread,
}

/// What the writer's thread does.
#[derive(Default, PartialEq, Eq)]
enum WriterThread {
    #[default]
    Commits,
    /// The supervisor has ended, and the thread ends when nothing is left to commit.
    Ends,
    /// A bug ended it.
    Panicked,
}

impl CommitWriter {
    /// A writer that commits on the supervisor's thread only, until [`Self::start`].
    pub(crate) fn new(log: Box<dyn EventLog>, outlets: CommitOutlets) -> Self {
        let record = RecordLog {
            log,
            health: RecordHealth::default(),
        };
        Self {
            shared: Arc::new(WriterShared {
                record: Mutex::new(record),
                desk: Mutex::default(),
                changed: Condvar::new(),
                outlets,
            }),
            thread: None,
        }
    }

    /// Starts the thread.
    pub(crate) fn start(&mut self) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name("commit-writer".to_owned())
            .spawn(move || shared.run())?;
        self.thread = Some(thread);
        Ok(())
    }

    /// Whether a batch can be handed over.
    pub(super) fn is_idle(&self) -> bool {
        !self.shared.lock_desk().busy
    }

    /// Waits until a batch can be handed over, for [`DECIDING_PAUSE`] at most. Gives whether it can.
    pub(super) fn wait_briefly(&self) -> bool {
        let desk = self.shared.lock_desk();
        let waiting = self
            .shared
            .changed
            .wait_timeout_while(desk, DECIDING_PAUSE, |desk| desk.busy);
        !waiting.unwrap_or_else(PoisonError::into_inner).0.busy
    }

    /// Waits until every batch that was handed over is committed or has failed.
    pub(super) fn wait_idle(&self) {
        let desk = self.shared.lock_desk();
        let idle = self.shared.changed.wait_while(desk, |desk| desk.busy);
        drop(idle.unwrap_or_else(PoisonError::into_inner));
    }

    /// Commits a batch on this thread. The writer must be idle.
    pub(super) fn commit_here(&self, batch: DecidedBatch) {
        let committed = self.shared.commit_and_release(batch);
        if let Err(failure) = committed {
            self.shared.lock_desk().failure = Some(failure);
        }
    }

    /// Hands a batch to the writer's thread and returns at once. The writer must be idle.
    pub(super) fn hand_over(&self, batch: DecidedBatch) {
        if self.thread.is_none() {
            return self.commit_here(batch);
        }
        let mut desk = self.shared.lock_desk();
        desk.next = Some(batch);
        desk.busy = true;
        drop(desk);
        self.shared.changed.notify_all();
    }

    /// What a commit that failed since the last call left behind.
    ///
    /// Panics if the writer's thread has: whether its last batch is committed, only another host can
    /// find out.
    pub(super) fn take_failure(&self) -> Option<Box<CommitFailure>> {
        let mut desk = self.shared.lock_desk();
        assert!(
            desk.thread != WriterThread::Panicked,
            "the commit writer has ended by a panic"
        );
        desk.failure.take()
    }

    /// The log, while no commit is under way: waits for one that is.
    pub(super) fn record(&self) -> MutexGuard<'_, RecordLog> {
        self.shared.lock_record()
    }

    pub(super) fn outlets(&self) -> &CommitOutlets {
        &self.shared.outlets
    }
}

impl Drop for CommitWriter {
    /// The log is closed when this returns: another host may open it then.
    fn drop(&mut self) {
        self.shared.lock_desk().thread = WriterThread::Ends;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the commit writer ended by a panic");
        }
    }
}

impl WriterShared {
    fn run(&self) {
        // A panic must not leave the supervisor waiting for a commit that never ends.
        let _ending = WriterEnd(self);
        while let Some(batch) = self.next_batch() {
            let committed = self.commit_and_release(batch);
            let mut desk = self.lock_desk();
            desk.busy = false;
            // There is none from before: the supervisor takes a failure before it hands over a
            // batch.
            desk.failure = committed.err();
            drop(desk);
            self.changed.notify_all();
        }
    }

    fn next_batch(&self) -> Option<DecidedBatch> {
        let desk = self.lock_desk();
        let waiting = self.changed.wait_while(desk, |desk| {
            desk.next.is_none() && desk.thread == WriterThread::Commits
        });
        waiting.unwrap_or_else(PoisonError::into_inner).next.take()
    }

    /// Commits a batch and lets out everything that waited for it, or refuses all of it.
    fn commit_and_release(&self, batch: DecidedBatch) -> Result<(), Box<CommitFailure>> {
        let DecidedBatch {
            inputs,
            entries,
            changes,
            unchanged,
            duties,
            replies,
            ended_waits,
            reads,
        } = batch;
        let committed = if unchanged {
            self.check_record().map(|()| Vec::new())
        } else {
            self.commit(entries, &changes, inputs)
        };
        crash::point("before_replies");
        match committed {
            Ok(entries) => {
                // Before the replies: an agent's driver does not depend on any caller still
                // listening.
                for (agent, duties) in duties {
                    self.outlets.board.post(&agent, duties);
                }
                for (answer, result) in replies {
                    // A caller that no longer listens has lost nothing: the record has it.
                    drop(answer.send(result.map(|pending| resolve_reply(pending, &entries))));
                    crash::point("after_reply");
                }
                crash::point("before_releases");
                ended_waits.answer();
                for read in reads {
                    read.answer();
                }
                crash::point("after_release");
                Ok(())
            }
            Err(error) => {
                for (answer, _) in replies {
                    refuse_with(answer, error.clone());
                }
                Err(Box::new(CommitFailure {
                    error,
                    ended_waits,
                    reads,
                }))
            }
        }
    }

    /// Before anything is shown: what was committed is still where the next host looks.
    fn check_record(&self) -> Result<(), ServiceError> {
        let mut record = self.lock_record();
        let checked = record.log.check();
        checked.map_err(|error| record.health.note_failure(&error, &self.outlets))
    }

    fn commit(
        &self,
        entries: Vec<CommittedEvent>,
        changes: &CommitChanges,
        inputs: usize,
    ) -> Result<Vec<Arc<FeedEntry>>, ServiceError> {
        self.append(&entries, changes, inputs).map_err(|error| {
            let mut record = self.lock_record();
            record.health.note_failed_commit(&error, &self.outlets)
        })?;
        let CommitOutlets {
            feed,
            directory,
            counters,
            ..
        } = &self.outlets;
        counters.note_commit(entries.len());
        // Before the feed wakes anybody: a reader of the event reads its effect in the directory.
        directory.publish(changes);
        entries.iter().for_each(log_lifecycle);
        let entries: Vec<_> = entries.into_iter().map(FeedEntry::new).collect();
        // A checkpoint alone is nothing that a reader would wake for.
        if !entries.is_empty() {
            feed.push(entries.iter().cloned());
        }
        // After the push: an event of this very commit may show what was erased.
        remove_erased(feed, changes);
        Ok(entries)
    }

    fn append(
        &self,
        entries: &[CommittedEvent],
        changes: &CommitChanges,
        inputs: usize,
    ) -> Result<(), StoreError> {
        let (events, seq) = (entries.len(), entries.last().map(|entry| entry.seq.0));
        let span = tracing::debug_span!("commit", inputs, events, seq);
        let _entered = span.enter();
        let begin = Instant::now();
        crash::committing(entries);
        crash::point("before_append");
        crash::during("during_append");
        self.lock_record().log.append(entries, changes)?;
        crash::point("after_append");
        crash::committed(entries);
        let elapsed_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        if elapsed_ms >= SLOW_COMMIT_MS {
            tracing::warn!(inputs, events, seq, elapsed_ms, "slow commit");
        } else {
            tracing::debug!(elapsed_ms, "committed");
        }
        Ok(())
    }

    fn lock_desk(&self) -> MutexGuard<'_, WriterDesk> {
        // A panic is told by `WriterThread::Panicked`, which stops the supervisor with a clear
        // message; a poisoned lock would only hide that.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_record(&self) -> MutexGuard<'_, RecordLog> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the supervisor that the writer's thread has ended.
struct WriterEnd<'a>(&'a WriterShared);

impl Drop for WriterEnd<'_> {
    fn drop(&mut self) {
        let Self(shared) = self;
        let mut desk = shared.lock_desk();
        desk.busy = false;
        if std::thread::panicking() {
            desk.thread = WriterThread::Panicked;
        }
        drop(desk);
        shared.changed.notify_all();
    }
}

fn remove_erased(feed: &EventFeed, changes: &CommitChanges) {
    for &seq in &changes.redacted {
        feed.remove_erased(|committed| {
            committed.seq == seq || committed.event.opened() == Some(seq)
        });
    }
    if let Some(before) = changes.pruned_before {
        feed.remove_erased(|committed| {
            committed.seq < before || committed.event.opened().is_some_and(|seq| seq < before)
        });
    }
}

fn resolve_reply(pending: PendingReply, entries: &[Arc<FeedEntry>]) -> CommandReply {
    match pending {
        PendingReply::Ready(reply) => reply,
        PendingReply::EventAt(index) => entries.get(index).map_or(CommandReply::Nothing, |entry| {
            CommandReply::Event(entry.clone())
        }),
    }
}

/// The life of managed agents, for whoever reads the log of the host.
fn log_lifecycle(committed: &CommittedEvent) {
    match &committed.event {
        Event::AgentRunRequested(e) => {
            tracing::info!(agent = %e.agent, run = e.run, "agent starting");
        }
        Event::AgentReady(e) => tracing::info!(agent = %e.agent, run = e.run, "agent ready"),
        Event::AgentExited(e) => {
            tracing::info!(agent = %e.agent, run = e.run, end = ?e.end, "agent ended");
        }
        Event::ProcessMarked(e) => {
            tracing::info!(agent = %e.agent, pid = e.process.pid, "process marked as an agent");
        }
        Event::ApprovalResolved(e) if e.ending.message.as_deref() == Some(REPLACED) => {
            tracing::warn!(approval = %e.approval, "a second ask for the same tool call replaced it");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;

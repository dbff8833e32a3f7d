//! Whether anything can be committed, and what is left of the host if the record is lost.
//!
//! Invariants: nothing is decided before the state is what was committed; a record that was lost stays
//! lost for this host; what was decided and not committed is shown to nobody.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use countersign_core::{ClientId, State};
use countersign_store::{RescuedRecord, StoreError};

use super::commit_writer::CommitOutlets;
use super::{CommitBatch, ReplySender, Supervisor, SupervisorCommand, refuse_with};
use crate::gate::Gate;
use crate::reply::ServiceError;

/// What a lost record means, and what to do.
const LOST: &str = "nothing is recorded or allowed any more; save what the host still has with \
                    `countersign audit rescue FILE`";

/// Why nothing can be committed.
#[derive(Clone, Debug)]
pub(crate) struct StoreOutage {
    pub(crate) message: Arc<str>,
    /// The record is lost, and with it everything that would be committed.
    pub(crate) lost: bool,
    /// What can be read may hold what was never acknowledged.
    pub(crate) unreadable: bool,
}

/// What the supervisor knows of its record.
#[derive(Debug, Default)]
pub(crate) struct RecordHealth {
    lost: bool,
    /// The state holds what was not committed.
    ahead: bool,
    /// Whether the last commit counts is not known.
    unconfirmed: bool,
}

impl RecordHealth {
    /// Notes a commit that failed: the state holds what it would have committed.
    pub(super) fn note_failed_commit(
        &mut self,
        error: &StoreError,
        outlets: &CommitOutlets,
    ) -> ServiceError {
        self.ahead = true;
        self.note_failure(error, outlets)
    }

    pub(super) fn note_failure(
        &mut self,
        error: &StoreError,
        outlets: &CommitOutlets,
    ) -> ServiceError {
        self.lost |= matches!(error, StoreError::Lost { .. });
        self.unconfirmed |= matches!(error, StoreError::Unconfirmed { .. });
        let mut message = countersign_core::error_chain(error);
        if self.lost {
            message = format!("{message}: {LOST}");
        }
        let message: Arc<str> = message.into();
        tracing::error!(error = %message, "nothing can be committed, so nothing is allowed");
        outlets
            .counters
            .commit_failures
            .fetch_add(1, Ordering::Relaxed);
        outlets.outage.send_replace(Some(StoreOutage {
            message: message.clone(),
            lost: self.lost,
            unreadable: self.ahead && (self.lost || self.unconfirmed),
        }));
        ServiceError::Store(message)
    }
}

impl Supervisor {
    /// After a failed commit nothing is decided until the state is known again. Gives connections
    /// that ended meanwhile and still hold something, as their loss may be what was not committed;
    /// nothing if there was no failure.
    pub(super) fn recover(
        &mut self,
        batch: &CommitBatch,
    ) -> Result<Option<Vec<ClientId>>, ServiceError> {
        let outage = self.writer.outlets().outage.borrow().clone();
        let Some(outage) = outage else {
            // Otherwise the commits that are still to come find out.
            let nothing_waits = batch.commands == 0 && self.writer.is_idle();
            return if nothing_waits {
                self.check_record().map(|()| None)
            } else {
                Ok(None)
            };
        };
        let (lost, ahead) = {
            let health = &self.writer.record().health;
            (health.lost, health.ahead)
        };
        if lost {
            return Err(ServiceError::Store(outage.message));
        }
        if ahead {
            self.reload()
                .map_err(|()| ServiceError::Store(outage.message))?;
        }
        self.check_record()?;
        self.writer.outlets().outage.send_replace(None);
        // Drivers may have seen duties of a commit that failed, or missed those of one that did
        // not.
        self.post_all_duties();
        let holding = self.state.holding_clients().cloned();
        let gone = holding.filter(|client| !self.presence.is_connected(client));
        Ok(Some(gone.collect()))
    }

    /// Before anything is decided or shown: what was committed is still where the next host looks.
    fn check_record(&mut self) -> Result<(), ServiceError> {
        let outlets = self.writer.outlets();
        let mut record = self.writer.record();
        let checked = record.log.check();
        checked.map_err(|error| record.health.note_failure(&error, outlets))
    }

    /// Loads what was committed. Not from a lost record: it may hold what was never acknowledged.
    pub(super) fn reload(&mut self) -> Result<(), ()> {
        let mut record = self.writer.record();
        if record.health.lost {
            return Err(());
        }
        let snapshot = record.log.load().map_err(|error| {
            tracing::error!(
                error = countersign_core::error_chain(&error),
                "the record cannot be read"
            );
        })?;
        // Everything that was derived from the state follows it. Readers of the feed must not be
        // shown events that the log does not have.
        let outlets = self.writer.outlets();
        outlets.feed.reset(snapshot.head);
        self.state = State::restore(snapshot);
        outlets.directory.reset(&self.state);
        self.gate = Gate::from_state(&self.state);
        record.health.ahead = false;
        record.health.unconfirmed = false;
        Ok(())
    }

    pub(super) fn rescue(&mut self, target: &Path, answer: ReplySender<RescuedRecord>) {
        let rescued = self.writer.record().log.rescue(target);
        let rescued = rescued
            .map_err(|error| ServiceError::World(countersign_core::error_chain(&error).into()));
        // A caller that no longer listens finds the file.
        drop(answer.send(rescued));
    }

    /// What becomes of a command while nothing can be decided. Waits go on.
    pub(super) fn refuse(&mut self, command: SupervisorCommand, error: &ServiceError) {
        match command {
            SupervisorCommand::Input(_, Some(answer))
            | SupervisorCommand::Ask(_, answer)
            | SupervisorCommand::StopAll(_, answer)
            | SupervisorCommand::RecordOutput { answer, .. }
            | SupervisorCommand::SaveNotifyDocuments { answer, .. }
            | SupervisorCommand::Delegate { answer, .. }
            | SupervisorCommand::Rejudge { answer, .. } => refuse_with(answer, error.clone()),
            SupervisorCommand::WaitApproval {
                id,
                is_asker,
                answer,
            } => {
                self.waiters.wait_approval(id, is_asker, answer);
            }
            SupervisorCommand::WaitQuestion { id, answer } => {
                self.waiters.wait_question(id, answer);
            }
            SupervisorCommand::WaitDropped => self.waiters.sweep(),
            SupervisorCommand::Rescue { target, answer } => self.rescue(&target, answer),
            // What was committed can still be shown, as long as the state holds nothing else.
            SupervisorCommand::Read(read) if !self.writer.record().health.ahead => {
                self.looked(read).answer();
            }
            // A read that is never run drops its answer, which its caller sees as unavailable.
            SupervisorCommand::Read(..)
            | SupervisorCommand::Input(_, None)
            | SupervisorCommand::Connected(_)
            | SupervisorCommand::Subscribed(_)
            | SupervisorCommand::Disconnected(_)
            | SupervisorCommand::Time
            | SupervisorCommand::Stop => {}
        }
    }
}

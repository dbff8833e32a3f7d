//! The contract every backend keeps. The conformance suite in `tests/it/conformance.rs` is its executable form.

use std::path::{Path, PathBuf};

use countersign_core::{
    AgentId, Approval, ApprovalId, Checkpoint, CommitChanges, CommittedEvent, Json, PrincipalKey,
    Question, QuestionId, Seq, Snapshot, Timestamp,
};

use crate::search::{SearchPage, SearchQuery};

/// The one writer of a log.
///
/// Implementors guarantee: `append` commits entries and changes in one transaction and returns
/// only when they are durable; after an error nothing of that append is visible, and a later
/// append may succeed again; the entries' numbers follow the head without a gap. After
/// [`StoreError::Lost`] no append succeeds again, and the last one may be in the lost files. After
/// [`StoreError::Unconfirmed`] the next `load` that succeeds tells what that append came to.
pub trait EventLog: Send {
    /// What memory must hold, as of the newest commit.
    fn load(&mut self) -> Result<Snapshot, StoreError>;

    /// Commits events and the read models they led to. There may be checkpoints or
    /// documents of the notifier and no events: that is a commit like any other.
    fn append(
        &mut self,
        entries: &[CommittedEvent],
        changes: &CommitChanges,
    ) -> Result<(), StoreError>;

    /// Finds out whether what was appended is still where the next host would look for it. Once it
    /// is not ([`StoreError::Lost`]), this and `append` fail for good.
    fn check(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Writes a database with everything that can still be read to a file that does not exist yet.
    fn rescue(&mut self, target: &Path) -> Result<RescuedRecord, StoreError> {
        Err(StoreError::Backend {
            doing: "rescuing the record",
            source: format!("`{}`: this log has no file", target.display()).into(),
        })
    }
}

/// What a rescued database holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RescuedRecord {
    /// How many events.
    pub events: u64,
    /// The newest one.
    pub head: Seq,
    /// Its hash, in hexadecimal.
    pub head_hash: String,
}

/// Readers beside the writer. They see whole commits only, and never wait for it.
pub trait EventHistory: Send + Sync {
    /// Events in order of their numbers. Erased and unknown ones are left out.
    fn events(&self, query: &EventQuery) -> Result<Vec<CommittedEvent>, StoreError>;

    /// One approval, open or ended, dismissed or not.
    fn find_approval(&self, id: &ApprovalId) -> Result<Option<Approval>, StoreError>;

    /// The approval a principal opened under a key of its own.
    fn find_keyed_approval(
        &self,
        principal: &PrincipalKey,
        key: &str,
    ) -> Result<Option<Approval>, StoreError>;

    /// Approvals, newest first.
    fn approvals(&self, query: &ApprovalQuery) -> Result<Vec<Approval>, StoreError>;

    /// Ended approvals whose answer was sent and may or may not have arrived: a page of those opened
    /// after an event, in that order; empty if there are no more.
    fn attempted_answers(&self, after: Option<Seq>) -> Result<Vec<Approval>, StoreError>;

    /// The question a principal asked under a key of its own.
    fn find_keyed_question(
        &self,
        principal: &PrincipalKey,
        key: &str,
    ) -> Result<Option<Question>, StoreError>;

    /// How far the output of an agent was read, if it is live and has been read at all.
    fn find_checkpoint(&self, agent: &AgentId) -> Result<Option<Checkpoint>, StoreError>;

    /// Everything that the notifier keeps, by name.
    fn notify_documents(&self) -> Result<Vec<(String, Json)>, StoreError>;

    /// The first event that was decided at or after an instant.
    fn first_event_since(&self, at: Timestamp) -> Result<Option<Seq>, StoreError>;

    /// One question, open or ended.
    fn find_question(&self, id: &QuestionId) -> Result<Option<Question>, StoreError>;

    /// Questions, newest first.
    fn questions(&self, query: &QuestionQuery) -> Result<Vec<Question>, StoreError>;

    /// Entries of transcripts in which all words of a query are, newest first. Erased ones are left out.
    fn search(&self, query: &SearchQuery) -> Result<SearchPage, StoreError>;
}

/// Which events. Bounds are exclusive.
#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    /// Only newer than this.
    pub after: Option<Seq>,
    /// Only older than this.
    pub before: Option<Seq>,
    /// Only of these kinds; `None` for all. For client notifications the kind is `host.notification_sent`.
    pub kinds: Option<Vec<String>>,
    /// Only about this agent.
    pub agent: Option<AgentId>,
    /// Take the newest instead of the oldest that match; the answer is in rising order all the same.
    pub newest: bool,
    /// At most this many.
    pub limit: usize,
}

/// Whether something still waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFilter {
    /// It waits.
    Pending,
    /// It ended.
    Ended,
}

/// Which approvals.
#[derive(Clone, Debug, Default)]
pub struct ApprovalQuery {
    /// Only in this status.
    pub status: Option<StatusFilter>,
    /// Only of this agent.
    pub agent: Option<AgentId>,
    /// Only those opened before this event: the cursor of the next page.
    pub opened_before: Option<Seq>,
    /// Only ids that begin with this.
    pub id_prefix: Option<String>,
    /// Dismissed ones too.
    pub dismissed: bool,
    /// At most this many.
    pub limit: usize,
}

/// Which questions.
#[derive(Clone, Debug, Default)]
pub struct QuestionQuery {
    /// Only in this status.
    pub status: Option<StatusFilter>,
    /// Only of this agent.
    pub agent: Option<AgentId>,
    /// Only ids that begin with this.
    pub id_prefix: Option<String>,
    /// At most this many.
    pub limit: usize,
}

/// The world failed, or the file is not ours to use.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another host has the file.
    #[error("another host is using `{}`", path.display())]
    InUse {
        /// The database.
        path: PathBuf,
    },
    /// A later version wrote the file; it was not touched.
    #[error("`{}` was written by a newer version (schema {found}, this one knows {known})", path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema known here.
        known: i64,
    },
    /// The file is not a database of ours, or is damaged.
    #[error("`{}` is damaged: {what}", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// A file of the record was removed, replaced, cut short or overwritten while it was open: what is
    /// written to it would not be found by the next host.
    #[error("`{}` {what} while the host was using it", path.display())]
    Lost {
        /// The file.
        path: PathBuf,
        /// What became of it.
        what: &'static str,
    },
    /// An append was written, and could not be read back: whether it counts is not known.
    #[error("it is not known whether `{}` contains what was last written", path.display())]
    Unconfirmed {
        /// The database.
        path: PathBuf,
        /// Why it could not be read back.
        #[source]
        source: Box<StoreError>,
    },
    /// No space is left.
    #[error("no space is left for `{}`", path.display())]
    Full {
        /// The database.
        path: PathBuf,
    },
    /// The file cannot be written.
    #[error("`{}` cannot be written", path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// Anything else the backend reports.
    #[error("the store failed while {doing}")]
    Backend {
        /// What was being done.
        doing: &'static str,
        /// The backend's own error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

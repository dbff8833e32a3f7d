//! One `SQLite` file: a writer, readers beside it, and nobody else.
//!
//! Invariants: the events and erasures of one append are one transaction; the read models are written
//! with them or with a later append, and after a crash they follow from the events; asks and endings
//! are kept once, in the payloads; what the writer remembers between appends is only what is committed.
//!
//! A commit that was made and cannot be read back is reported as unconfirmed. It counts once it can be.
//!
//! A commit whose flush the disk refused is reported as failed and is gone for every reader. If
//! the machine fails before the next append, recovery may still find it whole: then it counts.

mod append;
mod deferred_models;
mod erase;
mod ids;
mod load;
mod log_copy;
mod open;
mod read;
mod read_approvals;
mod reader_pool;
mod record_files;
mod recover;
mod rescue;
mod rows;
mod search_index;
mod string_index;
#[cfg(test)]
mod tests;
mod write_models;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use countersign_core::{CommitChanges, CommittedEvent, Seq, Snapshot, hex};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _};

pub use open::check_database;
pub(crate) use open::open_for_audit;

use crate::chain::{self, ChainHash};
use crate::failure::{LostFile, SqliteFailure};
use crate::{EventLog, RescuedRecord, StoreError, audit};
use deferred_models::{DeferredModels, SharedModels};
use log_copy::{CopyError, LogCopy};
use reader_pool::ReaderPool;
use record_files::{ChangeTime, RecordFiles, with_suffix};
use string_index::{InternedStrings, KindCodes};

/// How often a read begins again because the writer has just moved changes to the tables. It does so
/// for every thousandth event, so that another program must have changed the file before this is
/// reached.
const MODEL_READS_MAX: usize = 100_000;

/// Opens the file, or makes it, as its one host.
///
/// Refuses a file that another host has, that a newer version wrote, or that is not ours; none
/// of those is touched.
pub fn open(path: &Path) -> Result<(SqliteLog, Arc<SqliteHistory>), StoreError> {
    begin(path, open::open_writer(path)?)
        .map_err(|failure| failure.into_error(path, "opening the database"))
}

fn begin(
    path: &Path,
    writer: open::WriterConnection,
) -> Result<(SqliteLog, Arc<SqliteHistory>), SqliteFailure> {
    let open::WriterConnection { conn, lock } = writer;
    // `SQLite` has created the write-ahead log and the shared memory by now, so all files exist.
    let files = Arc::new(RecordFiles::of_writer(path)?);
    // Before the readers load the codes: they leave out events whose kind has none.
    let mut strings = InternedStrings::new(&conn)?;
    let tip = find_tip(&conn)?;
    let kinds = KindCodes::load(&conn)?;
    let written = find_models_head(&conn)?;
    if written < tip.seq {
        recover::write_missing_models(&conn, &mut strings, &kinds, written, tip.seq)?;
    }
    let models = SharedModels::new(DeferredModels::new(tip.seq));
    let history = SqliteHistory {
        path: path.to_path_buf(),
        kinds,
        models: models.clone(),
        pool: ReaderPool::new(path.to_path_buf(), files.clone()),
    };
    let stream = meta(&conn, "stream")?;
    let page_bytes: u32 = conn.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let unindexed = search_index::Unindexed::begin(&conn, tip.seq)?;
    let changed_at = files.check()?;
    let log_copy = LogCopy::open(files.log_path(), page_bytes as usize)?;
    let mut log = SqliteLog {
        conn,
        path: path.to_path_buf(),
        stream,
        tip,
        strings,
        models,
        unindexed,
        files,
        log_copy,
        unconfirmed: None,
        changed_at,
        lost: None,
        rescued: false,
        _lock: lock,
    };
    // A host that was killed leaves its last commits in the write-ahead log.
    log.follow_log()?;
    Ok((log, Arc::new(history)))
}

/// The newest event: what the next one follows.
#[derive(Clone, Copy)]
struct ChainTip {
    seq: Seq,
    hash: ChainHash,
}

/// The writer. Holds the lock of the file as long as it lives.
pub struct SqliteLog {
    conn: Connection,
    path: PathBuf,
    stream: String,
    tip: ChainTip,
    strings: InternedStrings,
    models: Arc<SharedModels>,
    unindexed: search_index::Unindexed,
    files: Arc<RecordFiles>,
    log_copy: LogCopy,
    /// The tip after an append that was committed and could not be confirmed. Nothing is appended or
    /// loaded until it is.
    unconfirmed: Option<ChainTip>,
    /// When this writer, or another program that did no harm, last changed the database.
    changed_at: ChangeTime,
    /// What became of the files. From then on nothing is written.
    lost: Option<LostFile>,
    rescued: bool,
    // Last, because fields are dropped in order: the connection is closed before another host can
    // take the lock.
    _lock: File,
}

impl EventLog for SqliteLog {
    fn load(&mut self) -> Result<Snapshot, StoreError> {
        self.settle_unconfirmed()?;
        load::snapshot(&self.conn, self.tip.seq, &self.models.get())
            .map_err(|failure| failure.into_error(&self.path, "loading what is open"))
    }

    fn append(
        &mut self,
        entries: &[CommittedEvent],
        changes: &CommitChanges,
    ) -> Result<(), StoreError> {
        // Checked before and after: nothing is written into a file that took the place of ours, and
        // nothing counts that went into one that was taken away meanwhile.
        self.check()?;
        let tip = match self.commit(entries, changes) {
            Ok(tip) => tip,
            Err(failure) => {
                self.undo();
                return Err(self.remember_loss(failure, "writing to the log"));
            }
        };
        if let Err(failure) = self.confirm(tip, erase::is_needed(changes)) {
            return Err(self.remember_unconfirmed(tip, failure));
        }
        self.tip = tip;
        Ok(())
    }

    fn check(&mut self) -> Result<(), StoreError> {
        if let Some(lost) = self.lost.clone() {
            return Err(lost.into());
        }
        self.settle_unconfirmed()?;
        self.check_files(self.tip)
            .map_err(|failure| self.remember_loss(failure, "looking for the files of the record"))
    }

    fn rescue(&mut self, target: &Path) -> Result<RescuedRecord, StoreError> {
        // Copying closes the database once more, which would drop the locks of a writer that goes on.
        if self.check().is_ok() {
            return Err(StoreError::Backend {
                doing: "rescuing the record",
                source: "nothing is lost: every file is in its place".into(),
            });
        }
        let rescued = rescue::rescue(&self.conn, &self.files, self.log_copy.bytes(), target)?;
        self.rescued = true;
        Ok(rescued)
    }
}

/// Whether the files are the ones that were opened, with everything in them that was written.
impl SqliteLog {
    fn check_files(&mut self, tip: ChainTip) -> Result<(), SqliteFailure> {
        let changed_at = self.files.check()?;
        if !self.log_copy.is_whole()? {
            // Another program may have had SQLite empty the log; then SQLite knows of it.
            self.follow_log()?;
        }
        if changed_at != self.changed_at {
            tracing::warn!("another program changed the database: it is verified");
            self.prove(tip)?;
            self.changed_at = changed_at;
        }
        Ok(())
    }

    /// After a commit and before it counts: the next host would find it. Only then is anything moved
    /// into the database: gaps in the log would be moved as well.
    fn confirm(&mut self, tip: ChainTip, erases: bool) -> Result<(), SqliteFailure> {
        let frames = self.follow_log()?;
        self.check_files(tip)?;
        if erases {
            erase::scrub(&self.conn);
            self.follow_log()?;
        } else if frames >= open::CHECKPOINT_FRAMES {
            self.checkpoint();
        } else {
            return Ok(());
        }
        // A checkpoint of our own changes the database too. Remembered, so that it is not taken for
        // another program's.
        self.changed_at = self.files.check()?;
        Ok(())
    }

    /// A commit cannot be taken back, so it counts as soon as it can be read back: every reader and the
    /// next host would find it.
    fn settle_unconfirmed(&mut self) -> Result<(), StoreError> {
        let Some(tip) = self.unconfirmed else {
            return Ok(());
        };
        let confirmed = self.follow_log().and_then(|_| self.check_files(tip));
        match confirmed {
            Ok(()) => {
                tracing::warn!(
                    seq = tip.seq.0,
                    "an append that was reported as failed counts"
                );
                self.tip = tip;
                self.unconfirmed = None;
                Ok(())
            }
            Err(failure) => Err(self.remember_unconfirmed(tip, failure)),
        }
    }

    fn remember_unconfirmed(&mut self, tip: ChainTip, failure: SqliteFailure) -> StoreError {
        let doing = "reading back what was written";
        let error = self.remember_loss(failure, doing);
        if self.lost.is_some() {
            // Not in the copy that a rescue writes: nobody was told that it counts.
            self.unconfirmed = None;
            return error;
        }
        self.unconfirmed = Some(tip);
        StoreError::Unconfirmed {
            path: self.path.clone(),
            source: Box::new(error),
        }
    }

    /// Reads everything anew: what another program wrote may be a checkpoint, or another database.
    fn prove(&self, tip: ChainTip) -> Result<(), SqliteFailure> {
        match self.is_whole(tip) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.files.database_changed().into()),
            Err(failure) => {
                tracing::error!(error = %failure, "the database cannot be verified");
                Err(self.files.database_changed().into())
            }
        }
    }

    fn is_whole(&self, tip: ChainTip) -> Result<bool, SqliteFailure> {
        // A connection of its own: the writer's could answer from the pages it has cached.
        let conn = open::open_reader(&self.path)?;
        let check: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        let report = audit::walk(&conn, None)?;
        let whole = check == "ok" && report.problems.is_empty();
        Ok(whole && (report.head, report.head_hash) == (tip.seq, hex(&tip.hash)))
    }

    /// Reads what the write-ahead log holds now, and gives the number of its frames.
    fn follow_log(&mut self) -> Result<usize, SqliteFailure> {
        let mut count = self.conn.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?;
        let frames: i64 = count.query_row([], |row| row.get(1))?;
        let frames = usize::try_from(frames).unwrap_or(0);
        match self.log_copy.follow(frames) {
            Ok(()) => Ok(frames),
            Err(CopyError::Changed) => Err(self.files.log_changed().into()),
            Err(CopyError::Io(error)) => Err(error.into()),
        }
    }

    /// Moves the write-ahead log into the database.
    fn checkpoint(&self) {
        let moved = self
            .conn
            // Passive, because the writer must not wait for readers; what one still needs is moved
            // next time.
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if let Err(error) = moved {
            tracing::debug!(%error, "the write-ahead log stays for now");
        }
    }

    /// Nobody rescued a lost record, and after this nobody can.
    fn rescue_unasked(&mut self) {
        if self.lost.is_none() || self.rescued {
            return;
        }
        let target = with_suffix(&self.path, ".rescued");
        match self.rescue(&target) {
            Ok(rescued) => tracing::warn!(
                file = %target.display(),
                events = rescued.events,
                "the lost record was saved to another file"
            ),
            Err(error) => tracing::error!(%error, "the lost record could not be saved"),
        }
    }

    /// Once a file is lost the connection must not touch what lies under its names: closing it
    /// would remove another write-ahead log.
    fn remember_loss(&mut self, failure: SqliteFailure, doing: &'static str) -> StoreError {
        if let SqliteFailure::Lost(lost) = &failure {
            tracing::error!(error = %lost, "the record is lost");
            self.lost = Some(lost.clone());
            let keep = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            if let Err(error) = self.conn.set_db_config(keep, true) {
                tracing::error!(%error, "files under the names of the record may be removed");
            }
        }
        failure.into_error(&self.path, doing)
    }
}

impl SqliteLog {
    /// Sets a pragma of the writer, so that tests can meet a disk that is full or cannot be written.
    #[doc(hidden)]
    pub fn set_pragma(&mut self, name: &str, value: i64) -> Result<(), StoreError> {
        let set = self
            .conn
            .pragma_update_and_check(None, name, value, |_| Ok(()));
        match set {
            Ok(()) | Err(rusqlite::Error::QueryReturnedNoRows) => Ok(()),
            Err(error) => {
                Err(SqliteFailure::from(error).into_error(&self.path, "setting a pragma"))
            }
        }
    }

    fn undo(&mut self) {
        self.strings.clear_caches();
        // Some errors have ended the transaction already.
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "could not roll back");
        }
        // The next append sets it again if it needs it.
        if let Err(error) = self.conn.execute_batch("PRAGMA secure_delete = FAST") {
            tracing::debug!(%error, "appends go on overwriting what they delete");
        }
    }
}

impl Drop for SqliteLog {
    fn drop(&mut self) {
        if self.check().is_err() {
            return self.rescue_unasked();
        }
        if let Err(error) = self.write_deferred_models() {
            // The next host does it.
            tracing::debug!(%error, "the read models stay behind the log");
            self.undo();
        }
        // Readers may outlive the writer, and they cannot move the write-ahead log into the file.
        let moved = self
            .conn
            .busy_timeout(Duration::from_millis(200))
            .and_then(|()| self.conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"));
        if let Err(error) = moved {
            tracing::debug!(%error, "the write-ahead log stays");
        }
    }
}

/// Readers of the same file. They see whole commits and never wait for the writer.
pub struct SqliteHistory {
    path: PathBuf,
    kinds: KindCodes,
    models: Arc<SharedModels>,
    pool: ReaderPool,
}

impl SqliteHistory {
    /// The newest event and its hash in hexadecimal: what an audit can be held against later.
    pub fn head(&self) -> Result<(Seq, String), StoreError> {
        self.read(|conn| find_tip(conn).map(|tip| (tip.seq, hex(&tip.hash))))
    }

    /// Runs a read in one transaction, so that all of it sees the same commit.
    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, SqliteFailure>,
    ) -> Result<T, StoreError> {
        self.pool
            .with_reader(|conn| {
                let transaction = conn.unchecked_transaction()?;
                let value = read(&transaction)?;
                transaction.finish()?;
                Ok(value)
            })
            .map_err(|failure| failure.into_error(&self.path, "reading the log"))
    }

    /// Runs a read that needs the tables and what is not in them yet, both as of one commit.
    fn read_models<T>(
        &self,
        read: impl Fn(&Connection, &DeferredModels) -> Result<T, SqliteFailure>,
    ) -> Result<T, StoreError> {
        for _ in 0..MODEL_READS_MAX {
            let models = self.models.get();
            let found = self.read(|conn| {
                // The writer may have moved them to the tables between the two looks.
                if find_models_head(conn)? != models.base {
                    return Ok(None);
                }
                read(conn, &models).map(Some)
            })?;
            if let Some(found) = found {
                return Ok(found);
            }
            // It says so right after its commit.
            std::thread::yield_now();
        }
        Err(StoreError::Damaged {
            path: self.path.clone(),
            what: "its read models are not those that the host wrote".to_owned(),
        })
    }
}

fn meta<T: rusqlite::types::FromSql>(conn: &Connection, key: &str) -> Result<T, SqliteFailure> {
    let mut find = conn.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    find.query_row([key], |row| row.get(0))
        .map_err(SqliteFailure::from)
}

/// The newest event, which must be the one that was committed last.
fn find_tip(conn: &Connection) -> Result<ChainTip, SqliteFailure> {
    let counted: i64 = meta(conn, "head")?;
    let mut newest =
        conn.prepare_cached("SELECT seq, hash FROM events ORDER BY seq DESC LIMIT 1")?;
    let newest = newest
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (seq, hash) = match newest {
        Some(newest) => newest,
        None => (0, chain::genesis(&meta::<String>(conn, "stream")?)),
    };
    if seq != counted {
        return Err(SqliteFailure::Damaged(format!(
            "its newest event is {seq}, but {counted} was committed"
        )));
    }
    Ok(ChainTip {
        seq: rows::from_sql_seq(seq),
        hash,
    })
}

/// The newest event that the read models in their tables count in.
fn find_models_head(conn: &Connection) -> Result<Seq, SqliteFailure> {
    meta(conn, "models").map(rows::from_sql_seq)
}

//! Writing what a writer can still read to another file, after its own files were lost.
//!
//! Invariants: nothing that exists is overwritten; a file that was written is proved whole before it is
//! called rescued; the files of the record are only read.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::open;
use super::record_files::{RecordFiles, with_suffix};
use crate::failure::SqliteFailure;
use crate::{RescuedRecord, StoreError, audit};

const DOING: &str = "rescuing the record";

/// Writes a database to `target`: through the connection, which still has removed files open, or from
/// the database and the copy of the write-ahead log in memory.
pub(super) fn rescue(
    conn: &Connection,
    files: &RecordFiles,
    log_copy: &[u8],
    target: &Path,
) -> Result<RescuedRecord, StoreError> {
    // Reserves the name; the file takes its place when it is whole.
    match create_new(target) {
        Ok(reserved) => drop(reserved),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let message = format!(
                "`{}` already exists and is not overwritten",
                target.display()
            );
            return Err(StoreError::Backend {
                doing: DOING,
                source: message.into(),
            });
        }
        Err(error) => return Err(SqliteFailure::from(error).into_error(target, DOING)),
    }
    let draft = RescueDraft(with_suffix(target, ".part"));
    let written = copy_both(files, log_copy, &draft)
        .map_err(|failure| failure.into_error(&draft.0, DOING))
        .and_then(|()| prove(&draft.0))
        .or_else(|from_copy| {
            tracing::warn!(error = %from_copy, "the files could not be copied");
            draft.clear();
            vacuum_into(conn, &draft)
                .map_err(|failure| failure.into_error(&draft.0, DOING))
                .and_then(|()| prove(&draft.0))
        })
        .and_then(|rescued| {
            put_in_place(&draft, target)
                .map_err(|error| SqliteFailure::from(error).into_error(target, DOING))?;
            Ok(rescued)
        });
    // The empty file that reserved the name must not be mistaken for a rescued record.
    written.inspect_err(|_| drop(fs::remove_file(target)))
}

/// A database that is not known to be whole yet, and what `SQLite` makes beside it. Gone when dropped.
struct RescueDraft(PathBuf);

impl RescueDraft {
    fn log(&self) -> PathBuf {
        with_suffix(&self.0, "-wal")
    }

    fn clear(&self) {
        let shared_memory = with_suffix(&self.0, "-shm");
        for path in [&self.0, &self.log(), &shared_memory] {
            // One that was never made need not go.
            drop(fs::remove_file(path));
        }
    }
}

impl Drop for RescueDraft {
    fn drop(&mut self) {
        self.clear();
    }
}

fn create_new(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.create_new(true).write(true).mode(0o600).open(path)
}

/// The database as it is, with the write-ahead log as it was committed beside it: what the next host
/// would have found.
fn copy_both(
    files: &RecordFiles,
    log_copy: &[u8],
    draft: &RescueDraft,
) -> Result<(), SqliteFailure> {
    let mut database = File::open(files.find_database()?)?;
    std::io::copy(&mut database, &mut create_new(&draft.0)?)?;
    create_new(&draft.log())?.write_all(log_copy)?;
    let conn = open::connect(&draft.0, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(())
}

fn vacuum_into(conn: &Connection, draft: &RescueDraft) -> Result<(), SqliteFailure> {
    // SQLite would create the file with the process's default mode, readable by others.
    drop(create_new(&draft.0)?);
    let path = draft.0.as_os_str().to_string_lossy();
    conn.execute("VACUUM INTO ?1", [path])?;
    Ok(())
}

fn prove(draft: &Path) -> Result<RescuedRecord, StoreError> {
    let report = audit::verify(draft, None)?;
    match report.problems.first() {
        None => Ok(RescuedRecord {
            events: report.events,
            head: report.head,
            head_hash: report.head_hash,
        }),
        Some(problem) => Err(StoreError::Damaged {
            path: draft.to_path_buf(),
            what: problem.to_string(),
        }),
    }
}

fn put_in_place(draft: &RescueDraft, target: &Path) -> std::io::Result<()> {
    // The content must be on the disk before its name, or a crash leaves an empty file under it.
    File::open(&draft.0)?.sync_all()?;
    fs::rename(&draft.0, target)?;
    let folder = target.parent().filter(|path| !path.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

//! Opening the file: whose it is, whether we know it, and how it is to be kept.
//!
//! Invariants: one host at a time holds the lock; a file that is not ours or is newer than we
//! are is not written to; a file we make is readable by its owner only, from its first byte.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use countersign_core::hex;
use countersign_core::limits::HANDOVER_MS;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::record_files::with_suffix;
use crate::StoreError;
use crate::failure::SqliteFailure;

/// One file per released schema, oldest first, each with the version it leads to.
const MIGRATIONS: &[(i64, &str)] = &[
    (1, include_str!("../../migrations/0001.sql")),
    (2, include_str!("../../migrations/0002.sql")),
];

/// The newest schema known here.
const SCHEMA: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;

/// `CSgn`: marks the file as ours.
const APPLICATION_ID: i64 = 0x4353_676e;

/// How long a lock of a foreign program is waited for.
const BUSY: Duration = Duration::from_secs(5);

const LOCK_POLL: Duration = Duration::from_millis(5);

/// Pages in the write-ahead log before they are moved to the file: 4 MB. Many enough that pages
/// written again and again are moved once, and few enough that nobody waits long for the move and
/// that the copy of the log in memory stays small.
pub(super) const CHECKPOINT_FRAMES: usize = 1_000;

const DOING: &str = "opening the database";

/// The writer's connection to a file that is ours, up to date, and locked.
pub(super) struct WriterConnection {
    pub(super) conn: Connection,
    pub(super) lock: File,
}

/// Opens or makes the file for its one writer.
pub(super) fn open_writer(path: &Path) -> Result<WriterConnection, StoreError> {
    // The order matters: nothing is written before the lock is held and the file is known as ours.
    let lock = lock(path)?;
    create(path).map_err(|error| SqliteFailure::from(error).into_error(path, DOING))?;
    check_header(path)?;
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .map_err(|failure| failure.into_error(path, DOING))?;
    check_schema(&conn, path)?;
    prepare(&conn).map_err(|failure| failure.into_error(path, DOING))?;
    Ok(WriterConnection { conn, lock })
}

/// Whether a writer of this version could open the file, as far as that shows without writing: a
/// host may be using it. A file that is not there yet is as good as one of ours.
pub fn check_database(path: &Path) -> Result<(), StoreError> {
    if !path.exists() {
        return Ok(());
    }
    check_header(path)?;
    let conn = open_reader(path).map_err(|failure| failure.into_error(path, DOING))?;
    check_schema(&conn, path).map(|_| ())
}

/// Opens the file to read what is committed.
pub(super) fn open_reader(path: &Path) -> Result<Connection, SqliteFailure> {
    let conn = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    conn.execute_batch(
        "PRAGMA cache_size = -1024; PRAGMA temp_store = MEMORY; PRAGMA query_only = ON;",
    )?;
    Ok(conn)
}

/// Opens the file to read it, with or without a host beside us.
pub(crate) fn open_for_audit(path: &Path) -> Result<Connection, StoreError> {
    check_header(path)?;
    let conn = open_reader(path).map_err(|failure| failure.into_error(path, DOING))?;
    match check_schema(&conn, path)? {
        0 => Err(StoreError::Damaged {
            path: path.to_path_buf(),
            what: "it holds no record".to_owned(),
        }),
        _ => Ok(conn),
    }
}

pub(super) fn connect(path: &Path, access: OpenFlags) -> Result<Connection, SqliteFailure> {
    // `Connection` is not `Sync`, so that the mutex of `SQLite` would protect nothing.
    let conn = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // Until the file is known to be ours, closing it must not move anything into it.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    conn.busy_timeout(BUSY)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(conn)
}

fn lock(path: &Path) -> Result<File, StoreError> {
    let file =
        open_lock(path).map_err(|error| SqliteFailure::from(error).into_error(path, DOING))?;
    // A host that is being replaced gives the lock up within this time.
    let deadline = Instant::now() + Duration::from_millis(HANDOVER_MS);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_POLL),
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::InUse {
                    path: path.to_path_buf(),
                });
            }
            Err(TryLockError::Error(error)) => {
                return Err(SqliteFailure::from(error).into_error(path, DOING));
            }
        }
    }
}

fn open_lock(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    // A file of its own, because closing a descriptor of the database would drop the locks that
    // `SQLite` holds on it. Never removed: a waiting host would then lock a file that nobody sees.
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .mode(0o600)
        .open(with_suffix(path, ".lock"))
}

/// Makes the file with its mode before `SQLite` would make it with another.
fn create(path: &Path) -> std::io::Result<()> {
    match OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
    {
        Ok(file) => {
            file.sync_all()?;
            // The name of a new file survives a power failure only if its folder is flushed too.
            let folder = path
                .parent()
                .filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        }
        // A file that its owner marked is left alone even where we could write to it.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            if path.metadata()?.permissions().readonly() {
                return Err(std::io::ErrorKind::ReadOnlyFilesystem.into());
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Reads the first bytes as bytes, so that a file that is not for us is not touched at all.
fn check_header(path: &Path) -> Result<(), StoreError> {
    let mut header = Vec::new();
    let read = File::open(path).and_then(|file| file.take(100).read_to_end(&mut header));
    read.map_err(|source| StoreError::Backend {
        doing: DOING,
        source: Box::new(source),
    })?;
    // A host that crashed right after it made the file leaves it empty.
    if header.is_empty() {
        return Ok(());
    }
    // The user version is at offset 60: https://sqlite.org/fileformat.html#the_database_header
    let (Some(version), true) = (
        header.get(60..64),
        header.len() == 100 && header.starts_with(b"SQLite format 3\0"),
    ) else {
        return Err(StoreError::Damaged {
            path: path.to_path_buf(),
            what: "it is not a database".to_owned(),
        });
    };
    let found = version
        .iter()
        .fold(0, |number, byte| number << 8 | i64::from(*byte));
    if found > SCHEMA {
        return Err(StoreError::Newer {
            path: path.to_path_buf(),
            found,
            known: SCHEMA,
        });
    }
    Ok(())
}

/// The schema the file has, once more with what lies in the write-ahead log counted in.
fn check_schema(conn: &Connection, path: &Path) -> Result<i64, StoreError> {
    let (found, application, tables): (i64, i64, i64) = conn
        .query_row(
            "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
             FROM pragma_user_version, pragma_application_id",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .map_err(|error| SqliteFailure::from(error).into_error(path, DOING))?;
    if found > SCHEMA {
        return Err(StoreError::Newer {
            path: path.to_path_buf(),
            found,
            known: SCHEMA,
        });
    }
    if (found != 0 || tables != 0) && application != APPLICATION_ID {
        let what = "it is the database of another program".to_owned();
        return Err(StoreError::Damaged {
            path: path.to_path_buf(),
            what,
        });
    }
    Ok(found)
}

/// Brings a file that is ours up to date and sets how it is written.
fn prepare(conn: &Connection) -> Result<(), SqliteFailure> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    // With a write-ahead log only `FULL` flushes each commit: the contract promises that it survives
    // power loss. Rows move to other pages when a table grows; the places that they leave are
    // overwritten, because what is erased later must not be found there.
    conn.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA secure_delete = FAST;
         PRAGMA journal_size_limit = 33554432;
         PRAGMA cache_size = -8192;
         PRAGMA temp_store = MEMORY;",
    )?;
    // The writer does it, once it knows that the log is whole.
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    // One transaction, so that a crash leaves either the old schema or the new one, complete.
    conn.execute_batch("BEGIN IMMEDIATE")?;
    migrate(conn)?;
    conn.execute_batch("COMMIT")?;
    Ok(())
}

fn migrate(conn: &Connection) -> Result<(), SqliteFailure> {
    let found: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (version, migration) in MIGRATIONS {
        if *version > found {
            conn.execute_batch(migration)?;
            conn.pragma_update(None, "user_version", version)?;
        }
    }
    if found == 0 {
        let mut stream = [0; 8];
        getrandom::fill(&mut stream)?;
        conn.execute("INSERT INTO strings (text) VALUES (?1)", [hex(&stream)])?;
        conn.execute(
            "INSERT INTO meta VALUES ('stream', ?1), ('head', 0), ('models', 0), ('ids_until', 0)",
            [hex(&stream)],
        )?;
        // In the same transaction: a file with tables but without this number counts
        // as another program's.
        conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    Ok(())
}

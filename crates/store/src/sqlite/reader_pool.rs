//! A few readers, shared. Who finds none free waits for one, never for the writer.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use super::open;
use super::record_files::RecordFiles;
use crate::failure::SqliteFailure;

/// Readers open at a time: what the processors can serve, and what memory is given to.
const READERS_MAX: usize = 4;

pub(super) struct ReaderPool {
    path: PathBuf,
    files: Arc<RecordFiles>,
    readers: Mutex<OpenReaders>,
    freed: Condvar,
}

#[derive(Default)]
struct OpenReaders {
    idle: Vec<Connection>,
    open: usize,
}

impl ReaderPool {
    pub(super) fn new(path: PathBuf, files: Arc<RecordFiles>) -> Self {
        Self {
            path,
            files,
            readers: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// Lends a reader. One that fails to read is closed: what ails it may pass with it.
    pub(super) fn with_reader<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, SqliteFailure>,
    ) -> Result<T, SqliteFailure> {
        // Declared before the connection, so that it is dropped after it: whatever fails, the slot
        // is free again only when the connection is closed.
        let mut place = ReaderSlot {
            pool: self,
            conn: None,
        };
        let conn = self.reserve().map_or_else(|| self.connect(), Ok)?;
        let value = read(&conn)?;
        place.conn = Some(conn);
        Ok(value)
    }

    /// A new reader of the very files that the writer has open, not of others under their names.
    fn connect(&self) -> Result<Connection, SqliteFailure> {
        // Twice, because a file may be replaced between the first look and the open.
        self.files.check()?;
        let conn = open::open_reader(&self.path)?;
        self.files.check()?;
        Ok(conn)
    }

    /// An idle reader, or the right to open one.
    fn reserve(&self) -> Option<Connection> {
        let mut readers = self
            .freed
            .wait_while(self.lock(), |readers| {
                readers.idle.is_empty() && readers.open >= READERS_MAX
            })
            .unwrap_or_else(PoisonError::into_inner);
        let idle = readers.idle.pop();
        if idle.is_none() {
            readers.open += 1;
        }
        idle
    }

    fn lock(&self) -> MutexGuard<'_, OpenReaders> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a reader on loan: given back with it or, if it was lost on the way, without.
struct ReaderSlot<'p> {
    pool: &'p ReaderPool,
    conn: Option<Connection>,
}

impl Drop for ReaderSlot<'_> {
    fn drop(&mut self) {
        let mut readers = self.pool.lock();
        match self.conn.take() {
            Some(conn) => readers.idle.push(conn),
            None => readers.open -= 1,
        }
        // The reader that is woken takes the lock at once.
        drop(readers);
        self.pool.freed.notify_one();
    }
}

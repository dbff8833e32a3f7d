//! The files that are open, and whether they are still the ones at their paths.
//!
//! Invariant: nothing here opens the database or its shared memory. Closing a descriptor of either
//! would drop the locks that `SQLite` holds on them for this process.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::failure::LostFile;

/// The database, its write-ahead log, its shared memory and the lock of its one host, as they were when
/// they were opened. Nobody removes any of them while a writer is connected.
#[derive(Debug)]
pub(super) struct RecordFiles {
    database: OpenedFile,
    log: OpenedFile,
    shared_memory: OpenedFile,
    lock: OpenedFile,
}

/// When the database was last changed: every write to it, by whomever, gives another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChangeTime(i64, i64);

#[derive(Debug)]
struct OpenedFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl RecordFiles {
    /// Remembers which files a writer that has just connected uses.
    pub(super) fn of_writer(path: &Path) -> io::Result<Self> {
        // `SQLite` puts the others beside the file that a link leads to.
        let real = path.canonicalize()?;
        Ok(Self {
            database: OpenedFile::at(path.to_path_buf())?,
            log: OpenedFile::at(with_suffix(&real, "-wal"))?,
            shared_memory: OpenedFile::at(with_suffix(&real, "-shm"))?,
            lock: OpenedFile::at(with_suffix(path, ".lock"))?,
        })
    }

    /// Finds out whether each file is still at its path, and when the database was last changed.
    pub(super) fn check(&self) -> Result<ChangeTime, LostFile> {
        let database = self.database.check()?;
        self.log.check()?;
        self.shared_memory.check()?;
        self.lock.check()?;
        Ok(ChangeTime(database.ctime(), database.ctime_nsec()))
    }

    pub(super) fn log_path(&self) -> &Path {
        &self.log.path
    }

    /// The database does not hold what was written to it.
    pub(super) fn database_changed(&self) -> LostFile {
        self.database.lost("was cut short or overwritten")
    }

    /// The write-ahead log does not hold what was written to it.
    pub(super) fn log_changed(&self) -> LostFile {
        self.log.lost("was cut short or overwritten")
    }

    /// A path through which the open database can be read, also after it was removed.
    pub(super) fn find_database(&self) -> io::Result<PathBuf> {
        if self.database.check().is_ok() {
            return Ok(self.database.path.clone());
        }
        for entry in std::fs::read_dir("/proc/self/fd")? {
            let descriptor = entry?.path();
            let found = std::fs::metadata(&descriptor);
            if found.is_ok_and(|found| self.database.is_same(&found)) {
                return Ok(descriptor);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

impl OpenedFile {
    fn at(path: PathBuf) -> io::Result<Self> {
        let found = path.metadata()?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            path,
        })
    }

    /// An inode is not used again while it is open, so that the same number is the same file.
    fn is_same(&self, found: &Metadata) -> bool {
        (found.dev(), found.ino()) == (self.device, self.inode)
    }

    fn check(&self) -> Result<Metadata, LostFile> {
        match self.path.metadata() {
            Ok(found) if self.is_same(&found) && found.nlink() > 0 => Ok(found),
            Ok(_) => Err(self.lost("was replaced by another file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.lost("was removed")),
            // What cannot be looked at may be anything.
            Err(_) => Err(self.lost("cannot be reached any more")),
        }
    }

    fn lost(&self, what: &'static str) -> LostFile {
        LostFile {
            path: self.path.clone(),
            what,
        }
    }
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

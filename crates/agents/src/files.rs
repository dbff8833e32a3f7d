//! Files that an agent reads and writes through the host, confined to folders.
//!
//! A name is resolved once, to a handle; folders, rules and people judge where that handle truly is,
//! and the same handle is then used. So it does not matter what becomes of the name meanwhile.
//!
//! Invariants: nothing is opened, created or truncated before it was judged; nothing but regular files
//! is ever opened for more than a look; a reader of a file that is written sees all of the old text
//! or all of the new.
//!
//! Everything here blocks.

mod folder_listing;
mod path_handle;
mod people_folder;
mod read;
mod write;

use std::io;
use std::path::{Path, PathBuf};

pub use folder_listing::{FolderListing, ListDepth, ListedFile, ListedKind};
pub use people_folder::{FilePiece, FileRange, PeopleFolder, PieceText};
pub use read::{ReadTarget, open_for_read, read_text};
pub use write::{ExpectedFile, RewrittenFile, WriteTarget, open_for_write, write_text};

/// Where an agent may go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileRoots {
    dirs: Vec<PathBuf>,
    exact: Vec<PathBuf>,
}

impl FileRoots {
    /// Resolves the folders now, and never again: an agent that puts a link in the place of its
    /// folder gains nothing. Folders that are not there are left out.
    pub fn resolve(dirs: impl IntoIterator<Item = PathBuf>) -> Self {
        let dirs = dirs.into_iter().filter_map(|dir| dir.canonicalize().ok());
        Self {
            dirs: dirs.collect(),
            exact: Vec::new(),
        }
    }

    /// The folders, as they were resolved.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Admits one file, as [`FileError::Outside`] named it.
    #[must_use]
    pub fn admit_exact(mut self, path: impl Into<PathBuf>) -> Self {
        self.exact.push(path.into());
        self
    }

    fn check(&self, real: &Path) -> Result<(), FileError> {
        // By components, so that `/work/project-2` is not inside `/work/project`.
        let inside = self.dirs.iter().any(|dir| real.starts_with(dir));
        if inside || self.exact.iter().any(|exact| exact == real) {
            return Ok(());
        }
        Err(FileError::Outside {
            path: real.to_owned(),
        })
    }
}

/// Why a file was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Relative, or not a name of a file.
    #[error("`{}` is not an absolute path of a file", path.display())]
    BadPath { path: PathBuf },
    /// It is outside the folders of the agent.
    #[error("`{}` is outside the agent's folders", path.display())]
    Outside {
        /// Where it truly is: this is what a person can admit.
        path: PathBuf,
    },
    #[error("there is no file `{}`", path.display())]
    NotFound { path: PathBuf },
    /// A folder, pipe, socket or device, or a link to nothing.
    #[error("`{}` is not a regular file", path.display())]
    NotRegular { path: PathBuf },
    /// Too large to read or write.
    #[error("`{}` has {bytes} bytes; at most {max} are read or written", path.display())]
    TooLarge {
        path: PathBuf,
        bytes: u64,
        max: usize,
    },
    #[error("`{}` is not UTF-8 text", path.display())]
    NotText { path: PathBuf },
    /// What it was judged by has changed since.
    #[error("`{}` was moved while it was being written; nothing was changed", path.display())]
    Moved { path: PathBuf },
    /// The folder is not at its path any more, or the path leads through a link.
    #[error("`{}` is not the folder that the agent was given", path.display())]
    FolderReplaced { path: PathBuf },
    /// It belongs to the host.
    #[error("`{}` belongs to the host", path.display())]
    HostFile { path: PathBuf },
    /// Its content is not what the writer had read.
    #[error("`{}` was changed since it was read; nothing was written", path.display())]
    Changed {
        path: PathBuf,
        /// The digest of what is there; nothing if there is no file, or one too large to write.
        digest: Option<String>,
    },
    /// The system said no.
    #[error("could not {what} `{}`", path.display())]
    Failed {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

//! Files that an agent wants, as far as they may be looked at before anybody allowed them.
//!
//! Invariant: what is opened once it was allowed is what was asked about.

use std::path::{Path, PathBuf};

use countersign_agents::{FileError, FileRoots};

/// A file that was found, or one outside the agent's folders that somebody may admit.
pub(super) enum RequestedFile<T> {
    Here(T),
    Outside { asked: PathBuf, real: PathBuf },
}

impl<T> RequestedFile<T> {
    pub(super) fn classify(asked: &Path, found: Result<T, FileError>) -> Result<Self, FileError> {
        match found {
            Ok(file) => Ok(Self::Here(file)),
            Err(FileError::Outside { path }) => Ok(Self::Outside {
                asked: asked.to_owned(),
                real: path,
            }),
            Err(error) => Err(error),
        }
    }

    /// The file itself, once it was allowed.
    pub(super) fn open(
        self,
        roots: &FileRoots,
        open: impl FnOnce(&Path, &FileRoots) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        match self {
            Self::Here(file) => Ok(file),
            Self::Outside { asked, real } => {
                // Only the file that was shown: if the path leads elsewhere by now, it is refused.
                let roots = roots.clone().admit_exact(real);
                open(&asked, &roots)
            }
        }
    }

    pub(super) fn real_path<'a>(&'a self, path: impl FnOnce(&'a T) -> &'a Path) -> &'a Path {
        match self {
            Self::Here(file) => path(file),
            Self::Outside { real, .. } => real,
        }
    }
}

//! What can go wrong inside the backend, before it is translated to [`StoreError`].

use std::path::{Path, PathBuf};

use countersign_core::Seq;
use rusqlite::ErrorCode;

use crate::StoreError;

/// An append that no writer may make.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppendRefusal {
    /// A number is missing or comes twice.
    #[error("event {found} does not follow event {head}")]
    OutOfOrder { head: Seq, found: Seq },
    /// Something open would lose what it needs.
    #[error("event {0} belongs to something that is still open")]
    StillOpen(Seq),
    /// There is no such event.
    #[error("event {0} is not on the record")]
    NotRecorded(Seq),
    /// What says that something was erased must stay.
    #[error("event {0} is the record of an erasure")]
    RecordOfErasure(Seq),
}

impl From<AppendRefusal> for StoreError {
    fn from(refusal: AppendRefusal) -> Self {
        Self::Backend {
            doing: "checking an append",
            source: Box::new(refusal),
        }
    }
}

/// A file of the record is no longer the one that is open, or no longer holds what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` {what}", path.display())]
pub(crate) struct LostFile {
    pub(crate) path: PathBuf,
    pub(crate) what: &'static str,
}

impl From<LostFile> for StoreError {
    fn from(LostFile { path, what }: LostFile) -> Self {
        Self::Lost { path, what }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SqliteFailure {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Random(#[from] getrandom::Error),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Refused(#[from] AppendRefusal),
    #[error(transparent)]
    Lost(#[from] LostFile),
    #[error("{0}")]
    Damaged(String),
}

impl SqliteFailure {
    /// Translates to the error of the contract; `doing` says what was being done.
    pub(crate) fn into_error(self, path: &Path, doing: &'static str) -> StoreError {
        let path = path.to_path_buf();
        match self {
            Self::Damaged(what) => StoreError::Damaged { path, what },
            Self::Refused(refusal) => refusal.into(),
            Self::Lost(file) => file.into(),
            // A value of another type than its column's was not written by us.
            Self::Sql(
                error @ (rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::InvalidColumnType(..)),
            ) => StoreError::Damaged {
                path,
                what: error.to_string(),
            },
            Self::Sql(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => StoreError::Full { path },
                Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { path },
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged {
                    path,
                    what: error.to_string(),
                },
                _ => StoreError::Backend {
                    doing,
                    source: Box::new(error),
                },
            },
            Self::Io(error) => match error.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                    StoreError::Full { path }
                }
                std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
                    StoreError::ReadOnly { path }
                }
                _ => StoreError::Backend {
                    doing,
                    source: Box::new(error),
                },
            },
            Self::Json(error) => StoreError::Backend {
                doing,
                source: Box::new(error),
            },
            Self::Random(error) => StoreError::Backend {
                doing,
                source: Box::new(error),
            },
        }
    }
}

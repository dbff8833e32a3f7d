//! Reading text.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use countersign_core::limits;
use rustix::fs::{FileType, OFlags};

use super::path_handle::PathHandle;
use super::{FileError, FileRoots};

/// A file that may be read.
#[derive(Debug)]
pub struct ReadTarget {
    file: File,
    real: PathBuf,
}

impl ReadTarget {
    /// Where the file truly is. Judge this before anything is read.
    pub fn real_path(&self) -> &Path {
        &self.real
    }
}

/// Opens a regular file inside the roots. Reads nothing.
pub fn open_for_read(path: &Path, roots: &FileRoots) -> Result<ReadTarget, FileError> {
    if !path.is_absolute() {
        return Err(FileError::BadPath { path: path.into() });
    }
    let place = PathHandle::find(path)?.ok_or_else(|| FileError::NotFound { path: path.into() })?;
    // Judged by where the handle is, not by the name that was given: a link may lead anywhere.
    roots.check(&place.real)?;
    if place.kind() != FileType::RegularFile {
        return Err(FileError::NotRegular { path: path.into() });
    }
    // Before a person is asked: what is too large is refused either way.
    check_size(path, u64::try_from(place.stat.st_size).unwrap_or(u64::MAX))?;
    let handle = place
        .reopen(OFlags::RDONLY)
        .map_err(|error| FileError::Failed {
            what: "read",
            path: path.into(),
            source: error.into(),
        })?;
    Ok(ReadTarget {
        file: handle.into(),
        real: place.real,
    })
}

/// All lines, or `limit` of them from the one numbered `line`, counted from 1.
pub fn read_text(
    opened: ReadTarget,
    line: Option<u32>,
    limit: Option<u32>,
) -> Result<String, FileError> {
    let ReadTarget { file, real } = opened;
    // It may have grown since its size was looked at.
    let max = limits::AGENT_FILE_BYTES_MAX as u64;
    let mut bytes = Vec::new();
    let read = file.take(max + 1).read_to_end(&mut bytes);
    read.map_err(|source| cannot_read(&real, source))?;
    check_size(&real, bytes.len() as u64)?;
    let text = String::from_utf8(bytes).map_err(|_| FileError::NotText { path: real })?;
    if line.is_none() && limit.is_none() {
        return Ok(text);
    }
    let skipped = usize::try_from(line.unwrap_or(1).saturating_sub(1)).unwrap_or(usize::MAX);
    let wanted = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let lines = text.split_inclusive('\n').skip(skipped).take(wanted);
    Ok(lines.collect())
}

pub(super) fn cannot_read(path: &Path, source: io::Error) -> FileError {
    FileError::Failed {
        what: "read",
        path: path.into(),
        source,
    }
}

pub(super) fn check_size(path: &Path, bytes: u64) -> Result<(), FileError> {
    let max = limits::AGENT_FILE_BYTES_MAX;
    if bytes > max as u64 {
        return Err(FileError::TooLarge {
            path: path.into(),
            bytes,
            max,
        });
    }
    Ok(())
}

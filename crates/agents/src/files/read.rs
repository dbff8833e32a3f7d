//! Reading text.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use countersign_core::limits;
use rustix::fs::{Access, FileType, OFlags};

use super::path_handle::PathHandle;
use super::{FileError, FileRoots};

/// A file that may be read.
#[derive(Debug)]
pub struct ReadTarget {
    place: PathHandle,
}

impl ReadTarget {
    /// Where the file truly is. Judge this before anything is read.
    pub fn real_path(&self) -> &Path {
        &self.place.real
    }
}

/// Finds a regular file inside the roots. It is opened when it is read.
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
    let readable = place.check_access(Access::READ_OK);
    readable.map_err(|error| cannot_read(path, error.into()))?;
    Ok(ReadTarget { place })
}

/// All lines, or `limit` of them from the one numbered `line`, counted from 1.
pub fn read_text(
    opened: ReadTarget,
    line: Option<u32>,
    limit: Option<u32>,
) -> Result<String, FileError> {
    let ReadTarget { place } = opened;
    let handle = place.reopen(OFlags::RDONLY);
    let real = place.real;
    let file = File::from(handle.map_err(|error| cannot_read(&real, error.into()))?);
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

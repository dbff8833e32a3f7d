//! Writing a file that must still be what its writer read.
//!
//! Invariant: what was changed meanwhile is never replaced unseen, also if it is changed between the last look and
//! the replacement: what the replacement displaced is looked at, and put back if it is something else.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use countersign_core::{hex, limits};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fstat, fsync, linkat, openat, renameat, unlinkat,
};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};

use super::{
    FileError, WriteTarget, draft_name, enter_new, failed, find_real_path, open_folder, write_draft,
};

/// What a writer expects to find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedFile {
    Absent,
    /// A file with this digest.
    Digest(String),
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewrittenFile {
    pub digest: String,
    pub bytes: u64,
}

/// One replacement at a time: of two writers that read the same file, the second finds what the first wrote.
static REPLACEMENT: Mutex<()> = Mutex::new(());

/// SHA-256 in hexadecimal.
pub(in crate::files) fn content_digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Replaces the file as a whole if it is what its writer expects. Keeps its mode; creates the folders that a new
/// one lacks.
pub(in crate::files) fn write_if_expected(
    target: &WriteTarget,
    content: &str,
    expected: &ExpectedFile,
) -> Result<RewrittenFile, FileError> {
    let real =
        find_real_path(&target.folder).map_err(|source| cannot_write(&target.real, source))?;
    if real != target.folder_real {
        return Err(FileError::Moved {
            path: target.real.clone(),
        });
    }
    let written = replace_if_expected(target, content, expected);
    match written.map_err(|source| cannot_write(&target.real, source))? {
        Replacement::Done => Ok(RewrittenFile {
            digest: content_digest(content.as_bytes()),
            bytes: content.len() as u64,
        }),
        Replacement::Refused(digest) => Err(FileError::Changed {
            path: target.real.clone(),
            digest,
        }),
    }
}

fn cannot_write(path: &Path, source: io::Error) -> FileError {
    failed("write", path, source)
}

enum Replacement {
    Done,
    /// With the digest of what is there.
    Refused(Option<String>),
}

fn replace_if_expected(
    target: &WriteTarget,
    content: &str,
    expected: &ExpectedFile,
) -> io::Result<Replacement> {
    if let Some(refused) = compare(target, expected)? {
        return Ok(refused);
    }
    let mut folder = open_folder(&target.folder, ".".as_ref())?;
    for name in &target.missing {
        folder = enter_new(&folder, name)?;
    }
    let draft = draft_name()?;
    let replaced = write_draft(&folder, &draft, target, content).and_then(|()| {
        let _turn = REPLACEMENT.lock().unwrap_or_else(PoisonError::into_inner);
        match expected {
            ExpectedFile::Absent => place_new(&folder, &draft, target),
            ExpectedFile::Digest(digest) => exchange(&folder, &draft, target, digest),
        }
    });
    // It may never have been made, or have become the file.
    let _ = unlinkat(&folder, &draft, AtFlags::empty());
    let replaced = replaced?;
    fsync(&folder)?;
    Ok(replaced)
}

/// Before anything is made: most conflicts end here.
fn compare(target: &WriteTarget, expected: &ExpectedFile) -> io::Result<Option<Replacement>> {
    // In a folder that is yet to be made there is no file that could be compared.
    if !target.missing.is_empty() {
        let is_conflict = matches!(expected, ExpectedFile::Digest(_));
        return Ok(is_conflict.then_some(Replacement::Refused(None)));
    }
    let found = digest_at(&target.folder, &target.name)?;
    let is_expected = match expected {
        ExpectedFile::Absent => found == FoundDigest::Nothing,
        ExpectedFile::Digest(digest) => found.is(digest),
    };
    Ok((!is_expected).then(|| Replacement::Refused(found.into_digest())))
}

/// A link is made only if nothing has the name.
fn place_new(folder: &OwnedFd, draft: &str, target: &WriteTarget) -> io::Result<Replacement> {
    match linkat(folder, draft, folder, &target.name, AtFlags::empty()) {
        Ok(()) => Ok(Replacement::Done),
        Err(Errno::EXIST) => {
            let found = digest_at(folder, &target.name)?;
            Ok(Replacement::Refused(found.into_digest()))
        }
        Err(error) => Err(error.into()),
    }
}

fn exchange(
    folder: &OwnedFd,
    draft: &str,
    target: &WriteTarget,
    digest: &str,
) -> io::Result<Replacement> {
    match exchange_names(folder, draft, target) {
        Ok(()) => {
            let displaced = digest_at(folder, draft)?;
            if displaced.is(digest) {
                return Ok(Replacement::Done);
            }
            exchange_names(folder, draft, target)?;
            Ok(Replacement::Refused(displaced.into_digest()))
        }
        Err(Errno::NOENT) => Ok(Replacement::Refused(None)),
        // Network file systems and old kernels cannot exchange: the file is looked at once more instead.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            let found = digest_at(folder, &target.name)?;
            if !found.is(digest) {
                return Ok(Replacement::Refused(found.into_digest()));
            }
            renameat(folder, draft, folder, &target.name)?;
            Ok(Replacement::Done)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(target_os = "linux")]
fn exchange_names(folder: &OwnedFd, draft: &str, target: &WriteTarget) -> rustix::io::Result<()> {
    use rustix::fs::{RenameFlags, renameat_with};

    renameat_with(folder, draft, folder, &target.name, RenameFlags::EXCHANGE)
}

#[cfg(not(target_os = "linux"))]
fn exchange_names(_: &OwnedFd, _: &str, _: &WriteTarget) -> rustix::io::Result<()> {
    Err(Errno::NOSYS)
}

#[derive(Debug, PartialEq, Eq)]
enum FoundDigest {
    Nothing,
    /// No regular file, or one that is too large to be written.
    Other,
    Digest(String),
}

impl FoundDigest {
    fn is(&self, digest: &str) -> bool {
        matches!(self, Self::Digest(found) if found == digest)
    }

    fn into_digest(self) -> Option<String> {
        match self {
            Self::Digest(digest) => Some(digest),
            Self::Nothing | Self::Other => None,
        }
    }
}

/// The digest of what has a name in a folder. Links are not followed.
fn digest_at(folder: &OwnedFd, name: impl rustix::path::Arg) -> io::Result<FoundDigest> {
    // With `NONBLOCK`, because opening a pipe would wait until somebody writes to it.
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let handle = match openat(folder, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(FoundDigest::Nothing),
        // `NOFOLLOW` fails with `LOOP` at a link, and opening a socket fails with `NXIO`.
        Err(Errno::LOOP | Errno::NXIO) => return Ok(FoundDigest::Other),
        opened => opened?,
    };
    if FileType::from_raw_mode(fstat(&handle)?.st_mode) != FileType::RegularFile {
        return Ok(FoundDigest::Other);
    }
    let max = limits::PEOPLE_FILE_BYTES_MAX;
    let mut bytes = Vec::new();
    File::from(handle)
        .take(max as u64 + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() > max {
        return Ok(FoundDigest::Other);
    }
    Ok(FoundDigest::Digest(content_digest(&bytes)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::files::{FileRoots, open_for_write};

    /// What a program changes between the look and the replacement is noticed by what was displaced.
    #[test]
    fn a_change_at_the_last_instant_is_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("a");
        fs::write(&path, "read").unwrap();
        let roots = FileRoots::resolve([folder.path().to_owned()]);
        let target = open_for_write(&path, &roots).unwrap();
        let handle = open_folder(&target.folder, ".".as_ref()).unwrap();
        write_draft(&handle, "draft", &target, "mine").unwrap();
        fs::write(&path, "theirs").unwrap();
        let replaced = exchange(&handle, "draft", &target, &content_digest(b"read")).unwrap();
        let Replacement::Refused(digest) = replaced else {
            panic!("it was replaced unseen");
        };
        assert_eq!(digest, Some(content_digest(b"theirs")));
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        let replaced = exchange(&handle, "draft", &target, &content_digest(b"theirs")).unwrap();
        assert!(matches!(replaced, Replacement::Done));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn a_name_that_was_taken_at_the_last_instant_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("new");
        let roots = FileRoots::resolve([folder.path().to_owned()]);
        let target = open_for_write(&path, &roots).unwrap();
        let handle = open_folder(&target.folder, ".".as_ref()).unwrap();
        write_draft(&handle, "draft", &target, "mine").unwrap();
        fs::write(&path, "theirs").unwrap();
        let placed = place_new(&handle, "draft", &target).unwrap();
        assert!(matches!(placed, Replacement::Refused(Some(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }
}

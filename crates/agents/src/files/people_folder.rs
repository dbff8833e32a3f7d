//! The folder of an agent, as people look into it and write there.
//!
//! Invariants: nothing outside the folder is listed, read or written, whatever links lie in it and whatever takes
//! their place meanwhile; the host's own files are neither read nor written.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use countersign_core::limits;
use rustix::fs::{FileType, OFlags, Stat, lstat};

use super::path_handle::PathHandle;
use super::read::cannot_read;
use super::write::{content_digest, write_if_expected};
use super::{ExpectedFile, FileError, FileRoots, RewrittenFile, open_for_write};

/// A folder that was found where it is said to be.
#[derive(Debug)]
pub struct PeopleFolder {
    real: PathBuf,
    roots: FileRoots,
    host_paths: Vec<PathBuf>,
}

/// Which bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// The first byte; nothing for the last ones of the file.
    pub offset: Option<u64>,
    pub bytes: usize,
}

/// What a piece of a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PieceText {
    Whole(String),
    /// Bytes that are not UTF-8 were replaced.
    Damaged(String),
    /// It has zero bytes, which no text has.
    Binary,
}

/// A piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePiece {
    /// The number of its first byte, and of the byte after it.
    pub from: u64,
    pub next: u64,
    /// How long the file is.
    pub size: u64,
    pub modified: Option<SystemTime>,
    pub text: PieceText,
    /// Of the whole file, unless it is too large to be written.
    pub digest: Option<String>,
}

impl PeopleFolder {
    /// Finds the folder. One that is reached through a link is refused: whoever can write above it could have put
    /// another in its place.
    pub fn open(folder: &Path, host_paths: Vec<PathBuf>) -> Result<Self, FileError> {
        if !folder.is_absolute() {
            return Err(FileError::BadPath {
                path: folder.into(),
            });
        }
        let place = PathHandle::find(folder)?.ok_or_else(|| FileError::NotFound {
            path: folder.into(),
        })?;
        if place.real != folder || place.kind() != FileType::Directory {
            return Err(FileError::FolderReplaced {
                path: folder.into(),
            });
        }
        let roots = FileRoots {
            dirs: vec![place.real.clone()],
            exact: Vec::new(),
        };
        Ok(Self {
            real: place.real,
            roots,
            host_paths,
        })
    }

    /// Where it is.
    pub fn real_path(&self) -> &Path {
        &self.real
    }

    /// Opens what a path below the folder names, links inside it followed.
    pub(super) fn find(&self, path: &str) -> Result<PathHandle, FileError> {
        let path = self.locate(path)?;
        let place = PathHandle::find(&path)?.ok_or(FileError::NotFound { path })?;
        self.roots.check(&place.real)?;
        self.refuse_host_file(&place.real)?;
        self.refuse_link_to_host_file(&place)?;
        Ok(place)
    }

    /// Reads a piece of a regular file.
    pub fn read(&self, path: &str, range: FileRange) -> Result<FilePiece, FileError> {
        let place = self.find(path)?;
        if place.kind() != FileType::RegularFile {
            return Err(FileError::NotRegular { path: place.real });
        }
        let opened = place.reopen(OFlags::RDONLY);
        let file = opened.map_err(|error| cannot_read(&place.real, error.into()))?;
        read_piece(file.into(), range).map_err(|source| cannot_read(&place.real, source))
    }

    /// Writes a file as a whole, if it is still what its writer read.
    pub fn write(
        &self,
        path: &str,
        content: &str,
        expected: &ExpectedFile,
    ) -> Result<RewrittenFile, FileError> {
        let located = self.locate(path)?;
        let max = limits::PEOPLE_FILE_BYTES_MAX;
        if content.len() > max {
            return Err(FileError::TooLarge {
                path: located,
                bytes: content.len() as u64,
                max,
            });
        }
        if let Some(place) = PathHandle::find(&located)? {
            self.refuse_link_to_host_file(&place)?;
        }
        let target = open_for_write(&located, &self.roots)?;
        self.refuse_host_file(target.real_path())?;
        write_if_expected(&target, content, expected)
    }

    /// A path below the folder; without `..`, which means something else once links are followed.
    fn locate(&self, path: &str) -> Result<PathBuf, FileError> {
        let named = Path::new(path);
        let mut parts = named.components();
        let is_below = parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !is_below || path.contains('\0') {
            return Err(FileError::BadPath { path: named.into() });
        }
        Ok(self.real.join(named))
    }

    fn refuse_host_file(&self, real: &Path) -> Result<(), FileError> {
        if self.host_paths.iter().any(|own| real.starts_with(own)) {
            return Err(FileError::HostFile { path: real.into() });
        }
        Ok(())
    }

    /// A second name of a file of the host, which whoever may write in both folders can make.
    fn refuse_link_to_host_file(&self, place: &PathHandle) -> Result<(), FileError> {
        let own = &place.stat;
        // Most files have one name, and then nothing has to be looked at.
        if place.kind() == FileType::RegularFile && own.st_nlink > 1 && self.is_of_host(own) {
            let path = place.real.clone();
            return Err(FileError::HostFile { path });
        }
        Ok(())
    }

    /// Whether it is one of the host's files, or lies in one of the host's folders under another name.
    fn is_of_host(&self, file: &Stat) -> bool {
        let is_it = |path: &Path| {
            lstat(path)
                .is_ok_and(|found| (found.st_dev, found.st_ino) == (file.st_dev, file.st_ino))
        };
        self.host_paths.iter().any(|own| {
            let mut inside = std::fs::read_dir(own).into_iter().flatten().flatten();
            is_it(own) || inside.any(|entry| is_it(&entry.path()))
        })
    }

    pub(super) fn is_host_file(&self, real: &Path) -> bool {
        self.refuse_host_file(real).is_err()
    }
}

fn read_piece(mut file: File, range: FileRange) -> std::io::Result<FilePiece> {
    let found = file.metadata()?;
    let size = found.len();
    let max = limits::PEOPLE_FILE_BYTES_MAX;
    let wanted = range.bytes.clamp(1, max);
    let from = match range.offset {
        Some(offset) => offset.min(size),
        None => size.saturating_sub(wanted as u64),
    };
    let is_small = size <= max as u64;
    // A small file is read once: its piece and its digest then belong to the same content.
    let start = if is_small { 0 } else { from };
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    let length = if is_small { max + 1 } else { wanted };
    file.take(length as u64).read_to_end(&mut bytes)?;
    let is_whole = is_small && bytes.len() <= max;
    let digest = is_whole.then(|| content_digest(&bytes));
    let size = if is_whole { bytes.len() as u64 } else { size };
    let skipped = usize::try_from(from - start).unwrap_or(usize::MAX);
    let after = bytes.get(skipped..).unwrap_or_default();
    let piece = &after[..after.len().min(wanted)];
    let is_end = start + (skipped + piece.len()) as u64 >= size;
    let begins_inside = range.offset.is_none() && from > 0;
    let (skip, piece) = whole_characters(piece, begins_inside, is_end);
    let from = (start + skipped as u64).min(size) + skip as u64;
    Ok(FilePiece {
        from,
        next: from + piece.len() as u64,
        size,
        modified: found.modified().ok(),
        text: text_of(piece),
        digest,
    })
}

/// Without the parts of characters at its ends, and how many bytes its beginning lost.
fn whole_characters(piece: &[u8], begins_inside: bool, is_end: bool) -> (usize, &[u8]) {
    let head = &piece[..piece.len().min(if begins_inside { 3 } else { 0 })];
    let skip = head
        .iter()
        .take_while(|byte| (0x80..0xc0).contains(*byte))
        .count();
    let piece = &piece[skip..];
    if is_end {
        return (skip, piece);
    }
    // The character that is cut belongs to the next piece.
    let cut = cut_at_end(piece);
    // A piece of nothing would never move its reader on.
    let kept = piece.len() - cut;
    (skip, if kept == 0 { piece } else { &piece[..kept] })
}

/// How many bytes at the end begin a character that goes on after it.
fn cut_at_end(piece: &[u8]) -> usize {
    let last = piece.iter().rev().take(3).position(|byte| *byte >= 0xc0);
    let Some(back) = last else { return 0 };
    let length = match piece[piece.len() - 1 - back] {
        0xf0.. => 4,
        0xe0.. => 3,
        _ => 2,
    };
    if back + 1 < length { back + 1 } else { 0 }
}

fn text_of(piece: &[u8]) -> PieceText {
    if piece.contains(&0) {
        return PieceText::Binary;
    }
    match std::str::from_utf8(piece) {
        Ok(text) => PieceText::Whole(text.to_owned()),
        Err(_) => PieceText::Damaged(String::from_utf8_lossy(piece).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_name_of_a_file_of_the_host_is_the_hosts() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (own, folder) = (root.join("host"), root.join("work"));
        std::fs::create_dir_all(&own).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(own.join("record"), "secret").unwrap();
        std::fs::write(root.join("key"), "secret").unwrap();
        std::fs::write(folder.join("plain"), "text").unwrap();
        std::fs::hard_link(own.join("record"), folder.join("one")).unwrap();
        std::fs::hard_link(root.join("key"), folder.join("two")).unwrap();
        std::fs::hard_link(folder.join("plain"), folder.join("three")).unwrap();
        let people = PeopleFolder::open(&folder, vec![own, root.join("key")]).unwrap();
        let range = FileRange {
            offset: Some(0),
            bytes: 10,
        };
        let digest = ExpectedFile::Digest(content_digest(b"secret"));
        for name in ["one", "two"] {
            let read = people.read(name, range);
            assert!(matches!(read, Err(FileError::HostFile { .. })), "{read:?}");
            let written = people.write(name, "mine", &digest);
            assert!(
                matches!(written, Err(FileError::HostFile { .. })),
                "{written:?}"
            );
        }
        assert!(people.read("three", range).is_ok());
    }

    /// Closing a file ends this process's locks on it, whoever took them.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_only_judged_keeps_its_locks() {
        use crate::files::{open_for_read, open_for_write};
        use std::os::unix::fs::MetadataExt as _;

        let root = tempfile::tempdir().unwrap();
        let path = root.path().canonicalize().unwrap().join("record");
        std::fs::write(&path, "text").unwrap();
        let record = File::options().write(true).open(&path).unwrap();
        rustix::fs::fcntl_lock(&record, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let (pid, inode) = (std::process::id(), record.metadata().unwrap().ino());
        let is_locked = || {
            let locks = std::fs::read_to_string("/proc/locks").unwrap();
            let mut lines = locks.lines();
            lines.any(|line| {
                line.contains(&format!(" {pid} ")) && line.contains(&format!(":{inode} "))
            })
        };
        assert!(is_locked());
        let roots = FileRoots::resolve([root.path().to_owned()]);
        drop(open_for_read(&path, &roots).unwrap());
        drop(open_for_write(&path, &roots).unwrap());
        assert!(is_locked());
    }

    #[test]
    fn pieces_end_between_characters() {
        let text = "aé€😀".as_bytes();
        for (length, kept) in [
            (1, 1),
            (2, 1),
            (3, 3),
            (4, 3),
            (5, 3),
            (6, 6),
            (7, 6),
            (9, 6),
            (10, 10),
        ] {
            assert_eq!(
                whole_characters(&text[..length], false, false),
                (0, &text[..kept])
            );
        }
        // At the end of the file what is there is all there is.
        assert_eq!(whole_characters(&text[..2], false, true), (0, &text[..2]));
        assert_eq!(whole_characters(&text[2..], true, true), (1, &text[3..]));
    }
}

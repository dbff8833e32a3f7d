//! A copy of the write-ahead log in memory: finds out that the file was changed by somebody else, and
//! saves what the file then no longer holds.
//!
//! Invariant: the copy is the committed part of the current log, frame by frame, and nothing that a
//! checkpoint has already moved into the database and `SQLite` has begun to overwrite.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Sizes from the file format of `SQLite`, section "The Write-Ahead Log".
const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const MAGIC: [u8; 3] = [0x37, 0x7f, 0x06];

/// By how much the copy grows at a time.
const GROWTH_BYTES: usize = 512 * 1024;

/// The write-ahead log as it was last committed to.
pub(super) struct LogCopy {
    /// `SQLite` takes no locks on this file, so that a descriptor of our own harms nothing.
    file: File,
    page_bytes: usize,
    bytes: Vec<u8>,
}

/// Why the copy does not follow.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyError {
    /// The file is not what was written.
    #[error("the write-ahead log was changed by another program")]
    Changed,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl LogCopy {
    pub(super) fn open(path: &Path, page_bytes: usize) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            page_bytes,
            bytes: Vec::new(),
        })
    }

    /// Whether the file holds at least what was written, before more is.
    pub(super) fn is_whole(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.len() >= self.bytes.len() as u64)
    }

    /// Takes in what a commit wrote: the log has `frames` frames now. A log that a checkpoint has
    /// emptied begins again with another header, and everything before it is in the database.
    pub(super) fn follow(&mut self, frames: usize) -> Result<(), CopyError> {
        if frames == 0 {
            self.bytes = Vec::new();
            return Ok(());
        }
        let end = HEADER_BYTES + frames * self.frame_bytes();
        let header = self.read(0, HEADER_BYTES)?;
        // The header holds salts that `SQLite` changes each time it starts the log anew, so an
        // equal header means the same log.
        if self.bytes.starts_with(&header) && self.bytes.len() <= end {
            return self.extend(end);
        }
        let begun = self.read(0, end)?;
        if !is_chained(&begun, self.frame_bytes()) {
            return Err(CopyError::Changed);
        }
        self.bytes = begun;
        Ok(())
    }

    /// The last frame is compared again: whatever cuts the file short changes it, also if what was
    /// written afterwards made the file long enough.
    fn extend(&mut self, end: usize) -> Result<(), CopyError> {
        let known = self.bytes.len();
        let from = known.saturating_sub(self.frame_bytes()).max(HEADER_BYTES);
        let found = self.read(from, end - from)?;
        let (again, new) = found.split_at(known - from);
        if again != &self.bytes[from..] {
            return Err(CopyError::Changed);
        }
        self.reserve(new.len());
        self.bytes.extend_from_slice(new);
        Ok(())
    }

    /// Grows by steps: doubling would take twice the memory that a full log needs.
    fn reserve(&mut self, more: usize) {
        if self.bytes.capacity() - self.bytes.len() < more {
            self.bytes
                .reserve_exact(more.next_multiple_of(GROWTH_BYTES));
        }
    }

    fn read(&self, from: usize, count: usize) -> Result<Vec<u8>, CopyError> {
        let mut bytes = vec![0; count];
        match self.file.read_exact_at(&mut bytes, from as u64) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(CopyError::Changed),
            Err(error) => Err(error.into()),
        }
    }

    fn frame_bytes(&self) -> usize {
        FRAME_HEADER_BYTES + self.page_bytes
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Whether header and frames carry the checksums by which `SQLite` would find them again after a crash.
fn is_chained(log: &[u8], frame_bytes: usize) -> bool {
    let Some((header, frames)) = log.split_at_checked(HEADER_BYTES) else {
        return false;
    };
    if !header.starts_with(&MAGIC) {
        return false;
    }
    // The last bit of the magic number is the byte order in which checksums are computed; they are
    // stored big-endian in either case.
    let big_endian = header[3] & 1 == 1;
    let sum = add_checksum([0, 0], &header[..24], big_endian);
    if encode(sum) != header[24..] {
        return false;
    }
    let mut sum = sum;
    frames.chunks(frame_bytes).all(|frame| {
        sum = add_checksum(sum, &frame[..8], big_endian);
        sum = add_checksum(sum, &frame[FRAME_HEADER_BYTES..], big_endian);
        // Frames of an earlier log may follow in the file; their salts differ from the header's.
        frame[8..16] == header[16..24] && frame[16..24] == encode(sum)
    })
}

fn add_checksum([mut one, mut two]: [u32; 2], bytes: &[u8], big_endian: bool) -> [u32; 2] {
    let words = bytes.as_chunks::<4>().0.iter().map(|word| {
        if big_endian {
            u32::from_be_bytes(*word)
        } else {
            u32::from_le_bytes(*word)
        }
    });
    for (position, word) in words.enumerate() {
        if position % 2 == 0 {
            one = one.wrapping_add(word).wrapping_add(two);
        } else {
            two = two.wrapping_add(word).wrapping_add(one);
        }
    }
    [one, two]
}

fn encode([one, two]: [u32; 2]) -> [u8; 8] {
    (u64::from(one) << 32 | u64::from(two)).to_be_bytes()
}

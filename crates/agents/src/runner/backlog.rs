//! What the agent said and no host has committed: in memory, then in a file.
//!
//! Bytes are numbered from the first that the agent ever said. The oldest lie in memory, those after
//! them in the file, used as a ring, so that it never grows past its bound however long it is in use.
//!
//! Invariants: what was appended can be read until it is released, also if the file cannot be
//! written; then there is no room until what waits found its place.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

/// How much may lie where.
#[derive(Clone, Copy, Debug)]
pub(super) struct BacklogBounds {
    pub(super) memory: usize,
    pub(super) file: u64,
}

#[derive(Debug)]
pub(super) struct OutputBacklog {
    bounds: BacklogBounds,
    /// The number of the first byte that is kept.
    from: u64,
    memory: VecDeque<u8>,
    spill: SpillFile,
    /// What the file did not take; it comes after what is in it.
    unplaced: Vec<u8>,
}

impl OutputBacklog {
    /// The file is made when it is needed.
    pub(super) fn new(path: PathBuf, bounds: BacklogBounds) -> Self {
        Self {
            bounds,
            from: 0,
            memory: VecDeque::new(),
            spill: SpillFile {
                path,
                file: None,
                bytes: 0,
                size: bounds.file,
            },
            unplaced: Vec::new(),
        }
    }

    /// The number of the first byte that is kept.
    pub(super) fn from(&self) -> u64 {
        self.from
    }

    /// The number of the byte that comes next.
    pub(super) fn end(&self) -> u64 {
        self.spill_end() + self.unplaced.len() as u64
    }

    /// How much more may be taken while no more than `bytes_max` are to be kept.
    pub(super) fn room(&self, bytes_max: u64) -> u64 {
        // The file could not be written. The agent waits until what was taken has found its place.
        if !self.unplaced.is_empty() {
            return 0;
        }
        bytes_max.saturating_sub(self.end() - self.from)
    }

    /// Takes all of it, whatever the room was.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        // Memory holds the oldest bytes, so nothing new goes there while newer ones are in the file.
        if self.spill.bytes == 0 && self.unplaced.is_empty() {
            let room = self.bounds.memory.saturating_sub(self.memory.len());
            let (first, after) = rest.split_at(rest.len().min(room));
            self.memory.extend(first);
            rest = after;
        }
        self.unplaced.extend_from_slice(rest);
        self.place_unplaced();
    }

    /// What comes from `offset` on, up to `max` bytes. Nothing at the end; an error for what
    /// was released.
    pub(super) fn read_from(&self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        if offset < self.from {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut read = Vec::new();
        if offset < self.memory_end() {
            let skip = to_size(offset - self.from);
            read.extend(self.memory.range(skip..).take(max));
        } else if offset < self.spill_end() {
            let wanted = (self.spill_end() - offset).min(max as u64);
            read = self.spill.read(offset, to_size(wanted))?;
        } else if offset < self.end() {
            let skip = to_size(offset - self.spill_end());
            read.extend(self.unplaced[skip..].iter().take(max));
        }
        Ok(read)
    }

    /// Nothing before `through` is kept any longer.
    pub(super) fn release(&mut self, through: u64) {
        let mut left = through.min(self.end()).saturating_sub(self.from);
        self.from += left;
        let in_memory = left.min(self.memory.len() as u64);
        self.memory.drain(..to_size(in_memory));
        left -= in_memory;
        let in_file = left.min(self.spill.bytes);
        self.spill.bytes -= in_file;
        self.unplaced.drain(..to_size(left - in_file));
        self.move_spill_to_memory();
        self.place_unplaced();
    }

    /// The rest of the file, once it is short, lies better in memory.
    fn move_spill_to_memory(&mut self) {
        // Half of what fits, so that output around that size does not move back and forth.
        let short = self.spill.bytes <= self.bounds.memory as u64 / 2;
        if !self.memory.is_empty() || !short {
            return;
        }
        if self.spill.bytes > 0 {
            let Ok(rest) = self.spill.read(self.from, to_size(self.spill.bytes)) else {
                return;
            };
            self.memory.extend(rest);
        }
        self.spill.empty();
    }

    fn place_unplaced(&mut self) {
        if self.unplaced.is_empty() {
            return;
        }
        if self.spill.bytes == 0 {
            let room = self.bounds.memory.saturating_sub(self.memory.len());
            let first = self.unplaced.len().min(room);
            self.memory.extend(self.unplaced.drain(..first));
        }
        let taken = self.spill.append(self.spill_end(), &self.unplaced);
        self.unplaced.drain(..taken);
        if self.unplaced.is_empty() {
            // Gives its memory back: on a full disk it has held more than a runner should.
            self.unplaced = Vec::new();
        }
    }

    fn memory_end(&self) -> u64 {
        self.from + self.memory.len() as u64
    }

    fn spill_end(&self) -> u64 {
        self.memory_end() + self.spill.bytes
    }
}

/// The file. The byte with number n is at n modulo its size.
#[derive(Debug)]
struct SpillFile {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    size: u64,
}

impl SpillFile {
    /// Returns how much of it is in the file now.
    fn append(&mut self, at: u64, bytes: &[u8]) -> usize {
        let room = to_size((self.size - self.bytes).min(bytes.len() as u64));
        let mut taken = 0;
        while taken < room {
            match self.write(at + taken as u64, &bytes[taken..room]) {
                Ok(written) if written > 0 => {
                    taken += written;
                    self.bytes += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The disk is full, perhaps. What is left stays in memory, and `room` makes the
                // agent wait.
                _ => break,
            }
        }
        taken
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<usize> {
        let (place, run) = self.place(at, bytes.len());
        self.open()?.write_at(&bytes[..run], place)
    }

    fn read(&self, at: u64, wanted: usize) -> io::Result<Vec<u8>> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut read = vec![0; wanted];
        let mut filled = 0;
        while filled < wanted {
            let (place, run) = self.place(at + filled as u64, wanted - filled);
            file.read_exact_at(&mut read[filled..filled + run], place)?;
            filled += run;
        }
        Ok(read)
    }

    /// Where a byte is, and how many after it are in one piece.
    fn place(&self, at: u64, bytes: usize) -> (u64, usize) {
        let place = at % self.size;
        (place, to_size((self.size - place).min(bytes as u64)))
    }

    fn open(&mut self) -> io::Result<&File> {
        if let Some(ref file) = self.file {
            return Ok(file);
        }
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&self.path)?;
        Ok(self.file.insert(opened))
    }

    fn empty(&mut self) {
        self.bytes = 0;
        if self.file.take().is_some() {
            // What is left of it is emptied when it is opened again.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// What is kept fits the memory's numbers: bounds are far below.
fn to_size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;

//! The end of what a command wrote.
//!
//! Invariants: no more than the bound is kept, as bytes and as text; text begins and ends between
//! characters. Bytes are numbered from the first that the command wrote.

use std::collections::VecDeque;

use super::TerminalPiece;

#[derive(Debug)]
pub(super) struct OutputTail {
    bytes_max: usize,
    kept: VecDeque<u8>,
    /// How many bytes were written in all.
    written: u64,
    truncated: bool,
    ended: bool,
}

impl OutputTail {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            kept: VecDeque::new(),
            written: 0,
            truncated: false,
            ended: false,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let tail = &bytes[bytes.len().saturating_sub(self.bytes_max)..];
        let excess = (self.kept.len() + tail.len()).saturating_sub(self.bytes_max);
        self.truncated |= excess > 0 || tail.len() < bytes.len();
        self.kept.drain(..excess);
        self.kept.extend(tail);
        self.written += to_count(bytes.len());
    }

    /// Keeps less from now on.
    pub(super) fn shrink(&mut self, bytes_max: usize) {
        self.bytes_max = self.bytes_max.min(bytes_max);
        let excess = self.kept.len().saturating_sub(self.bytes_max);
        self.truncated |= excess > 0;
        self.kept.drain(..excess);
        self.kept.shrink_to_fit();
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// The number of the oldest byte that is kept.
    pub(super) fn first(&self) -> u64 {
        self.written - to_count(self.kept.len())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Bytes from this number on, as far as they are kept, and no more than `bytes_max`.
    pub(super) fn read_from(&self, after: u64, bytes_max: usize) -> TerminalPiece {
        let from = after.clamp(self.first(), self.written);
        let skipped = usize::try_from(from - self.first()).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = self
            .kept
            .iter()
            .skip(skipped)
            .take(bytes_max)
            .copied()
            .collect();
        let is_end = self.ended && from + to_count(bytes.len()) == self.written;
        TerminalPiece {
            from,
            bytes,
            is_end,
        }
    }

    /// No more will come.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// The text so far, and whether its beginning is missing.
    pub(super) fn read(&self) -> (String, bool) {
        let mut bytes: Vec<u8> = self.kept.iter().copied().collect();
        if !self.ended {
            bytes.truncate(bytes.len() - count_unfinished(&bytes));
        }
        let cut = if self.truncated { count_cut(&bytes) } else { 0 };
        let mut text = String::from_utf8_lossy(&bytes[cut..]).into_owned();
        let truncated = self.truncated || text.len() > self.bytes_max;
        // A byte that was replaced is three bytes of text, so the text may be longer than the bytes.
        countersign_core::truncate_to_tail(&mut text, self.bytes_max);
        (text, truncated)
    }
}

fn to_count(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Bytes at the beginning that are the rest of a character.
fn count_cut(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0xc0 == 0x80)
        .count()
}

/// Bytes at the end that may become a character.
fn count_unfinished(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    (1..=tail.len())
        .find(|&count| {
            let end = &tail[tail.len() - count..];
            end[0] >= 0xc0 && str::from_utf8(end).is_err_and(|error| error.error_len().is_none())
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes_max: usize, chunks: &[&[u8]]) -> (String, bool) {
        let mut output = OutputTail::new(bytes_max);
        for chunk in chunks {
            output.push(chunk);
        }
        output.end();
        output.read()
    }

    #[test]
    fn the_end_is_kept() {
        assert_eq!(read(5, &[b"abc", b"def"]), ("bcdef".into(), true));
        assert_eq!(read(5, &[b"ab", b"cde"]), ("abcde".into(), false));
        assert_eq!(read(3, &[b"abc", b"0123456789"]), ("789".into(), true));
        assert_eq!(read(0, &[b"abc"]), (String::new(), true));
    }

    #[test]
    fn bytes_keep_their_numbers_when_the_oldest_are_dropped() {
        let mut output = OutputTail::new(4);
        output.push(b"abcdef");
        let read = |output: &OutputTail, after, max| {
            let piece = output.read_from(after, max);
            (
                piece.from,
                String::from_utf8(piece.bytes).unwrap(),
                piece.is_end,
            )
        };
        assert_eq!(read(&output, 0, 9), (2, "cdef".to_owned(), false));
        assert_eq!(read(&output, 3, 2), (3, "de".to_owned(), false));
        assert_eq!(read(&output, 6, 9), (6, String::new(), false));
        assert_eq!(read(&output, 99, 9), (6, String::new(), false));
        output.end();
        assert_eq!(read(&output, 3, 2), (3, "de".to_owned(), false));
        assert_eq!(read(&output, 3, 9), (3, "def".to_owned(), true));
        output.shrink(1);
        assert_eq!(read(&output, 0, 9), (5, "f".to_owned(), true));
        assert_eq!((output.first(), output.written()), (5, 6));
    }

    #[test]
    fn it_begins_at_a_character() {
        assert_eq!(read(4, &["aäöü".as_bytes()]), ("öü".into(), true));
        assert_eq!(read(5, &["aäöü".as_bytes()]), ("öü".into(), true));
        assert_eq!(read(3, &["x😀".as_bytes()]), (String::new(), true));
    }

    #[test]
    fn invalid_bytes_are_replaced_and_still_within_the_bound() {
        let replaced = "a\u{fffd}b".to_owned();
        assert_eq!(read(9, &[b"a\xffb"]), (replaced, false));
        assert_eq!(read(4, &[b"a\xffb"]), ("\u{fffd}b".into(), true));
    }

    #[test]
    fn half_a_character_waits_for_its_rest_until_the_end() {
        let mut output = OutputTail::new(9);
        output.push(b"a\xe2\x82");
        assert_eq!(output.read(), ("a".into(), false));
        output.push(b"\xac");
        assert_eq!(output.read(), ("a€".into(), false));
        output.push(b"\xe2");
        output.end();
        assert_eq!(output.read(), ("a€\u{fffd}".into(), false));
    }
}

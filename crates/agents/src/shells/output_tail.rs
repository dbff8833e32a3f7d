//! The end of what a command wrote.
//!
//! Invariants: no more than the bound is kept, as bytes and as text; text begins and ends between
//! characters.

use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct OutputTail {
    bytes_max: usize,
    kept: VecDeque<u8>,
    truncated: bool,
    ended: bool,
}

impl OutputTail {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            kept: VecDeque::new(),
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

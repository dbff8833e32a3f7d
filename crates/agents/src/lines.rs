//! Bytes into lines, bounded.
//!
//! Invariant: what is kept of an unfinished line never exceeds the bound given.

use std::mem;

/// A line of output, as far as the bound allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputLine {
    /// Without its newline. The last one may have had none.
    Whole(Vec<u8>),
    /// Longer than the bound, or a part of such a line; dropped.
    Oversized { bytes: u64 },
}

/// Lines as they are; those over the bound are dropped up to their newline. One that does not end
/// is told in parts, so that whoever keeps what was not told need not keep it all.
#[derive(Debug)]
pub(crate) struct LineSplitter {
    bytes_max: usize,
    partial: Vec<u8>,
    dropped: u64,
}

impl LineSplitter {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            partial: Vec::new(),
            dropped: 0,
        }
    }

    /// Takes bytes off the input up to the end of a line, or all of them if there is none.
    pub(crate) fn next_line(&mut self, input: &mut &[u8]) -> Option<OutputLine> {
        let end = input.iter().position(|&byte| byte == b'\n');
        let (piece, rest) = match end {
            Some(end) => (&input[..end], &input[end + 1..]),
            None => (*input, &[][..]),
        };
        self.keep(piece);
        *input = rest;
        let endless = self.dropped > 2 * self.bytes_max as u64;
        (end.is_some() || endless).then(|| self.emit())
    }

    /// What is left when no more comes.
    pub(crate) fn finish(mut self) -> Option<OutputLine> {
        (!self.partial.is_empty() || self.dropped > 0).then(|| self.emit())
    }

    fn keep(&mut self, piece: &[u8]) {
        if self.dropped == 0 && self.partial.len() + piece.len() <= self.bytes_max {
            self.partial.extend_from_slice(piece);
        } else {
            // Nothing of a line that is too long is kept: a part of a message is not a message.
            let partial = mem::take(&mut self.partial);
            self.dropped += (partial.len() + piece.len()) as u64;
        }
    }

    fn emit(&mut self) -> OutputLine {
        match mem::take(&mut self.dropped) {
            0 => OutputLine::Whole(mem::take(&mut self.partial)),
            bytes => OutputLine::Oversized { bytes },
        }
    }
}

/// Text for logs: long lines are cut, and what is not text is replaced.
#[derive(Debug)]
pub(crate) struct LogSplitter {
    bytes_max: usize,
    partial: Vec<u8>,
}

impl LogSplitter {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            partial: Vec::new(),
        }
    }

    /// Takes bytes off the input up to the end of a piece, or all of them if there is none.
    pub(crate) fn next_piece(&mut self, input: &mut &[u8]) -> Option<String> {
        let room = self.bytes_max - self.partial.len();
        let within = &input[..input.len().min(room)];
        let end = within.iter().position(|&byte| byte == b'\n');
        let piece = &within[..end.unwrap_or(within.len())];
        self.partial.extend_from_slice(piece);
        *input = &input[piece.len() + usize::from(end.is_some())..];
        let full = self.partial.len() == self.bytes_max;
        (end.is_some() || full).then(|| self.emit())
    }

    /// What is left when no more comes.
    pub(crate) fn finish(mut self) -> Option<String> {
        (!self.partial.is_empty()).then(|| self.emit())
    }

    fn emit(&mut self) -> String {
        String::from_utf8_lossy(&mem::take(&mut self.partial)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(bytes_max: usize, chunks: &[&str]) -> Vec<OutputLine> {
        let mut splitter = LineSplitter::new(bytes_max);
        let mut events = Vec::new();
        for chunk in chunks {
            let mut input = chunk.as_bytes();
            while !input.is_empty() {
                events.extend(splitter.next_line(&mut input));
            }
        }
        events.extend(splitter.finish());
        events
    }

    fn line(text: &str) -> OutputLine {
        OutputLine::Whole(text.into())
    }

    #[test]
    fn a_line_without_end_is_told_in_parts() {
        let events = split(3, &["0123", "456", "789\nx\n"]);
        let expected = [OutputLine::Oversized { bytes: 7 }, line("789"), line("x")];
        assert_eq!(events, expected);
    }

    #[test]
    fn lines_are_put_together_from_chunks() {
        let events = split(9, &["on", "e\n\ntw", "o\nhalf"]);
        assert_eq!(events, [line("one"), line(""), line("two"), line("half")]);
    }

    #[test]
    fn a_line_over_the_bound_is_dropped_and_the_next_is_whole() {
        let events = split(4, &["1234\n12345\n", "123", "456", "78\nok\n"]);
        let dropped = |bytes| OutputLine::Oversized { bytes };
        assert_eq!(events, [line("1234"), dropped(5), dropped(8), line("ok")]);
    }

    #[test]
    fn log_text_is_cut_and_made_valid() {
        let mut cutter = LogSplitter::new(4);
        let mut input = &b"ab\n123456\n\xff"[..];
        let mut texts = Vec::new();
        while !input.is_empty() {
            texts.extend(cutter.next_piece(&mut input));
        }
        texts.extend(cutter.finish());
        assert_eq!(texts, ["ab", "1234", "56", "\u{fffd}"]);
    }
}

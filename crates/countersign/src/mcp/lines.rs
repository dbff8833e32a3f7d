//! Lines of bounded length.

use std::io::{self, BufRead, Read as _};

use countersign_core::limits::MCP_LINE_BYTES_MAX;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InputLine {
    /// All of it, without its end.
    Whole(Vec<u8>),
    /// More than is taken; it was passed over.
    TooLong,
}

/// Reads lines until there are no more. Empty ones are passed over.
pub(crate) struct InputLines<R> {
    input: R,
    bytes_max: usize,
}

impl<R: BufRead> InputLines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self::with_limit(input, MCP_LINE_BYTES_MAX)
    }

    pub(crate) fn with_limit(input: R, bytes_max: usize) -> Self {
        Self { input, bytes_max }
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<InputLine>> {
        loop {
            let mut line = Vec::new();
            // One byte more than allowed: the line feed of a line that just fits.
            let limit = self.bytes_max as u64 + 1;
            let read = (&mut self.input).take(limit).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(None);
            }
            if line.last() != Some(&b'\n') && line.len() > self.bytes_max {
                // Skipped without being kept: the line may have no end.
                self.input.skip_until(b'\n')?;
                return Ok(Some(InputLine::TooLong));
            }
            let line = line.trim_ascii();
            if !line.is_empty() {
                return Ok(Some(InputLine::Whole(line.to_vec())));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_the_next_is_read() {
        let text = b"12345678\n\n \r\n123456789\n12\r\nlast".as_slice();
        let mut lines = InputLines::with_limit(text, 8);
        let mut read = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            read.push(line);
        }
        let whole = |text: &str| InputLine::Whole(text.as_bytes().to_vec());
        assert_eq!(
            read,
            [
                whole("12345678"),
                InputLine::TooLong,
                whole("12"),
                whole("last")
            ]
        );
    }
}

//! A file followed to its end.

use std::collections::VecDeque;

use countersign_protocol::{FileForm, FilePage};

use super::viewer::split_chars;
use crate::canvas::TextLine;
use crate::escaped_text::EscapedText;
use crate::theme::Role;

/// Rows that are kept: those before them are in the file.
const ROWS_MAX: usize = 5_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTail {
    pub rows: VecDeque<TextLine>,
    /// The last line, as long as it has no end.
    partial: String,
    /// How many bytes were read; nothing before the first piece.
    pub next: Option<u64>,
    /// The first row that is shown; nothing while the end is followed.
    pub top: Option<usize>,
    pub is_binary: bool,
    pub problem: Option<String>,
}

impl FileTail {
    /// Takes in a piece that begins where the last one ended. What came before a file that became shorter stays,
    /// above a line that says so.
    pub fn append(&mut self, piece: &FilePage) {
        self.problem = None;
        self.is_binary = piece.form == FileForm::Binary;
        if self.next.is_some_and(|next| piece.size < next) {
            self.end_line();
            self.push_row(TextLine::new(
                "the file became shorter; it is read from its beginning",
                Role::Warn,
            ));
            self.next = Some(0);
            return;
        }
        self.next = Some(piece.next);
        let text = piece.content.as_deref().unwrap_or_default();
        let mut lines = text.split('\n');
        self.partial.push_str(lines.next().unwrap_or_default());
        for line in lines {
            self.end_line();
            self.partial.push_str(line);
        }
        if self.partial.len() > 64 * 1024 {
            self.end_line();
        }
    }

    /// Says that some of the file is left out.
    pub fn note_gap(&mut self) {
        self.end_line();
        self.push_row(TextLine::new(
            "more was written than is read at once; some of it is left out",
            Role::Warn,
        ));
    }

    /// The rows with the line that has no end yet.
    pub fn shown(&self) -> impl DoubleEndedIterator<Item = TextLine> + '_ {
        self.rows
            .iter()
            .cloned()
            .chain(line_rows(&self.partial).filter(|_| !self.partial.is_empty()))
    }

    pub fn count(&self) -> usize {
        let partial = if self.partial.is_empty() {
            0
        } else {
            split_chars(&self.partial).len()
        };
        self.rows.len() + partial
    }

    /// Moves the view; at the end it follows again.
    pub fn scroll(&mut self, steps: isize, height: usize) {
        let last = self.count().saturating_sub(height);
        let top = self.top.unwrap_or(last).saturating_add_signed(steps);
        self.top = (top < last).then_some(top);
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.partial);
        for row in line_rows(line.trim_end_matches('\r')).collect::<Vec<_>>() {
            self.push_row(row);
        }
    }

    fn push_row(&mut self, row: TextLine) {
        self.rows.push_back(row);
        if self.rows.len() > ROWS_MAX {
            self.rows.pop_front();
            // What a person reads stays where it is.
            self.top = self.top.map(|top| top.saturating_sub(1));
        }
    }
}

fn line_rows(line: &str) -> impl DoubleEndedIterator<Item = TextLine> {
    let rows = split_chars(line).into_iter();
    rows.map(|piece| TextLine::new(EscapedText::line(piece), Role::Text))
        .collect::<Vec<_>>()
        .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(from: u64, text: &str, size: u64) -> FilePage {
        FilePage {
            content: Some(text.to_owned()),
            digest: None,
            form: FileForm::Text,
            from,
            modified_at: None,
            next: from + text.len() as u64,
            path: "log".to_owned(),
            size,
        }
    }

    fn texts(tail: &FileTail) -> Vec<String> {
        tail.shown().map(|row| row.text()).collect()
    }

    #[test]
    fn lines_are_joined_over_pieces_and_a_shorter_file_is_read_anew() {
        let mut tail = FileTail::default();
        tail.append(&piece(0, "one\ntw", 6));
        assert_eq!(texts(&tail), ["one", "tw"]);
        tail.append(&piece(6, "o\n\u{1b}[2J", 12));
        assert_eq!(texts(&tail), ["one", "two", r"\u{1b}[2J"]);
        tail.append(&piece(2, "", 2));
        assert_eq!(tail.next, Some(0));
        tail.append(&piece(0, "n\n", 2));
        assert_eq!(texts(&tail).last().unwrap(), "n");
    }

    #[test]
    fn a_tail_that_is_read_back_stays_where_it_is() {
        let mut tail = FileTail::default();
        tail.append(&piece(0, &"line\n".repeat(100), 500));
        tail.scroll(-10, 20);
        assert_eq!(tail.top, Some(70));
        tail.append(&piece(500, &"more\n".repeat(100), 1_000));
        assert_eq!(tail.top, Some(70));
        tail.scroll(isize::MAX / 2, 20);
        assert_eq!(tail.top, None);
    }
}

//! A file as it is read: one page of it at a time.

use countersign_protocol::{FileForm, FilePage};

use crate::canvas::TextLine;
use crate::escaped_text::EscapedText;
use crate::render::markdown;
use crate::theme::Role;

/// Longer lines continue in the next row, so that moving by rows reaches all of them.
const ROW_CHARS_MAX: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileView {
    pub page: Option<LoadedPage>,
    /// Where the pages before this one began.
    pub earlier: Vec<u64>,
    /// The page that is wanted.
    pub wanted: u64,
    /// Whether Markdown is shown as it is written.
    pub is_source: bool,
    pub problem: Option<String>,
}

/// A page, ready to be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedPage {
    pub from: u64,
    pub next: u64,
    pub size: u64,
    pub form: FileForm,
    pub rows: Vec<TextLine>,
    /// The same as formatted Markdown.
    pub formatted: Option<Vec<TextLine>>,
}

impl LoadedPage {
    /// Escapes and breaks a page; a whole file that is Markdown by its name is formatted too.
    pub fn new(file: FilePage) -> Self {
        let text = file.content.unwrap_or_default();
        let is_whole = file.from == 0 && file.next >= file.size;
        let is_markdown = is_whole && markdown::is_markdown(&file.path);
        Self {
            from: file.from,
            next: file.next,
            size: file.size,
            form: file.form,
            formatted: is_markdown.then(|| markdown::format_lines(&text)),
            rows: numbered_rows(&text),
        }
    }

    pub fn shown(&self, is_source: bool) -> &[TextLine] {
        match &self.formatted {
            Some(formatted) if !is_source => formatted,
            _ => &self.rows,
        }
    }
}

fn numbered_rows(text: &str) -> Vec<TextLine> {
    let mut rows = Vec::new();
    let text = text.strip_suffix('\n').unwrap_or(text);
    for (index, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        for (part, piece) in split_chars(line).into_iter().enumerate() {
            let number = if part == 0 {
                format!("{:>5} ", index + 1)
            } else {
                " ".repeat(6)
            };
            let mut row = TextLine::shown(number, Role::Dim);
            row.push(EscapedText::line(piece), Role::Text);
            rows.push(row);
        }
    }
    rows
}

/// Pieces of a line, none longer than a row.
pub(super) fn split_chars(line: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some((at, _)) = rest.char_indices().nth(ROW_CHARS_MAX) {
        let (piece, after) = rest.split_at(at);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

impl FileView {
    /// Shows another page. Whether there is one.
    pub fn turn_page(&mut self, is_forward: bool) -> bool {
        let Some(page) = &self.page else { return false };
        if is_forward {
            if page.next >= page.size || page.next == page.from {
                return false;
            }
            self.earlier.push(page.from);
            self.wanted = page.next;
            return true;
        }
        let Some(before) = self.earlier.pop() else {
            return false;
        };
        self.wanted = before;
        true
    }

    pub fn is_loaded(&self) -> bool {
        self.page
            .as_ref()
            .is_some_and(|page| page.from == self.wanted)
            || self.problem.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_continue_in_rows_without_a_number() {
        let text = format!("one\n{}\n", "x".repeat(450));
        let rows: Vec<String> = numbered_rows(&text).iter().map(TextLine::text).collect();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0], "    1 one");
        assert!(rows[1].starts_with("    2 xxx"), "{}", rows[1]);
        assert_eq!(rows[3], format!("      {}", "x".repeat(50)));
    }
}

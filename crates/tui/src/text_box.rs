//! A box in which a person types.
//!
//! Invariants: its text has a bound; pasted text is text and never a key; control characters other than line
//! breaks do not enter it, unless it holds a file, which is kept to the byte.

use countersign_core::limits::PEOPLE_FILE_BYTES_MAX;

use crate::key::{Key, KeyCode};

/// The longest text that can be typed.
pub const TEXT_CHARS_MAX: usize = 20_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextBox {
    chars: Vec<char>,
    cursor: usize,
    /// Whether a line break can be typed.
    is_multiline: bool,
    /// Whether it holds a file, with its tabs and whatever else is in it.
    is_verbatim: bool,
}

/// What a key did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoxOutcome {
    /// The box took it.
    Edited,
    Send,
    Leave,
    /// Not a key of the box.
    Unused,
}

impl TextBox {
    pub fn single_line(text: &str) -> Self {
        Self::new(text, false)
    }

    pub fn multi_line(text: &str) -> Self {
        Self::new(text, true)
    }

    /// For a file: its characters stay as they are.
    pub fn verbatim(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        Self {
            cursor: chars.len(),
            chars,
            is_multiline: true,
            is_verbatim: true,
        }
    }

    fn new(text: &str, is_multiline: bool) -> Self {
        let mut typed = Self {
            is_multiline,
            ..Self::default()
        };
        typed.paste(text);
        typed
    }

    pub fn text(&self) -> String {
        self.chars.iter().collect()
    }

    pub fn is_empty(&self) -> bool {
        self.chars.is_empty()
    }

    pub fn is_multiline(&self) -> bool {
        self.is_multiline
    }

    /// Whether it holds exactly this.
    pub fn is_text(&self, text: &str) -> bool {
        self.chars.iter().copied().eq(text.chars())
    }

    pub fn move_to_start(&mut self) {
        self.cursor = 0;
    }

    fn chars_max(&self) -> usize {
        if self.is_verbatim {
            PEOPLE_FILE_BYTES_MAX
        } else {
            TEXT_CHARS_MAX
        }
    }

    /// The line of the cursor, counted from zero, and the text of that line before it.
    pub fn cursor_line(&self) -> (usize, String) {
        let before = &self.chars[..self.cursor];
        let line = before.iter().filter(|c| **c == '\n').count();
        (line, before[self.line_start()..].iter().collect())
    }

    /// Some of its lines.
    pub fn lines(&self, first: usize, count: usize) -> Vec<String> {
        let lines = self.chars.split(|c| *c == '\n').skip(first).take(count);
        lines.map(|line| line.iter().collect()).collect()
    }

    /// Moves the cursor by lines.
    pub fn move_lines(&mut self, steps: isize) {
        for _ in 0..steps.unsigned_abs().min(self.chars.len() + 1) {
            self.move_line(steps > 0);
        }
    }

    /// The text before the cursor, and the rest.
    pub fn halves(&self) -> (String, String) {
        let (before, after) = self.chars.split_at(self.cursor);
        (before.iter().collect(), after.iter().collect())
    }

    /// Takes in pasted text.
    pub fn paste(&mut self, text: &str) {
        let room = self.chars_max().saturating_sub(self.chars.len());
        // Files of other systems end their lines with both.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let (is_multiline, is_verbatim) = (self.is_multiline, self.is_verbatim);
        let taken = text.chars().take(room).map(|c| match c {
            '\n' if is_multiline => c,
            '\t' if is_verbatim => c,
            c if c.is_control() => ' ',
            c => c,
        });
        let taken: Vec<char> = taken.collect();
        let count = taken.len();
        self.chars.splice(self.cursor..self.cursor, taken);
        self.cursor += count;
    }

    pub fn handle_key(&mut self, key: Key) -> BoxOutcome {
        if let Some(c) = key.typed() {
            self.insert(c);
            return BoxOutcome::Edited;
        }
        match (key.code, key.ctrl, key.alt) {
            (KeyCode::Escape, ..) => return BoxOutcome::Leave,
            (KeyCode::Char('s'), true, false) => return BoxOutcome::Send,
            (KeyCode::Enter, ctrl, alt) if ctrl || alt || !self.is_multiline => {
                return BoxOutcome::Send;
            }
            (KeyCode::Enter, false, false) => self.insert('\n'),
            (KeyCode::Tab, false, false) if self.is_verbatim => self.insert('\t'),
            (KeyCode::Backspace, false, false) => self.delete_before(1),
            (KeyCode::Char('w'), true, false) | (KeyCode::Backspace, ..) => {
                let start = self.word_start();
                self.delete_before(self.cursor - start);
            }
            (KeyCode::Char('u'), true, false) => {
                self.delete_before(self.cursor - self.line_start());
            }
            (KeyCode::Delete, ..) if self.cursor < self.chars.len() => {
                self.chars.remove(self.cursor);
            }
            (KeyCode::Left, false, false) => self.cursor = self.cursor.saturating_sub(1),
            (KeyCode::Left, ..) => self.cursor = self.word_start(),
            (KeyCode::Right, ..) => self.cursor = (self.cursor + 1).min(self.chars.len()),
            (KeyCode::Home, ..) | (KeyCode::Char('a'), true, false) => {
                self.cursor = self.line_start();
            }
            (KeyCode::End, ..) => self.cursor = self.line_end(),
            (KeyCode::Up, ..) if self.is_multiline => self.move_line(false),
            (KeyCode::Down, ..) if self.is_multiline => self.move_line(true),
            _ => return BoxOutcome::Unused,
        }
        BoxOutcome::Edited
    }

    fn insert(&mut self, c: char) {
        if self.chars.len() < self.chars_max() {
            self.chars.insert(self.cursor, c);
            self.cursor += 1;
        }
    }

    fn delete_before(&mut self, count: usize) {
        let start = self.cursor.saturating_sub(count);
        self.chars.drain(start..self.cursor);
        self.cursor = start;
    }

    fn word_start(&self) -> usize {
        let before = &self.chars[..self.cursor];
        let word_end = before.iter().rposition(|c| !c.is_whitespace());
        let Some(word_end) = word_end else { return 0 };
        let blank = before[..word_end].iter().rposition(|c| c.is_whitespace());
        blank.map_or(0, |blank| blank + 1)
    }

    fn line_start(&self) -> usize {
        let before = &self.chars[..self.cursor];
        before
            .iter()
            .rposition(|c| *c == '\n')
            .map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        let after = &self.chars[self.cursor..];
        let length = after.iter().position(|c| *c == '\n').unwrap_or(after.len());
        self.cursor + length
    }

    fn move_line(&mut self, down: bool) {
        let start = self.line_start();
        let column = self.cursor - start;
        if down {
            let end = self.line_end();
            if end < self.chars.len() {
                self.cursor = end + 1;
                self.cursor = (self.cursor + column).min(self.line_end());
            }
        } else if start > 0 {
            self.cursor = start - 1;
            self.cursor = (self.line_start() + column).min(self.line_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(typed: &mut TextBox, names: &str) -> Vec<BoxOutcome> {
        let keys = Key::parse_sequence(names).unwrap();
        keys.into_iter().map(|key| typed.handle_key(key)).collect()
    }

    #[test]
    fn letters_are_text_and_only_named_keys_send_or_leave() {
        let mut typed = TextBox::multi_line("");
        let outcomes = press(&mut typed, "a y q Enter d");
        assert_eq!(outcomes, [BoxOutcome::Edited; 5]);
        assert_eq!(typed.text(), "ayq\nd");
        assert_eq!(press(&mut typed, "Ctrl-s"), [BoxOutcome::Send]);
        assert_eq!(press(&mut typed, "Alt-Enter"), [BoxOutcome::Send]);
        assert_eq!(press(&mut typed, "Esc"), [BoxOutcome::Leave]);
        assert_eq!(typed.text(), "ayq\nd");
        let mut line = TextBox::single_line("");
        assert_eq!(
            press(&mut line, "x Enter"),
            [BoxOutcome::Edited, BoxOutcome::Send]
        );
    }

    #[test]
    fn the_cursor_moves_by_letters_words_and_lines() {
        let mut typed = TextBox::multi_line("one two\nthree");
        press(&mut typed, "Up Ctrl-w");
        assert_eq!(typed.text(), "one wo\nthree");
        press(&mut typed, "Home X End Y Down Home Backspace Delete");
        assert_eq!(typed.text(), "Xone woYhree");
        press(&mut typed, "Ctrl-u");
        assert_eq!(typed.halves(), (String::new(), "hree".to_owned()));
    }

    #[test]
    fn pasted_text_is_bounded_and_holds_no_keys() {
        let mut typed = TextBox::multi_line("");
        typed.paste("a\r\nb\u{1b}[A\t");
        assert_eq!(typed.text(), "a\nb [A ");
        typed.paste(&"x".repeat(1_000_000));
        assert_eq!(typed.text().chars().count(), TEXT_CHARS_MAX);
        let mut line = TextBox::single_line("");
        line.paste("a\nb");
        assert_eq!(line.text(), "a b");
    }
}

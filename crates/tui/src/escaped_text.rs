//! Text that is safe to draw. Only the escaper makes it.
//!
//! Invariant: an [`EscapedText`] has no character that a terminal would obey or hide; line breaks stand only in
//! texts made with [`EscapedText::block`] or [`EscapedText::shown`]. Drawing takes no other text.

use std::fmt;

use countersign_core::{TextLayout, hidden_count, visible};
use unicode_width::UnicodeWidthStr as _;

/// The brackets with which the escaper marks collapsed blanks.
const BLANK_MARKS: [char; 2] = ['\u{27e8}', '\u{27e9}'];

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EscapedText(String);

impl EscapedText {
    /// Text from outside, in one line.
    pub fn line(text: &str) -> Self {
        Self(visible(text, TextLayout::Line).into_owned())
    }

    /// Text from outside, in lines of its own.
    pub fn block(text: &str) -> Self {
        Self(visible(text, TextLayout::Block).into_owned())
    }

    /// Text that was escaped already, by `render` or by the host, together with words of ours. It is checked: if
    /// anything in it would be hidden or obeyed, all of it is escaped once more.
    pub fn shown(text: impl Into<String>) -> Self {
        let text = text.into();
        let is_safe = if text.contains(BLANK_MARKS) {
            hidden_count(&text.replace(BLANK_MARKS, "")) == 0 && !text.contains('\t')
        } else {
            hidden_count(&text) == 0 && !text.contains('\t')
        };
        if is_safe {
            Self(text)
        } else {
            Self::block(&text)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Columns that it takes.
    pub fn width(&self) -> usize {
        self.0.width()
    }

    /// Its lines, each a text of its own.
    pub fn lines(&self) -> impl Iterator<Item = Self> + '_ {
        self.0.split('\n').map(|line| Self(line.to_owned()))
    }

    /// The beginning that fits, with `…` where something is left out.
    #[must_use]
    pub fn truncated(&self, width: usize) -> Self {
        Self(crate::fit::truncate(&self.0, width))
    }

    /// Broken wherever the width ends. Nothing is moved or left out.
    pub fn wrapped(&self, width: usize) -> Vec<Self> {
        let lines = self.0.split('\n');
        let pieces = lines.flat_map(|line| crate::fit::wrap(line, width.max(1)));
        pieces.map(Self).collect()
    }

    /// Broken between words where that is possible: for what is only read, and nothing is decided about.
    pub fn wrapped_at_words(&self, width: usize) -> Vec<Self> {
        let lines = self.0.split('\n');
        let lines = lines.flat_map(|line| crate::fit::wrap_words(line, width.max(1)));
        let pieces = lines.flat_map(|line| crate::fit::wrap(&line, width.max(1)));
        pieces.map(Self).collect()
    }

    /// Both, one after the other.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.0.push_str(&other.0);
        self
    }

    /// With blanks behind it, up to a width.
    #[must_use]
    pub fn padded(mut self, width: usize) -> Self {
        let missing = width.saturating_sub(self.width());
        self.0.extend(std::iter::repeat_n(' ', missing));
        self
    }
}

impl From<&'static str> for EscapedText {
    /// Words of ours. They pass the check all the same.
    fn from(text: &'static str) -> Self {
        Self::shown(text)
    }
}

impl fmt::Display for EscapedText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_was_escaped_stays_and_other_text_is_escaped() {
        let once = EscapedText::line("a\u{202e}b\x1b[2J");
        assert_eq!(once.as_str(), r"a\u{202e}b\u{1b}[2J");
        assert_eq!(EscapedText::shown(once.as_str()), once);
        let blanks = EscapedText::block(&format!("a{}b", " ".repeat(40)));
        assert_eq!(blanks.as_str(), "a\u{27e8}40 spaces\u{27e9}b");
        assert_eq!(EscapedText::shown(blanks.as_str()), blanks);
        assert_eq!(
            EscapedText::shown("x\x1b]0;t\x07").as_str(),
            r"x\u{1b}]0;t\u{7}"
        );
        assert_eq!(EscapedText::shown("a\tb").as_str(), "a    b");
    }

    #[test]
    fn a_text_is_fitted_by_columns() {
        let text = EscapedText::from("日本語");
        assert_eq!(text.truncated(5).as_str(), "日本…");
        let pieces: Vec<String> = text.wrapped(4).iter().map(ToString::to_string).collect();
        assert_eq!(pieces, ["日本", "語"]);
        assert_eq!(text.padded(8).as_str(), "日本語  ");
    }
}

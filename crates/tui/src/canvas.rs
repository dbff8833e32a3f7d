//! Drawing: lines of escaped text into the cells of a picture.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthChar as _;

use crate::escaped_text::EscapedText;
use crate::fit;
use crate::glyphs::Glyphs;
use crate::theme::{Role, Theme};

/// Pieces of text that stand beside each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextLine(pub Vec<(EscapedText, Role)>);

impl TextLine {
    pub fn new(text: impl Into<EscapedText>, role: Role) -> Self {
        Self(vec![(text.into(), role)])
    }

    /// Words of ours with text that `render` made.
    pub fn shown(text: impl Into<String>, role: Role) -> Self {
        Self(vec![(EscapedText::shown(text), role)])
    }

    pub fn push(&mut self, text: impl Into<EscapedText>, role: Role) {
        self.0.push((text.into(), role));
    }

    pub fn push_shown(&mut self, text: impl Into<String>, role: Role) {
        self.0.push((EscapedText::shown(text), role));
    }

    pub fn width(&self) -> usize {
        self.0.iter().map(|(text, _)| text.width()).sum()
    }

    pub fn text(&self) -> String {
        self.0.iter().map(|(text, _)| text.as_str()).collect()
    }

    /// Broken wherever the width ends; what follows the first line begins with `indent` blanks and a mark in front
    /// of them, in columns that no text of an agent reaches.
    pub fn wrapped(&self, width: usize, indent: usize, mark: char) -> Vec<Self> {
        let width = width.max(indent + 1);
        let mut lines = vec![Self::default()];
        let mut used = 0;
        for (text, role) in &self.0 {
            let mut piece = String::new();
            for c in text.as_str().chars() {
                let columns = c.width().unwrap_or(0);
                if used + columns > width {
                    push_piece(&mut lines, &mut piece, *role);
                    let mut start = Self::default();
                    if indent > 0 {
                        let lead =
                            format!("{mark:>width$} ", width = indent.saturating_sub(1).max(1));
                        start.push_shown(lead, Role::Mark);
                    }
                    used = start.width();
                    lines.push(start);
                }
                used += columns;
                piece.push(c);
            }
            push_piece(&mut lines, &mut piece, *role);
        }
        lines
    }
}

fn push_piece(lines: &mut [TextLine], piece: &mut String, role: Role) {
    if let Some(last) = lines.last_mut()
        && !piece.is_empty()
    {
        last.push_shown(std::mem::take(piece), role);
    }
}

/// The cells of a picture, and what they are drawn with.
pub struct Canvas<'a> {
    pub buffer: &'a mut Buffer,
    pub theme: &'a Theme,
    pub glyphs: &'static Glyphs,
}

impl Canvas<'_> {
    /// Draws a text, cut at the width, and returns the columns it took.
    pub fn put(&mut self, x: u16, y: u16, width: u16, text: &EscapedText, role: Role) -> u16 {
        let area = self.buffer.area;
        if width == 0 || !area.contains((x, y).into()) {
            return 0;
        }
        let room = width.min(area.right() - x);
        let shown = fit::truncate_with(text.as_str(), room.into(), self.glyphs.cut);
        let style = self.theme.style(role);
        let (end, _) = self.buffer.set_stringn(x, y, shown, room.into(), style);
        end - x
    }

    /// Words of ours, with text that `render` made.
    pub fn put_shown(&mut self, x: u16, y: u16, width: u16, text: &str, role: Role) -> u16 {
        self.put(x, y, width, &EscapedText::shown(text), role)
    }

    /// Draws a line in the first row of an area.
    pub fn put_line(&mut self, area: Rect, line: &TextLine) {
        let mut x = area.x;
        for (text, role) in &line.0 {
            x += self.put(x, area.y, area.right().saturating_sub(x), text, *role);
        }
    }

    /// Draws lines from the top of an area, as many as fit.
    pub fn put_lines<'l>(&mut self, area: Rect, lines: impl Iterator<Item = &'l TextLine>) {
        for (y, line) in (area.y..area.bottom()).zip(lines) {
            self.put_line(
                Rect {
                    y,
                    height: 1,
                    ..area
                },
                line,
            );
        }
    }

    /// Gives a row the style of a selected one.
    pub fn select_row(&mut self, area: Rect) {
        let style = self.theme.style(Role::Select);
        self.buffer.set_style(Rect { height: 1, ..area }, style);
    }

    /// A rule across the first row of an area, with a title in it.
    pub fn rule(&mut self, area: Rect, title: &TextLine) {
        let line: String = std::iter::repeat_n(self.glyphs.horizontal, area.width.into()).collect();
        self.put_shown(area.x, area.y, area.width, &line, Role::Border);
        if !title.0.is_empty() && area.width > 4 {
            let inner = Rect {
                x: area.x + 1,
                width: area.width - 2,
                height: 1,
                ..area
            };
            self.put_line(inner, title);
        }
    }

    /// A rule down the first column of an area.
    pub fn column_rule(&mut self, x: u16, top: u16, bottom: u16) {
        let text = self.glyphs.vertical.to_string();
        for y in top..bottom {
            self.put_shown(x, y, 1, &text, Role::Border);
        }
    }

    /// Empties an area, so that what is drawn there covers what was below.
    pub fn clear(&mut self, area: Rect) {
        let area = area.intersection(self.buffer.area);
        for y in area.y..area.bottom() {
            for x in area.x..area.right() {
                if let Some(cell) = self.buffer.cell_mut((x, y)) {
                    cell.reset();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_line_keeps_every_character_and_marks_what_goes_on() {
        let mut line = TextLine::new("command  ", Role::Dim);
        line.push_shown("echo 日本語 done", Role::Text);
        let lines: Vec<String> = line
            .wrapped(16, 9, '↳')
            .iter()
            .map(TextLine::text)
            .collect();
        assert_eq!(
            lines,
            ["command  echo 日", "       ↳ 本語 do", "       ↳ ne"]
        );
    }
}

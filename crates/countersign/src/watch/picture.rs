//! Puts a picture on the terminal.

use std::io::{self, Write as _};

use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};
use crossterm::{cursor, queue};

use super::draw::{LineTone, ScreenLine};
use crate::screen::RawTerminal;

/// Only the holder of the terminal may draw.
pub(super) fn put(_terminal: &RawTerminal, lines: &[ScreenLine]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // Where a terminal knows this, the picture changes at once: nobody decides on half of the old
    // and half of the new ask. Others ignore it.
    queue!(out, BeginSynchronizedUpdate)?;
    for (row, line) in lines.iter().enumerate() {
        let attribute = match line.tone {
            LineTone::Plain => Attribute::Reset,
            LineTone::Strong => Attribute::Bold,
            LineTone::Faint => Attribute::Dim,
            LineTone::Reverse => Attribute::Reverse,
        };
        let row = u16::try_from(row).unwrap_or(u16::MAX);
        queue!(
            out,
            cursor::MoveTo(0, row),
            Clear(ClearType::CurrentLine),
            SetAttribute(attribute)
        )?;
        queue!(out, Print(&line.text), SetAttribute(Attribute::Reset))?;
    }
    queue!(out, Clear(ClearType::FromCursorDown), EndSynchronizedUpdate)?;
    out.flush()
}

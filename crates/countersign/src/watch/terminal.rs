//! The terminal, taken over and given back on every way out.

use std::io::{self, Write as _};
use std::sync::Once;

use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap,
    EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use crossterm::{cursor, execute, queue};

use super::draw::{LineTone, ScreenLine};

/// Holds the terminal; dropping it gives the terminal back.
pub(super) struct RawTerminal;

impl RawTerminal {
    pub(super) fn enter() -> io::Result<Self> {
        restore_on_panic();
        enable_raw_mode()?;
        // From here on a failure must undo what was done: the value exists before the next step.
        let terminal = Self;
        execute!(
            io::stdout(),
            EnterAlternateScreen,
            // Pasted text then arrives as one event, and cannot be taken for keys.
            EnableBracketedPaste,
            // A terminal may show a character wider than our table says. Cut at the edge, such a line
            // cannot push another one off the screen.
            DisableLineWrap,
            cursor::Hide
        )?;
        Ok(terminal)
    }

    #[expect(
        clippy::unused_self,
        reason = "only the holder of the terminal may draw"
    )]
    pub(super) fn put(&self, lines: &[ScreenLine]) -> io::Result<()> {
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
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // As far as it goes: this also runs in a panic, where a second failure would hide the first.
    execute!(
        io::stdout(),
        cursor::Show,
        EnableLineWrap,
        DisableBracketedPaste,
        LeaveAlternateScreen
    )
    .ok();
    disable_raw_mode().ok();
}

/// A panic's message must be readable, on the screen the person came from.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
    });
}

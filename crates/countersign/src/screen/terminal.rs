//! The terminal, taken over and given back on every way out.

use std::io;
use std::sync::Once;

use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste,
    EnableFocusChange,
};
use crossterm::terminal::{
    DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use crossterm::{cursor, execute};

/// Holds the terminal; dropping it gives the terminal back.
pub(crate) struct RawTerminal;

impl RawTerminal {
    pub(crate) fn enter() -> io::Result<Self> {
        restore_on_panic();
        enable_raw_mode()?;
        // From here on a failure must undo what was done: the value exists before the next step.
        let terminal = Self;
        execute!(
            io::stdout(),
            EnterAlternateScreen,
            // Pasted text then arrives as one event, and cannot be taken for keys.
            EnableBracketedPaste,
            // Nobody decides in a window that they do not look at.
            EnableFocusChange,
            // A terminal may show a character wider than our table says. Cut at the edge, such a line
            // cannot push another one off the screen.
            DisableLineWrap,
            cursor::Hide
        )?;
        Ok(terminal)
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
        DisableMouseCapture,
        DisableFocusChange,
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

//! The person's terminal: taken over, read and given back. Used by `watch` and the terminal UI.

mod keyboard;
mod terminal;

use std::io;

use crate::error::CliError;

pub(crate) use keyboard::KeyboardReader;
pub(crate) use terminal::RawTerminal;

/// A terminal that cannot be taken over, read or drawn on.
pub(crate) fn terminal_error(source: io::Error) -> CliError {
    CliError::io("could not use the terminal", source)
}

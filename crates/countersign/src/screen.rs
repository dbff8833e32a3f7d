//! The person's terminal: taken over, read and given back. Used by `watch` and the terminal UI.

mod keyboard;
mod terminal;

pub(crate) use keyboard::KeyboardReader;
pub(crate) use terminal::{RawTerminal, TerminalModes};

//! Keys and pasted text as the bytes that a terminal sends for them.

use crate::key::{Key, KeyCode};

/// What the program in a terminal asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyModes {
    /// Other codes for the keys of the cursor.
    pub application_cursor: bool,
    /// Pasted text is marked as such.
    pub bracketed_paste: bool,
}

const PASTE_START: &str = "\x1b[200~";
const PASTE_END: &str = "\x1b[201~";

/// The bytes of a key.
pub fn key_bytes(key: Key, modes: KeyModes) -> Vec<u8> {
    let sent = match key.code {
        KeyCode::Char(c) if key.ctrl => {
            control_byte(c).map_or_else(|| c.to_string().into(), |byte| vec![byte])
        }
        KeyCode::Char(c) => c.to_string().into_bytes(),
        KeyCode::Enter => b"\r".to_vec(),
        KeyCode::Escape => b"\x1b".to_vec(),
        // Programs on Unix expect DEL for this key, which leaves BS for the key with Ctrl.
        KeyCode::Backspace if key.ctrl => b"\x08".to_vec(),
        KeyCode::Backspace => b"\x7f".to_vec(),
        KeyCode::Tab => b"\t".to_vec(),
        KeyCode::BackTab => b"\x1b[Z".to_vec(),
        // These carry Ctrl and Alt in a number of their own.
        KeyCode::Up => return cursor_key('A', key, modes),
        KeyCode::Down => return cursor_key('B', key, modes),
        KeyCode::Right => return cursor_key('C', key, modes),
        KeyCode::Left => return cursor_key('D', key, modes),
        KeyCode::Home => return cursor_key('H', key, modes),
        KeyCode::End => return cursor_key('F', key, modes),
        KeyCode::Delete => return numbered_key(3, key),
        KeyCode::PageUp => return numbered_key(5, key),
        KeyCode::PageDown => return numbered_key(6, key),
        KeyCode::Function(number) => return function_key(number, key),
    };
    // Alt has no code of its own here: terminals send an escape before the bytes of the key.
    if key.alt {
        return [b"\x1b", sent.as_slice()].concat();
    }
    sent
}

/// Ctrl with a character, as terminals have it since the VT100.
fn control_byte(c: char) -> Option<u8> {
    let byte = u8::try_from(c.to_ascii_lowercase()).ok()?;
    match byte {
        b'a'..=b'z' => Some(byte & 0x1f),
        b'@' | b' ' | b'2' => Some(0),
        b'[' | b'3' => Some(0x1b),
        b'\\' | b'4' => Some(0x1c),
        b']' | b'5' => Some(0x1d),
        b'^' | b'6' => Some(0x1e),
        b'_' | b'/' | b'7' => Some(0x1f),
        b'?' | b'8' => Some(0x7f),
        _ => None,
    }
}

/// xterm's number for what is held down with a key.
fn modifier(key: Key) -> u8 {
    1 + 2 * u8::from(key.alt) + 4 * u8::from(key.ctrl)
}

fn cursor_key(letter: char, key: Key, modes: KeyModes) -> Vec<u8> {
    match modifier(key) {
        // Only without modifiers: with them xterm sends the form with a number in both modes.
        1 if modes.application_cursor => format!("\x1bO{letter}"),
        1 => format!("\x1b[{letter}"),
        held => format!("\x1b[1;{held}{letter}"),
    }
    .into_bytes()
}

fn numbered_key(number: u8, key: Key) -> Vec<u8> {
    match modifier(key) {
        1 => format!("\x1b[{number}~"),
        held => format!("\x1b[{number};{held}~"),
    }
    .into_bytes()
}

fn function_key(number: u8, key: Key) -> Vec<u8> {
    match number {
        // These are the keys PF1 to PF4 of the VT100, which have letters instead of numbers.
        1..=4 => {
            let letter = char::from(b'P' + number - 1);
            match modifier(key) {
                1 => format!("\x1bO{letter}").into_bytes(),
                held => format!("\x1b[1;{held}{letter}").into_bytes(),
            }
        }
        // The numbers have gaps where old keyboards had other keys.
        5 => numbered_key(15, key),
        6..=10 => numbered_key(number + 11, key),
        11..=12 => numbered_key(number + 12, key),
        _ => Vec::new(),
    }
}

/// Pasted text. It cannot end the marks around it, and without marks it holds no control characters but tabs and
/// line ends, so that it is no more than text.
pub fn paste_bytes(text: &str, modes: KeyModes) -> Vec<u8> {
    // Enter sends a carriage return, and programs expect pasted lines to end like typed ones.
    let lines = text.replace("\r\n", "\r").replace('\n', "\r");
    let plain: String = lines
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\r' | '\t'))
        .collect();
    if modes.bracketed_paste {
        return format!("{PASTE_START}{plain}{PASTE_END}").into_bytes();
    }
    plain.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(name: &str, modes: KeyModes) -> String {
        String::from_utf8(key_bytes(Key::parse(name).unwrap(), modes)).unwrap()
    }

    #[test]
    fn keys_are_sent_as_terminals_send_them() {
        let usual = [
            ("a", "a"),
            ("ä", "ä"),
            ("Enter", "\r"),
            ("Esc", "\x1b"),
            ("Backspace", "\x7f"),
            ("Tab", "\t"),
            ("Shift-Tab", "\x1b[Z"),
            ("Ctrl-c", "\x03"),
            ("Ctrl-g", "\x07"),
            ("Ctrl-Space", "\0"),
            ("Ctrl-4", "\x1c"),
            ("Alt-x", "\x1bx"),
            ("Ctrl-Alt-a", "\x1b\x01"),
            ("Up", "\x1b[A"),
            ("Ctrl-Right", "\x1b[1;5C"),
            ("Home", "\x1b[H"),
            ("PgUp", "\x1b[5~"),
            ("Alt-Delete", "\x1b[3;3~"),
            ("F1", "\x1bOP"),
            ("F5", "\x1b[15~"),
            ("F10", "\x1b[21~"),
            ("F12", "\x1b[24~"),
        ];
        for (name, bytes) in usual {
            assert_eq!(sent(name, KeyModes::default()), bytes, "{name}");
        }
        let modes = KeyModes {
            application_cursor: true,
            ..KeyModes::default()
        };
        assert_eq!(sent("Up", modes), "\x1bOA");
        assert_eq!(sent("Ctrl-Up", modes), "\x1b[1;5A");
    }

    #[test]
    fn pasted_text_is_no_more_than_text() {
        let text = "one\ntwo\r\n\tthree\x1b[201~; rm\x03";
        let plain = "one\rtwo\r\tthree[201~; rm";
        assert_eq!(paste_bytes(text, KeyModes::default()), plain.as_bytes());
        let modes = KeyModes {
            bracketed_paste: true,
            ..KeyModes::default()
        };
        let marked = format!("\x1b[200~{plain}\x1b[201~");
        assert_eq!(paste_bytes(text, modes), marked.as_bytes());
    }
}

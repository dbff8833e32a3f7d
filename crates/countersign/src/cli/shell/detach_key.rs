//! The one key that the program of an attached terminal does not get.

use std::fmt;
use std::str::FromStr;

/// With Ctrl, a key gives its letter without this bit.
const CTRL_BIT: u8 = 0x40;

/// A key with Ctrl, or no key at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DetachKey {
    byte: Option<u8>,
}

impl Default for DetachKey {
    /// Ctrl-], as in telnet.
    fn default() -> Self {
        Self {
            byte: Some(b']' ^ CTRL_BIT),
        }
    }
}

impl fmt::Display for DetachKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.letter() {
            Some(letter) => write!(out, "ctrl-{letter}"),
            None => out.write_str("none"),
        }
    }
}

impl FromStr for DetachKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self { byte: None });
        }
        let letter = text.strip_prefix("ctrl-").map(str::as_bytes);
        match letter {
            // Ctrl-[ is Esc, and every other key begins with it.
            Some([letter]) if matches!(letter, b'a'..=b'z' | b'\\' | b']' | b'^' | b'_') => {
                Ok(Self {
                    byte: Some(letter.to_ascii_uppercase() ^ CTRL_BIT),
                })
            }
            _ => Err("use ctrl- and a letter or one of \\ ] ^ _, or none".to_owned()),
        }
    }
}

impl DetachKey {
    fn letter(self) -> Option<char> {
        let letter = char::from(self.byte? ^ CTRL_BIT);
        Some(letter.to_ascii_lowercase())
    }

    /// Where the key is in what was typed.
    pub(super) fn find(self, typed: &[u8]) -> Option<usize> {
        let (byte, letter) = (self.byte?, self.letter()?);
        let code = u32::from(letter);
        // A program may have asked the terminal to send keys in one of the longer forms.
        let long_forms = [
            format!("\u{1b}[{code};5u"),
            format!("\u{1b}[{code};5:1u"),
            format!("\u{1b}[27;5;{code}~"),
        ];
        (0..typed.len()).find(|at| {
            let rest = &typed[*at..];
            rest[0] == byte
                || long_forms
                    .iter()
                    .any(|form| rest.starts_with(form.as_bytes()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_printed_as_it_is_typed() {
        for text in ["ctrl-]", "ctrl-a", "ctrl-\\", "none"] {
            assert_eq!(text.parse::<DetachKey>().unwrap().to_string(), text);
        }
        assert_eq!(DetachKey::default().to_string(), "ctrl-]");
        for wrong in ["", "]", "ctrl-", "ctrl-[", "ctrl-é", "ctrl-ab", "alt-x"] {
            assert!(wrong.parse::<DetachKey>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_found_in_every_form_in_which_terminals_send_it() {
        let key = DetachKey::default();
        for (typed, place) in [
            ("ls\n\u{1d}x", Some(3)),
            ("a\u{1b}[93;5u", Some(1)),
            ("\u{1b}[93;5:1u", Some(0)),
            ("\u{1b}[27;5;93~", Some(0)),
            ("\u{1b}[A]", None),
            ("", None),
        ] {
            assert_eq!(key.find(typed.as_bytes()), place, "{typed:?}");
        }
        let none: DetachKey = "none".parse().unwrap();
        assert_eq!(none.find(b"\x1d"), None);
    }
}

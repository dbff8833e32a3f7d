//! Keys as people name them: `a`, `Ctrl-g`, `Alt-1`, `PgDn`.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyCode {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Delete,
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    Function(u8),
}

/// One stroke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub code: KeyCode,
    pub ctrl: bool,
    pub alt: bool,
}

/// Names of keys that are no character, longest first where one begins another.
const NAMES: [(&str, KeyCode); 15] = [
    ("Enter", KeyCode::Enter),
    ("Esc", KeyCode::Escape),
    ("Backspace", KeyCode::Backspace),
    ("Delete", KeyCode::Delete),
    ("Tab", KeyCode::Tab),
    ("Shift-Tab", KeyCode::BackTab),
    ("Up", KeyCode::Up),
    ("Down", KeyCode::Down),
    ("Left", KeyCode::Left),
    ("Right", KeyCode::Right),
    ("Home", KeyCode::Home),
    ("End", KeyCode::End),
    ("PgUp", KeyCode::PageUp),
    ("PgDn", KeyCode::PageDown),
    ("Space", KeyCode::Char(' ')),
];

impl Key {
    pub const fn plain(code: KeyCode) -> Self {
        Self {
            code,
            ctrl: false,
            alt: false,
        }
    }

    pub const fn char(c: char) -> Self {
        Self::plain(KeyCode::Char(c))
    }

    pub const fn ctrl(c: char) -> Self {
        Self {
            code: KeyCode::Char(c),
            ctrl: true,
            alt: false,
        }
    }

    /// Whether it is a character that a text takes.
    pub fn typed(self) -> Option<char> {
        match self.code {
            KeyCode::Char(c) if !self.ctrl && !self.alt => Some(c),
            _ => None,
        }
    }

    /// Reads one stroke: `Ctrl-g`, `Alt-h`, `Shift-Tab`, `?`.
    pub fn parse(name: &str) -> Option<Self> {
        let mut key = Self::char(' ');
        let mut rest = name;
        loop {
            if let Some(after) = rest.strip_prefix("Ctrl-") {
                (key.ctrl, rest) = (true, after);
            } else if let Some(after) = rest.strip_prefix("Alt-") {
                (key.alt, rest) = (true, after);
            } else {
                break;
            }
        }
        key.code = parse_code(rest)?;
        Some(key)
    }

    /// Reads strokes one after the other: `Ctrl-g z`.
    pub fn parse_sequence(names: &str) -> Option<Vec<Self>> {
        let keys: Option<Vec<Self>> = names.split(' ').map(Self::parse).collect();
        keys.filter(|keys| !keys.is_empty())
    }
}

fn parse_code(name: &str) -> Option<KeyCode> {
    let mut chars = name.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return Some(KeyCode::Char(c));
    }
    let function = name
        .strip_prefix('F')
        .and_then(|number| number.parse().ok());
    let named = NAMES.iter().find(|(known, _)| *known == name);
    named
        .map(|(_, code)| *code)
        .or(function.map(KeyCode::Function))
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ctrl = if self.ctrl { "Ctrl-" } else { "" };
        let alt = if self.alt { "Alt-" } else { "" };
        write!(out, "{ctrl}{alt}")?;
        match self.code {
            KeyCode::Char(c) if c != ' ' => write!(out, "{c}"),
            KeyCode::Function(number) => write!(out, "F{number}"),
            code => {
                let named = NAMES.iter().find(|(_, known)| *known == code);
                out.write_str(named.map_or("", |(name, _)| name))
            }
        }
    }
}

/// Strokes as people read them.
pub fn sequence_text(keys: &[Key]) -> String {
    let names: Vec<String> = keys.iter().map(ToString::to_string).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_written() {
        for name in [
            "a",
            "?",
            "Ctrl-g",
            "Alt-1",
            "Shift-Tab",
            "PgDn",
            "Enter",
            "Space",
            "F5",
            "Ctrl-Alt-x",
        ] {
            assert_eq!(
                Key::parse(name).map(|key| key.to_string()).as_deref(),
                Some(name)
            );
        }
        assert_eq!(Key::parse("Hyper-x"), None);
        assert_eq!(
            Key::parse_sequence("Ctrl-g z"),
            Some(vec![Key::ctrl('g'), Key::char('z')])
        );
        assert_eq!(Key::parse_sequence(""), None);
    }
}

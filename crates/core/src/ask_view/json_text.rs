//! JSON laid out for reading without parsing it away: what the agent sent is what is shown.
//!
//! Invariant: every token stands in the output in its order, repeated keys included.

use std::collections::HashSet;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::limits::INDENTED_JSON_BYTES_MAX;
use crate::visible::{TextLayout, visible};

const INDENT: &str = "  ";

/// Levels that are indented. Past a point, depth is the agent's choice and not the reader's need.
const LEVELS_MAX: usize = 16;
/// The same for a long text, so that it does not become many times as long.
const LEVELS_MAX_IF_LONG: usize = 4;

/// Valid JSON on lines of its own, two blanks per level, with hidden characters shown.
pub fn pretty_json(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len() + raw.len() / 4);
    let levels_max = if raw.len() > INDENTED_JSON_BYTES_MAX {
        LEVELS_MAX_IF_LONG
    } else {
        LEVELS_MAX
    };
    let mut depth = 0_usize;
    let mut rest = raw.trim();
    while let Some(c) = rest.chars().next() {
        let token_bytes = match c {
            '"' => string_bytes(rest),
            _ => c.len_utf8(),
        };
        let (token, after) = rest.split_at(token_bytes);
        rest = after.trim_start_matches(|c: char| c.is_ascii_whitespace());
        match c {
            '"' => out.push_str(&visible(token, TextLayout::Block)),
            '{' | '[' if rest.starts_with(['}', ']']) => out.push(c),
            '}' | ']' if out.ends_with(['{', '[']) => out.push(c),
            '{' | '[' => {
                depth += 1;
                out.push(c);
                push_line_break(&mut out, depth.min(levels_max));
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                push_line_break(&mut out, depth.min(levels_max));
                out.push(c);
            }
            ',' => {
                out.push(c);
                push_line_break(&mut out, depth.min(levels_max));
            }
            ':' => out.push_str(": "),
            _ => out.push(c),
        }
    }
    out
}

fn push_line_break(out: &mut String, level: usize) {
    out.push('\n');
    for _ in 0..level {
        out.push_str(INDENT);
    }
}

/// The length of the string that `text` begins with, quotes included.
fn string_bytes(text: &str) -> usize {
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}

/// The members of an object as they stand in the text, repeated keys included.
#[derive(Clone, Debug)]
pub struct JsonMembers<'a>(pub Vec<(String, &'a RawValue)>);

impl<'a> JsonMembers<'a> {
    /// `None` if it is not an object.
    pub fn parse(raw: &'a str) -> Option<Self> {
        serde_json::from_str(raw).ok()
    }

    /// The text under a key that stands there exactly once.
    pub fn only_text(&self, key: &str) -> Option<String> {
        let mut found = self.0.iter().filter(|(name, _)| name == key);
        let (first, second) = (found.next()?, found.next());
        if second.is_some() {
            None
        } else {
            serde_json::from_str(first.1.get()).ok()
        }
    }

    /// A key that stands there more than once, so that readers may differ on what it means.
    pub fn repeated(&self) -> Option<&str> {
        let mut seen = HashSet::new();
        self.0
            .iter()
            .find(|(name, _)| !seen.insert(name))
            .map(|(name, _)| name.as_str())
    }

    /// The members that `keep` holds for, one under the other; `None` if there are none.
    pub(super) fn lines(&self, keep: impl Fn(&str) -> bool) -> Option<String> {
        let kept = self.0.iter().filter(|(name, _)| keep(name));
        let lines = kept.map(|(name, value)| {
            let name = visible(name, TextLayout::Line);
            format!("{name}: {}", pretty_json(value.get()))
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(Pairs).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_laid_out_and_nothing_is_lost() {
        let raw = r#"{"b":[1,2],"a":{},"b":"x \"y\" {,","c":[ ],"n":-1.50e3}"#;
        let expected = r#"{
  "b": [
    1,
    2
  ],
  "a": {},
  "b": "x \"y\" {,",
  "c": [],
  "n": -1.50e3
}"#;
        assert_eq!(pretty_json(raw), expected);
        assert_eq!(pretty_json("null"), "null");
        assert_eq!(pretty_json(r#""a b""#), r#""a b""#);
    }

    #[test]
    fn a_long_text_does_not_become_many_times_as_long() {
        let depth = 20;
        let numbers = vec!["1"; INDENTED_JSON_BYTES_MAX].join(",");
        let raw = format!("{}{numbers}{}", "[".repeat(depth), "]".repeat(depth));
        let shown = pretty_json(&raw);
        assert!(shown.len() < 6 * raw.len(), "{} {}", shown.len(), raw.len());
        assert_eq!(
            shown.replace([' ', '\n'], ""),
            raw,
            "every token is still there"
        );
    }

    #[test]
    fn a_repeated_key_gives_no_text_and_is_named() {
        let members =
            JsonMembers::parse(r#"{"command":"ls","command":"rm -rf /","cwd":"/"}"#).unwrap();
        assert_eq!(members.only_text("command"), None);
        assert_eq!(members.only_text("cwd"), Some("/".into()));
        assert_eq!(members.repeated(), Some("command"));
        assert!(JsonMembers::parse("[1]").is_none());
    }
}

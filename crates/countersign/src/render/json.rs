//! JSON laid out for reading without parsing it away: what the agent sent is what is shown.
//!
//! Invariant: every token stands in the output in its order, repeated keys included.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::render::escape;

const INDENT: &str = "  ";

/// Valid JSON on lines of its own, two blanks per level.
pub(crate) fn pretty(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len() * 2);
    let mut depth = 0_usize;
    let mut rest = raw.trim();
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '"' => string_bytes(rest),
            _ => c.len_utf8(),
        };
        let (token, after) = rest.split_at(taken);
        rest = after.trim_start_matches(|c: char| c.is_ascii_whitespace());
        match c {
            '"' => out.push_str(&escape::block(token)),
            '{' | '[' if rest.starts_with(['}', ']']) => out.push(c),
            '}' | ']' if out.ends_with(['{', '[']) => out.push(c),
            '{' | '[' => {
                depth += 1;
                out.push(c);
                new_line(&mut out, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => out.push(c),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    // Past a point, depth is the agent's choice and not the reader's need.
    out.push_str(&INDENT.repeat(depth.min(16)));
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
pub(crate) struct JsonMembers<V = Box<RawValue>>(pub(crate) Vec<(String, V)>);

impl JsonMembers {
    /// `None` if it is no object.
    pub(crate) fn parse(raw: &str) -> Option<Self> {
        serde_json::from_str(raw).ok()
    }

    /// The text under a key that stands there exactly once.
    pub(crate) fn only_text(&self, key: &str) -> Option<String> {
        let mut found = self.0.iter().filter(|(name, _)| name == key);
        let (first, second) = (found.next()?, found.next());
        if second.is_some() {
            None
        } else {
            serde_json::from_str(first.1.get()).ok()
        }
    }

    /// A key that stands there more than once, so that readers may differ on what it means.
    pub(crate) fn repeated(&self) -> Option<&str> {
        let mut seen = std::collections::HashSet::new();
        self.0
            .iter()
            .find(|(name, _)| !seen.insert(name))
            .map(|(name, _)| name.as_str())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for JsonMembers<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Pairs<V> {
            type Value = JsonMembers<V>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonMembers<V>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(JsonMembers(pairs))
            }
        }
        deserializer.deserialize_map(Pairs(PhantomData))
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
        assert_eq!(pretty(raw), expected);
        assert_eq!(pretty("null"), "null");
        assert_eq!(pretty(r#""a b""#), r#""a b""#);
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

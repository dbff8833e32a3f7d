//! JSON that an agent or client sent, kept to the byte.
//!
//! Invariant: the text inside is valid JSON. It is never parsed and printed again on the way
//! to the log, so what is shown, hashed and answered is what was sent.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::unique_keys;

/// A JSON value as its sender wrote it. Equality is equality of text.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// The value `null`.
    pub fn null() -> Self {
        Self(Arc::from(RawValue::NULL.to_owned()))
    }

    /// Prints a value. Fails only for maps whose keys are not text.
    pub fn from_value(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(Self::from)
    }

    /// The text as it was sent.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The same JSON for embedding in other output.
    pub fn raw(&self) -> &RawValue {
        &self.0
    }

    /// The same JSON, shared instead of copied.
    pub fn shared(&self) -> Arc<RawValue> {
        self.0.clone()
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        self.text() == "null"
    }

    /// How many arrays and objects lie within each other at most.
    pub fn depth(&self) -> usize {
        let (mut depth, mut deepest) = (0_usize, 0);
        let (mut in_text, mut escaped) = (false, false);
        // Bytes suffice: no byte of a longer UTF-8 character equals a bracket, a quote or a
        // backslash.
        for byte in self.text().bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_text = !in_text,
                // The text is valid JSON, so outside of strings every bracket has its partner.
                b'[' | b'{' if !in_text => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        deepest
    }

    /// What it says, unless a key appears twice in it: then two readers may read two things.
    pub fn parse_unique_keys(&self) -> Option<Value> {
        unique_keys::parse(self.text())
    }

    /// SHA-256 over the value with sorted keys and no blanks, so that two spellings of one
    /// value have one digest. In hexadecimal.
    pub fn canonical_digest(&self) -> String {
        // Only a document nested too deeply for the parser is left as it was written.
        let canonical = serde_json::from_str(self.text()).map_or_else(
            |_| self.text().to_owned(),
            |value| sorted(value).to_string(),
        );
        hex(&Sha256::digest(canonical.as_bytes()))
    }
}

/// The value with the keys of every object in order. Whether the parser's own map keeps them so
/// depends on what else is built with it.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields: BTreeMap<String, Value> = map.into_iter().collect();
            let fields = fields.into_iter();
            Value::Object(fields.map(|(key, value)| (key, sorted(value))).collect())
        }
        Value::Array(values) => values.into_iter().map(sorted).collect(),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        Self(Arc::from(raw))
    }
}

impl From<Arc<RawValue>> for Json {
    fn from(raw: Arc<RawValue>) -> Self {
        Self(raw)
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.text())
    }
}

impl Default for Json {
    fn default() -> Self {
        Self::null()
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_what_lies_within_and_not_what_is_quoted() {
        for (text, depth) in [
            ("null", 0),
            ("[]", 1),
            (r#"{"a":[1],"b":[[2]]}"#, 3),
            (r#"["[[[", "\"[[", "\\"]"#, 1),
            (r#"[{"}]": {}}, []]"#, 3),
        ] {
            assert_eq!(
                serde_json::from_str::<Json>(text).unwrap().depth(),
                depth,
                "{text}"
            );
        }
    }

    #[test]
    fn digest_ignores_spelling_but_not_content() {
        let parse = |text: &str| serde_json::from_str::<Json>(text).unwrap();
        let one = parse(r#"{"b": 1, "a": [ 2 ]}"#);
        assert_eq!(one.text(), r#"{"b": 1, "a": [ 2 ]}"#);
        assert_eq!(
            one.canonical_digest(),
            parse(r#"{"a":[2],"b":1}"#).canonical_digest()
        );
        assert_ne!(
            one.canonical_digest(),
            parse(r#"{"a":[2],"b":2}"#).canonical_digest()
        );
    }
}

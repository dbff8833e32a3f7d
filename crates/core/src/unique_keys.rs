//! JSON that reads in only one way.
//!
//! Of a key that appears twice, some readers take the first and some the last. What the rules read
//! must be what the tool will read, so such a document is not read at all.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads a document, unless a key appears twice in one object.
pub(crate) fn parse(text: &str) -> Option<Value> {
    serde_json::from_str::<UniqueKeysValue>(text)
        .ok()
        .map(|exact| exact.0)
}

struct UniqueKeysValue(Value);

impl<'de> Deserialize<'de> for UniqueKeysValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueKeysVisitor).map(Self)
    }
}

struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(UniqueKeysValue(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, UniqueKeysValue(value))) =
            fields.next_entry::<String, UniqueKeysValue>()?
        {
            // Keys are compared after their escapes are resolved: `\u0062` and `b` are one key.
            if object.insert(key, value).is_some() {
                return Err(A::Error::custom("a key appears twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_appears_twice_is_not_read() {
        assert_eq!(parse(r#"{"command": "ls", "command": "rm"}"#), None);
        assert_eq!(parse(r#"[{"a": {"b": 1, "\u0062": 2}}]"#), None);
    }

    #[test]
    fn everything_else_is_read_as_it_is() {
        let text = r#"{"a":[1,-2,1.5,true,null,"x"],"b":{"a":{}}}"#;
        assert_eq!(
            parse(text).map(|value| value.to_string()),
            Some(text.to_owned())
        );
    }
}

//! Values that look the same in every message.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

// Not a `Value`: digests and approvals are about exact bytes, and parsing would lose duplicate
// keys, the order of fields and the form of numbers. Shared, because an input goes into the record,
// the feed and every reply without being copied.
/// Any JSON, kept as its sender wrote it.
#[derive(Clone)]
pub struct Raw(pub Arc<RawValue>);

impl Raw {
    /// The value `null`.
    pub fn null() -> Self {
        Self(Arc::from(RawValue::NULL.to_owned()))
    }

    /// The value `{}`.
    pub fn empty_object() -> Self {
        // Two brackets are JSON; null would stand for them otherwise.
        RawValue::from_string("{}".to_owned()).map_or_else(|_| Self::null(), |raw| Self(raw.into()))
    }

    /// The text as it was sent.
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl Default for Raw {
    fn default() -> Self {
        Self::null()
    }
}

impl PartialEq for Raw {
    // By bytes, as everything else here: `1.0` and `1` are not the same input.
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.text())
    }
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(Arc::from(raw)))
    }
}

/// Reads a struct from an object only: derived code also accepts a list of the fields' values.
///
/// For types that derive both directions with `#[serde(remote = "Self")]`, which makes the derived
/// code functions of the type, so that this trait implementation can call them.
macro_rules! read_from_object_only {
    ($($name:ident),*) => {$(
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct ObjectVisitor;
                impl<'de> serde::de::Visitor<'de> for ObjectVisitor {
                    type Value = $name;

                    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        out.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<$name, A::Error> {
                        $name::deserialize(serde::de::value::MapAccessDeserializer::new(map))
                    }
                }
                deserializer.deserialize_map(ObjectVisitor)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $name::serialize(self, serializer)
            }
        }
    )*};
}

pub(crate) use read_from_object_only;

/// An instant, in microseconds since 1970; RFC 3339 in UTC on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A time beyond what can be printed is shown as the last one that can: a row that cannot be
        // shown at all would hide an ask.
        let micros = i64::try_from(self.0).unwrap_or(i64::MAX);
        let instant = jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX);
        write!(out, "{instant:.6}")
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let instant: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        // A time before 1970 counts as 1970: the record has nothing older.
        Ok(Self(u64::try_from(instant.as_microsecond()).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_travels_as_rfc_3339_and_back() {
        let time = Time(1_794_767_513_936_151);
        let text = serde_json::to_string(&time).unwrap();
        assert_eq!(text, r#""2026-11-15T18:31:53.936151Z""#);
        assert_eq!(serde_json::from_str::<Time>(&text).unwrap(), time);
    }
}

//! Writes to an agent, and the ids that make each of them happen once.
//!
//! Invariant: at most one write is ever made under an id, so whoever repeats one, in this process or the
//! next, need not know whether it was made before.

use serde::{Deserialize, Serialize};

/// The idempotency key of a write to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteId {
    /// It answers this line of the agent, or is the next step after it.
    Line(u64),
    /// It answers nothing: a series, and a number that only rises within the series.
    Own(String, u64),
}

impl WriteId {
    pub fn own(kind: &str, number: u32) -> Self {
        Self::Own(kind.to_owned(), number.into())
    }
}

/// What was written under a [`WriteId`], for whoever asks later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteKind {
    /// Only one thing can be written under the id, or what was written is no longer known.
    #[default]
    Unspecified,
    /// An ask was allowed.
    Allow,
    /// An ask was denied.
    Deny,
    /// A request went away; that is not a denial.
    Cancelled,
    /// A client request was served.
    Served,
    /// A client request was refused.
    Refused,
}

/// One thing to write, with the newlines it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentWrite {
    pub id: WriteId,
    pub kind: WriteKind,
    /// What is written, which is always text.
    #[serde(with = "text")]
    pub bytes: Vec<u8>,
}

impl AgentWrite {
    pub fn reply_to(line: u64, kind: WriteKind, bytes: Vec<u8>) -> Self {
        Self {
            id: WriteId::Line(line),
            kind,
            bytes,
        }
    }

    pub fn own(kind: &str, number: u32, bytes: Vec<u8>) -> Self {
        Self {
            id: WriteId::own(kind, number),
            kind: WriteKind::Unspecified,
            bytes,
        }
    }
}

/// Bytes that are text, stored as text.
mod text {
    use serde::{Deserialize as _, Deserializer, Serializer, ser::Error as _};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        // An array of numbers would take four times the room, and this is part of every checkpoint.
        let text = std::str::from_utf8(bytes).map_err(S::Error::custom)?;
        to.serialize_str(text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        String::deserialize(from).map(String::into_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_stored_as_text_and_comes_back_whole() {
        let line = AgentWrite::reply_to(7, WriteKind::Allow, b"{\"id\":\"\xc3\xa9\"}\n".to_vec());
        let stored = serde_json::to_string(&line).unwrap();
        assert_eq!(
            stored,
            r#"{"id":{"line":7},"kind":"allow","bytes":"{\"id\":\"é\"}\n"}"#
        );
        assert_eq!(serde_json::from_str::<AgentWrite>(&stored).unwrap(), line);
        let own = AgentWrite::own("prompt", 3, b"x\n".to_vec());
        let stored = serde_json::to_string(&own).unwrap();
        assert_eq!(serde_json::from_str::<AgentWrite>(&stored).unwrap(), own);
        let unreadable = AgentWrite::own("prompt", 3, b"\xff\n".to_vec());
        assert!(serde_json::to_string(&unreadable).is_err());
    }
}

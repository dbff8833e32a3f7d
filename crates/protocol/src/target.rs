//! Parameters that consist of the id of one thing and a body.
//!
//! On the wire the id and the fields of the body are in one object. The body is a type of its own
//! because REST has the id in the path.

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor,
};

macro_rules! targets {
    ($($(#[$doc:meta])* $target:ident { $id:ident })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Serialize)]
        pub struct $target<B> {
            /// Its id.
            pub $id: String,
            /// The other fields.
            #[serde(flatten)]
            pub body: B,
        }

        impl<'de, B: Deserialize<'de>> Deserialize<'de> for $target<B> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = stringify!($id);
                let target = deserializer.deserialize_map(TargetVisitor { name, body: PhantomData })?;
                Ok(Self { $id: target.id, body: target.body })
            }
        }
    )*};
}

targets! {
    /// Parameters about one agent.
    AgentTarget { agent_id }
    /// Parameters about one approval.
    ApprovalTarget { approval_id }
    /// Parameters about one question.
    QuestionTarget { question_id }
}

struct IdAndBody<B> {
    id: String,
    body: B,
}

struct TargetVisitor<B> {
    name: &'static str,
    body: PhantomData<B>,
}

impl<'de, B: Deserialize<'de>> Visitor<'de> for TargetVisitor<B> {
    type Value = IdAndBody<B>;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<IdAndBody<B>, A::Error> {
        // A derived `#[serde(flatten)]` would collect all fields first. Then raw JSON could not be
        // kept to the byte, and the server could not find out which fields the body does not have.
        let mut id = None;
        let body = B::deserialize(MapAccessDeserializer::new(BodyFields {
            map,
            id_name: self.name,
            id: &mut id,
        }))?;
        let id = id.ok_or_else(|| A::Error::missing_field(self.name))?;
        Ok(IdAndBody { id, body })
    }
}

/// The fields of an object without the id, which is stored when it is found.
struct BodyFields<'a, A> {
    map: A,
    id_name: &'static str,
    id: &'a mut Option<String>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for BodyFields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<String>()? {
            if key != self.id_name {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            // The body's own code refuses its fields if they appear twice; the id is not among
            // them.
            if self.id.replace(self.map.next_value()?).is_some() {
                return Err(A::Error::duplicate_field(self.id_name));
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BypassBody, PromptBody};

    fn refusal<B: for<'de> Deserialize<'de>>(text: &str) -> String {
        let read: Result<AgentTarget<B>, _> = serde_json::from_str(text);
        read.err()
            .map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn the_id_and_the_body_lie_side_by_side() {
        let text = r#"{"agent_id":"a","message":"go"}"#;
        let read: AgentTarget<PromptBody> = serde_json::from_str(text).unwrap();
        assert_eq!(
            (read.agent_id.as_str(), read.body.message.as_str()),
            ("a", "go")
        );
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn what_is_missing_twice_or_unknown_is_an_error() {
        let cases = [
            (
                refusal::<PromptBody>(r#"{"message":"go"}"#),
                "missing field `agent_id`",
            ),
            (
                refusal::<PromptBody>(r#"{"agent_id":"a"}"#),
                "missing field `message`",
            ),
            (
                refusal::<PromptBody>(r#"{"agent_id":"a","agent_id":"b","message":"go"}"#),
                "duplicate field `agent_id`",
            ),
            (
                refusal::<BypassBody>(r#"{"agent_id":"a","for_ms":1,"x":1}"#),
                "unknown field `x`",
            ),
            (
                refusal::<PromptBody>("[]"),
                "invalid type: sequence, expected an object",
            ),
        ];
        for (refused, start) in cases {
            assert!(refused.starts_with(start), "{refused}");
        }
    }
}

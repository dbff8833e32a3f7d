//! Words that a script takes from what was said to the model, such as the id of a question.
//!
//! Invariant: the newest text that has the words counts, and in it their first place, so that a parent message's
//! own head goes before whatever it quotes.

use serde_json::{Map, Value};

use super::conversation::Item;
use super::script::Call;

/// The one field of what stands for a word.
const AFTER: &str = "after";

/// The call with each word in its place, or what could not be found.
pub(super) fn filled(call: &Call, items: &[Item]) -> Result<Call, String> {
    match call {
        Call::Tool { name, input } => Ok(Call::Tool {
            name: name.clone(),
            input: fill(input, items)?,
        }),
        Call::Shell(_) | Call::Write { .. } | Call::Read { .. } => Ok(call.clone()),
    }
}

fn fill(value: &Value, items: &[Item]) -> Result<Value, String> {
    match value {
        Value::Object(fields) => fill_fields(fields, items),
        Value::Array(values) => {
            let filled = values.iter().map(|value| fill(value, items));
            filled.collect::<Result<_, _>>().map(Value::Array)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(value.clone()),
    }
}

fn fill_fields(fields: &Map<String, Value>, items: &[Item]) -> Result<Value, String> {
    if let Some(words) = marker(fields) {
        return find(words, items).map(Value::String);
    }
    let filled = fields.iter().map(|(name, value)| {
        let value = fill(value, items)?;
        Ok((name.clone(), value))
    });
    filled.collect::<Result<Map<_, _>, _>>().map(Value::Object)
}

fn marker(fields: &Map<String, Value>) -> Option<&str> {
    let words = fields.get(AFTER)?.as_str();
    words.filter(|_| fields.len() == 1)
}

fn find(words: &str, items: &[Item]) -> Result<String, String> {
    let newest_first = items.iter().rev().map(|item| match item {
        Item::User(text) | Item::Result(text) => text,
    });
    let mut after = newest_first.filter_map(|text| text.split_once(words));
    let (_, rest) = after
        .next()
        .ok_or_else(|| format!("nothing was said after `{words}`"))?;
    let word = rest
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .next();
    Ok(word.unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::filled;
    use crate::model::conversation::Item;
    use crate::model::script::Call;

    fn tool(input: serde_json::Value) -> Call {
        Call::Tool {
            name: "answer".to_owned(),
            input,
        }
    }

    #[test]
    fn a_word_is_taken_from_the_newest_text_that_has_it() {
        let items = [
            Item::User("an answer to q-1 is wanted".to_owned()),
            Item::User("an answer to q-2 (soon); not an answer to q-3".to_owned()),
            Item::Result("well".to_owned()),
        ];
        let call = tool(json!({ "ids": [{ "after": "an answer to " }], "text": "{}", "n": 1 }));
        let expected = tool(json!({ "ids": ["q-2"], "text": "{}", "n": 1 }));
        assert_eq!(filled(&call, &items), Ok(expected));
        let call = tool(json!({ "id": { "after": "nobody said " } }));
        let missing = "nothing was said after `nobody said `".to_owned();
        assert_eq!(filled(&call, &items), Err(missing));
    }
}

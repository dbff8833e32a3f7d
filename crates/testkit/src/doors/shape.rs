//! What differs from run to run, made the same, so that whole values can be compared.

use serde_json::Value;

/// Names for ids in the order in which they are first seen: the same id always has the same name.
#[derive(Default)]
pub struct Names {
    seen: Vec<String>,
}

const PREFIXES: [&str; 6] = [
    "approval-",
    "question-",
    "agent-",
    "device-",
    "token-",
    "event-",
];
const ID_DIGITS: usize = 12;
const NUMBERS: [&str; 3] = ["sequence", "event_sequence", "pid"];
const TIMES: [&str; 9] = [
    "created_at",
    "resolved_at",
    "updated_at",
    "ended_at",
    "last_activity",
    "expires_at",
    "started_at",
    "deadline",
    "timestamp",
];

impl Names {
    /// The value with ids, times, sequence numbers and process numbers replaced.
    pub fn plain(&mut self, value: Value) -> Value {
        match value {
            Value::Object(fields) => fields
                .into_iter()
                .map(|(key, value)| {
                    let value = if NUMBERS.contains(&key.as_str()) {
                        assert!(value.is_u64(), "{key} is {value}");
                        Value::from("#")
                    } else if TIMES.contains(&key.as_str()) {
                        assert!(is_time(&value), "{key} is {value}");
                        Value::from("<time>")
                    } else {
                        self.plain(value)
                    };
                    (key, value)
                })
                .collect(),
            Value::Array(items) => items.into_iter().map(|item| self.plain(item)).collect(),
            Value::String(text) => Value::String(self.plain_text(&text)),
            other => other,
        }
    }

    fn plain_text(&mut self, text: &str) -> String {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let mut plain = String::new();
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            plain.push_str(&self.plain_word(word));
            let next = after.find(is_part).unwrap_or(after.len());
            plain.push_str(&after[..next]);
            rest = &after[next..];
        }
        plain
    }

    fn plain_word(&mut self, word: &str) -> String {
        let prefix = PREFIXES.into_iter().find(|prefix| word.starts_with(prefix));
        let digits = &word[prefix.map_or(0, str::len)..];
        let is_id = digits.len() == ID_DIGITS
            && digits
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_id {
            return word.to_owned();
        }
        let kind = prefix.unwrap_or("client-");
        if kind == "event-" {
            return "event-#".to_owned();
        }
        let word = format!("{kind}{digits}");
        if !self.seen.contains(&word) {
            self.seen.push(word.clone());
        }
        let same_kind = self.seen.iter().filter(|seen| seen.starts_with(kind));
        let place = same_kind.take_while(|seen| **seen != word).count() + 1;
        format!("{kind}{place}")
    }
}

/// Takes the id of the request out of an error. Every error has one, and it is never the same.
pub fn take_request_id(error: &mut Value) {
    let id = error
        .as_object_mut()
        .and_then(|fields| fields.remove("request_id"));
    let id = id.as_ref().and_then(Value::as_str).unwrap_or_default();
    assert_eq!(id.len(), 16, "an id of the request in {error}");
}

/// RFC 3339 in UTC, as `2026-11-15T18:31:53.936151Z`.
fn is_time(value: &Value) -> bool {
    value.as_str().is_some_and(|text| {
        text.len() == 27
            && text
                .bytes()
                .zip(*b"0000-00-00T00:00:00.000000Z")
                .all(|(byte, form)| match form {
                    b'0' => byte.is_ascii_digit(),
                    form => byte == form,
                })
    })
}

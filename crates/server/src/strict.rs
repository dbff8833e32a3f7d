//! Strict parsing of what callers send.
//!
//! Invariant: an unknown field is refused by name. A misspelt limit must not become no limit at
//! all.

use serde::de::DeserializeOwned;

use countersign_protocol::{ErrorCode, Reason};

use crate::api_error::ApiError;

/// Reads an object.
pub(crate) fn read_object<T: DeserializeOwned>(text: &[u8]) -> Result<T, ApiError> {
    // Derived code also accepts a list of the fields' values, but their order is not part of the
    // API.
    if text.trim_ascii_start().starts_with(b"[") {
        let message = "invalid type: sequence, expected an object";
        return Err(ApiError::plain(Reason::InvalidParams, message));
    }
    read_json(text)
}

/// Reads a whole JSON document.
pub(crate) fn read_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, ApiError> {
    // serde's own `deny_unknown_fields` does not work with flattened fields, and would also apply
    // to the lenient methods of the host wire, which share these types.
    let mut unknown = None;
    let mut source = serde_json::Deserializer::from_slice(text);
    let read = serde_ignored::deserialize(&mut source, |path| {
        unknown.get_or_insert_with(|| path.to_string());
    });
    let value = read
        .and_then(|value| source.end().map(|()| value))
        .map_err(|error| ApiError::invalid(&error))?;
    match unknown {
        None => Ok(value),
        // serde_ignored shows an `Option` in the path as a question mark.
        Some(path) => Err(unknown_field(&path.replace(".?", ""))),
    }
}

pub(crate) fn unknown_field(name: &str) -> ApiError {
    let start: String = name.chars().take(100).collect();
    ApiError::new(
        ErrorCode::InvalidParams,
        Reason::InvalidParams,
        format!("unknown field `{start}`"),
    )
}

#[cfg(test)]
mod tests {
    use countersign_protocol::{
        NotifyParams, RegisterAgentParams, RequestApprovalParams, SpawnAgentParams,
    };

    use super::*;

    fn refusal<T: DeserializeOwned>(text: &str) -> Option<String> {
        let read = read_object::<T>(text.as_bytes());
        read.err().map(|error| error.into_error().message)
    }

    #[test]
    fn a_field_that_nobody_reads_is_refused_by_name() {
        let plain = r#"{"action":"x","details":{"any":[1,{"thing":null}]},"input":{"a":1.50}}"#;
        let read: RequestApprovalParams = read_json(plain.as_bytes()).unwrap();
        assert_eq!(read.details.text(), r#"{"any":[1,{"thing":null}]}"#);
        assert_eq!(read.input.unwrap().text(), r#"{"a":1.50}"#);
        let cases = [
            (
                refusal::<RequestApprovalParams>(r#"{"action":"x","tmeout_ms":1}"#),
                "unknown field `tmeout_ms`",
            ),
            (
                refusal::<RegisterAgentParams>(r#"{"name":"x","display":{"lable":1}}"#),
                "unknown field `display.lable`",
            ),
            (
                refusal::<SpawnAgentParams>(
                    r#"{"cwd":"/","env":[{"name":"A"},{"name":"B","secrt":true}]}"#,
                ),
                "unknown field `env.1.secrt`",
            ),
            (
                refusal::<SpawnAgentParams>(r#"{"cwd":"/","worktree":{"branhc":"b"}}"#),
                "unknown field `worktree.branhc`",
            ),
            (
                refusal::<SpawnAgentParams>(r#"{"cwd":"/"} {}"#),
                "trailing characters",
            ),
            (
                refusal::<NotifyParams>(" []"),
                "invalid type: sequence, expected an object",
            ),
            (refusal::<SpawnAgentParams>("{}"), "missing field `cwd`"),
            (
                refusal::<SpawnAgentParams>(r#"{"cwd":"/","env":[["A"]]}"#),
                "invalid type: sequence, expected an object",
            ),
            (
                refusal::<RegisterAgentParams>(r#"{"name":"x","display":[]}"#),
                "invalid type: sequence, expected an object",
            ),
        ];
        for (refused, message) in cases {
            assert_eq!(refused.as_deref(), Some(message));
        }
    }
}

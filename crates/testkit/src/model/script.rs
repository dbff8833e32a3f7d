//! The script: what the model is to do, step by step, carried in a prompt between `<script>` and
//! `</script>` as a JSON array.
//!
//! Invariant: a text that holds something which looks like a script and cannot be read is an error
//! with words, never an empty script.

use serde::Deserialize;
use serde_json::{Value, json};

const OPEN: &str = "<script>";
const CLOSE: &str = "</script>";

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Step {
    Say(String),
    /// The request fails with this HTTP status, each time it is made.
    Error(u16),
    #[serde(rename = "delay_ms")]
    DelayMs(u64),
    /// Several tool calls in one message of the model.
    Parallel(Vec<Call>),
    #[serde(untagged)]
    Call(Call),
}

/// A tool call, in words that fit every agent or in the agent's own.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Call {
    Shell(String),
    Write {
        path: String,
        content: String,
    },
    Read {
        path: String,
    },
    /// The tool with exactly this name.
    #[serde(untagged)]
    Tool {
        #[serde(rename = "tool")]
        name: String,
        #[serde(default = "no_input")]
        input: Value,
    },
}

fn no_input() -> Value {
    json!({})
}

impl Step {
    /// The tool calls of this step.
    pub(super) fn calls(&self) -> &[Call] {
        match self {
            Self::Parallel(calls) => calls,
            Self::Call(call) => std::slice::from_ref(call),
            Self::Say(_) | Self::Error(_) | Self::DelayMs(_) => &[],
        }
    }
}

/// Finds the last script in a text: nothing if there is none, words if it cannot be read. A script
/// within a script is a part of it.
pub(super) fn find(text: &str) -> Option<Result<Vec<Step>, String>> {
    let mut depth = 0_usize;
    let mut begin = 0;
    let mut found = None;
    let mut at = 0;
    while let Some((place, is_open)) = next_mark(text, at) {
        at = place + if is_open { OPEN.len() } else { CLOSE.len() };
        match (is_open, depth) {
            (true, _) => {
                if depth == 0 {
                    begin = at;
                }
                depth += 1;
            }
            (false, 0) => {}
            (false, _) => {
                depth -= 1;
                if depth == 0 {
                    found = text.get(begin..place);
                }
            }
        }
    }
    if depth > 0 {
        return Some(Err(format!("the script has no {CLOSE}")));
    }
    found.map(parse)
}

/// The next beginning or end of a script, and whether it is a beginning.
fn next_mark(text: &str, from: usize) -> Option<(usize, bool)> {
    let rest = text.get(from..)?;
    let [open, close] = [OPEN, CLOSE].map(|mark| rest.find(mark));
    match (open, close) {
        (Some(open), close) if close.is_none_or(|close| open < close) => Some((from + open, true)),
        (_, Some(close)) => Some((from + close, false)),
        (_, None) => None,
    }
}

fn parse(script: &str) -> Result<Vec<Step>, String> {
    serde_json::from_str(script).map_err(|error| format!("the script cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Call, Step, find};

    #[test]
    fn every_kind_of_step_is_read() {
        let text = r#"Do this: <script>[{"shell":"touch a"},{"write":{"path":"/x","content":"y"}},
            {"read":{"path":"/x"}},{"tool":"Name","input":{"k":1}},{"say":"words"},{"error":529},
            {"delay_ms":200},{"parallel":[{"shell":"a"},{"tool":"B"}]}]</script> now."#;
        let shell = |command: &str| Call::Shell(command.to_owned());
        let expected = vec![
            Step::Call(shell("touch a")),
            Step::Call(Call::Write {
                path: "/x".to_owned(),
                content: "y".to_owned(),
            }),
            Step::Call(Call::Read {
                path: "/x".to_owned(),
            }),
            Step::Call(Call::Tool {
                name: "Name".to_owned(),
                input: json!({"k": 1}),
            }),
            Step::Say("words".to_owned()),
            Step::Error(529),
            Step::DelayMs(200),
            Step::Parallel(vec![
                shell("a"),
                Call::Tool {
                    name: "B".to_owned(),
                    input: json!({}),
                },
            ]),
        ];
        assert_eq!(find(text), Some(Ok(expected)));
    }

    #[test]
    fn the_last_script_of_a_text_counts() {
        let text = r#"<script>[{"say":"a"}]</script><script>[{"say":"b"}]</script>"#;
        assert_eq!(find(text), Some(Ok(vec![Step::Say("b".to_owned())])));
        assert_eq!(find("no script"), None);
        let text = r#"<script>[{"say":"<script>[]</script>"}]</script></script>"#;
        let within = Step::Say("<script>[]</script>".to_owned());
        assert_eq!(find(text), Some(Ok(vec![within])));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for text in [
            "<script>[",
            "<script>nonsense</script>",
            r#"<script>[{"dance":1}]</script>"#,
            r#"<script>[{"shell":1}]</script>"#,
            r#"<script>[{"parallel":[1]}]</script>"#,
        ] {
            assert!(matches!(find(text), Some(Err(_))), "{text}");
        }
    }
}

//! The script: what the model is to do, step by step, carried in a prompt between `<script>` and
//! `</script>` as a JSON array.
//!
//! Invariant: a text that holds something which looks like a script and cannot be read is an error
//! with words, never an empty script.

use serde_json::{Map, Value};

const OPEN: &str = "<script>";
const CLOSE: &str = "</script>";

/// One step of a script.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Tool calls in one message of the model; more than one for `parallel`.
    Calls(Vec<Call>),
    /// Words.
    Say(String),
    /// The request fails with this HTTP status, each time it is made.
    Error(u16),
    /// Nothing happens for so many milliseconds.
    Delay(u64),
}

/// A tool call, in words that fit every agent or in the agent's own.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Call {
    /// Run a command.
    Shell(String),
    /// Write a whole file.
    Write { path: String, content: String },
    /// Read a file.
    Read { path: String },
    /// The tool with exactly this name.
    Tool { name: String, input: Value },
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
    let steps: Vec<Map<String, Value>> =
        serde_json::from_str(script).map_err(|error| format!("the script is no JSON: {error}"))?;
    steps.iter().map(step).collect()
}

fn step(fields: &Map<String, Value>) -> Result<Step, String> {
    if let Some(words) = fields.get("say") {
        return Ok(Step::Say(string(words)?));
    }
    if let Some(status) = fields.get("error") {
        let status = status
            .as_u64()
            .and_then(|status| u16::try_from(status).ok());
        return status.map(Step::Error).ok_or_else(|| unknown(fields));
    }
    if let Some(delay) = fields.get("delay_ms") {
        return delay
            .as_u64()
            .map(Step::Delay)
            .ok_or_else(|| unknown(fields));
    }
    if let Some(calls) = fields.get("parallel") {
        let calls = calls.as_array().ok_or_else(|| unknown(fields))?;
        let calls: Result<_, _> = calls
            .iter()
            .map(|each| object(each).and_then(call))
            .collect();
        return Ok(Step::Calls(calls?));
    }
    Ok(Step::Calls(vec![call(fields)?]))
}

fn call(fields: &Map<String, Value>) -> Result<Call, String> {
    if let Some(command) = fields.get("shell") {
        return Ok(Call::Shell(string(command)?));
    }
    if let Some(write) = fields.get("write") {
        return Ok(Call::Write {
            path: string(&write["path"])?,
            content: string(&write["content"])?,
        });
    }
    if let Some(read) = fields.get("read") {
        return Ok(Call::Read {
            path: string(&read["path"])?,
        });
    }
    let name = fields.get("tool").ok_or_else(|| unknown(fields))?;
    let input = fields.get("input").cloned();
    Ok(Call::Tool {
        name: string(name)?,
        input: input.unwrap_or_else(|| Value::Object(Map::new())),
    })
}

fn string(value: &Value) -> Result<String, String> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| format!("the script has `{value}` in place of a string"))
}

fn object(value: &Value) -> Result<&Map<String, Value>, String> {
    let fields = value.as_object();
    fields.ok_or_else(|| format!("the script has `{value}` in place of a step"))
}

fn unknown(fields: &Map<String, Value>) -> String {
    format!(
        "the script has a step nobody knows: {}",
        Value::Object(fields.clone())
    )
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
            Step::Calls(vec![shell("touch a")]),
            Step::Calls(vec![Call::Write {
                path: "/x".to_owned(),
                content: "y".to_owned(),
            }]),
            Step::Calls(vec![Call::Read {
                path: "/x".to_owned(),
            }]),
            Step::Calls(vec![Call::Tool {
                name: "Name".to_owned(),
                input: json!({"k": 1}),
            }]),
            Step::Say("words".to_owned()),
            Step::Error(529),
            Step::Delay(200),
            Step::Calls(vec![
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

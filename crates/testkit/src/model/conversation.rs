//! A conversation in the words of no particular API, and what the model says next in it.
//!
//! Invariant: the next message follows from the conversation alone. Where in a script we are is the
//! number of tool results after the newest user text that holds one, so that a repeated request
//! gets the same answer and an agent that resumes goes on where it was.

use std::time::Duration;

use serde_json::Value;

use super::quote;
use super::script::{self, Step};
use super::tools::{self, Offer, ToolCall};

/// How much of a tool's result the last message repeats.
const RESULT_CHARS_MAX: usize = 4000;

/// What an agent sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Conversation {
    /// What was said so far that matters here, oldest first.
    pub(super) items: Vec<Item>,
    pub(super) offers: Vec<Offer>,
    pub(super) model: String,
    /// Whether the answer is to be streamed.
    pub(super) stream: bool,
}

/// Something that was said to the model.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// Words in the user's role.
    User(String),
    /// What a tool gave.
    Result(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    /// Nothing but an HTTP status.
    Fails(u16),
    Message(Vec<Part>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    Call(ToolCall),
    /// Nothing for a while.
    Pause(Duration),
}

/// Says what comes next. Requests that offer no tools are an agent's own side questions (a title,
/// a topic, a summary), whose prompts may quote a script: they get two words.
pub(super) fn reply(conversation: &Conversation) -> Reply {
    if conversation.offers.is_empty() {
        return words("Scripted answer");
    }
    let (at, steps) = match newest_script(&conversation.items) {
        None => return words("There is no script in this conversation."),
        Some((_, Err(error))) => return words(&format!("Broken script: {error}")),
        Some((at, Ok(steps))) => (at, steps),
    };
    let results = results_after(&conversation.items, at);
    let position = position(&steps, results.len());
    let rest = steps.get(position..).unwrap_or_default();
    next_message(rest, results.last().copied(), conversation)
}

fn words(text: &str) -> Reply {
    Reply::Message(vec![Part::Text(text.to_owned())])
}

fn newest_script(items: &[Item]) -> Option<(usize, Result<Vec<Step>, String>)> {
    let mut newest_first = items.iter().enumerate().rev();
    newest_first.find_map(|(at, item)| match item {
        Item::User(text) => script::find(text).map(|script| (at, script)),
        Item::Result(_) => None,
    })
}

fn results_after(items: &[Item], at: usize) -> Vec<&str> {
    let after = items.iter().skip(at);
    after
        .filter_map(|item| match item {
            Item::Result(text) => Some(text.as_str()),
            Item::User(_) => None,
        })
        .collect()
}

/// The first step whose results are not all there, with the words before it if none of its
/// calls was made.
fn position(steps: &[Step], results: usize) -> usize {
    let mut left = results;
    let mut position = 0;
    for (index, step) in steps.iter().enumerate() {
        let calls = step.calls().len();
        if calls > left {
            break;
        }
        // Words and pauses before a call belong to the message that makes it.
        if calls > 0 {
            left -= calls;
            position = index + 1;
        }
    }
    position
}

fn next_message(steps: &[Step], last_result: Option<&str>, conversation: &Conversation) -> Reply {
    let mut parts = Vec::new();
    for step in steps {
        match step {
            Step::Say(text) => parts.push(Part::Text(text.clone())),
            Step::DelayMs(ms) => parts.push(Part::Pause(Duration::from_millis(*ms))),
            Step::Error(status) => return Reply::Fails(*status),
            Step::Parallel(_) | Step::Call(_) => {
                for call in step.calls() {
                    let call = quote::filled(call, &conversation.items);
                    match call.and_then(|call| tools::choose(&call, &conversation.offers)) {
                        Ok(call) => parts.push(Part::Call(call)),
                        Err(error) => return words(&error),
                    }
                }
                return Reply::Message(parts);
            }
        }
    }
    parts.push(Part::Text(last_words(last_result)));
    Reply::Message(parts)
}

fn last_words(last_result: Option<&str>) -> String {
    match last_result {
        None => "The script is over.".to_owned(),
        Some(result) => {
            let shown: String = result.chars().take(RESULT_CHARS_MAX).collect();
            format!("The script is over. The last result: {shown}")
        }
    }
}

/// All text in a value, whichever way an API nests it.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(each) => {
            let texts: Vec<String> = each.iter().map(text_of).collect();
            texts.join("\n")
        }
        Value::Object(fields) => {
            let inner = ["text", "content", "output"];
            let inner = inner.iter().find_map(|key| fields.get(*key));
            inner.map(text_of).unwrap_or_default()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::{Conversation, Item, Part, Reply, reply, text_of};
    use crate::model::tools::{Input, Offer, ToolCall};

    const SCRIPT: &str = r#"<script>[{"say":"first"},{"shell":"a"},{"delay_ms":5},
        {"parallel":[{"shell":"b"},{"shell":"c"}]},{"say":"last"}]</script>"#;

    fn after(script: &str, results: &[&str]) -> Reply {
        let mut items = vec![
            Item::User(r#"<script>[{"shell":"older"}]</script>"#.to_owned()),
            Item::Result("older".to_owned()),
            Item::User(script.to_owned()),
        ];
        items.extend(results.iter().map(|text| Item::Result((*text).to_owned())));
        // Agents put reminders of their own among the results.
        items.push(Item::User("<system-reminder>".to_owned()));
        let shell = Offer {
            name: "Bash".to_owned(),
            schema: json!({"properties": {"command": {"type": "string"}}}),
        };
        reply(&Conversation {
            items,
            offers: vec![shell],
            ..Conversation::default()
        })
    }

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    fn run(command: &str) -> Part {
        Part::Call(ToolCall {
            name: "Bash".to_owned(),
            input: Input::Fields(json!({"command": command})),
        })
    }

    #[test]
    fn the_position_is_the_number_of_results() {
        let pause = Part::Pause(Duration::from_millis(5));
        let last = text("The script is over. The last result: three");
        let cases: [(&[&str], Vec<Part>); 4] = [
            (&[], vec![text("first"), run("a")]),
            (&["one"], vec![pause.clone(), run("b"), run("c")]),
            (&["one", "two"], vec![pause, run("b"), run("c")]),
            (&["one", "two", "three"], vec![text("last"), last]),
        ];
        for (results, expected) in cases {
            assert_eq!(
                after(SCRIPT, results),
                Reply::Message(expected),
                "{results:?}"
            );
        }
    }

    #[test]
    fn an_error_comes_at_its_place_and_stays() {
        let script = r#"<script>[{"shell":"a"},{"error":529}]</script>"#;
        assert_eq!(after(script, &[]), Reply::Message(vec![run("a")]));
        assert_eq!(after(script, &["one"]), Reply::Fails(529));
    }

    #[test]
    fn a_broken_script_is_said() {
        let said = after("<script>[</script>", &[]);
        let Reply::Message(parts) = said else {
            panic!("{said:?}")
        };
        assert!(format!("{parts:?}").contains("Broken script"), "{parts:?}");
    }

    #[test]
    fn side_requests_do_not_follow_the_script() {
        let side = Conversation {
            items: vec![Item::User(SCRIPT.to_owned())],
            ..Conversation::default()
        };
        assert_eq!(reply(&side), Reply::Message(vec![text("Scripted answer")]));
    }

    #[test]
    fn text_is_found_however_it_is_nested() {
        let nested = json!([{"type": "text", "text": "a"}, {"content": [{"text": "b"}]}, "c"]);
        assert_eq!(text_of(&nested), "a\nb\nc");
    }
}

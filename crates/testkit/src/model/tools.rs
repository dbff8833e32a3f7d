//! Turns a step's general words into a call of the tools that a request offers.
//!
//! Which tool is meant follows from its name, and how its arguments are called from its schema, so
//! that an agent nobody has seen has a fair chance.

use serde_json::{Map, Value, json};

use super::script::Call;

/// A tool that a request offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Offer {
    pub(super) name: String,
    /// The JSON schema of its input; `null` for a tool that takes text.
    pub(super) schema: Value,
}

/// A call as the agent understands it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ToolCall {
    pub(super) name: String,
    pub(super) input: Input,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Input {
    /// An object, as its schema says.
    Fields(Value),
    /// A text, for a tool without a schema.
    Text(String),
}

/// Names of tools, separated by spaces, the likeliest first; compared without case.
const SHELLS: &str = "bash shell_command exec_command shell container.exec run_shell_command run_command \
    execute_command run_terminal_command developer__shell terminal execute exec";
const WRITES: &str =
    "write write_file fs_write write_text_file create_file write_to_file text_editor";
const READS: &str = "read read_file fs_read read_text_file view open_file";
const PATCH: &str = "apply_patch";

/// Finds the tool a step means, or says which ones there are.
pub(super) fn choose(call: &Call, offers: &[Offer]) -> Result<ToolCall, String> {
    match call {
        Call::Shell(command) => shell(command, offers),
        Call::Write { path, content } => write(path, content, offers),
        Call::Read { path } => read(path, offers),
        Call::Tool { name, input } => by_name(name, input, offers),
    }
    .ok_or_else(|| {
        let names: Vec<&str> = offers.iter().map(|offer| offer.name.as_str()).collect();
        format!("no tool fits {call:?} among {}", names.join(", "))
    })
}

fn find<'a>(names: &str, offers: &'a [Offer]) -> Option<&'a Offer> {
    names.split(' ').find_map(|name| {
        let mut offers = offers.iter();
        offers.find(|offer| offer.name.eq_ignore_ascii_case(name))
    })
}

fn shell(command: &str, offers: &[Offer]) -> Option<ToolCall> {
    let offer = find(SHELLS, offers)?;
    let key = key(offer, &["command", "cmd", "script"])?;
    let as_list = offer.schema["properties"][key]["type"] == "array";
    let value = if as_list {
        json!(["bash", "-lc", command])
    } else {
        json!(command)
    };
    Some(fields(offer, [(key, value)]))
}

/// An agent without a tool for writing has one for patches.
fn write(path: &str, content: &str, offers: &[Offer]) -> Option<ToolCall> {
    let Some(offer) = find(WRITES, offers) else {
        return patch(path, content, offers);
    };
    let path_key = path_key(offer)?;
    let content_key = key(offer, &["content", "contents", "text", "file_text"])?;
    let given = [(path_key, json!(path)), (content_key, json!(content))];
    Some(fields(offer, given))
}

fn patch(path: &str, content: &str, offers: &[Offer]) -> Option<ToolCall> {
    let offer = find(PATCH, offers)?;
    let lines: String = content.lines().flat_map(|line| ["+", line, "\n"]).collect();
    let text = format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch");
    if offer.schema.is_null() {
        return Some(ToolCall {
            name: offer.name.clone(),
            input: Input::Text(text),
        });
    }
    let key = key(offer, &["input", "patch"])?;
    Some(fields(offer, [(key, json!(text))]))
}

/// An agent without a tool for reading reads with its shell.
fn read(path: &str, offers: &[Offer]) -> Option<ToolCall> {
    let Some(offer) = find(READS, offers) else {
        return shell(&format!("cat '{path}'"), offers);
    };
    Some(fields(offer, [(path_key(offer)?, json!(path))]))
}

fn by_name(name: &str, input: &Value, offers: &[Offer]) -> Option<ToolCall> {
    let offer = offers.iter().find(|offer| offer.name == name)?;
    let input = match input.as_str() {
        Some(text) if offer.schema.is_null() => Input::Text(text.to_owned()),
        _ => Input::Fields(input.clone()),
    };
    Some(ToolCall {
        name: offer.name.clone(),
        input,
    })
}

fn path_key(offer: &Offer) -> Option<&'static str> {
    key(
        offer,
        &["file_path", "path", "filePath", "absolute_path", "filename"],
    )
}

fn key(offer: &Offer, names: &[&'static str]) -> Option<&'static str> {
    let properties = offer.schema["properties"].as_object()?;
    let mut names = names.iter().copied();
    names.find(|name| properties.contains_key(*name))
}

/// A call with these arguments, and something harmless for each other one that must be given.
fn fields<const N: usize>(offer: &Offer, given: [(&str, Value); N]) -> ToolCall {
    let given = given
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value));
    let mut input: Map<String, Value> = given.collect();
    let required = offer.schema["required"].as_array();
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        let schema = &offer.schema["properties"][name];
        input.entry(name).or_insert_with(|| filler(schema));
    }
    ToolCall {
        name: offer.name.clone(),
        input: Input::Fields(Value::Object(input)),
    }
}

fn filler(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("string") => json!("scripted"),
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Input, Offer, ToolCall, choose};
    use crate::model::script::Call;

    fn offer(name: &str, schema: Value) -> Offer {
        Offer {
            name: name.to_owned(),
            schema,
        }
    }

    fn object(properties: &Value, required: &Value) -> Value {
        json!({"type": "object", "properties": properties, "required": required})
    }

    fn called(name: &str, input: Value) -> ToolCall {
        ToolCall {
            name: name.to_owned(),
            input: Input::Fields(input),
        }
    }

    #[test]
    fn arguments_are_named_as_the_schema_says() {
        let text = json!({"type": "string"});
        let claude = [
            offer(
                "Bash",
                object(
                    &json!({"command": text, "description": text}),
                    &json!(["command", "description"]),
                ),
            ),
            offer(
                "Write",
                object(
                    &json!({"file_path": text, "content": text}),
                    &json!(["file_path", "content"]),
                ),
            ),
            offer(
                "Read",
                object(&json!({"file_path": text}), &json!(["file_path"])),
            ),
        ];
        let shell = choose(&Call::Shell("ls".to_owned()), &claude);
        assert_eq!(
            shell,
            Ok(called(
                "Bash",
                json!({"command": "ls", "description": "scripted"})
            ))
        );
        let write = Call::Write {
            path: "/x".to_owned(),
            content: "y".to_owned(),
        };
        let write = choose(&write, &claude);
        assert_eq!(
            write,
            Ok(called("Write", json!({"file_path": "/x", "content": "y"})))
        );
        let read = choose(
            &Call::Read {
                path: "/x".to_owned(),
            },
            &claude,
        );
        assert_eq!(read, Ok(called("Read", json!({"file_path": "/x"}))));
    }

    #[test]
    fn a_shell_that_takes_words_gets_a_list_of_them() {
        let list = json!({"type": "array", "items": {"type": "string"}});
        let offers = [offer(
            "shell",
            object(&json!({"command": list}), &json!(["command"])),
        )];
        let shell = choose(&Call::Shell("ls".to_owned()), &offers);
        assert_eq!(
            shell,
            Ok(called("shell", json!({"command": ["bash", "-lc", "ls"]})))
        );
        let read = choose(
            &Call::Read {
                path: "/x".to_owned(),
            },
            &offers,
        );
        assert_eq!(
            read,
            Ok(called(
                "shell",
                json!({"command": ["bash", "-lc", "cat '/x'"]})
            ))
        );
    }

    #[test]
    fn without_a_tool_for_writing_a_patch_is_made() {
        let write = Call::Write {
            path: "x".to_owned(),
            content: "a\nb\n".to_owned(),
        };
        let patch = choose(&write, &[offer("apply_patch", Value::Null)]);
        let text = "*** Begin Patch\n*** Add File: x\n+a\n+b\n*** End Patch";
        let expected = ToolCall {
            name: "apply_patch".to_owned(),
            input: Input::Text(text.to_owned()),
        };
        assert_eq!(patch, Ok(expected));
    }

    #[test]
    fn a_step_that_no_tool_fits_names_those_there_are() {
        let missing = choose(&Call::Shell("ls".to_owned()), &[offer("Dance", json!({}))]);
        assert_eq!(
            missing,
            Err("no tool fits Shell(\"ls\") among Dance".to_owned())
        );
    }
}

//! Requests: what an agent wants to do, in the few shapes that rules can speak of.
//!
//! Invariant: a field that is not known is doubt, never silence: it may change what the tool does.

use countersign_core::{COMMAND_FIELDS, DIRECTORY_FIELDS, PATH_FIELDS, SPAWN_TOOL};
use serde_json::{Map, Value};

use crate::network::{self, NetworkHost};
use crate::spawn;

/// What is to be judged, and where it would happen.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolRequest {
    /// The tool, by the name its agent has for it.
    pub tool: String,
    /// What it would do.
    pub action: ToolAction,
    /// Where.
    pub place: RequestPlace,
}

/// Where a request would run. Paths are absolute; an empty one is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestPlace {
    /// The working directory.
    pub cwd: String,
    /// The root of the project; rules that begin with `/` start here.
    pub project: String,
    /// The home directory; rules that begin with `~/` start here.
    pub home: String,
    /// Whether file names that differ only by case are the same.
    pub ignores_case: bool,
    /// Whether the commands of its agent run in a sandbox of level `full`.
    pub in_sandbox: bool,
}

/// What a request would do.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolAction {
    /// Runs text in bash.
    Shell {
        /// The text.
        command: String,
    },
    /// Reads a file or lists a folder.
    Read {
        /// Its path, as it was given.
        path: String,
    },
    /// Searches a folder with everything below it.
    Search {
        /// Its path, as it was given.
        path: String,
    },
    /// Writes a file.
    Edit {
        /// Its path, as it was given.
        path: String,
    },
    /// Fetches a page.
    Fetch {
        /// Its address, as it was given.
        url: String,
    },
    /// Connects to another machine, out of a sandbox.
    Connect {
        /// Where to.
        host: NetworkHost,
        /// Its port.
        port: u16,
    },
    /// Calls a tool of an MCP server.
    Mcp {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
    },
    /// Starts an agent below its own.
    Spawn {
        /// What it is known by: the kind of agent, and the program where one is named.
        names: Vec<String>,
        /// Why only a person may allow it, if it is so.
        beyond: Option<String>,
    },
    /// Does something in another directory than the agent's.
    In {
        /// The directory, as it was given.
        directory: String,
        /// What it does there.
        action: Box<ToolAction>,
    },
    /// Anything else: only its name is known.
    Other,
    /// Several things, all of which must be allowed.
    All(Vec<ToolAction>),
    /// Something of which a part was not understood: it asks, unless it is denied.
    Unclear {
        /// What was understood.
        known: Box<ToolAction>,
        /// What was not.
        reason: String,
    },
}

/// The shapes of tools that are known under several names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolShape {
    Shell,
    Read,
    /// Shows the names of one folder.
    List,
    Search,
    Edit,
    Fetch,
}

/// Fields that change nothing about what a rule may say.
const HARMLESS_FOR_SHELL: [&str; 7] = [
    "description",
    "timeout",
    "timeout_ms",
    "run_in_background",
    "is_background",
    "justification",
    "explanation",
];
const HARMLESS_FOR_READ: [&str; 5] = ["offset", "limit", "start_line", "end_line", "pages"];
const HARMLESS_FOR_SEARCH: [&str; 14] = [
    "offset",
    "limit",
    "pattern",
    "query",
    "glob",
    "type",
    "output_mode",
    "head_limit",
    "multiline",
    "-i",
    "-n",
    "-A",
    "-B",
    "-C",
];
const HARMLESS_IN_EDITS: [&str; 9] = [
    "old_string",
    "new_string",
    "replace_all",
    "oldString",
    "newString",
    "old_text",
    "new_text",
    "oldText",
    "newText",
];
const HARMLESS_FOR_EDIT: [&str; 18] = [
    "content",
    "contents",
    "text",
    "new_text",
    "old_text",
    "old_string",
    "new_string",
    "oldString",
    "newString",
    "replace_all",
    "replaceAll",
    "edits",
    "new_source",
    "cell_id",
    "cell_type",
    "edit_mode",
    "instruction",
    "expected_replacements",
];
const HARMLESS_FOR_FETCH: [&str; 4] = ["prompt", "format", "timeout", "max_length"];

impl ToolRequest {
    /// Reads a tool's name and input as agents send them.
    pub fn from_tool(tool: &str, input: Option<&Value>, place: RequestPlace) -> Self {
        let action = if tool == SPAWN_TOOL {
            spawn::read(input)
        } else if tool == network::NAME {
            let fields = input.and_then(Value::as_object);
            let known = fields.and_then(network::read);
            known.unwrap_or_else(|| unclear(ToolAction::Other, "the place is not understood"))
        } else if let Some((server, name)) = mcp_names(tool) {
            ToolAction::Mcp {
                server: server.to_owned(),
                tool: name.to_owned(),
            }
        } else {
            match (tool_shape(tool), input) {
                (Some(shape), Some(Value::Object(fields))) => read_action(shape, fields, &place),
                (Some(_), _) => unclear(ToolAction::Other, "the tool's input is not an object"),
                (None, _) => ToolAction::Other,
            }
        };
        Self {
            tool: canonical_name(tool, &action),
            action,
            place,
        }
    }
}

impl ToolRequest {
    /// The call of an MCP server's tool, whatever it is given: for a server that itself asks about what
    /// it is to do.
    pub fn from_call(tool: &str, place: RequestPlace) -> Self {
        let action = match mcp_names(tool) {
            Some((server, name)) => ToolAction::Mcp {
                server: server.to_owned(),
                tool: name.to_owned(),
            },
            None => ToolAction::Other,
        };
        Self {
            tool: tool.to_owned(),
            action,
            place,
        }
    }
}

/// `mcp__server__tool`, at the first boundary.
fn mcp_names(tool: &str) -> Option<(&str, &str)> {
    tool.strip_prefix("mcp__")?.split_once("__")
}

fn tool_shape(tool: &str) -> Option<ToolShape> {
    let shape = match tool {
        "Bash" | "bash" | "shell" | "Shell" | "execute" | "terminal" | "run_shell_command"
        | "local_shell" | "exec_command" | "run_terminal_cmd" | "run_command" => ToolShape::Shell,
        "Read" | "read" | "read_file" | "NotebookRead" | "view" | "View" => ToolShape::Read,
        "LS" | "ls" | "list_directory" => ToolShape::List,
        "Grep" | "Glob" | "grep" | "glob" => ToolShape::Search,
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" | "edit" | "write" | "write_file"
        | "replace" | "edit_file" | "create_file" => ToolShape::Edit,
        "WebFetch" | "webfetch" | "web_fetch" | "fetch" => ToolShape::Fetch,
        _ => return None,
    };
    Some(shape)
}

/// The name that rules know a tool by: other names of the same shape count as it.
fn canonical_name(tool: &str, action: &ToolAction) -> String {
    let name = match (tool, action) {
        ("Write" | "write" | "write_file" | "create_file", _) => "Write",
        // They keep their names: rules of Claude Code name them apart from `Edit`.
        ("MultiEdit" | "NotebookEdit", _) => tool,
        (_, ToolAction::Shell { .. } | ToolAction::In { .. }) => "Bash",
        (_, ToolAction::Edit { .. }) => "Edit",
        (_, ToolAction::Fetch { .. }) => "WebFetch",
        _ => match tool_shape(tool) {
            Some(ToolShape::Shell) => "Bash",
            Some(ToolShape::Read) => "Read",
            Some(ToolShape::Edit) => "Edit",
            Some(ToolShape::Fetch) => "WebFetch",
            Some(ToolShape::List | ToolShape::Search) | None => tool,
        },
    };
    name.to_owned()
}

fn read_action(shape: ToolShape, fields: &Map<String, Value>, place: &RequestPlace) -> ToolAction {
    match shape {
        ToolShape::Shell => read_shell(fields),
        ToolShape::Read => read_path(fields, &HARMLESS_FOR_READ, |path| ToolAction::Read { path }),
        ToolShape::List => read_search(fields, place, |path| ToolAction::Read { path }),
        ToolShape::Search => read_search(fields, place, |path| ToolAction::Search { path }),
        ToolShape::Edit => {
            let known = read_path(fields, &HARMLESS_FOR_EDIT, |path| ToolAction::Edit { path });
            if edits_are_text(fields) {
                known
            } else {
                unclear(known, "an edit names more than text")
            }
        }
        ToolShape::Fetch => match only_field(fields, &["url"]) {
            Some(Value::String(url)) => {
                let known = ToolAction::Fetch { url: url.clone() };
                check_fields(known, fields, &[&["url"], &HARMLESS_FOR_FETCH])
            }
            _ => unclear(ToolAction::Other, "the address is missing"),
        },
    }
}

/// The one field of several names that is there.
fn only_field<'f>(fields: &'f Map<String, Value>, names: &[&str]) -> Option<&'f Value> {
    // With two of them only the tool knows which it would use, so neither is taken.
    let mut found = names.iter().filter_map(|name| fields.get(*name));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

fn read_shell(fields: &Map<String, Value>) -> ToolAction {
    let command = match only_field(fields, &COMMAND_FIELDS) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(words)) => match join_words(words) {
            Some(text) => text,
            None => return unclear(ToolAction::Other, "the command's words are not text"),
        },
        _ => return unclear(ToolAction::Other, "the command is missing"),
    };
    let known = ToolAction::Shell { command };
    let given: Vec<&Value> = DIRECTORY_FIELDS
        .iter()
        .filter_map(|name| fields.get(*name))
        .filter(|value| !value.is_null())
        .collect();
    let known = match given.as_slice() {
        [] => known,
        [Value::String(directory)] => ToolAction::In {
            directory: directory.clone(),
            action: Box::new(known),
        },
        _ => return unclear(known, "the working directory is given twice or is not text"),
    };
    check_fields(
        known,
        fields,
        &[&COMMAND_FIELDS, &DIRECTORY_FIELDS, &HARMLESS_FOR_SHELL],
    )
}

/// A list of words is a command whose words are all quoted; `["bash", "-lc", text]` is the text.
fn join_words(words: &[Value]) -> Option<String> {
    let words: Vec<&str> = words.iter().map(Value::as_str).collect::<Option<_>>()?;
    // Otherwise the agents that wrap every command so would only ever match rules for `bash`.
    if let ["bash" | "sh" | "/bin/bash" | "/bin/sh", "-c" | "-lc", text] = words.as_slice() {
        return Some((*text).to_owned());
    }
    Some(
        words
            .iter()
            .map(|word| quote(word))
            .collect::<Vec<_>>()
            .join(" "),
    )
}

/// A word as it is typed, quoted only where it must be.
pub(crate) fn quote(word: &str) -> String {
    let is_plain = word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c));
    if !word.is_empty() && is_plain {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn read_path(
    fields: &Map<String, Value>,
    harmless: &[&str],
    action: impl Fn(String) -> ToolAction,
) -> ToolAction {
    match only_field(fields, &PATH_FIELDS) {
        Some(Value::String(path)) => {
            check_fields(action(path.clone()), fields, &[&PATH_FIELDS, harmless])
        }
        _ => unclear(ToolAction::Other, "the path is missing or given twice"),
    }
}

/// Searches read the folder they are given, or the working directory.
fn read_search(
    fields: &Map<String, Value>,
    place: &RequestPlace,
    action: impl Fn(String) -> ToolAction,
) -> ToolAction {
    let path = match only_field(fields, &PATH_FIELDS) {
        Some(Value::String(path)) => path.clone(),
        Some(Value::Null) | None if !place.cwd.is_empty() => place.cwd.clone(),
        _ => return unclear(ToolAction::Other, "the folder is missing or given twice"),
    };
    let known = action(path);
    let [glob, pattern] = ["glob", "pattern"]
        .map(|name| fields.get(name).and_then(Value::as_str).unwrap_or_default());
    // A search is judged by its folder. A glob that picks single files would read one of them
    // without its name ever being held against a deny.
    if !is_by_kind(glob) {
        return unclear(known, "the glob may name files that rules speak of");
    }
    if pattern.starts_with(['/', '~']) || pattern.contains("..") {
        return unclear(known, "the pattern may leave the folder");
    }
    check_fields(known, fields, &[&PATH_FIELDS, &HARMLESS_FOR_SEARCH])
}

/// Whether a glob names only a kind of source file, at any depth: `**/*.rs`.
fn is_by_kind(glob: &str) -> bool {
    let Some(ending) = glob.trim_start_matches("**/").strip_prefix("*.") else {
        return glob.is_empty();
    };
    let is_secret = matches!(
        ending,
        "pem" | "key" | "env" | "crt" | "p12" | "pfx" | "kdbx"
    );
    !is_secret && ending.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Whether every edit in a list holds text alone.
fn edits_are_text(fields: &Map<String, Value>) -> bool {
    let edits = fields.get("edits").and_then(Value::as_array);
    edits.into_iter().flatten().all(|edit| {
        edit.as_object().is_some_and(|edit| {
            edit.keys()
                .all(|name| HARMLESS_IN_EDITS.contains(&name.as_str()))
        })
    })
}

/// A field that is not known may change what the tool does: it asks.
fn check_fields(known: ToolAction, fields: &Map<String, Value>, names: &[&[&str]]) -> ToolAction {
    let unknown = fields.iter().find(|(name, value)| {
        !value.is_null() && !names.iter().any(|list| list.contains(&name.as_str()))
    });
    match unknown {
        Some((name, _)) => unclear(known, &format!("the field `{name}` is not known")),
        None => known,
    }
}

fn unclear(known: ToolAction, reason: &str) -> ToolAction {
    ToolAction::Unclear {
        known: Box::new(known),
        reason: reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place() -> RequestPlace {
        RequestPlace {
            cwd: "/p".into(),
            project: "/p".into(),
            home: "/h".into(),
            ignores_case: false,
            in_sandbox: false,
        }
    }

    fn action(tool: &str, input: &Value) -> ToolAction {
        ToolRequest::from_tool(tool, Some(input), place()).action
    }

    #[test]
    fn tools_are_read_by_their_shape() {
        let command = ToolAction::Shell {
            command: "ls -la".into(),
        };
        assert_eq!(
            action("Bash", &json!({"command": "ls -la", "description": "x"})),
            command
        );
        assert_eq!(
            action("shell", &json!({"command": ["bash", "-lc", "ls -la"]})),
            command
        );
        assert_eq!(
            action("shell", &json!({"cmd": ["echo", "a b"]})),
            ToolAction::Shell {
                command: "echo 'a b'".into()
            }
        );
        assert_eq!(
            action("Write", &json!({"file_path": "a", "content": "x"})),
            ToolAction::Edit { path: "a".into() }
        );
        assert_eq!(
            action("Grep", &json!({"pattern": "x"})),
            ToolAction::Search { path: "/p".into() }
        );
        assert_eq!(
            action("mcp__a__b__c", &json!({})),
            ToolAction::Mcp {
                server: "a".into(),
                tool: "b__c".into()
            }
        );
        assert_eq!(action("Task", &json!({"prompt": "x"})), ToolAction::Other);
    }

    #[test]
    fn an_unknown_field_is_doubt() {
        assert_eq!(
            action(
                "Bash",
                &json!({"command": "ls", "env": {"LD_PRELOAD": "x"}})
            ),
            ToolAction::Unclear {
                known: Box::new(ToolAction::Shell {
                    command: "ls".into()
                }),
                reason: "the field `env` is not known".into(),
            }
        );
        assert!(matches!(
            action("Read", &json!({"path": "a", "file_path": "b"})),
            ToolAction::Unclear { .. }
        ));
        assert!(matches!(
            action("Bash", &json!("ls")),
            ToolAction::Unclear { .. }
        ));
        assert!(matches!(
            action("Glob", &json!({"pattern": "../../**"})),
            ToolAction::Unclear { .. }
        ));
    }

    #[test]
    fn a_directory_in_the_input_is_where_it_runs() {
        let ls = || {
            Box::new(ToolAction::Shell {
                command: "ls".into(),
            })
        };
        assert_eq!(
            action(
                "Bash",
                &json!({"command": "ls", "cwd": null, "workdir": "/etc"})
            ),
            ToolAction::In {
                directory: "/etc".into(),
                action: ls(),
            }
        );
        assert_eq!(
            action(
                "Bash",
                &json!({"command": "ls", "cwd": "/a", "workdir": "/b"})
            ),
            ToolAction::Unclear {
                known: ls(),
                reason: "the working directory is given twice or is not text".into(),
            }
        );
    }

    #[test]
    fn what_else_an_input_names_is_doubt() {
        for (tool, input) in [
            ("Grep", json!({"pattern": "x", "glob": ".env"})),
            ("Grep", json!({"pattern": "x", "glob": "secrets/**"})),
            ("Read", json!({"path": "a", "glob": "../.env"})),
            (
                "MultiEdit",
                json!({"file_path": "a", "edits": [{"file_path": "/etc/x"}]}),
            ),
        ] {
            assert!(
                matches!(action(tool, &input), ToolAction::Unclear { .. }),
                "{input}"
            );
        }
        let grep = json!({"pattern": "x", "glob": "**/*.rs"});
        assert_eq!(
            action("Grep", &grep),
            ToolAction::Search { path: "/p".into() }
        );
    }
}

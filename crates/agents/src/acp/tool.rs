//! Tools by the names that rules have for them: from what is known of a call to a name and an input.
//!
//! Invariants: nothing is guessed. Where two sources disagree, or a field was sent twice, there is no
//! input, and what has no input is asked about. A title becomes a command only of an agent whose titles are
//! known to be commands (see [`super::permission`]). Fields that are not
//! understood are passed on, because rules ask about them.

use std::path::PathBuf;

use countersign_core::limits::AGENT_LINE_BYTES_SHORT;
use countersign_core::{COMMAND_FIELDS, DIRECTORY_FIELDS, Json, PATH_FIELDS};
use serde_json::{Map, Value};

use super::call::ToolCallState;
use super::command::{absolute, folder, join_args};
use crate::adapter::{BoundAction, RunRequest};

/// A tool call under the name and with the input that rules know.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RuleToolCall {
    pub(super) tool: Option<String>,
    pub(super) input: Option<Json>,
    pub(super) binds: Vec<BoundAction>,
    /// Why there is no input although the agent sent something.
    pub(super) doubt: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToolClass {
    Shell,
    Read,
    Search,
    Edit,
    Fetch,
    Delete,
    Move,
    Other,
}

/// What codex says beside a command, none of which changes what runs.
const CODEX_BESIDE: [&str; 10] = [
    "call_id",
    "turn_id",
    "approval_id",
    "started_at_ms",
    "proposed_execpolicy_amendment",
    "available_decisions",
    "parsed_cmd",
    "reason",
    "process_id",
    "source",
];

type ToolFields = Map<String, Value>;
type NewFileContent = (String, Option<String>);

/// Names a call. `cwd` is the session's folder.
pub(super) fn name_tool_call(call: &ToolCallState, cwd: &str) -> RuleToolCall {
    let tool = call.name.as_deref();
    if let Some(doubt) = &call.doubt {
        return doubtful(default_name(call, class(call, None)), doubt);
    }
    let fields = match read_fields(call) {
        Ok(fields) => fields,
        Err(doubt) => return doubtful(default_name(call, class(call, None)), doubt),
    };
    let class = class(call, fields.as_ref());
    let named = default_name(call, class);
    // Their fields mean what their server says, so none of them is read as a path or a command.
    if tool.is_some_and(|tool| tool.starts_with("mcp__")) {
        return plain(named, fields);
    }
    // A rule for `Read` must not cover a call that says of itself that it executes.
    if is_worse(call.kind.as_deref(), class) {
        return doubtful(named, "the tool's name and its kind disagree");
    }
    let edits = matches!(
        class,
        ToolClass::Edit | ToolClass::Delete | ToolClass::Move | ToolClass::Other
    );
    // Otherwise a read could be allowed that shows, and makes, a change.
    if !edits && !call.diffs.is_empty() {
        return doubtful(
            named,
            "it shows a change of a file, which that tool does not make",
        );
    }
    match (class, fields) {
        (ToolClass::Shell, Some(fields)) => shell(named, fields, cwd),
        (ToolClass::Read | ToolClass::Edit, fields) => file(named, class, fields, call, cwd),
        (_, fields) => plain(named, fields),
    }
}

/// What a call is called in the transcript, told again with every word about it: so a large input is
/// not read for it.
pub(super) fn transcript_label(call: &ToolCallState, cwd: &str) -> Option<String> {
    let bytes = call.raw_input.as_ref().map_or(0, |raw| raw.text().len());
    if bytes > AGENT_LINE_BYTES_SHORT {
        default_name(call, class(call, None))
    } else {
        name_tool_call(call, cwd).tool
    }
}

fn read_fields(call: &ToolCallState) -> Result<Option<ToolFields>, &'static str> {
    let Some(raw) = &call.raw_input else {
        return Ok(None);
    };
    match raw.parse_unique_keys() {
        Some(Value::Object(fields)) if fields.is_empty() => Ok(None),
        Some(Value::Object(fields)) => Ok(Some(fields)),
        Some(Value::Null) => Ok(None),
        Some(_) => Err("the input is not an object"),
        None => Err("the input names a field twice or cannot be read"),
    }
}

/// By the tool's name if rules have one for it, else by the kind the agent gave.
fn class(call: &ToolCallState, fields: Option<&ToolFields>) -> ToolClass {
    let by_name = call.name.as_deref().and_then(class_of_name);
    by_name.unwrap_or_else(|| {
        let runs = fields.is_some_and(|fields| find_single(fields, &COMMAND_FIELDS).is_some());
        match call.kind.as_deref() {
            Some("execute") => ToolClass::Shell,
            // A command that only reads is still a command.
            Some("read" | "search") if runs => ToolClass::Shell,
            Some("read") => ToolClass::Read,
            Some("search") => ToolClass::Search,
            Some("edit") => ToolClass::Edit,
            Some("fetch") => ToolClass::Fetch,
            Some("delete") => ToolClass::Delete,
            Some("move") => ToolClass::Move,
            _ => ToolClass::Other,
        }
    })
}

fn class_of_name(tool: &str) -> Option<ToolClass> {
    let class = match tool {
        "Bash" | "bash" | "shell" | "Shell" | "execute" | "terminal" | "run_shell_command"
        | "local_shell" | "exec_command" | "run_terminal_cmd" | "run_command" => ToolClass::Shell,
        "Read" | "read" | "read_file" | "NotebookRead" | "view" | "View" => ToolClass::Read,
        "Grep" | "Glob" | "LS" | "grep" | "glob" | "ls" | "list_directory" => ToolClass::Search,
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" | "edit" | "write" | "write_file"
        | "replace" | "edit_file" | "create_file" => ToolClass::Edit,
        "WebFetch" | "webfetch" | "web_fetch" | "fetch" => ToolClass::Fetch,
        _ if tool.starts_with("mcp__") => ToolClass::Other,
        _ => return None,
    };
    Some(class)
}

/// Whether the kind says more than the name: a `Read` that executes is not a read.
fn is_worse(kind: Option<&str>, class: ToolClass) -> bool {
    match class {
        ToolClass::Read | ToolClass::Search | ToolClass::Fetch => {
            matches!(kind, Some("execute" | "edit" | "delete" | "move"))
        }
        ToolClass::Edit => matches!(kind, Some("execute" | "delete" | "move")),
        ToolClass::Shell | ToolClass::Delete | ToolClass::Move | ToolClass::Other => false,
    }
}

/// The agent's name where rules know it or nothing better is known, else the rules' own.
fn default_name(call: &ToolCallState, class: ToolClass) -> Option<String> {
    let own = call.name.clone();
    if own.as_deref().and_then(class_of_name).is_some() {
        return own;
    }
    let name = match class {
        ToolClass::Shell => "Bash",
        ToolClass::Read => "Read",
        ToolClass::Search => "Grep",
        ToolClass::Edit => "Edit",
        ToolClass::Fetch => "WebFetch",
        ToolClass::Delete => "Delete",
        ToolClass::Move => "Move",
        ToolClass::Other => {
            let kind = call.kind.clone().filter(|kind| kind != "other");
            return own.or(kind);
        }
    };
    Some(name.to_owned())
}

fn shell(tool: Option<String>, mut fields: ToolFields, cwd: &str) -> RuleToolCall {
    let text = match find_single(&fields, &COMMAND_FIELDS) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Array(args)) => {
            let args: Option<Vec<&str>> = args.iter().map(Value::as_str).collect();
            args.and_then(|args| join_args(&args))
        }
        _ => None,
    };
    let Some(command) = text else {
        return doubtful(tool, "there is no command, or more than one");
    };
    // Rules ask about fields that they do not know. Only where the input is clearly codex's are
    // these known to change nothing.
    if fields.contains_key("parsed_cmd") && fields.contains_key("call_id") {
        fields.retain(|name, _| !CODEX_BESIDE.contains(&name.as_str()));
    }
    for name in COMMAND_FIELDS {
        fields.remove(name);
    }
    let given = match find_given(&fields, &DIRECTORY_FIELDS).as_slice() {
        [] => None,
        [Value::String(folder)] => Some(folder.clone()),
        _ => return doubtful(tool, "the folder is given twice or is not text"),
    };
    let bound = RunRequest {
        command: command.clone(),
        cwd: folder(given.as_deref(), cwd),
        env: Vec::new(),
    };
    // The session's own folder is where rules take it to run anyway.
    if bound.cwd.is_none() {
        fields.retain(|name, _| !DIRECTORY_FIELDS.contains(&name.as_str()));
    }
    fields.insert("command".to_owned(), Value::String(command));
    RuleToolCall {
        binds: vec![BoundAction::Run(bound)],
        ..plain(tool, Some(fields))
    }
}

/// Reads and edits: one path, on which everything that names one agrees.
fn file(
    tool: Option<String>,
    class: ToolClass,
    fields: Option<ToolFields>,
    call: &ToolCallState,
    cwd: &str,
) -> RuleToolCall {
    let mut fields = fields.unwrap_or_default();
    if let Some(changes) = fields.get("changes").and_then(Value::as_object) {
        return match changes_of(changes) {
            PatchChange::One(path, change) => {
                fields = change;
                fields.insert("file_path".to_owned(), Value::String(path));
                file(tool, class, Some(fields), call, cwd)
            }
            PatchChange::Named(name) => plain(Some(name.to_owned()), Some(fields)),
        };
    }
    let shown: Vec<&str> = call.diffs.iter().map(|diff| diff.path.as_str()).collect();
    let others = shown.iter().copied();
    let others = others.chain(call.locations.iter().map(String::as_str));
    let mut others: Vec<PathBuf> = others.map(|path| absolute(path, cwd)).collect();
    others.sort_unstable();
    others.dedup();
    let path = match find_given(&fields, &PATH_FIELDS).as_slice() {
        [Value::String(path)] => path.clone(),
        [] => match others.as_slice() {
            [one] => one.to_string_lossy().into_owned(),
            [] => return doubtful(tool, "no path is known"),
            _ if shown.len() > 1 => return plain(Some("apply_patch".to_owned()), Some(fields)),
            _ => return doubtful(tool, "several paths are named"),
        },
        _ => return doubtful(tool, "the path is given twice or is not text"),
    };
    // A person judges what is shown and a rule what is asked: both must be about one file.
    if others.iter().any(|other| *other != absolute(&path, cwd)) {
        return doubtful(tool, "what is shown and what is asked name different paths");
    }
    let content = match content_of(&fields, call) {
        Ok(content) => content.filter(|_| class == ToolClass::Edit),
        Err(doubt) => return doubtful(tool, doubt),
    };
    if find_given(&fields, &PATH_FIELDS).is_empty() {
        fields.insert("file_path".to_owned(), Value::String(path.clone()));
    }
    let path = absolute(&path, cwd);
    RuleToolCall {
        binds: content
            .map(|(content, old)| BoundAction::Write { path, content, old })
            .into_iter()
            .collect(),
        ..plain(tool, Some(fields))
    }
}

/// What would be written, and in the place of what if that is all that is known: a change that is
/// shown may be a part of its file. Fails if the agent shows another.
fn content_of(
    fields: &ToolFields,
    call: &ToolCallState,
) -> Result<Option<NewFileContent>, &'static str> {
    let is_part = ["old_string", "oldString", "old_text", "oldText", "edits"]
        .iter()
        .any(|name| fields.get(*name).is_some_and(|value| !value.is_null()));
    let sent = fields.get("content").and_then(Value::as_str);
    match (sent, call.diffs.as_slice()) {
        // A person would judge the change that is shown, and another text would be written.
        (Some(sent), [diff]) if !is_part && diff.new_text != sent => {
            Err("what is shown and what would be written differ")
        }
        (Some(sent), _) if !is_part => Ok(Some((sent.to_owned(), None))),
        // Without an old text a change is the whole file, unless the input says otherwise.
        (_, [diff]) if is_part && diff.old_text.is_none() => Ok(None),
        (_, [diff]) => Ok(Some((diff.new_text.clone(), diff.old_text.clone()))),
        _ => Ok(None),
    }
}

enum PatchChange {
    /// One file is written.
    One(String, ToolFields),
    /// Something else, by the name it gets so that rules ask.
    Named(&'static str),
}

/// A patch as codex sends it: each path with what becomes of it.
fn changes_of(changes: &ToolFields) -> PatchChange {
    let mut all = changes.iter();
    let (Some((path, change)), None) = (all.next(), all.next()) else {
        return PatchChange::Named("apply_patch");
    };
    let moves = change.get("move_path").is_some_and(|to| !to.is_null());
    match change.get("type").and_then(Value::as_str) {
        _ if moves => PatchChange::Named("Move"),
        Some("add") => {
            let content = change.get("content").cloned();
            let fields = content.map(|content| ("content".to_owned(), content));
            PatchChange::One(path.clone(), fields.into_iter().collect())
        }
        Some("update") => PatchChange::One(path.clone(), ToolFields::new()),
        Some("delete") => PatchChange::Named("Delete"),
        _ => PatchChange::Named("apply_patch"),
    }
}

fn plain(tool: Option<String>, fields: Option<ToolFields>) -> RuleToolCall {
    RuleToolCall {
        tool,
        input: fields.and_then(|fields| Json::from_value(&Value::Object(fields)).ok()),
        ..RuleToolCall::default()
    }
}

fn doubtful(tool: Option<String>, doubt: &str) -> RuleToolCall {
    RuleToolCall {
        tool,
        doubt: Some(doubt.to_owned()),
        ..RuleToolCall::default()
    }
}

/// The one field of several names that is there.
fn find_single<'f>(fields: &'f ToolFields, names: &[&str]) -> Option<&'f Value> {
    match find_given(fields, names).as_slice() {
        [one] => Some(one),
        _ => None,
    }
}

fn find_given<'f>(fields: &'f ToolFields, names: &[&str]) -> Vec<&'f Value> {
    let found = names.iter().filter_map(|name| fields.get(*name));
    found.filter(|value| !value.is_null()).collect()
}

#[cfg(test)]
mod tests;

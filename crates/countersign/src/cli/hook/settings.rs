//! Claude Code's settings file with our hooks in it, and without.
//!
//! Invariants: everything that is not ours stays to the byte; putting in what is there changes
//! nothing; taking out gives back the text from before, or nothing if it was made by putting in.

use serde_json::{Value, json};

use super::spans::{self, JsonLayout, JsonSpan, RemovalResult};
use crate::cli::args;

/// The events that decide, and those that only tell.
const DECIDING: [&str; 2] = ["PreToolUse", "PermissionRequest"];
const TELLING: [&str; 4] = ["Notification", "Stop", "SessionStart", "SessionEnd"];

/// How long events may take that only tell, in seconds.
const TELLING_SECONDS: u64 = 10;

/// What the terminal shows while a hook waits for an answer.
const STATUS_MESSAGE: &str = "Waiting for Countersign: answer with `countersign watch`";

/// What our hooks look like.
#[derive(Clone, Debug)]
pub(super) struct HookSpec {
    /// The program, as a shell reads it.
    pub(super) program: String,
    /// How long Claude Code lets a hook take that decides, in seconds.
    pub(super) timeout: u64,
}

impl HookSpec {
    fn group(&self, event: &str) -> Value {
        let decides = DECIDING.contains(&event);
        let timeout = if decides {
            self.timeout
        } else {
            TELLING_SECONDS
        };
        let mut command = format!("{} hook claude --timeout {timeout}", self.program);
        let mut group = json!({});
        if decides {
            // A hook that is not there, or was killed, must block as well: only this exit code does.
            command.push_str(" || exit 2");
            group["matcher"] = "*".into();
        }
        let mut hook = json!({ "type": "command", "command": command, "timeout": timeout });
        if decides {
            // Claude Code shows it while the hook runs. A hook has no other way to tell the person at the
            // terminal where to answer: its output is read when it has ended.
            hook["statusMessage"] = STATUS_MESSAGE.into();
        }
        group["hooks"] = json!([hook]);
        group
    }
}

/// Why a file is left as it is, in words.
pub(super) type SettingsProblem = String;

/// The text with our hooks in it. `None` stands for no file.
pub(super) fn install(text: Option<&str>, ours: &HookSpec) -> Result<String, SettingsProblem> {
    let mut now = match text {
        Some(text) if is_installed(text, ours)? => return Ok(text.to_owned()),
        // Ours are taken out first: hooks of an earlier version or another path are replaced, and do
        // not run twice.
        Some(text) => uninstall(text)?,
        None => None,
    };
    for event in DECIDING.into_iter().chain(TELLING) {
        now = Some(add(now.as_deref(), event, ours)?);
    }
    now.ok_or_else(|| "there is nothing to install".to_owned())
}

/// The text without our hooks. `None` if nothing is left but what was made for them.
pub(super) fn uninstall(text: &str) -> Result<Option<String>, SettingsProblem> {
    let mut now = text.to_owned();
    while let Some(place) = find_ours(&now)? {
        match place.remove_from(&now) {
            RemovalResult::Text(text) => now = text,
            RemovalResult::Nothing => return Ok(None),
        }
    }
    Ok(Some(now))
}

fn is_installed(text: &str, ours: &HookSpec) -> Result<bool, SettingsProblem> {
    let root = parse(text)?;
    let document: Value = serde_json::from_str(&text[root]).unwrap_or_default();
    Ok(DECIDING.into_iter().chain(TELLING).all(|event| {
        let groups = document["hooks"][event].as_array();
        groups.is_some_and(|groups| groups.contains(&ours.group(event)))
    }))
}

fn parse(text: &str) -> Result<JsonSpan, SettingsProblem> {
    let root = spans::whole(text)
        .map_err(|error| format!("is not JSON ({error}); comments are not allowed"))?;
    if text[root.clone()].starts_with('{') {
        Ok(root)
    } else {
        Err("is not a JSON object".to_owned())
    }
}

/// An object or a list, and what is in it.
struct JsonContainer {
    span: JsonSpan,
    children: Vec<JsonSpan>,
}

impl JsonContainer {
    fn insert(&self, text: &str, item: &str, line: &str) -> String {
        spans::insert(text, &self.span, &self.children, item, line)
    }
}

struct JsonObject {
    container: JsonContainer,
    keys: Vec<String>,
    values: Vec<JsonSpan>,
}

impl JsonObject {
    fn at(text: &str, span: JsonSpan, name: &str) -> Result<Self, SettingsProblem> {
        let members = spans::members(text, &span);
        let members = members.ok_or_else(|| format!("has {name} that is not an object"))?;
        let children = spans::member_spans(text, &span, &members);
        let (keys, values): (Vec<String>, Vec<JsonSpan>) = members.into_iter().unzip();
        let mut once = keys.clone();
        once.sort_unstable();
        once.dedup();
        if once.len() < keys.len() {
            return Err(format!("has a repeated key in {name}"));
        }
        let container = JsonContainer { span, children };
        Ok(Self {
            container,
            keys,
            values,
        })
    }

    fn find(&self, key: &str) -> Option<(usize, JsonSpan)> {
        let index = self.keys.iter().position(|name| name == key)?;
        Some((index, self.values[index].clone()))
    }
}

fn list_at(text: &str, span: JsonSpan, name: &str) -> Result<JsonContainer, SettingsProblem> {
    let children = spans::elements(text, &span);
    let children = children.ok_or_else(|| format!("has {name} that is not a list"))?;
    Ok(JsonContainer { span, children })
}

/// Adds our group to one event, with whatever is missing around it.
fn add(text: Option<&str>, event: &str, ours: &HookSpec) -> Result<String, SettingsProblem> {
    let group = ours.group(event);
    let Some(text) = text else {
        let document = json!({ "hooks": { event: [group] } });
        return Ok(render(&document, &JsonLayout::of(""), 0) + "\n");
    };
    let layout = JsonLayout::of(text);
    let root = JsonObject::at(text, parse(text)?, "settings")?;
    let Some((_, hooks)) = root.find("hooks") else {
        let item = render(&json!({ event: [group] }), &layout, 1);
        let item = format!("\"hooks\": {item}");
        return Ok(root.container.insert(text, &item, &layout.line(1)));
    };
    let hooks = JsonObject::at(text, hooks, "`hooks`")?;
    let Some((_, groups)) = hooks.find(event) else {
        let item = render(&json!([group]), &layout, 2);
        let item = format!("\"{event}\": {item}");
        return Ok(hooks.container.insert(text, &item, &layout.line(2)));
    };
    let groups = list_at(text, groups, &format!("`hooks.{event}`"))?;
    let item = render(&group, &layout, 3);
    Ok(groups.insert(text, &item, &layout.line(3)))
}

/// JSON in the file's own layout, its first line where it is put.
fn render(value: &Value, layout: &JsonLayout, depth: usize) -> String {
    let inner = layout.line(depth + 1);
    let outer = layout.line(depth);
    let (open, parts, close): (_, Vec<String>, _) = match value {
        Value::Object(members) => {
            let parts = members
                .iter()
                .map(|(key, value)| format!("\"{key}\": {}", render(value, layout, depth + 1)));
            ('{', parts.collect(), '}')
        }
        Value::Array(items) => {
            let parts = items.iter().map(|item| render(item, layout, depth + 1));
            ('[', parts.collect(), ']')
        }
        other => return other.to_string(),
    };
    let parts = parts.join(&format!(",{inner}"));
    format!("{open}{inner}{parts}{outer}{close}")
}

/// Where one of our commands is, from the outside in: each container and the child that leads there.
struct HookPosition(Vec<(JsonContainer, usize)>);

impl HookPosition {
    /// Takes out the innermost child, and containers that came with it.
    fn remove_from(&self, text: &str) -> RemovalResult {
        let removed = self.0.iter().rev().map(|(container, index)| {
            spans::remove(text, &container.span, &container.children, *index)
        });
        let mut removed = removed.filter(|left| *left != RemovalResult::Nothing);
        removed.next().unwrap_or(RemovalResult::Nothing)
    }
}

fn find_ours(text: &str) -> Result<Option<HookPosition>, SettingsProblem> {
    let root = JsonObject::at(text, parse(text)?, "settings")?;
    let Some((in_root, hooks)) = root.find("hooks") else {
        return Ok(None);
    };
    let hooks = JsonObject::at(text, hooks, "`hooks`")?;
    for (in_hooks, event) in hooks.keys.iter().enumerate() {
        let Some(spans) = spans::elements(text, &hooks.values[in_hooks]) else {
            continue;
        };
        for (in_event, group) in spans.iter().enumerate() {
            let Some((inner, in_group)) = find_in_group(text, group) else {
                continue;
            };
            let event = list_at(text, hooks.values[in_hooks].clone(), event)?;
            let mut place = vec![
                (root.container, in_root),
                (hooks.container, in_hooks),
                (event, in_event),
            ];
            // A group with others' hooks in it stays.
            if inner.children.len() > 1 {
                place.push((inner, in_group));
            }
            return Ok(Some(HookPosition(place)));
        }
    }
    Ok(None)
}

/// The list of hooks of a group, and which of them is ours.
fn find_in_group(text: &str, group: &JsonSpan) -> Option<(JsonContainer, usize)> {
    let group = JsonObject::at(text, group.clone(), "a group").ok()?;
    let (_, hooks) = group.find("hooks")?;
    let list = list_at(text, hooks, "a group").ok()?;
    let index = list.children.iter().position(|span| {
        let hook: Value = serde_json::from_str(&text[span.clone()]).unwrap_or_default();
        hook["command"].as_str().is_some_and(is_our_command)
    })?;
    Some((list, index))
}

fn is_our_command(line: &str) -> bool {
    // By its words: the program may be under any path, and options may follow. What only mentions it is
    // not ours.
    let Ok(words) = args::split_command(line) else {
        return false;
    };
    let program = words.first().and_then(|word| word.rsplit('/').next());
    program == Some("countersign")
        && words.get(1).is_some_and(|word| word == "hook")
        && words.get(2).is_some_and(|word| word == "claude")
}

#[cfg(test)]
mod tests;

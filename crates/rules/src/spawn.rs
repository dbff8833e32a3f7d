//! Starting agents: what an orchestrator's ask for an agent of its own says, and the rules for it.
//!
//! Invariant: only what such an agent usually starts with can be allowed without a person; whatever
//! reaches further lies on the floor, and so does what is not understood.

use serde_json::{Map, Value};

use crate::language::RuleError;
use crate::request::ToolAction;

/// The server whose tool starts agents, and the tool.
pub(crate) const SERVER: &str = "countersign";
pub(crate) const TOOL: &str = "spawn_agent";
/// What rules call it.
pub(crate) const NAME: &str = "SpawnAgent";

/// Fields that change nothing about what a rule may say. Where it works, and with which tools, the
/// host holds against its orchestrator's own.
const HARMLESS: [&str; 9] = [
    "agent",
    "allowed_tools",
    "cwd",
    "disallowed_tools",
    "model",
    "name",
    "prompt",
    "system_prompt",
    "worktree",
];
/// Modes in which every agent asks as usual.
const CAREFUL_MODES: [&str; 2] = ["default", "plan"];

/// The kinds of agent that a rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KindPattern {
    Every,
    One(String),
}

impl KindPattern {
    pub(crate) fn parse(spec: Option<&str>) -> Result<Self, RuleError> {
        let Some(kind) = spec.map(str::trim).filter(|kind| *kind != "*") else {
            return Ok(Self::Every);
        };
        if kind
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
        {
            Ok(Self::One(kind.to_owned()))
        } else {
            Err(RuleError::AgentKind(kind.to_owned()))
        }
    }

    /// Whether an allow covers an agent that is named so, and in no other way.
    pub(crate) fn allows(&self, names: &[String]) -> bool {
        match (self, names) {
            (Self::Every, [_]) => true,
            (Self::One(kind), [name]) => kind == name,
            _ => false,
        }
    }

    /// Whether a deny or ask covers it by any of its names.
    pub(crate) fn covers(&self, names: &[String]) -> bool {
        match self {
            Self::Every => true,
            Self::One(kind) => names.iter().any(|name| name.eq_ignore_ascii_case(kind)),
        }
    }
}

/// Reads the tool's input.
pub(crate) fn read(input: Option<&Value>) -> ToolAction {
    match input {
        Some(Value::Object(fields)) => ToolAction::Spawn {
            names: names(fields),
            beyond: beyond(fields),
        },
        _ => ToolAction::Spawn {
            names: Vec::new(),
            beyond: Some("it does not say what it would start".to_owned()),
        },
    }
}

/// The kind of agent and the program, as far as they are named.
fn names(fields: &Map<String, Value>) -> Vec<String> {
    let kind = fields.get("agent").and_then(Value::as_str);
    let program = match fields.get("command") {
        Some(Value::Array(words)) => words.first().and_then(Value::as_str),
        Some(Value::String(line)) => line.split_whitespace().next(),
        _ => None,
    };
    // By its last name: a deny for `codex` also means one in another folder.
    let program = program.map(|path| path.rsplit('/').next().unwrap_or(path));
    let names = [kind, program].into_iter().flatten().map(str::trim);
    names.map(str::to_owned).collect()
}

/// Why only a person may allow it, if it is so.
fn beyond(fields: &Map<String, Value>) -> Option<String> {
    if given(fields, "command").is_some() {
        return Some("it would run a command of its orchestrator's choice".to_owned());
    }
    if given(fields, "role").is_some() {
        return Some("it would start agents of its own".to_owned());
    }
    if given(fields, "env").is_some() {
        return Some("it would get variables of its orchestrator's choice".to_owned());
    }
    let is_careful = given(fields, "mode").is_none_or(|mode| {
        mode.as_str()
            .is_some_and(|mode| CAREFUL_MODES.contains(&mode))
    });
    if !is_careful {
        return Some("in that mode it may ask less".to_owned());
    }
    if !fields.get("agent").is_some_and(Value::is_string) {
        return Some("it does not say what it would start".to_owned());
    }
    // A field that a later version gives a meaning to may widen what is started.
    let has_unknown = fields.keys().any(|name| {
        let name = name.as_str();
        !HARMLESS.contains(&name) && !["command", "role", "env", "mode"].contains(&name)
    });
    has_unknown.then(|| "it has a field that rules do not know".to_owned())
}

fn given<'f>(fields: &'f Map<String, Value>, name: &str) -> Option<&'f Value> {
    fields.get(name).filter(|value| !is_nothing(value))
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

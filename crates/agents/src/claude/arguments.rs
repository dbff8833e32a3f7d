//! What Claude Code is started with.
//!
//! Invariants: whatever the person's or the project's settings say, the agent asks about every tool;
//! nothing that was handed in is read as an option of its own.

use std::collections::BTreeSet;

use countersign_core::Json;
use serde_json::{Map, Value, json};

use crate::adapter::{McpServer, SessionSpec};

/// The modes that leave every decision to us. The others decide themselves, or deny unasked.
pub(super) const MODES: [&str; 3] = ["default", "acceptEdits", "plan"];

/// The arguments for a session that is opened so.
pub(super) fn arguments(start: &SessionSpec) -> Vec<String> {
    let mut all: Vec<String> = [
        "-p",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
        "--permission-prompt-tool=stdio",
        "--strict-mcp-config",
    ]
    .map(str::to_owned)
    .into();
    all.push(option("settings", &settings().to_string()));
    all.push(option("mcp-config", &servers(start).to_string()));
    // In any other mode the agent would run tools without asking; `start` warns about it.
    let mode = start.mode.as_deref().filter(|mode| MODES.contains(mode));
    all.push(option("permission-mode", mode.unwrap_or(MODES[0])));
    if let Some(model) = &start.model {
        all.push(option("model", model));
    }
    if let Some(prompt) = &start.system_prompt {
        all.push(option("append-system-prompt", prompt));
    }
    // What there is, by name. `--allowedTools` would be what runs without an ask.
    if !start.allowed_tools.is_empty() {
        all.push(option("tools", &names(&start.allowed_tools)));
    }
    if !start.disallowed_tools.is_empty() {
        all.push(option("disallowedTools", &start.disallowed_tools.join(",")));
    }
    if let Some(session) = &start.session {
        all.push(option("resume", session));
    }
    let is_new = start.session.is_none() || start.fork;
    if let Some(session) = start.new_session.as_ref().filter(|_| is_new) {
        all.push(option("session-id", session));
    }
    if start.session.is_some() && start.fork {
        all.push("--fork-session".to_owned());
    }
    all
}

/// One argument: a value of its own that begins with a hyphen would be read as another option.
fn option(name: &str, value: &str) -> String {
    format!("--{name}={value}")
}

/// An ask for a tool beats whatever else allows it. Hooks are another matter: one of them may allow
/// what is being asked, and each is a program that a repository can bring along.
fn settings() -> Value {
    json!({
        "permissions": {"ask": ["*"], "disableBypassPermissionsMode": "disable"},
        "sandbox": {"autoAllowBashIfSandboxed": false},
        "disableAllHooks": true,
    })
}

fn servers(start: &SessionSpec) -> Value {
    let given = start.given_servers.as_ref();
    let mut servers = match given.and_then(Json::parse_unique_keys) {
        Some(Value::Object(servers)) => servers,
        _ => Map::new(),
    };
    // Last, so that nothing takes the place of the host's own.
    servers.extend(server_entries(&start.mcp_servers));
    json!({"mcpServers": servers})
}

/// The servers by name, as Claude Code's own configuration has them.
pub(crate) fn server_entries(servers: &[McpServer]) -> Map<String, Value> {
    let entries = servers.iter().map(|server| {
        // Its tool search leaves the tools of servers out of what the model is offered, so that an
        // agent would begin without any way to ask or to start others.
        let entry = json!({
            "type": "stdio", "command": server.command, "args": server.args, "alwaysLoad": true,
        });
        (server.name.clone(), entry)
    });
    entries.collect()
}

/// Tools of servers are not among those that can be named; they are there with their server.
fn names(tools: &[String]) -> String {
    let names: BTreeSet<&str> = tools
        .iter()
        .map(|tool| tool.split('(').next().unwrap_or_default())
        .filter(|name| !name.starts_with("mcp__"))
        .collect();
    names.into_iter().collect::<Vec<_>>().join(",")
}

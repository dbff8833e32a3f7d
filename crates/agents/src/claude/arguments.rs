//! What Claude Code is started with.
//!
//! Invariants: whatever the person's or the project's settings say, the agent asks about every tool;
//! nothing that was handed in is read as an option of its own.

use std::collections::BTreeSet;

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
    // A value is never a word of its own: one that begins with a hyphen would be an option.
    let mut add = |name: &str, value: &str| all.push(format!("--{name}={value}"));
    add("settings", &settings().to_string());
    add("mcp-config", &servers(&start.mcp_servers).to_string());
    let mode = start.mode.as_deref().filter(|mode| MODES.contains(mode));
    add("permission-mode", mode.unwrap_or(MODES[0]));
    if let Some(model) = &start.model {
        add("model", model);
    }
    if let Some(prompt) = &start.system_prompt {
        add("append-system-prompt", prompt);
    }
    // What there is, by name. `--allowedTools` would be what runs without an ask.
    if !start.allowed_tools.is_empty() {
        add("tools", &names(&start.allowed_tools));
    }
    if !start.disallowed_tools.is_empty() {
        add("disallowedTools", &start.disallowed_tools.join(","));
    }
    if let Some(session) = &start.session {
        add("resume", session);
    }
    let is_new = start.session.is_none() || start.fork;
    if let Some(session) = start.new_session.as_ref().filter(|_| is_new) {
        add("session-id", session);
    }
    if start.session.is_some() && start.fork {
        all.push("--fork-session".to_owned());
    }
    all
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

fn servers(servers: &[McpServer]) -> Value {
    let servers = servers.iter().map(|server| {
        let how = json!({"type": "stdio", "command": server.command, "args": server.args});
        (server.name.clone(), how)
    });
    json!({"mcpServers": servers.collect::<Map<_, _>>()})
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

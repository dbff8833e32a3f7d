//! Sessions that the host did not start: what their hooks say, whatever happens, and who they are.

mod asking;
mod failing;
mod install;
mod real;
pub(crate) mod session;
mod sessions;

use serde_json::{Value, json};

/// What Claude Code says before it uses a tool.
pub(crate) fn before_tool(session: &str, call: &str, command: &str) -> Value {
    json!({
        "session_id": session, "transcript_path": "/nowhere", "cwd": "/tmp", "permission_mode": "default",
        "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": { "command": command },
        "tool_use_id": call,
    })
}

/// What it says before it asks at its own terminal: the call has no id there.
fn before_prompt(session: &str, command: &str) -> Value {
    json!({
        "session_id": session, "cwd": "/tmp", "permission_mode": "default",
        "hook_event_name": "PermissionRequest", "tool_name": "Bash", "tool_input": { "command": command },
        "permission_suggestions": [],
    })
}

fn event(session: &str, name: &str, cwd: &str) -> Value {
    json!({ "session_id": session, "cwd": cwd, "hook_event_name": name })
}

/// The decision before a tool, with its reason.
fn decision(said: &str) -> (String, String) {
    let said: Value = serde_json::from_str(said).expect("a hook says JSON");
    let output = &said["hookSpecificOutput"];
    assert_eq!(output["hookEventName"], "PreToolUse", "{said}");
    let word = |name: &str| output[name].as_str().unwrap().to_owned();
    (word("permissionDecision"), word("permissionDecisionReason"))
}

/// The decision at a prompt.
fn at_prompt(said: &str) -> Value {
    let mut said: Value = serde_json::from_str(said).expect("a hook says JSON");
    said["hookSpecificOutput"]["decision"].take()
}

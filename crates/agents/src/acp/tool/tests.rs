use serde_json::json;

use super::super::call::ToolCallTable;
use super::*;

/// What a call that was told so is named, in folder `/p`.
fn named(call: &Value) -> (Option<String>, Option<Value>, Vec<BoundAction>) {
    let mut call = call.clone();
    call["toolCallId"] = json!("c");
    let text = call.to_string();
    let mut calls = ToolCallTable::default();
    let named = name_tool_call(calls.begin(&serde_json::from_str(&text).unwrap()), "/p");
    let input = named
        .input
        .map(|input| serde_json::from_str(input.text()).unwrap());
    (named.tool, input, named.binds)
}

fn run(command: &str, cwd: Option<&str>) -> Vec<BoundAction> {
    vec![BoundAction::Run(RunRequest {
        command: command.into(),
        cwd: cwd.map(PathBuf::from),
        env: Vec::new(),
    })]
}

fn write(path: &str, content: &str) -> Vec<BoundAction> {
    vec![BoundAction::Write {
        path: path.into(),
        content: content.into(),
        old: None,
    }]
}

#[test]
fn what_real_agents_send_gets_the_rules_names() {
    let codex = json!({
        "call_id": "x", "turn_id": "1", "started_at_ms": 5, "parsed_cmd": [],
        "command": ["/bin/bash", "-lc", "touch a && ls"], "cwd": "/p",
        "proposed_execpolicy_amendment": [], "available_decisions": [],
    });
    let cases = [
        (
            json!({"name": "Bash", "kind": "execute", "rawInput": {"command": "touch a", "description": "d"}, "locations": [{"path": "/p"}]}),
            "Bash",
            Some(json!({"command": "touch a", "description": "d"})),
            run("touch a", None),
        ),
        (
            json!({"kind": "execute", "title": "touch a", "rawInput": codex}),
            "Bash",
            Some(json!({"command": "touch a && ls"})),
            run("touch a && ls", None),
        ),
        (
            json!({"kind": "execute", "rawInput": {"command": "ls", "workdir": "sub", "timeout_ms": 5}}),
            "Bash",
            Some(json!({"command": "ls", "workdir": "sub", "timeout_ms": 5})),
            run("ls", Some("/p/sub")),
        ),
        (
            json!({"_meta": {"claudeCode": {"toolName": "Write"}}, "kind": "edit",
                "rawInput": {"file_path": "/p/a", "content": "x"},
                "content": [{"type": "diff", "path": "/p/a", "oldText": null, "newText": "x"}],
                "locations": [{"path": "/p/a"}]}),
            "Write",
            Some(json!({"file_path": "/p/a", "content": "x"})),
            write("/p/a", "x"),
        ),
        (
            json!({"kind": "edit", "rawInput": {"call_id": "c", "turn_id": "1", "auto_approved": false,
                "changes": {"/p/a": {"type": "add", "content": "hello\n"}}},
                "content": [{"type": "diff", "path": "/p/a", "newText": "hello\n"}]}),
            "Edit",
            Some(json!({"file_path": "/p/a", "content": "hello\n"})),
            write("/p/a", "hello\n"),
        ),
        (
            json!({"kind": "edit", "rawInput": {"path": "a", "content": "x"}}),
            "Edit",
            Some(json!({"path": "a", "content": "x"})),
            write("/p/a", "x"),
        ),
        (
            json!({"kind": "read", "rawInput": {"command": ["bash", "-lc", "cat a"], "cwd": "/q"}}),
            "Bash",
            Some(json!({"command": "cat a", "cwd": "/q"})),
            run("cat a", Some("/q")),
        ),
    ];
    for (call, tool, input, binds) in cases {
        assert_eq!(
            named(&call),
            (Some(tool.to_owned()), input, binds),
            "{call}"
        );
    }
}

#[test]
fn kinds_stand_in_for_names() {
    for (call, tool, input) in [
        (
            json!({"kind": "read", "rawInput": {"path": "/p/a", "offset": 3}}),
            Some("Read"),
            Some(json!({"path": "/p/a", "offset": 3})),
        ),
        (
            json!({"kind": "read", "locations": [{"path": "/p/a"}]}),
            Some("Read"),
            Some(json!({"file_path": "/p/a"})),
        ),
        (
            json!({"kind": "search", "rawInput": {"pattern": "x"}}),
            Some("Grep"),
            Some(json!({"pattern": "x"})),
        ),
        (
            json!({"kind": "fetch", "rawInput": {"url": "http://127.0.0.1"}}),
            Some("WebFetch"),
            Some(json!({"url": "http://127.0.0.1"})),
        ),
        (
            json!({"kind": "delete", "rawInput": {"path": "/p/a"}}),
            Some("Delete"),
            Some(json!({"path": "/p/a"})),
        ),
        (
            json!({"kind": "move", "rawInput": {"from": "a", "to": "b"}}),
            Some("Move"),
            Some(json!({"from": "a", "to": "b"})),
        ),
        (
            json!({"name": "mcp__git__push", "kind": "other", "rawInput": {"a": 1}}),
            Some("mcp__git__push"),
            Some(json!({"a": 1})),
        ),
        (
            json!({"name": "Task", "kind": "think", "rawInput": {"prompt": "x"}}),
            Some("Task"),
            Some(json!({"prompt": "x"})),
        ),
        (json!({"kind": "switch_mode"}), Some("switch_mode"), None),
        (json!({"kind": "other", "title": "ls"}), None, None),
        (json!({}), None, None),
    ] {
        let (named_tool, named_input, _) = named(&call);
        assert_eq!(
            (named_tool.as_deref(), named_input),
            (tool, input),
            "{call}"
        );
    }
}

#[test]
fn a_change_that_is_shown_stands_for_the_file_it_was_shown_of() {
    let diff =
        |old: Value| json!([{"type": "diff", "path": "/p/a", "oldText": old, "newText": "b"}]);
    let part = json!({"path": "/p/a", "old_string": "a", "new_string": "b"});
    let bound = |old: Option<&str>| {
        vec![BoundAction::Write {
            path: "/p/a".into(),
            content: "b".into(),
            old: old.map(str::to_owned),
        }]
    };
    for (input, old, binds) in [
        (json!({"path": "/p/a"}), json!("a"), bound(Some("a"))),
        (json!({"path": "/p/a"}), json!(null), bound(None)),
        (part.clone(), json!("a"), bound(Some("a"))),
        (part, json!(null), Vec::new()),
    ] {
        let call = json!({"kind": "edit", "rawInput": input, "content": diff(old)});
        assert_eq!(named(&call).2, binds, "{call}");
    }
}

#[test]
fn what_is_not_certain_has_no_input() {
    for (call, tool) in [
        (json!({"kind": "execute", "title": "ls"}), "Bash"),
        (
            json!({"kind": "execute", "rawInput": {"command": "ls", "cmd": "rm x"}}),
            "Bash",
        ),
        (
            json!({"kind": "execute", "rawInput": {"command": ["ls", 1]}}),
            "Bash",
        ),
        (
            json!({"kind": "execute", "rawInput": {"command": []}}),
            "Bash",
        ),
        (
            json!({"kind": "execute", "rawInput": {"command": "ls", "cwd": "/a", "dir": "/b"}}),
            "Bash",
        ),
        (json!({"kind": "execute", "rawInput": "ls"}), "Bash"),
        (
            json!({"kind": "edit", "rawInput": {"path": "/p/a"}, "locations": [{"path": "/etc/x"}]}),
            "Edit",
        ),
        (
            json!({"kind": "edit", "rawInput": {"path": "/p/a", "content": "x"},
                "content": [{"type": "diff", "path": "/p/a", "newText": "y"}]}),
            "Edit",
        ),
        (
            json!({"name": "Read", "kind": "execute", "rawInput": {"file_path": "/p/a"}}),
            "Read",
        ),
        (
            json!({"kind": "edit", "rawInput": {"file": "a", "path": "b"}}),
            "Edit",
        ),
        (json!({"kind": "read"}), "Read"),
        (
            json!({"kind": "execute", "rawInput": {"command": "ls"},
                "content": [{"type": "diff", "path": "/p/a", "newText": "y"}]}),
            "Bash",
        ),
    ] {
        assert_eq!(
            named(&call),
            (Some(tool.to_owned()), None, Vec::new()),
            "{call}"
        );
    }
}

#[test]
fn several_files_moves_and_deletions_are_no_plain_edits() {
    for (changes, tool) in [
        (json!({"/p/a": {"type": "delete"}}), "Delete"),
        (
            json!({"/p/a": {"type": "update", "move_path": "/p/b"}}),
            "Move",
        ),
        (
            json!({"/p/a": {"type": "add"}, "/p/b": {"type": "add"}}),
            "apply_patch",
        ),
        (json!({}), "apply_patch"),
    ] {
        let input = json!({"call_id": "c", "changes": changes});
        let call = json!({"kind": "edit", "rawInput": input});
        assert_eq!(
            named(&call),
            (Some(tool.to_owned()), Some(input), Vec::new())
        );
    }
}

#[test]
fn a_field_sent_twice_is_no_input() {
    let text =
        r#"{"toolCallId":"c","kind":"execute","rawInput":{"command":"ls","command":"rm -rf x"}}"#;
    let mut calls = ToolCallTable::default();
    let named = name_tool_call(calls.begin(&serde_json::from_str(text).unwrap()), "/p");
    assert_eq!((named.tool.as_deref(), named.input), (Some("Bash"), None));
}

//! Sessions: new, prompted, cancelled, listed, loaded, resumed, closed.

use serde_json::{Value, json};

use super::client::Editor;
use crate::scene::Scene;

#[test]
fn an_editor_starts_an_agent_and_reads_what_it_says() {
    let scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let steps = json!([
        { "think": "hm" },
        { "say": "hello" },
        { "plan": [["one", "completed"], ["two", "pending"]] },
        { "usage": { "used": 5, "size": 10 } },
        { "tool": { "call": "c1", "title": "Look", "kind": "read", "output": "seen", "ends": "completed" } },
    ]);
    let prompt = editor.prompt(&session, &steps);
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "hello");
    assert!(editor.said("agent_thought_chunk").ends_with("hm"));
    assert_eq!(editor.said("user_message_chunk"), "", "its own prompt");
    let plan = editor.update("plan");
    assert_eq!(plan["entries"][0]["content"], "one");
    assert_eq!(plan["entries"][1]["status"], "pending");
    let usage = editor.update("usage_update");
    assert_eq!((&usage["used"], &usage["size"]), (&json!(5), &json!(10)));
    let call = editor.update("tool_call");
    assert_eq!(
        (&call["toolCallId"], &call["title"]),
        (&json!("c1"), &json!("Look"))
    );
    let end = editor.take("the end of the call", |message| {
        message["params"]["update"]["status"] == "completed"
    });
    let content = &end["params"]["update"]["content"];
    assert_eq!(content[0]["content"]["text"], "seen");
    assert_eq!(editor.close(), Some(0));
}

#[test]
fn a_cancelled_prompt_ends_as_cancelled() {
    let scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let steps = json!([{ "say": "working" }, { "sleep_ms": 60_000 }]);
    let prompt = editor.prompt(&session, &steps);
    editor.update("agent_message_chunk");
    editor.notify("session/cancel", &json!({ "sessionId": session }));
    assert_eq!(editor.stop_reason(prompt), "cancelled");
}

#[test]
fn an_agent_that_cannot_start_is_the_answer_to_the_new_session() {
    let scene = Scene::begin(&[]);
    let mut editor = Editor::start_with(&scene, &["--command", "/nowhere/at/all"]);
    let params = json!({ "cwd": scene.folder(), "mcpServers": [] });
    let error = editor.error("session/new", &params);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("/nowhere/at/all"), "{message}");
}

#[test]
fn requests_that_do_not_fit_are_refused_and_the_next_is_served() {
    let scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let code = |error: Value| error["code"].as_i64().unwrap();
    assert_eq!(code(editor.error("session/unheard_of", &json!({}))), -32601);
    assert_eq!(code(editor.error("session/new", &json!({}))), -32602);
    let unknown = json!({ "sessionId": "agent-000000000000", "prompt": [] });
    assert_eq!(code(editor.error("session/prompt", &unknown)), -32002);
    let load = json!({ "sessionId": "agent-000000000000", "cwd": "/", "mcpServers": [] });
    assert_eq!(code(editor.error("session/load", &load)), -32002);
    let session = editor.open(&scene);
    let prompt = editor.prompt(&session, &json!([{ "say": "still here" }]));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
}

#[test]
fn without_a_host_the_editor_is_told_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let mut command = crate::host::command(home.path());
    command.args(["acp", "--agent", "claude"]);
    let mut editor = Editor::launch(command);
    let initialized = editor.initialize(&json!({}));
    assert_eq!(initialized["protocolVersion"], 1);
    let params = json!({ "cwd": "/", "mcpServers": [] });
    let error = editor.error("session/new", &params);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("`countersign up --detach`"), "{message}");
}

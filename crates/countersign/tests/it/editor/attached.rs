//! Agents that the editor did not start, editors that end, and two editors at once.

use serde_json::{Value, json};

use super::client::{Editor, scripted};
use crate::host::poll;
use crate::managed::PROGRAM;
use crate::scene::{Scene, asks, rested};
use crate::wire::Wire;

fn ask_steps() -> Value {
    json!([asks("c1", "make all", &json!([{ "say": "it ran" }]))])
}

#[tokio::test]
async fn an_agent_of_the_terminal_is_listed_loaded_and_prompted_in_the_editor() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let steps = json!([{ "say": "by hand" }]);
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    rested(&mut wire, &id).await;
    let mut editor = Editor::start(&scene);
    let listed = editor.ok("session/list", &json!({ "cwd": scene.folder() }));
    assert_eq!(listed["sessions"][0]["sessionId"], id);
    assert_eq!(listed["sessions"][0]["title"], "ann (idle)");
    let elsewhere = editor.ok("session/list", &json!({ "cwd": "/nowhere" }));
    assert_eq!(elsewhere["sessions"], json!([]));
    let id = id.as_str().unwrap();
    editor.load(&scene, id);
    assert!(editor.said("user_message_chunk").contains("by hand"));
    assert_eq!(editor.said("agent_message_chunk"), "by hand");
    let prompt = editor.prompt(id, &json!([{ "say": "from the editor" }]));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "from the editor");
    // What somebody else says to it appears as a message of the user.
    let params = json!({ "agent_id": id, "message": "hello from the terminal" });
    wire.ok("host.prompt_agent", params).await;
    let update = editor.update("user_message_chunk");
    assert_eq!(update["content"]["text"], "hello from the terminal");
    editor.update("agent_message_chunk");
}

#[tokio::test]
async fn a_session_is_resumed_closed_and_deleted() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let id = scene
        .spawn(&mut wire, "ann", &json!([{ "say": "old" }]))
        .await;
    rested(&mut wire, &id).await;
    let mut editor = Editor::start_with(&scene, &["--attach", "ann"]);
    let session = editor.open(&scene);
    assert_eq!(id, session.as_str(), "it is the agent that was named");
    assert_eq!(
        editor.ok("session/close", &json!({ "sessionId": session })),
        json!({})
    );
    let params = json!({ "sessionId": session, "cwd": scene.folder(), "mcpServers": [] });
    editor.ok("session/resume", &params);
    assert_eq!(
        editor.said("agent_message_chunk"),
        "",
        "nothing is replayed"
    );
    let prompt = editor.prompt(&session, &json!([{ "say": "new" }]));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "new");
    editor.ok("session/delete", &json!({ "sessionId": session }));
    let agent = wire.ok("host.agent", json!({ "agent_id": id })).await;
    assert_eq!(agent["managed"]["archived"], true);
    assert_eq!(editor.ok("session/list", &json!({}))["sessions"], json!([]));
}

#[tokio::test]
async fn an_editor_that_is_killed_leaves_its_agent_and_the_ask_to_the_next() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let mut first = Editor::start(&scene);
    let session = first.open(&scene);
    first.prompt(&session, &ask_steps());
    first.asked("session/request_permission");
    first.kill();
    let open = wire
        .ok("host.approvals", json!({ "status": "pending" }))
        .await;
    assert_eq!(open.as_array().unwrap().len(), 1, "{open}");
    let mut second = Editor::start(&scene);
    second.load(&scene, &session);
    let request = second.asked("session/request_permission");
    second.choose(&request, "allow-once");
    let update = second.update("agent_message_chunk");
    assert_eq!(update["content"]["text"], "it ran");
}

#[test]
fn two_editors_see_one_agent_and_the_first_answer_counts() {
    let scene = Scene::begin(&[]);
    let mut first = Editor::start(&scene);
    let session = first.open(&scene);
    let mut second = Editor::start(&scene);
    second.load(&scene, &session);
    let prompt = first.prompt(&session, &ask_steps());
    let asked = first.asked("session/request_permission");
    let shown = second.asked("session/request_permission");
    assert_eq!(asked["params"]["toolCall"], shown["params"]["toolCall"]);
    second.choose(&shown, "allow-once");
    let cancelled = first.told("$/cancel_request");
    assert_eq!(cancelled["params"]["requestId"], asked["id"]);
    assert_eq!(first.stop_reason(prompt), "end_turn");
    assert_eq!(first.said("agent_message_chunk"), "it ran");
    second.update("agent_message_chunk");
    let prompted = second.said("user_message_chunk");
    assert!(prompted.contains("make all"), "{prompted}");
    assert!(
        second
            .rest()
            .all(|message| message["method"] != "$/cancel_request")
    );
}

#[test]
fn two_sessions_of_one_editor_do_not_mix() {
    let scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let (one, other) = (editor.open(&scene), editor.open(&scene));
    assert_ne!(one, other);
    let asking = editor.prompt(&one, &ask_steps());
    let talking = editor.prompt(&other, &json!([{ "say": "beside it" }]));
    assert_eq!(editor.stop_reason(talking), "end_turn");
    let request = editor.asked("session/request_permission");
    assert_eq!(request["params"]["sessionId"], one.as_str());
    editor.choose(&request, "allow-once");
    assert_eq!(editor.stop_reason(asking), "end_turn");
    for (session, text) in [(&one, "it ran"), (&other, "beside it")] {
        let said = editor.take(text, |message| {
            message["params"]["update"]["content"]["text"] == text
        });
        assert_eq!(said["params"]["sessionId"], session.as_str());
    }
}

#[test]
fn modes_and_commands_of_the_agent_are_the_editors() {
    let scene = Scene::begin(&[]);
    let file = scene.folder().join("script.json");
    std::fs::write(&file, r#"{"modes": ["code", "plan"]}"#).unwrap();
    let [flag, line] = scripted(&scene);
    let line = format!("{line} --script '{}'", file.display());
    let mut editor = Editor::start_with(&scene, &[flag, &line]);
    let params = json!({ "cwd": scene.folder(), "mcpServers": [] });
    let opened = editor.ok("session/new", &params);
    assert_eq!(opened["modes"]["currentModeId"], "code");
    assert_eq!(opened["configOptions"][0]["options"][1]["value"], "plan");
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    let params = json!({ "sessionId": session, "modeId": "plan" });
    assert_eq!(editor.ok("session/set_mode", &params), json!({}));
    assert_eq!(
        editor.update("current_mode_update")["currentModeId"],
        "plan"
    );
    let commands = json!({ "sessionUpdate": "available_commands_update", "availableCommands": [
        { "name": "web", "description": "Search", "input": { "hint": "words" } }] });
    let prompt = editor.prompt(&session, &json!([{ "update": commands }]));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let update = editor.update("available_commands_update");
    assert_eq!(update["availableCommands"], commands["availableCommands"]);
}

#[tokio::test]
async fn an_agent_that_starts_it_is_that_agent_and_answers_nothing() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let asking = scene.spawn(&mut wire, "asking", &ask_steps()).await;
    let ask = poll_ask(&mut wire).await;
    let answer = |id: u32, option: &str| {
        json!({ "jsonrpc": "2.0", "id": id,
            "result": { "outcome": { "outcome": "selected", "optionId": option } } })
    };
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new",
            "params": { "cwd": scene.folder(), "mcpServers": [] } }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "session/load",
            "params": { "sessionId": asking, "cwd": scene.folder(), "mcpServers": [] } }),
    ];
    let file = scene.path("lines");
    let text = lines.map(|line| line.to_string()).join("\n");
    std::fs::write(&file, format!("{text}\n")).unwrap();
    let answers = [0, 1]
        .map(|id| answer(id, "allow-once").to_string())
        .join("\n");
    let late = scene.path("late");
    std::fs::write(&late, format!("{answers}\n")).unwrap();
    let home = scene.host.home().display();
    let run = format!(
        "(cat {file}; sleep 1; cat {late}; sleep 1) | COUNTERSIGN_HOME={home} {PROGRAM} acp --command 'touch {}'",
        scene.path("started")
    );
    let other = scene
        .spawn(&mut wire, "other", &json!([{ "run": run }]))
        .await;
    rested(&mut wire, &other).await;
    let said = crate::scene::told(&mut wire, &other).await;
    let errors = said
        .lines()
        .filter(|line| line.contains("\"error\""))
        .count();
    assert_eq!(errors, 2, "{said}");
    assert!(!said.contains("session/request_permission"), "{said}");
    assert!(!scene.folder().join("started").exists());
    let ask = wire
        .ok("host.approval", json!({ "approval_id": ask["id"] }))
        .await;
    assert_eq!(ask["state"], "pending");
}

async fn poll_ask(wire: &mut Wire) -> Value {
    loop {
        let mut open = wire
            .ok("host.approvals", json!({ "status": "pending" }))
            .await;
        if open[0].is_object() {
            return open[0].take();
        }
    }
}

#[test]
fn an_editor_that_closes_its_input_ends_it() {
    let scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    editor.prompt(&session, &json!([{ "sleep_ms": 60_000 }]));
    assert_eq!(editor.close(), Some(0));
    poll("the agent to live on", || {
        (!scene.processes().is_empty()).then_some(())
    });
}

#[test]
fn a_command_in_a_terminal_is_shown_in_a_window_of_the_editor() {
    let scene = Scene::begin(&[]);
    let [flag, line] = scripted(&scene);
    let mut command = crate::host::command(scene.host.home());
    command.args(["acp", flag, line]);
    let mut editor = Editor::launch(command);
    editor.initialize(&json!({ "terminal": true }));
    let session = editor.open(&scene);
    let run = "printf 'hello \\033]0;x\\007'; sleep 1; echo bye";
    let terminal = json!([{ "terminal": { "command": "sh", "args": ["-c", run] } }]);
    let prompt = editor.prompt(&session, &terminal);
    let request = editor.asked("session/request_permission");
    editor.choose(&request, "allow-once");
    let create = editor.asked("terminal/create");
    let params = &create["params"];
    let args: Vec<&str> = params["args"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(args, ["terminal", &format!("{session}/term-1")]);
    // What an editor does with it.
    let mut viewer = std::process::Command::new(params["command"].as_str().unwrap());
    viewer.args(&args);
    for variable in params["env"].as_array().unwrap() {
        viewer.env(
            variable["name"].as_str().unwrap(),
            variable["value"].as_str().unwrap(),
        );
    }
    let shown = viewer.output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert_eq!(text, "hello \\u{1b}]0;x\\u{7}bye\n");
    editor.answer(&create, &json!({ "terminalId": "window" }));
    let call = editor.take("the window", |message| {
        message["params"]["update"]["content"][0]["terminalId"] == "window"
    });
    assert_eq!(call["params"]["update"]["sessionUpdate"], "tool_call");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
}

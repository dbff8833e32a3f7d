//! Hosts that are killed or replaced while an editor works: it does not notice.

use serde_json::{Value, json};

use super::client::Editor;
use crate::scene::{Scene, asks};

fn ask_steps() -> Value {
    json!([asks("c1", "make all", &json!([{ "say": "it ran" }]))])
}

#[test]
fn a_request_that_is_open_when_the_host_is_killed_is_answered_to_the_next() {
    let mut scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let prompt = editor.prompt(&session, &ask_steps());
    let request = editor.asked("session/request_permission");
    scene.host.restart();
    editor.choose(&request, "allow-once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "it ran");
    let mut again = editor.rest().filter(|message| message.get("id").is_some());
    assert_eq!(again.next(), None, "it is asked once");
}

#[test]
fn a_host_that_is_replaced_in_mid_turn_is_not_noticed() {
    let mut scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let steps = json!([{ "say": "one " }, { "sleep_ms": 1500 }, { "say": "two " }, { "sleep_ms": 300 }, { "say": "three" }]);
    let prompt = editor.prompt(&session, &steps);
    let first = editor.update("agent_message_chunk");
    assert_eq!(first["content"]["text"], "one ");
    scene.host.replace();
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "two three");
}

#[test]
fn a_prompt_that_is_sent_while_no_host_runs_reaches_the_agent_once() {
    let mut scene = Scene::begin(&[]);
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    scene.host.kill();
    let effect = scene.adds("once");
    let prompt = editor.prompt(&session, &json!([{ "run": effect }, { "say": "done" }]));
    scene.host.start_again();
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(scene.effects(), ["once"]);
}

#[test]
fn a_host_that_is_killed_in_mid_load_costs_neither_a_line_nor_a_repetition() {
    let mut scene = Scene::begin(&[]);
    let mut first = Editor::start(&scene);
    let session = first.open(&scene);
    let mut expected = String::new();
    for turn in 0..3 {
        let mut steps = Vec::new();
        for line in 0..120 {
            let text = format!("{turn}.{line} ");
            expected.push_str(&text);
            steps.push(json!({ "say": text }));
            let call = format!("c{turn}-{line}");
            steps.push(json!({ "tool": { "call": call, "title": "Look", "ends": "completed" } }));
        }
        let prompt = first.prompt(&session, &json!(steps));
        assert_eq!(first.stop_reason(prompt), "end_turn");
    }
    drop(first);
    let mut editor = Editor::start(&scene);
    let params = json!({ "sessionId": session, "cwd": scene.folder(), "mcpServers": [] });
    let load = editor.request("session/load", &params);
    scene.host.restart();
    let loaded = editor.response(load);
    assert!(loaded.get("error").is_none(), "{loaded}");
    assert_eq!(editor.said("agent_message_chunk"), expected);
    let prompt = editor.prompt(&session, &json!([{ "say": "and on" }]));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.said("agent_message_chunk"), "and on");
}

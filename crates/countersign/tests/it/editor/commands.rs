//! Editors that do something for the host: run commands, and show questions.

use serde_json::{Value, json};

use super::client::{Editor, READING, scripted};
use crate::scene::Scene;
use crate::wire::Wire;

fn begin(terminals: &str) -> Scene {
    let home = tempfile::tempdir().unwrap();
    let config = format!("[editor]\nterminals = \"{terminals}\"\n");
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    Scene::begin_in(home, &[])
}

fn launch(scene: &Scene, capabilities: &Value) -> Editor {
    let [flag, line] = scripted(scene);
    let mut command = crate::host::command(scene.host.home());
    command.args(["acp", flag, line]);
    let mut editor = Editor::launch(command);
    editor.initialize(capabilities);
    editor
}

/// A new session, after a person agreed or did not. Gives the response.
async fn open_agreed(scene: &Scene, editor: &mut Editor, resolution: &str) -> Value {
    let mut wire = Wire::subscriber(&scene.host).await;
    let params = json!({ "cwd": scene.folder(), "mcpServers": [] });
    let new = editor.request("session/new", &params);
    let asked = wire.event_of("approval.requested").await;
    assert_eq!(asked["payload"]["tool"], "EditorTerminals", "{asked}");
    let params = json!({ "approval_id": asked["payload"]["id"], "resolution": resolution });
    wire.ok("host.resolve_approval", params).await;
    editor.response(new)
}

fn terminal_steps() -> Value {
    json!([{ "terminal": { "command": "sh", "args": ["-c", "echo hello"] } }])
}

#[tokio::test]
async fn a_command_runs_in_the_editor_after_a_person_agreed_and_the_gate_allowed_it() {
    let scene = begin("editor");
    let mut editor = launch(&scene, &json!({ "terminal": true }));
    let opened = open_agreed(&scene, &mut editor, "approve").await;
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    let prompt = editor.prompt(&session, &terminal_steps());
    let request = editor.asked("session/request_permission");
    let mut wire = Wire::operator(&scene.host).await;
    let open = wire
        .ok("host.approvals", json!({ "status": "pending" }))
        .await;
    assert_eq!(open[0]["sandbox"]["terminals"], "editor", "{open}");
    let agent = wire.ok("host.agent", json!({ "agent_id": session })).await;
    assert_eq!(agent["managed"]["sandbox"]["terminals"], "editor");
    let nothing_ran = editor
        .rest()
        .all(|line| line["method"] != "terminal/create");
    assert!(nothing_ran, "every command passes the gate first");
    editor.choose(&request, "allow-once");
    let create = editor.asked("terminal/create");
    let args = create["params"]["args"].to_string();
    assert!(args.contains("echo hello"), "{create}");
    editor.answer(&create, &json!({ "terminalId": "t1" }));
    let wait = editor.asked("terminal/wait_for_exit");
    assert_eq!(wait["params"]["terminalId"], "t1");
    editor.answer(
        &wait,
        &json!({ "exitCode": 5_000_000_000_u64, "signal": null }),
    );
    let output = editor.asked("terminal/output");
    let exit = json!({ "exitCode": 0, "signal": null });
    let said = json!({ "output": "hello\n", "truncated": false, "exitStatus": exit });
    editor.answer(&output, &said);
    // Read once more for people who look at it after its release.
    let again = editor.asked("terminal/output");
    editor.answer(&again, &said);
    let release = editor.asked("terminal/release");
    editor.answer(&release, &json!({}));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let said = editor.said("agent_message_chunk");
    assert!(said.contains("hello") && said.contains("-1"), "{said}");
}

#[tokio::test]
async fn without_a_yes_no_agent_starts() {
    let scene = begin("editor");
    let mut editor = launch(&scene, &json!({ "terminal": true }));
    let refused = open_agreed(&scene, &mut editor, "deny").await;
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("a person has to agree first"), "{message}");
    assert!(scene.processes().is_empty());
    // Nor by a spawn that names no ask, or one that it made up.
    let mut wire = Wire::operator(&scene.host).await;
    let params = json!({ "command": ["true"], "cwd": scene.folder(), "terminals": "editor" });
    wire.no("host.spawn_agent", params.clone()).await;
    let mut named = params;
    named["allowed_by"] = json!("made-up");
    wire.no("host.spawn_agent", named).await;
}

#[test]
fn an_editor_without_terminals_cannot_be_set_to_run_commands() {
    let scene = begin("editor");
    let mut editor = launch(&scene, &json!({}));
    let params = json!({ "cwd": scene.folder(), "mcpServers": [] });
    let error = editor.error("session/new", &params);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("has no terminals")
    );
}

#[tokio::test]
async fn an_editor_that_is_killed_leaves_its_command_as_killed() {
    let scene = begin("editor");
    let mut editor = launch(&scene, &json!({ "terminal": true }));
    let opened = open_agreed(&scene, &mut editor, "approve").await;
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    editor.prompt(&session, &terminal_steps());
    let request = editor.asked("session/request_permission");
    editor.choose(&request, "allow-once");
    let create = editor.asked("terminal/create");
    editor.answer(&create, &json!({ "terminalId": "t1" }));
    editor.asked("terminal/wait_for_exit");
    let mut wire = Wire::subscriber(&scene.host).await;
    editor.kill();
    wire.event_of("turn.ended").await;
    let params = json!({ "agent_id": session });
    let transcript = wire.ok("host.transcript", params).await.to_string();
    assert!(transcript.contains("SIGKILL"), "{transcript}");
}

#[test]
fn with_terminals_none_no_command_runs() {
    let scene = begin("none");
    let mut editor = launch(&scene, &json!({ "terminal": true }));
    let session = editor.open(&scene);
    let prompt = editor.prompt(&session, &terminal_steps());
    let request = editor.asked("session/request_permission");
    editor.choose(&request, "allow-once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let said = editor.said("agent_message_chunk");
    assert!(said.contains("without terminals"), "{said}");
}

async fn ask_question(scene: &Scene, session: &str) -> (Wire, Value) {
    let mut wire = Wire::subscriber(&scene.host).await;
    let params = json!({ "agent_id": session, "question": "Which port?" });
    let question = wire.ok("host.ask_question", params).await;
    (wire, question)
}

#[tokio::test]
async fn a_question_is_a_form_where_the_editor_has_forms_and_its_answer_counts() {
    let scene = Scene::begin(&[]);
    let mut editor = launch(&scene, &json!({ "elicitation": { "form": {} } }));
    let session = editor.open(&scene);
    let (mut wire, question) = ask_question(&scene, &session).await;
    let form = editor.asked("elicitation/create");
    assert_eq!(form["params"]["message"], "Which port?");
    let answer = json!({ "action": "accept", "content": { "answer": "8080" } });
    std::thread::sleep(READING);
    editor.answer(&form, &answer);
    wire.event_of("question.ended").await;
    let params = json!({ "question_id": question["id"] });
    let row = wire.ok("host.question", params).await;
    assert_eq!(row["answer"], "8080", "{row}");
}

#[tokio::test]
async fn a_question_that_the_editor_answers_by_itself_stays_open() {
    let scene = Scene::begin(&[]);
    let mut editor = launch(&scene, &json!({ "elicitation": { "form": {} } }));
    let session = editor.open(&scene);
    let (mut wire, question) = ask_question(&scene, &session).await;
    let form = editor.asked("elicitation/create");
    let answer = json!({ "action": "accept", "content": { "answer": "8080" } });
    editor.answer(&form, &answer);
    let recorded = wire.event_of("editor.answer_refused").await;
    assert_eq!(recorded["agent_id"], session.as_str());
    let params = json!({ "question_id": question["id"] });
    let row = wire.ok("host.question", params).await;
    assert_eq!(row["state"], "pending", "{row}");
    let note = editor.take("why it did not count", |line| {
        line.to_string().contains("The question is still open")
    });
    assert!(note.to_string().contains("countersign answer"), "{note}");
}

#[tokio::test]
async fn a_question_is_a_note_with_the_command_that_answers_where_there_are_no_forms() {
    let scene = Scene::begin(&[]);
    let mut editor = launch(&scene, &json!({}));
    let session = editor.open(&scene);
    let _asked = ask_question(&scene, &session).await;
    let note = editor.take("the question", |line| {
        line.to_string().contains("Which port?")
    });
    assert!(note.to_string().contains("countersign answer"), "{note}");
}

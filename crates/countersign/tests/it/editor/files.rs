//! Files as the editor has them: an agent that reads through the host gets what was not saved, after the gate and
//! only where the disk has the file. An editor that is lost, slow or wrong changes nothing about that.

use serde_json::{Value, json};

use super::client::{Editor, scripted};
use crate::scene::{Scene, told};
use crate::wire::Wire;

const ON_DISK: &str = "saved\n";

/// With a rule that lets agents read what is in their folder, and a file there.
fn begin() -> Scene {
    let scene =
        Scene::begin_with_rules("allow = [\"Read(./**)\"]\ndeny = [\"Read(./secret/**)\"]\n");
    std::fs::write(scene.folder().join("open.txt"), ON_DISK).unwrap();
    scene
}

/// An editor that gives files.
fn launch(scene: &Scene) -> Editor {
    let [flag, line] = scripted(scene);
    let mut command = crate::host::command(scene.host.home());
    command.args(["acp", flag, line]);
    let mut editor = Editor::launch(command);
    editor.initialize(&json!({ "fs": { "readTextFile": true } }));
    editor
}

fn read_steps(scene: &Scene, name: &str) -> Value {
    json!([{ "read": { "path": scene.path(name) } }])
}

/// Has the agent read a file, and gives the editor's request and the id of the prompt.
fn request_for(scene: &Scene, editor: &mut Editor, session: &str, name: &str) -> (Value, u64) {
    let prompt = editor.prompt(session, &read_steps(scene, name));
    (editor.asked("fs/read_text_file"), prompt)
}

/// What the agent got, and that the editor was not asked for anything more.
fn result_of(editor: &mut Editor, prompt: u64) -> String {
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let asked = editor
        .rest()
        .find(|line| line["method"] == "fs/read_text_file");
    assert_eq!(asked, None);
    editor.said("agent_message_chunk")
}

/// What the scripted agent says about a file with this text.
fn content(text: &str) -> String {
    format!("fs/read_text_file: {}", json!({ "content": text }))
}

#[test]
fn an_agent_sees_what_was_not_saved() {
    let scene = begin();
    let mut editor = launch(&scene);
    let session = editor.open(&scene);
    let (request, prompt) = request_for(&scene, &mut editor, &session, "open.txt");
    let expected = json!({ "sessionId": session, "path": scene.path("open.txt") });
    assert_eq!(request["params"], expected);
    editor.answer(&request, &json!({ "content": "not saved yet\n" }));
    assert_eq!(result_of(&mut editor, prompt), content("not saved yet\n"));
    let saved = std::fs::read_to_string(scene.folder().join("open.txt")).unwrap();
    assert_eq!(saved, ON_DISK);
}

#[test]
fn an_editor_that_does_not_have_the_file_leaves_it_to_the_disk() {
    let scene = begin();
    let mut editor = launch(&scene);
    let session = editor.open(&scene);
    let (request, prompt) = request_for(&scene, &mut editor, &session, "open.txt");
    let error = json!({ "code": -32002, "message": "no such buffer" });
    editor.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }));
    assert_eq!(result_of(&mut editor, prompt), content(ON_DISK));
}

#[test]
fn an_editor_without_files_is_not_asked_for_any() {
    let scene = begin();
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let prompt = editor.prompt(&session, &read_steps(&scene, "open.txt"));
    assert_eq!(result_of(&mut editor, prompt), content(ON_DISK));
}

#[test]
fn an_answer_that_is_wrong_or_too_large_is_not_used() {
    let scene = begin();
    let mut editor = launch(&scene);
    let session = editor.open(&scene);
    for wrong in [
        json!({ "content": 7 }),
        json!({ "text": "something else" }),
        json!("text"),
        Value::Null,
        json!({ "content": "x".repeat(9 * 1024 * 1024) }),
    ] {
        let (request, prompt) = request_for(&scene, &mut editor, &session, "open.txt");
        editor.answer(&request, &wrong);
        assert_eq!(result_of(&mut editor, prompt), content(ON_DISK));
    }
}

#[test]
fn a_slow_editor_delays_an_agent_for_a_moment_and_then_the_disk_counts() {
    let scene = begin();
    let mut editor = launch(&scene);
    let session = editor.open(&scene);
    let (request, prompt) = request_for(&scene, &mut editor, &session, "open.txt");
    assert_eq!(result_of(&mut editor, prompt), content(ON_DISK));
    // Its late answer is for nobody, and not for the next request.
    editor.answer(&request, &json!({ "content": "late" }));
    let (request, prompt) = request_for(&scene, &mut editor, &session, "open.txt");
    editor.answer(&request, &json!({ "content": "in time" }));
    assert_eq!(result_of(&mut editor, prompt), content("in time"));
}

#[tokio::test]
async fn an_editor_that_is_killed_leaves_the_file_on_the_disk() {
    let scene = begin();
    let mut wire = Wire::subscriber(&scene.host).await;
    let mut editor = launch(&scene);
    let session = editor.open(&scene);
    request_for(&scene, &mut editor, &session, "open.txt");
    editor.kill();
    wire.event_of("turn.ended").await;
    assert_eq!(told(&mut wire, &json!(session)).await, content(ON_DISK));
}

#[test]
fn a_path_is_judged_before_the_editor_hears_of_it() {
    let scene = Scene::begin(&[]);
    std::fs::write(scene.folder().join("open.txt"), ON_DISK).unwrap();
    let mut editor = launch(&scene);
    let session = editor.open(&scene);
    for (option, answered) in [("deny", false), ("allow-once", true)] {
        let prompt = editor.prompt(&session, &read_steps(&scene, "open.txt"));
        let ask = editor.asked("session/request_permission");
        assert_eq!(ask["params"]["toolCall"]["kind"], "read", "{ask}");
        let asked = editor
            .rest()
            .find(|line| line["method"] == "fs/read_text_file");
        assert_eq!(asked, None, "nobody agreed yet");
        editor.choose(&ask, option);
        if answered {
            let request = editor.asked("fs/read_text_file");
            editor.answer(&request, &json!({ "content": "not saved" }));
        }
        let said = result_of(&mut editor, prompt);
        assert_eq!(said == content("not saved"), answered, "{said}");
        assert_eq!(
            said.contains("fs/read_text_file failed"),
            !answered,
            "{said}"
        );
    }
}

#[test]
fn what_is_denied_on_the_disk_is_denied_in_the_editor() {
    let scene = begin();
    let folder = scene.folder();
    std::fs::create_dir(folder.join("secret")).unwrap();
    std::fs::write(folder.join("secret/key"), "key").unwrap();
    std::os::unix::fs::symlink(folder.join("secret/key"), folder.join("link")).unwrap();
    let mut editor = launch(&scene);
    let session = editor.open(&scene);
    // By its name, by a link to it, and a buffer that was never saved.
    for name in ["secret/key", "link", "secret/../secret/key", "new.txt"] {
        let prompt = editor.prompt(&session, &read_steps(&scene, name));
        let said = result_of(&mut editor, prompt);
        assert!(said.contains("fs/read_text_file failed"), "{name}: {said}");
    }
}

#[tokio::test]
async fn an_agent_of_the_terminal_gets_the_text_of_the_editor_that_opened_it() {
    let scene = begin();
    let mut wire = Wire::operator(&scene.host).await;
    let id = scene
        .spawn(&mut wire, "ann", &json!([{ "say": "hi" }]))
        .await;
    crate::scene::rested(&mut wire, &id).await;
    let mut editor = launch(&scene);
    editor.load(&scene, id.as_str().unwrap());
    editor.said("agent_message_chunk");
    let session = id.as_str().unwrap();
    let (request, prompt) = request_for(&scene, &mut editor, session, "open.txt");
    editor.answer(&request, &json!({ "content": "not saved" }));
    assert_eq!(result_of(&mut editor, prompt), content("not saved"));
}

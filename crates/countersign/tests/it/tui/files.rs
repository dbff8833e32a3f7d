//! Files of an agent on the screen: read, edited, changed outside, followed; and notes that survive the screen.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::tmux::{TmuxScreen, poll};
use crate::host::Host;
use crate::scene::Scene;
use crate::wire::Wire;

/// A screen on an agent whose folder has some files.
async fn open_files(scene: &Scene, wire: &mut Wire) -> TmuxScreen {
    fs::create_dir(scene.path("src")).unwrap();
    fs::write(scene.path("src/lib.rs"), "fn main() {}\n").unwrap();
    fs::write(scene.path("zz.txt"), "first line\n").unwrap();
    scene.spawn(wire, "ann", &json!([])).await;
    let screen = TmuxScreen::open(&scene.host, 100, 30, &[]);
    screen.wait_for("live");
    screen.press(&["g", "a"]);
    screen.wait_for("ann");
    screen.press(&["O"]);
    screen.wait_for("Files of ann");
    screen.wait_for("+ src/");
    screen
}

fn read(scene: &Scene, name: &str) -> String {
    fs::read_to_string(scene.path(name)).unwrap()
}

#[tokio::test]
async fn a_file_is_found_read_edited_and_saved() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let screen = open_files(&scene, &mut wire).await;
    screen.press(&["/"]);
    screen.wait_for("filter:");
    screen.type_text("src");
    screen.press(&["Enter"]);
    screen.wait_for("with src");
    screen.press(&["Enter"]);
    screen.wait_for("lib.rs");
    screen.press(&["j", "Enter"]);
    screen.wait_for("1 fn main() {}");
    screen.press(&["e"]);
    screen.wait_for("i writes, Ctrl-s saves");
    screen.press(&["i"]);
    screen.wait_for("writing");
    screen.type_text("// dy");
    screen.press(&["Enter", "C-s"]);
    screen.wait_for("saved src/lib.rs");
    assert_eq!(read(&scene, "src/lib.rs"), "// dy\nfn main() {}\n");
    // By some of its letters in the palette.
    screen.press(&["Escape"]);
    screen.wait_for("i writes, Ctrl-s saves");
    screen.press(&["C-g", "f"]);
    screen.wait_for("file src/lib.rs");
    screen.type_text("zztx");
    screen.wait_for("file zz.txt");
    screen.press(&["Enter"]);
    screen.wait_for("1 first line");
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_file_that_was_changed_outside_is_not_overwritten() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let screen = open_files(&scene, &mut wire).await;
    screen.press(&["G", "e"]);
    screen.wait_for("i writes, Ctrl-s saves");
    screen.press(&["i"]);
    screen.wait_for("writing");
    screen.type_text("mine ");
    screen.wait_for("mine first line");
    fs::write(scene.path("zz.txt"), "theirs\n").unwrap();
    screen.press(&["C-s"]);
    screen.wait_for("CHANGED OUTSIDE");
    assert_eq!(read(&scene, "zz.txt"), "theirs\n");
    screen.press(&["Escape"]);
    screen.wait_for("the text is kept");
    screen.press(&["o"]);
    screen.wait_for("this is what is there now");
    screen.wait_for("theirs");
    screen.press(&["o"]);
    screen.wait_for("mine first line");
    screen.press(&["C-s"]);
    screen.wait_for("saved zz.txt");
    assert_eq!(read(&scene, "zz.txt"), "mine first line\n");
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn the_end_of_a_file_is_followed() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let screen = open_files(&scene, &mut wire).await;
    screen.press(&["G", "t"]);
    screen.wait_for("following the end");
    screen.wait_for("first line");
    fs::write(scene.path("zz.txt"), "first line\nappended\n").unwrap();
    screen.wait_for("appended");
    scene.end_all(&mut wire).await;
}

/// The notes of this process's folder.
fn notes(host: &Host) -> Option<PathBuf> {
    let folder = host.home().join("tui/notes");
    let found = fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()));
    found
        .into_iter()
        .find(|path| path.extension().is_some_and(|ending| ending == "md"))
}

#[tokio::test]
async fn notes_survive_a_screen_that_is_killed_and_one_that_is_left() {
    let host = Host::start();
    let screen = TmuxScreen::open(&host, 100, 30, &[]);
    screen.wait_for("live");
    screen.press(&["g", "n"]);
    screen.wait_for("i writes; what you write is saved");
    screen.press(&["i"]);
    screen.type_text("ask Ada");
    poll("the notes to be saved", || {
        (fs::read_to_string(notes(&host)?).ok()? == "ask Ada").then_some(())
    });
    // The server of the terminal is killed, and the screen with it, while it writes.
    drop(screen);
    let screen = TmuxScreen::open(&host, 100, 30, &[]);
    screen.wait_for("live");
    screen.press(&["g", "n"]);
    screen.wait_for("ask Ada");
    screen.press(&["G", "i"]);
    screen.type_text(" today");
    screen.press(&["Escape"]);
    screen.wait_for("i write  ");
    screen.press(&["q"]);
    screen.wait_for("Inbox");
    screen.press(&["q"]);
    screen.wait_for_end();
    assert_eq!(
        fs::read_to_string(notes(&host).unwrap()).unwrap(),
        "ask Ada today"
    );
}

#[tokio::test]
async fn a_full_disk_is_said_and_leaves_the_file_as_it_was() {
    // 768 kB: enough for a young record, and too little for the file.
    let host = Host::start_bounded(1_536);
    let mut wire = Wire::operator(&host).await;
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().canonicalize().unwrap();
    fs::write(folder.join("a"), "old").unwrap();
    let spawn = json!({ "name": "ann", "command": ["/bin/true"], "cwd": folder });
    let agent = wire.ok("host.spawn_agent", spawn).await["id"].take();
    let digest = wire
        .ok("host.file", json!({ "agent_id": agent, "path": "a" }))
        .await["digest"]
        .take();
    let save = json!({ "agent_id": agent, "path": "a", "content": "x".repeat(900_000), "if_digest": digest });
    let error = wire.no("host.write_file", save).await;
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("could not write") && message.contains("File too large"),
        "{message}"
    );
    assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "old");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

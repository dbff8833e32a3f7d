//! The terminal UI as it is: the built binary in a real terminal, with keys typed into it.

mod files;
mod own_terminals;
pub(crate) mod tmux;

use serde_json::{Value, json};

use crate::host::Host;
use crate::managed_terminals;
use crate::scene::Scene;
use crate::wire::Wire;

use tmux::{TmuxScreen, poll};

async fn ask(wire: &mut Wire, command: &str) -> Value {
    let params = json!({
        "action": command, "tool": "Bash", "input": { "command": command }, "system_level": true,
        "timeout_ms": 600_000,
    });
    wire.ok("host.request_approval", params).await["id"].take()
}

async fn state_of(wire: &mut Wire, id: &Value) -> Value {
    wire.ok("host.approval", json!({ "approval_id": id })).await
}

/// Waits until an ask has ended.
async fn ended(wire: &mut Wire, id: &Value) -> Value {
    let params = json!({ "approval_id": id, "timeout_ms": 60_000 });
    wire.ok("host.wait_approval", params).await
}

#[tokio::test]
async fn an_ask_is_approved_by_two_keys_and_another_denied_with_words() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let first = ask(&mut wire, "cargo test").await;
    let second = ask(&mut wire, "git push").await;
    let screen = TmuxScreen::open(&host, 100, 30, &[]);
    screen.wait_for("Bash: cargo test");
    screen.press(&["Enter"]);
    screen.approve();
    let row = ended(&mut wire, &first).await;
    assert_eq!(
        (&row["state"], &row["door"]),
        (&json!("allowed"), &json!("socket")),
        "{row}"
    );
    screen.wait_for("git push");
    screen.press_until("m", "and say:");
    screen.type_text("not on Fridays");
    screen.press(&["Enter"]);
    let row = ended(&mut wire, &second).await;
    assert_eq!(
        (&row["state"], &row["message"]),
        (&json!("denied"), &json!("not on Fridays")),
        "{row}"
    );
    screen.wait_for("inbox empty");
    screen.press(&["q", "q"]);
    screen.wait_for_end();
}

#[tokio::test]
async fn a_host_killed_in_the_middle_of_an_answer_is_found_again_and_nothing_is_sent_twice() {
    let mut host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = ask(&mut wire, "cargo test").await;
    let screen = TmuxScreen::open(&host, 100, 30, &[]);
    screen.wait_for("Bash: cargo test");
    screen.press(&["Enter"]);
    screen.press_until("a", "allow once?");
    host.kill();
    screen.press(&["y"]);
    screen.wait_for("HOST LOST");
    host.start_again();
    screen.wait_for("live");
    let mut wire = Wire::operator(&host).await;
    assert_eq!(state_of(&mut wire, &id).await["state"], "pending");
    screen.approve();
    assert_eq!(ended(&mut wire, &id).await["state"], "allowed");
}

#[tokio::test]
async fn of_two_screens_one_decides_and_the_other_is_told() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = ask(&mut wire, "cargo test").await;
    let one = TmuxScreen::open(&host, 100, 30, &[]);
    let other = TmuxScreen::open(&host, 100, 30, &[]);
    for screen in [&one, &other] {
        screen.wait_for("Bash: cargo test");
        screen.press(&["Enter"]);
        screen.press_until("a", "allow once?");
    }
    one.press_until("y", "allowed");
    assert_eq!(ended(&mut wire, &id).await["state"], "allowed");
    other.wait_for("this ended: allowed");
    other.press(&["y", "d"]);
    other.wait_for("it has ended");
}

#[tokio::test]
async fn a_megabyte_pasted_over_an_ask_decides_nothing() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = ask(&mut wire, "cargo test").await;
    let screen = TmuxScreen::open(&host, 100, 30, &[]);
    screen.wait_for("Bash: cargo test");
    screen.press(&["Enter"]);
    screen.press_until("a", "allow once?");
    screen.paste(&"y\nd\n".repeat(250_000));
    screen.wait_for("pasted text is ignored here");
    assert_eq!(state_of(&mut wire, &id).await["state"], "pending");
    // The screen is alive, and the ask can still be decided by keys.
    screen.approve();
    assert_eq!(ended(&mut wire, &id).await["state"], "allowed");
}

#[tokio::test]
async fn a_storm_of_sizes_leaves_a_screen_that_works() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = ask(&mut wire, &["true"; 10].join("\n")).await;
    let screen = TmuxScreen::open(&host, 120, 40, &[]);
    screen.wait_for("all of it");
    for size in 0..40_u16 {
        screen.resize(30 + size * 3, 6 + size);
    }
    screen.resize(60, 16);
    screen.wait_for("countersign  1 ask");
    screen.press(&["g", "s"]);
    screen.wait_for("more below: PgDn");
    screen.press_until("a", "read it to the end first");
    assert_eq!(state_of(&mut wire, &id).await["state"], "pending");
    screen.resize(120, 40);
    screen.wait_for("all of it");
    screen.approve();
    assert_eq!(ended(&mut wire, &id).await["state"], "allowed");
}

#[tokio::test]
async fn plain_lines_say_each_ask_once_and_take_words() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = ask(&mut wire, "cargo test").await;
    let screen = TmuxScreen::open(&host, 100, 30, &["tui", "--plain"]);
    screen.wait_for("Bash: cargo test");
    screen.type_line_until("show", "command: cargo test");
    // The rest of the ask may still be on its way, and without it nothing can be approved.
    while screen.find(&["say show again", "folded: "]) == 0 {
        screen.type_text("show");
        screen.press(&["Enter"]);
    }
    let shown = screen.capture();
    assert_eq!(shown.matches(" from script").count(), 1, "{shown}");
    screen.type_line_until("approve", "allow it once? say yes or no");
    poll("the second word to count", || {
        screen.type_text("yes");
        screen.press(&["Enter"]);
        (screen.find(&["allowed (approve) by", "pressed too soon"]) == 0).then_some(())
    });
    assert_eq!(ended(&mut wire, &id).await["state"], "allowed");
    // Its line may be above the screen by now, but it was not said again.
    let shown = screen.capture();
    assert!(shown.matches(" from script").count() <= 1, "{shown}");
}

#[tokio::test]
async fn the_terminal_is_given_back_when_the_screen_ends() {
    let host = Host::start();
    let screen = TmuxScreen::open_in_shell(&host, 100, 30);
    screen.type_text("echo before; countersign; echo \"after $?\"");
    screen.press(&["Enter"]);
    screen.wait_for("inbox empty");
    screen.press(&["q"]);
    screen.wait_for("after 0");
    let shown = screen.capture();
    assert!(shown.contains("before"), "{shown}");
    assert!(!shown.contains("inbox empty"), "{shown}");
}

#[test]
fn the_picture_in_the_readme_is_what_this_build_draws() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let home = tempfile::tempdir().unwrap();
    let log = root.join("docs/recordings/home.jsonl");
    let drawn = crate::host::command(home.path())
        .args(["tui", "--size", "100x22", "--replay"])
        .arg(log)
        .output()
        .unwrap();
    assert!(drawn.status.success(), "{drawn:?}");
    let picture = String::from_utf8(drawn.stdout).unwrap();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    assert!(
        readme.contains(&format!("```\n{picture}```\n")),
        "{picture}"
    );
}

#[tokio::test]
async fn what_the_command_of_an_agent_prints_is_read_in_a_panel() {
    let scene = Scene::begin_with_rules("allow = [\"Bash\"]\n");
    let mut wire = Wire::subscriber(&scene.host).await;
    let command = "printf 'first\\nsecond \\033[1mbold\\033]0;title\\007\\n'; exit 7";
    let steps = json!([{ "terminal": { "command": command } }]);
    managed_terminals::play(&scene, &mut wire, &steps).await;
    let screen = TmuxScreen::open(&scene.host, 100, 30, &[]);
    screen.wait_for("live");
    screen.press(&["g", "a"]);
    screen.wait_for("ann");
    screen.press_until("T", "Terminals of ann");
    screen.wait_for("1 of 1  exit 7");
    screen.wait_for("second bold");
    scene.end_all(&mut wire).await;
}

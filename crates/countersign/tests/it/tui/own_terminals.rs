//! A person's own terminal in a panel of the screen.

use serde_json::json;

use crate::host::Host;
use crate::wire::Wire;

use super::tmux::{TmuxScreen, poll};
use super::{ask, state_of};

/// A host whose user has a shell without settings of its own.
fn host() -> Host {
    Host::start_with(&[("SHELL", "/bin/sh"), ("PS1", "prompt$ "), ("ENV", "")])
}

/// The screen with a terminal that has the focus.
fn open(host: &Host) -> TmuxScreen {
    let screen = TmuxScreen::open(host, 100, 30, &[]);
    screen.wait_for("live");
    screen.press(&["C-g", "o"]);
    screen.wait_for("prompt$");
    screen
}

fn run(screen: &TmuxScreen, line: &str) {
    screen.type_text(line);
    screen.press(&["Enter"]);
}

async fn close_all(host: &Host) {
    let mut wire = Wire::operator(host).await;
    let rows = wire.ok("host.own_terminals", json!({})).await;
    for row in rows.as_array().unwrap() {
        let params = json!({ "terminal_id": row["id"] });
        wire.ok("host.close_terminal", params).await;
    }
}

#[tokio::test]
async fn vi_edits_a_file_in_a_panel() {
    let host = host();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text");
    std::fs::write(&file, "one\ntwo\n").unwrap();
    let screen = open(&host);
    run(&screen, &format!("vi -u NONE {}", file.display()));
    screen.wait_for("two");
    // A key of the cursor, in the mode that vi asked for. Not after Escape: what begins with Escape as
    // well is another key if both are read at once.
    screen.press(&["G", "Up", "d", "d", "o"]);
    screen.type_text("three");
    screen.press(&["Escape"]);
    screen.type_text(":wq");
    screen.press(&["Enter"]);
    poll("vi to write", || {
        let text = std::fs::read_to_string(&file).unwrap();
        (text == "two\nthree\n").then_some(())
    });
    run(&screen, "echo ba\"\"ck");
    screen.wait_for("back");
    close_all(&host).await;
}

#[tokio::test]
async fn a_terminal_is_there_again_after_the_host_and_the_screen_were_killed() {
    let mut host = host();
    let screen = open(&host);
    run(&screen, "kept=value; echo fi\"\"rst");
    screen.wait_for("first");
    host.kill();
    screen.wait_for("HOST LOST");
    host.start_again();
    screen.wait_for("live");
    run(&screen, "echo \"again-$kept\"");
    screen.wait_for("again-value");
    drop(screen);
    let screen = TmuxScreen::open(&host, 90, 28, &[]);
    screen.wait_for("live");
    screen.press(&["g", "x"]);
    screen.wait_for("again-value");
    run(&screen, "echo \"size-$(stty size)-$kept\"");
    screen.wait_for(" 90-value");
    let shown = screen.capture();
    assert!(shown.contains("first"), "{shown}");
    // Closing takes a second key.
    screen.press(&["C-g", "x"]);
    screen.wait_for("close this terminal");
    screen.press_until("y", "no terminal is open");
}

#[tokio::test]
async fn all_keys_but_one_are_the_programs() {
    let host = host();
    let screen = open(&host);
    run(&screen, "stty -echo; echo re\"\"ady; cat -v");
    // Before, the terminal itself would show what is typed.
    screen.wait_for("ready");
    screen.press(&["C-g", "C-g"]);
    run(&screen, "q:?w");
    screen.wait_for("^Gq:?w");
    screen.press(&["C-c"]);
    run(&screen, "stty echo; echo st\"\"ill");
    screen.wait_for("still");
    screen.press(&["C-g", ":"]);
    screen.wait_for("Esc closes");
    screen.press(&["Escape"]);
    // Right after it, a letter would make another key of both.
    screen.wait_for("keys go to the terminal");
    run(&screen, "for i in $(seq 100); do echo \"line-$i-\"; done");
    screen.wait_for("line-100-");
    screen.press(&["C-g", "PageUp"]);
    screen.wait_for("lines back");
    screen.press(&["PageUp"]);
    screen.wait_for("line-50-");
    run(&screen, "echo to-the-e\"\"nd");
    screen.wait_for("to-the-end");
    close_all(&host).await;
}

#[tokio::test]
async fn an_ask_that_comes_while_somebody_types_takes_nothing() {
    let host = host();
    let mut wire = Wire::operator(&host).await;
    let screen = open(&host);
    screen.type_text("echo a");
    let id = ask(&mut wire, "git push").await;
    screen.wait_for("1 ask");
    screen.type_text("aydyassy");
    screen.press(&["Enter"]);
    poll("the line to be printed", || {
        let shown = screen.capture();
        (shown.matches("aaydyassy").count() >= 2).then_some(())
    });
    assert_eq!(state_of(&mut wire, &id).await["state"], "pending");
    close_all(&host).await;
}

#[tokio::test]
async fn a_megabyte_is_pasted_into_a_terminal() {
    let host = host();
    let screen = open(&host);
    run(
        &screen,
        "stty raw -echo; echo re\"\"ady; head -c 1000000 | wc -c; stty sane",
    );
    screen.wait_for("ready");
    screen.paste(&"x".repeat(1_000_000));
    screen.wait_for("1000000");
    close_all(&host).await;
}

//! `countersign shell` on the real binary: a person's own terminals, from any other terminal.

use std::process::Output;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::host::{Host, command};
use crate::tui::tmux::TmuxScreen;
use crate::wire::Wire;

/// A host whose user has a shell without settings of its own.
fn host() -> Host {
    Host::start_with(&[("SHELL", "/bin/sh"), ("PS1", "prompt$ "), ("ENV", "")])
}

fn run(host: &Host, args: &[&str]) -> Output {
    let words = [&["shell"], args].concat();
    command(host.home()).args(words).output().unwrap()
}

/// What a command that succeeds prints.
fn printed(host: &Host, args: &[&str]) -> String {
    let output = run(host, args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Opens one in `/tmp`, and gives its id.
fn open(host: &Host, args: &[&str]) -> String {
    let words = [&["open", "--cwd", "/tmp"], args].concat();
    printed(host, &words).trim_end().to_owned()
}

fn rows(host: &Host) -> Vec<Value> {
    let listed: Value = serde_json::from_str(&printed(host, &["list", "--json"])).unwrap();
    listed["terminals"].as_array().unwrap().clone()
}

fn attach(host: &Host, id: &str) -> TmuxScreen {
    let screen = TmuxScreen::open(host, 90, 20, &["shell", "attach", id]);
    screen.wait_for("prompt$");
    screen
}

fn type_line(screen: &TmuxScreen, line: &str) {
    screen.type_text(line);
    screen.press(&["Enter"]);
}

fn close_all(host: &Host) {
    for row in rows(host) {
        printed(host, &["close", row["id"].as_str().unwrap()]);
    }
}

#[test]
fn a_terminal_is_opened_listed_and_closed_by_the_beginning_of_its_id() {
    let host = host();
    let nothing = run(&host, &["list"]);
    let said = String::from_utf8(nothing.stderr).unwrap();
    assert_eq!(
        said,
        "no terminals; open one with `countersign shell open`\n"
    );
    let id = open(&host, &["--", "sleep", "1000"]);
    let listed = rows(&host);
    let row = &listed[0];
    assert_eq!(
        (listed.len(), &row["id"], &row["cwd"], &row["command"]),
        (1, &json!(id), &json!("/tmp"), &json!("sleep 1000")),
        "{listed:?}"
    );
    let table = printed(&host, &["list"]);
    assert!(
        table.contains("running") && table.contains("sleep 1000"),
        "{table}"
    );
    let unknown = run(&host, &["close", "zzzz"]);
    assert_eq!(unknown.status.code(), Some(11), "{unknown:?}");
    assert_eq!(
        printed(&host, &["close", &id[..6]]),
        format!("closed {id}\n")
    );
    assert_eq!(rows(&host), Vec::<Value>::new());
}

#[test]
fn attaching_needs_a_terminal_and_opens_nothing_without_one() {
    let host = host();
    for args in [&["open", "--attach"][..], &["attach", "x"]] {
        let refused = run(&host, args);
        assert_ne!(refused.status.code(), Some(0), "{refused:?}");
    }
    assert_eq!(rows(&host), Vec::<Value>::new());
}

#[tokio::test]
async fn whoever_attaches_sees_what_was_there_types_and_leaves_it_running() {
    let host = host();
    let id = open(&host, &[]);
    let screen = attach(&host, &id);
    type_line(&screen, "kept=value; echo \"size-$(stty size)\"");
    screen.wait_for("size-20 90");
    screen.resize(70, 15);
    // The shell may have asked before the change came.
    screen.type_line_until("echo \"size-$(stty size)-$kept\"", "size-15 70-value");
    screen.press(&["C-]"]);
    screen.wait_for_end();
    assert_eq!(rows(&host)[0]["exit_code"], Value::Null);
    let screen = TmuxScreen::open(&host, 70, 15, &["shell", "attach", &id]);
    screen.wait_for("size-15 70-value");
    type_line(&screen, "exit 7");
    screen.wait_for_end();
    assert_eq!(rows(&host)[0]["exit_code"], 7);
    close_all(&host);
}

#[tokio::test]
async fn an_attached_terminal_goes_on_when_its_host_was_killed() {
    let mut host = host();
    let id = open(&host, &[]);
    let screen = attach(&host, &id);
    type_line(&screen, "kept=value; echo be\"\"fore");
    screen.wait_for("before");
    host.kill();
    host.start_again();
    // What is typed while there is no host is not sent, so it is typed until it is.
    screen.type_line_until("echo \"after-$kept\"", "after-value");
    close_all(&host);
    screen.wait_for_end();
}

#[tokio::test]
async fn the_terminal_is_given_back_although_an_editor_was_left_in_it() {
    let host = host();
    let id = open(&host, &[]);
    let screen = TmuxScreen::open_in_shell(&host, 90, 20);
    type_line(
        &screen,
        &format!("echo out\"\"side; countersign shell attach {id}; echo \"left-$?\""),
    );
    screen.wait_for("prompt$");
    type_line(&screen, "vi -u NONE /tmp/countersign-no-such-file");
    screen.wait_for("~");
    screen.press(&["C-]"]);
    screen.wait_for("left-0");
    let shown = screen.capture();
    assert!(
        shown.contains("keeps running") && !shown.contains('~'),
        "{shown}"
    );
    // The shell around it has its line editor back: it echoes what is typed, and ends lines at Enter.
    type_line(&screen, "echo \"us\"\"able\"");
    screen.wait_for("usable");
    // The editor is there as it was left.
    type_line(
        &screen,
        &format!("countersign shell attach {id} --detach-key ctrl-q; echo \"again-$?\""),
    );
    screen.wait_for("~");
    screen.press(&["C-q"]);
    screen.wait_for("again-0");
    close_all(&host);
}

#[tokio::test]
async fn a_program_that_reads_nothing_can_still_be_left() {
    let host = host();
    let id = open(
        &host,
        &["--", "stty raw -echo; echo re\"\"ady; exec sleep 1000"],
    );
    let screen = TmuxScreen::open(&host, 90, 20, &["shell", "attach", &id]);
    screen.wait_for("ready");
    screen.paste(&"x".repeat(400_000));
    screen.press(&["C-]"]);
    screen.wait_for_end();
    close_all(&host);
}

#[tokio::test]
async fn agents_reach_no_terminal_of_people() {
    let host = host();
    let id = open(&host, &["--", "sleep 1000"]);
    let mut wire = Wire::operator(&host).await;
    let mut agent = Agent::connected(&host, &mut wire, "coder").await;
    for args in [
        &["shell", "list"][..],
        &["shell", "open", "--cwd", "/tmp"],
        &["shell", "close", &id],
    ] {
        let ran = agent.run(args).await;
        assert_eq!(ran["code"], 10, "{args:?}: {ran}");
    }
    assert_eq!(rows(&host).len(), 1);
    close_all(&host);
}

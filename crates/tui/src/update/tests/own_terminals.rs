//! A person's own terminals on the screen.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::host_call::{HostCall, ReplyTag};
use crate::message::{Effect, Message};
use crate::test_rows;
use crate::test_screen::{TestScreen, decisions};

fn row(id: &str) -> Value {
    json!({
        "id": id, "command": "/bin/zsh", "cwd": "/srv/app", "bytes": 5, "first_offset": 0, "columns": 80, "rows": 24,
        "started_at": "1970-01-01T00:02:00.000000Z",
    })
}

fn piece(bytes: &[u8], from: u64) -> Value {
    json!({
        "data": STANDARD.encode(bytes), "ended": false, "from": from,
        "next": from + bytes.len() as u64, "skipped": 0,
    })
}

fn calls(effects: Vec<Effect>) -> Vec<HostCall> {
    let found = effects.into_iter().filter_map(|effect| match effect {
        Effect::Call(call) if call.method.contains("terminal") => Some(call),
        _ => None,
    });
    found.collect()
}

fn params(call: &HostCall) -> Value {
    serde_json::from_str(&call.params).unwrap()
}

/// What is typed by these effects.
fn typed(effects: Vec<Effect>) -> Vec<u8> {
    let calls = calls(effects).into_iter();
    let typed = calls.filter(|call| call.tag == ReplyTag::TerminalTyped);
    typed
        .flat_map(|call| {
            STANDARD
                .decode(params(&call)["data"].as_str().unwrap())
                .unwrap()
        })
        .collect()
}

/// A screen on which a terminal has the focus.
fn opened() -> TestScreen {
    let mut screen = TestScreen::connected(100, 30);
    let asked = calls(screen.press("Ctrl-g o"));
    let wanted: Vec<_> = asked
        .iter()
        .filter(|call| call.tag == ReplyTag::TerminalOpened)
        .collect();
    assert_eq!(params(wanted[0])["agent_id"], "builder");
    screen.reply(ReplyTag::TerminalOpened, &row("t1"));
    screen.draw();
    screen
}

fn output_tag(after: u64) -> ReplyTag {
    ReplyTag::OwnTerminalOutput {
        terminal: "t1".into(),
        after,
    }
}

#[test]
fn it_is_read_drawn_and_sized_by_its_panel() {
    let mut screen = opened();
    let size = screen.model.drawn.panels[0].area;
    assert_eq!(
        screen.model.own_terminals.told_size,
        Some(("t1".into(), (size.width, size.height - 1)))
    );
    assert!(screen.model.loading.contains("own terminal output"));
    screen.reply(
        output_tag(0),
        &piece(b"$ ls\r\n\x1b]0;title\x07\x1b[31mred\x1b[0m", 0),
    );
    let shown = screen.draw();
    assert!(
        shown.contains("red") && shown.contains("/bin/zsh"),
        "{shown}"
    );
    assert!(!shown.contains("title"), "{shown}");
    // The cursor stands where the program has it.
    let cursor = screen.model.drawn.cursor.unwrap();
    assert_eq!(cursor, (size.x + 3, size.y + 2));
}

#[test]
fn every_key_is_the_programs_and_ctrl_g_leads_out() {
    let mut screen = opened();
    assert_eq!(typed(screen.press("a")), b"a");
    // The next keys wait until the host has taken the first.
    assert_eq!(typed(screen.press("y q : Ctrl-c Esc Tab d")), b"");
    let next = screen.reply(ReplyTag::TerminalTyped, &json!({ "written": 1 }));
    assert_eq!(typed(next), b"yq:\x03\x1b\td");
    screen.reply(ReplyTag::TerminalTyped, &json!({ "written": 7 }));
    assert_eq!(typed(screen.press("Ctrl-g Ctrl-g")), b"\x07");
    screen.reply(ReplyTag::TerminalTyped, &json!({ "written": 1 }));
    assert_eq!(typed(screen.press("Ctrl-g :")), b"");
    assert!(screen.model.overlay.is_some());
    screen.press("Esc");
    screen.press("Ctrl-g g i");
    assert_eq!(screen.model.focused_kind(), crate::layout::PanelKind::Inbox);
}

#[test]
fn what_was_not_taken_is_sent_again_and_nothing_twice() {
    let mut screen = opened();
    assert_eq!(
        typed(screen.send(Message::Paste("one\ntwo".into()))),
        b"one\rtwo"
    );
    let rest = screen.reply(ReplyTag::TerminalTyped, &json!({ "written": 4 }));
    assert_eq!(typed(rest), b"two");
    // A host that is lost may have taken it: it is not sent again.
    screen.send(Message::Lost);
    assert!(
        screen.notice().contains("may not have reached"),
        "{}",
        screen.notice()
    );
    screen.connect(vec![test_rows::approval()]);
    assert_eq!(typed(screen.press("x")), b"x");
}

#[test]
fn no_key_decides_while_a_terminal_has_the_focus() {
    let mut screen = TestScreen::connected(120, 40);
    screen.press("g s");
    screen.wait(600);
    screen.press("a");
    screen.press("Ctrl-g o");
    screen.reply(ReplyTag::TerminalOpened, &row("t1"));
    screen.draw();
    screen.wait(600);
    let effects = screen.press("y a y d s y =");
    assert_eq!(decisions(&effects).len(), 0);
    assert!(screen.model.ask.pending.is_none());
    let effects = screen.press("Ctrl-g a Ctrl-g y Ctrl-g d");
    assert_eq!(decisions(&effects).len(), 0);
}

#[test]
fn a_terminal_that_is_closed_elsewhere_leaves_its_keys_to_no_other() {
    let mut screen = opened();
    screen.reply(ReplyTag::OwnTerminals, &json!([row("t1"), row("t2")]));
    assert_eq!(typed(screen.press("a")), b"a");
    screen.reply(ReplyTag::TerminalTyped, &json!({ "written": 1 }));
    screen.reply(ReplyTag::OwnTerminals, &json!([row("t2")]));
    assert!(screen.draw().contains("this terminal was closed"));
    assert_eq!(typed(screen.press("x")), b"");
    screen.press("Ctrl-g ]");
    assert_eq!(typed(screen.press("x")), b"x");
}

#[test]
fn closing_takes_a_second_key() {
    let mut screen = opened();
    assert_eq!(calls(screen.press("Ctrl-g x")).len(), 0);
    screen.wait(600);
    let closed = calls(screen.press("y"));
    let close: Vec<_> = closed
        .iter()
        .filter(|call| call.method == "host.close_terminal")
        .collect();
    assert_eq!(close.len(), 1, "{closed:?}");
}

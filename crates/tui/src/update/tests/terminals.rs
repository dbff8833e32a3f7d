//! The terminals of an agent on the screen.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::host_call::{HostCall, ReplyTag};
use crate::message::{Effect, Message};
use crate::test_screen::TestScreen;

fn row(id: &str, command: &str) -> Value {
    json!({
        "id": id, "command": command, "bytes": 5, "first_offset": 0,
        "started_at": "1970-01-01T00:02:00.000000Z",
    })
}

fn piece(bytes: &[u8], from: u64, ended: bool) -> Value {
    json!({
        "data": STANDARD.encode(bytes), "ended": ended, "from": from,
        "next": from + bytes.len() as u64, "skipped": 0,
    })
}

fn calls(effects: Vec<Effect>) -> Vec<HostCall> {
    let found = effects.into_iter().filter_map(|effect| match effect {
        Effect::Call(call) if call.method.starts_with("host.terminal") => Some(call),
        _ => None,
    });
    found.collect()
}

fn listed() -> ReplyTag {
    ReplyTag::Terminals {
        agent: "builder".into(),
    }
}

/// A screen that shows the terminals of `builder`, and the first call for output.
fn opened() -> (TestScreen, HostCall) {
    let mut screen = TestScreen::connected(100, 30);
    screen.press("g i T");
    // It was asked for with the picture that first showed the panel.
    assert!(screen.model.loading.contains("terminals builder"));
    let rows = json!([row("t1", "cargo build"), row("t2", "cargo test")]);
    let asked = calls(screen.reply(listed(), &rows));
    assert_eq!(asked.len(), 1, "{asked:?}");
    (screen, asked[0].clone())
}

#[test]
fn the_newest_terminal_is_read_and_drawn_and_the_others_by_key() {
    let (mut screen, call) = opened();
    let tag = ReplyTag::TerminalOutput {
        agent: "builder".into(),
        terminal: "t2".into(),
        after: 0,
    };
    assert_eq!(call.tag, tag);
    let more = calls(screen.reply(tag, &piece(b"one\ntwo \x1b[31mred\x1b[0m\n", 0, false)));
    let params: Value = serde_json::from_str(&more[0].params).unwrap();
    assert_eq!(
        params,
        json!({ "agent_id": "builder", "terminal_id": "t2", "after": 21, "wait": false })
    );
    let shown = screen.draw();
    assert!(shown.contains("Terminals of builder"), "{shown}");
    assert!(shown.contains("2 of 2  running"), "{shown}");
    assert!(shown.contains("two red"), "{shown}");
    let read = calls(screen.press("p"));
    let first = read.iter().any(|call| call.params.contains("\"t1\""));
    assert!(first, "{read:?}");
    assert!(screen.draw().contains("1 of 2  running"));
}

#[test]
fn what_a_terminal_prints_stays_in_its_cells() {
    let (mut screen, call) = opened();
    let hostile = "\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x07\x1b[?1049h\x1b[2J\x1b[99;99Hx\
                   \x1b[1;1Hevil\u{202e}txt\u{200b}\u{7}\x1b[6n";
    screen.reply(call.tag, &piece(hostile.as_bytes(), 0, true));
    let shown = screen.draw();
    assert!(shown.contains("countersign"), "the top line stays: {shown}");
    assert!(shown.contains("evi"), "{shown}");
    let is_hidden = |c: char| matches!(c, '\u{202e}' | '\u{200b}' | '\u{1b}' | '\u{7}');
    assert!(!shown.contains(is_hidden), "{shown}");
}

#[test]
fn an_agent_that_floods_its_terminal_is_read_in_bounds() {
    let (mut screen, call) = opened();
    screen.send(Message::Tick);
    let (mut tag, mut from, mut read) = (call.tag, 0, 0);
    loop {
        let effects = screen.reply(tag, &piece(&[b'x'; 1_000], from, false));
        from += 1_000;
        read += 1;
        let next = calls(effects)
            .into_iter()
            .find(|call| call.method == "host.terminal_output");
        let Some(next) = next else { break };
        tag = next.tag;
    }
    assert_eq!(read, 9);
}

#[test]
fn what_cannot_be_read_is_said_in_the_panel() {
    let mut screen = TestScreen::connected(100, 30);
    screen.press("g i T");
    screen.refuse(listed(), "there is no such terminal", false);
    assert!(screen.draw().contains("there is no such terminal"));
    assert_eq!(screen.notice(), "");
}

#[test]
fn the_agent_of_the_first_row_is_meant_before_a_row_was_selected() {
    let mut screen = TestScreen::new(100, 30);
    screen.connect(Vec::new());
    screen.model.selected_agent = None;
    screen.press("g a T");
    let shown = screen.draw();
    assert!(shown.contains("Terminals of builder"), "{shown}");
}

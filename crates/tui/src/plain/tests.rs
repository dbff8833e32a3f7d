//! Asks in lines.

use countersign_protocol::Time;

use super::*;
use crate::test_rows;
use crate::test_screen::{TestScreen, only_decision, snapshot};

fn at(ms: u64) -> Moment {
    Moment {
        ms,
        wall: Time(181_000_000),
    }
}

fn screen() -> (PlainScreen, Vec<String>) {
    let mut plain = PlainScreen::new(TestScreen::new(80, 24).model);
    let message = Message::Connected {
        snapshot: Box::new(snapshot(vec![test_rows::approval()])),
        notes: Vec::new(),
    };
    let told = lines(&plain.handle_message(message, at(2_000)));
    (plain, told)
}

fn lines(output: &PlainOutput) -> Vec<String> {
    output.lines.iter().map(ToString::to_string).collect()
}

#[test]
fn an_ask_is_said_once_and_shown_whole() {
    let (mut plain, told) = screen();
    assert_eq!(
        told,
        [
            "ask aaaa1111 from builder: Bash: cargo test --workspace",
            "question bbbb1111 from docs: Which title?",
        ]
    );
    assert_eq!(plain.handle_message(Message::Tick, at(2_100)).lines, []);
    let shown = lines(&plain.handle_line("show", at(2_200)));
    assert_eq!(
        shown[..2],
        ["tool: Bash", "command: cargo test --workspace"]
    );
    assert_eq!(lines(&plain.handle_line("list", at(2_300))).len(), 2);
    assert_eq!(lines(&plain.handle_line("what", at(2_300))), [HELP]);
}

#[test]
fn an_allow_takes_two_words_after_it_was_shown() {
    let (mut plain, _) = screen();
    assert_eq!(plain.handle_line("approve", at(9_000)).effects, []);
    plain.handle_line("show", at(10_000));
    assert!(lines(&plain.handle_line("approve", at(10_100)))[0].contains("just appeared"));
    assert_eq!(
        lines(&plain.handle_line("approve", at(10_600))),
        ["allow it once? say yes or no"]
    );
    assert_eq!(plain.handle_line("yes", at(10_700)).effects, []);
    let sent = only_decision(&plain.handle_line("yes", at(10_900)).effects);
    assert_eq!(sent["resolution"], "approve");
}

#[test]
fn a_denial_takes_its_words_along() {
    let (mut plain, _) = screen();
    plain.handle_line("show", at(10_000));
    let sent = only_decision(&plain.handle_line("deny use nextest", at(10_600)).effects);
    assert_eq!(sent["message"], "use nextest");
    assert_eq!(
        plain.handle_line("quit", at(10_700)).effects,
        [Effect::Quit]
    );
}

//! What the screen looks like, and what a key can never do.

use std::time::{Duration, Instant};

use countersign_protocol::{
    HostAnswerLimits, HostApproval, HostChoice, HostChoiceQuestion, HostEvent, Time,
};
use countersign_tui::decision_guard::{PROMPT_MS, SETTLE_MS};
use serde_json::json;

use super::draw::draw;
use super::keys::{self, KeyAction, KeyPress, KeyTime};
use super::screen::{HostPresence, InputMode, WatchScreen};
use crate::render::decisions;
use crate::render::inbox_item::InboxItem;
use crate::test_rows;

const SETTLE: Duration = Duration::from_millis(SETTLE_MS);
const PROMPT: Duration = Duration::from_millis(PROMPT_MS);
const ASK: &str = "approval-aaaa11112222";

/// A key that is handled when it is typed.
fn handle_key(screen: &mut WatchScreen, key: KeyPress, at: Instant) -> KeyAction {
    let time = KeyTime {
        handled: at,
        pressed: at,
        is_repeat: false,
    };
    keys::handle_key(screen, key, time)
}

fn screen(start: Instant) -> WatchScreen {
    let mut screen = WatchScreen::new(start, Time(181_000_000));
    screen.update_item(InboxItem::ask(test_rows::approval()), start);
    screen.update_item(InboxItem::question(test_rows::question()), start);
    screen
}

/// The same with an ask of more lines than a small screen has.
fn long_screen(start: Instant) -> WatchScreen {
    let mut screen = screen(start);
    let row = test_rows::bash(&["true"; 10].join("\n"));
    screen.update_item(InboxItem::ask(row), start);
    screen
}

/// Draws as the loop does, so that the screen knows what was seen.
fn picture(screen: &mut WatchScreen, width: usize, height: usize) -> String {
    let picture = draw(screen, width, height);
    screen.record_drawn(picture.page, picture.body, screen.epoch);
    assert_eq!(picture.lines.len(), height);
    let lines: Vec<_> = picture
        .lines
        .iter()
        .map(|line| line.text.trim_end())
        .collect();
    lines.join("\n") + "\n"
}

fn approve_of(id: &str) -> KeyAction {
    KeyAction::Resolve {
        id: id.into(),
        option: "approve".into(),
        message: None,
        remember: Vec::new(),
    }
}

#[test]
fn the_inbox_is_drawn_with_the_selected_ask_whole() {
    let mut screen = screen(Instant::now());
    let expected = "\
countersign  asks: 1  questions: 1  connected
> aaaa1111  ask         3m  builder       Bash: cargo test --workspace
  bbbb1111  question    2m  docs          Which title?
────────────────────────────────────────────────────────────────────────
tool       Bash
command    cargo test --workspace
title      Run the tests
asked by   agent builder, as builder (agent)
state      pending
id         approval-aaaa11112222
folded     digest, history






↑/↓ select   a approve   s save as rule   d deny   m deny with a message
r reply   v view all   PgUp/PgDn scroll   q quit
";
    assert_eq!(picture(&mut screen, 72, 19), expected);
}

#[test]
fn a_long_command_is_broken_with_a_mark_and_scrolled() {
    let start = Instant::now();
    let mut screen = WatchScreen::new(start, Time(1_000_000));
    let command = format!("echo {}\nrm -rf x", "0123456789".repeat(5));
    screen.update_item(InboxItem::ask(test_rows::bash(&command)), start);
    let expected = "\
countersign  asks: 1  questions: 0  con…
> aaaa1111  ask         0s  builder    …
── lines 1-6 of 10, more below: PgDn ───
tool       Bash
command    echo 012345678901234567890123
         ↳ 45678901234567890123456789
           rm -rf x
title      Run the tests
asked by   agent builder, as builder (ag
↑/↓ select   a approve   s save as rule
d deny   m deny with a message   r reply
v view all   PgUp/PgDn scroll   q quit
";
    assert_eq!(picture(&mut screen, 40, 12), expected);
}

#[test]
fn what_is_folded_comes_into_view_by_a_key_and_is_to_be_read_as_well() {
    let start = Instant::now();
    let mut screen = screen(start);
    picture(&mut screen, 72, 20);
    assert!(screen.guard.is_seen());
    handle_key(&mut screen, KeyPress::Char('v'), start);
    assert!(!screen.guard.is_seen());
    let shown = picture(&mut screen, 72, 24);
    for line in [
        "digest     sha256:d1gest",
        "history    3m ago  asked (event 7)",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(!shown.contains("folded"), "{shown}");
    handle_key(&mut screen, KeyPress::Down, start);
    handle_key(&mut screen, KeyPress::Up, start);
    let shown = picture(&mut screen, 72, 24);
    assert!(shown.contains("folded     digest, history"), "{shown}");
}

#[test]
fn the_second_key_is_asked_for_with_what_will_run() {
    let start = Instant::now();
    let mut screen = screen(start);
    picture(&mut screen, 72, 20);
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('a'), start + SETTLE),
        KeyAction::None
    );
    let shown = picture(&mut screen, 72, 20);
    let last: Vec<_> = shown.lines().rev().take(2).collect();
    assert_eq!(
        last,
        [
            "y yes   n no",
            "approve aaaa1111? y/n  Bash: cargo test --workspace"
        ]
    );
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('y'), start + SETTLE + PROMPT),
        approve_of(ASK)
    );
}

#[test]
fn a_key_right_after_an_ask_appeared_decides_nothing() {
    let start = Instant::now();
    let mut screen = screen(start);
    picture(&mut screen, 72, 20);
    for letter in ['a', 'd', 'm', 'r'] {
        let early = (start + SETTLE)
            .checked_sub(Duration::from_millis(1))
            .unwrap();
        assert_eq!(
            handle_key(&mut screen, KeyPress::Char(letter), early),
            KeyAction::None
        );
        assert_eq!(screen.mode, InputMode::Browse, "{letter}");
    }
}

#[test]
fn moving_to_another_ask_also_takes_time_to_read() {
    let start = Instant::now();
    let mut screen = screen(start);
    let second = HostApproval {
        id: "approval-cccc".into(),
        sequence: 9,
        ..test_rows::approval()
    };
    screen.update_item(InboxItem::ask(second), start);
    let later = start + SETTLE;
    handle_key(&mut screen, KeyPress::Down, later);
    handle_key(&mut screen, KeyPress::Down, later);
    picture(&mut screen, 72, 20);
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('d'), later),
        KeyAction::None
    );
    let denied = KeyAction::Resolve {
        id: "approval-cccc".into(),
        option: "deny".into(),
        message: None,
        remember: Vec::new(),
    };
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('d'), later + SETTLE),
        denied
    );
}

#[test]
fn typed_ahead_keys_do_not_confirm() {
    let start = Instant::now();
    let mut screen = screen(start);
    picture(&mut screen, 72, 20);
    let later = start + SETTLE;
    handle_key(&mut screen, KeyPress::Char('a'), later);
    assert_eq!(
        handle_key(
            &mut screen,
            KeyPress::Char('y'),
            later + Duration::from_millis(5)
        ),
        KeyAction::None
    );
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('a'), later + PROMPT),
        KeyAction::None
    );
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('n'), later + PROMPT),
        KeyAction::None
    );
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('y'), later + PROMPT),
        KeyAction::None
    );
}

#[test]
fn pasted_text_decides_nothing() {
    let start = Instant::now();
    let mut screen = screen(start);
    picture(&mut screen, 72, 20);
    assert_eq!(
        handle_key(&mut screen, KeyPress::Paste("ay\n".into()), start + SETTLE),
        KeyAction::None
    );
    assert_eq!(screen.mode, InputMode::Browse);
}

#[test]
fn what_does_not_fit_must_be_read_to_its_end() {
    let start = Instant::now();
    let mut screen = long_screen(start);
    picture(&mut screen, 72, 13);
    let later = start + SETTLE;
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('a'), later),
        KeyAction::None
    );
    assert_eq!(
        (screen.mode.clone(), screen.note.as_str()),
        (InputMode::Browse, "read it to the end first: PgDn")
    );
    handle_key(&mut screen, KeyPress::PageDown, later);
    picture(&mut screen, 72, 13);
    assert!(!screen.guard.is_seen(), "one page is not enough here");
    handle_key(&mut screen, KeyPress::PageDown, later);
    picture(&mut screen, 72, 13);
    assert!(screen.guard.is_seen());
    handle_key(&mut screen, KeyPress::Char('a'), later);
    assert_eq!(
        screen.mode,
        InputMode::Confirm {
            option: "approve".into()
        }
    );
}

#[test]
fn a_new_size_begins_the_reading_again() {
    let start = Instant::now();
    let mut screen = long_screen(start);
    picture(&mut screen, 72, 40);
    screen.restart_reading(start);
    picture(&mut screen, 72, 13);
    assert!(!screen.guard.is_seen());
}

#[test]
fn in_a_window_too_small_to_read_nothing_is_approved() {
    let start = Instant::now();
    let mut screen = screen(start);
    let picture = draw(&screen, 30, 5);
    screen.record_drawn(picture.page, picture.body, screen.epoch);
    handle_key(&mut screen, KeyPress::Char('a'), start + SETTLE);
    assert_eq!(screen.mode, InputMode::Browse);
}

#[test]
fn an_ask_that_ended_elsewhere_says_so_and_takes_no_key() {
    let start = Instant::now();
    let mut screen = screen(start);
    picture(&mut screen, 72, 20);
    let later = start + SETTLE;
    handle_key(&mut screen, KeyPress::Char('a'), later);
    let ended = HostApproval {
        state: "denied".into(),
        resolved_by: Some(test_rows::who("ada", "operator")),
        ..test_rows::approval()
    };
    screen.update_item(InboxItem::ask(ended), later);
    let shown = picture(&mut screen, 72, 24);
    assert!(
        shown.contains("> aaaa1111  ask         3m  builder       ENDED: denied by ada\n"),
        "{shown}"
    );
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('y'), later + PROMPT + SETTLE),
        KeyAction::None
    );
    assert_eq!(screen.mode, InputMode::Browse);
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('d'), later + PROMPT + SETTLE),
        KeyAction::None
    );
    assert_eq!(screen.selected.as_deref(), Some(ASK));
}

#[test]
fn words_in_the_making_never_turn_into_commands() {
    let start = Instant::now();
    let mut screen = screen(start);
    picture(&mut screen, 72, 20);
    let later = start + SETTLE;
    handle_key(&mut screen, KeyPress::Char('m'), later);
    for c in "not q".chars() {
        assert_eq!(
            handle_key(&mut screen, KeyPress::Char(c), later),
            KeyAction::None
        );
    }
    screen.update_item(
        InboxItem::ask(HostApproval {
            state: "expired".into(),
            ..test_rows::approval()
        }),
        later,
    );
    for c in "uite a".chars() {
        assert_eq!(
            handle_key(&mut screen, KeyPress::Char(c), later),
            KeyAction::None
        );
    }
    assert_eq!(
        screen.mode,
        InputMode::TypeDenial {
            text: "not quite a".into()
        }
    );
    assert_eq!(
        handle_key(&mut screen, KeyPress::Enter, later),
        KeyAction::None
    );
    assert_eq!(screen.note, "nothing was sent: it ended elsewhere");
}

#[test]
fn a_denial_carries_its_words_and_a_question_its_answer() {
    let start = Instant::now();
    let mut screen = screen(start);
    picture(&mut screen, 72, 20);
    let later = start + SETTLE;
    handle_key(&mut screen, KeyPress::Char('m'), later);
    handle_key(&mut screen, KeyPress::Paste("use\nstaging".into()), later);
    let denied = KeyAction::Resolve {
        id: ASK.into(),
        option: "deny".into(),
        remember: Vec::new(),
        message: Some("use staging".into()),
    };
    assert_eq!(handle_key(&mut screen, KeyPress::Enter, later), denied);
    handle_key(&mut screen, KeyPress::Down, later);
    picture(&mut screen, 72, 20);
    handle_key(&mut screen, KeyPress::Char('r'), later + SETTLE);
    handle_key(&mut screen, KeyPress::Char('2'), later + SETTLE);
    let answered = KeyAction::Answer {
        id: "question-bbbb11112222".into(),
        text: "2".into(),
    };
    assert_eq!(
        handle_key(&mut screen, KeyPress::Enter, later + SETTLE),
        answered
    );
}

#[test]
fn choosing_an_option_that_allows_follows_the_same_rules() {
    let start = Instant::now();
    let mut screen = long_screen(start);
    picture(&mut screen, 72, 13);
    let later = start + SETTLE;
    handle_key(&mut screen, KeyPress::Char('r'), later);
    handle_key(&mut screen, KeyPress::Enter, later);
    assert_eq!(
        (screen.mode.clone(), screen.guard.is_seen()),
        (InputMode::Browse, false)
    );
    handle_key(&mut screen, KeyPress::Char('r'), later);
    handle_key(&mut screen, KeyPress::Down, later);
    handle_key(&mut screen, KeyPress::Enter, later);
    assert_eq!(
        screen.mode,
        InputMode::Confirm {
            option: "deny".into()
        }
    );
}

#[test]
fn without_a_host_nothing_is_sent() {
    let start = Instant::now();
    let mut screen = screen(start);
    picture(&mut screen, 72, 20);
    screen.set_link(HostPresence::Lost, start);
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('d'), start + SETTLE),
        KeyAction::None
    );
    assert_eq!(screen.note, "not connected: nothing can be sent");
}

#[test]
fn the_next_ask_after_a_decision_has_its_own_time() {
    let start = Instant::now();
    let mut screen = screen(start);
    let later = start + SETTLE;
    screen.remove_settled(ASK, "aaaa1111 allowed".into(), later);
    assert_eq!(screen.selected.as_deref(), Some("question-bbbb11112222"));
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('r'), later),
        KeyAction::None
    );
    assert_eq!(screen.mode, InputMode::Browse);
}

#[test]
fn a_rule_is_saved_only_after_it_was_shown_and_confirmed() {
    let start = Instant::now();
    let mut screen = screen(start);
    picture(&mut screen, 72, 24);
    let now = start + SETTLE;
    let wanted = KeyAction::Suggest {
        id: ASK.into(),
        option: "approve".into(),
    };
    assert_eq!(handle_key(&mut screen, KeyPress::Char('s'), now), wanted);
    let rules = vec!["Bash(cargo test --workspace)".to_owned()];
    screen.show_rule_offer(ASK, "approve".into(), rules.clone(), now);
    let later = now + PROMPT;
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('y'), later),
        KeyAction::None
    );
    assert_eq!(screen.note, "read it to the end first: PgDn");
    let shown = picture(&mut screen, 72, 24);
    assert!(
        shown.contains("to save    Bash(cargo test --workspace)\n"),
        "{shown}"
    );
    assert_eq!(
        handle_key(&mut screen, KeyPress::Char('y'), now),
        KeyAction::None
    );
    let saved = KeyAction::Resolve {
        id: ASK.into(),
        option: "approve".into(),
        message: None,
        remember: rules,
    };
    assert_eq!(handle_key(&mut screen, KeyPress::Char('y'), later), saved);
}

#[test]
fn rules_for_something_else_are_not_offered() {
    let start = Instant::now();
    let mut screen = screen(start);
    screen.show_rule_offer(
        "approval-other",
        "approve".into(),
        vec!["Bash".into()],
        start,
    );
    assert_eq!(screen.mode, InputMode::Browse);
}

#[test]
fn a_question_with_choices_is_answered_one_by_one_and_never_just_approved() {
    let start = Instant::now();
    let mut screen = WatchScreen::new(start, Time(1_000_000));
    let asked = |question: &str, several: bool| HostChoiceQuestion {
        choices: ["SQLite", "Postgres"]
            .map(|label| HostChoice {
                description: None,
                label: label.into(),
            })
            .into(),
        free_text: false,
        header: None,
        limits: HostAnswerLimits::default(),
        number: false,
        optional: question.ends_with("if any?"),
        question: question.into(),
        several,
    };
    let questions = [
        ("Which one?", false),
        ("Which, if any?", false),
        ("Which ones?", true),
    ];
    screen.update_item(
        InboxItem::ask(HostApproval {
            questions: questions.map(|(text, several)| asked(text, several)).into(),
            ..test_rows::approval()
        }),
        start,
    );
    screen.move_selection(true, start);
    picture(&mut screen, 72, 60);
    let later = start + SETTLE;
    handle_key(&mut screen, KeyPress::Char('a'), later);
    assert_eq!(
        (&screen.mode, screen.note.as_str()),
        (&InputMode::Browse, "this is a question: r to reply")
    );
    handle_key(&mut screen, KeyPress::Char('r'), later);
    let mut action = KeyAction::None;
    // An empty text leaves out the second question, and answers neither the first nor the last.
    for text in ["7", "", "2", "", "", "1,2"] {
        assert_eq!(action, KeyAction::None);
        handle_key(&mut screen, KeyPress::Paste(text.into()), later);
        action = handle_key(&mut screen, KeyPress::Enter, later);
    }
    let answers = vec![
        vec!["Postgres".to_owned()],
        Vec::new(),
        vec!["SQLite".to_owned(), "Postgres".to_owned()],
    ];
    let expected = KeyAction::AnswerAsk {
        id: ASK.into(),
        option: "approve".into(),
        answers,
    };
    assert_eq!(action, expected);
}

/// A note of an agent without an orchestrator.
fn note(id: &str, sequence: u64, text: &str) -> InboxItem {
    let event = HostEvent {
        agent_id: Some("agent-1".into()),
        agent_name: Some("api".into()),
        id: id.into(),
        kind: decisions::NOTE.into(),
        message: String::new(),
        payload: test_rows::raw(&json!({ "agent": "agent-1", "text": text }).to_string()),
        sequence,
        timestamp: Time(1_000_000),
    };
    InboxItem::note(event).unwrap()
}

#[test]
fn a_note_stands_last_and_is_read_whole() {
    let start = Instant::now();
    let mut screen = screen(start);
    let text = "half way: the tests of the parser pass, those of the printer do not yet\u{1b}[2J";
    screen.update_item(note("event-1", 3, text), start);
    screen.move_selection(true, start);
    screen.move_selection(true, start);
    let expected = "\
countersign  asks: 1  questions: 1  notes: 1  connected
  aaaa1111  ask         3m  builder       Bash: cargo test --workspace
  bbbb1111  question    2m  docs          Which title?
> -         note        3m  api           half way: the tests of the pa…
────────────────────────────────────────────────────────────────────────
note       half way: the tests of the parser pass, those of the printer
         ↳ do not yet\\u{1b}[2J
warning    1 invisible character is shown as an escape
from       api
state      needs no answer
history    3m ago  sent (event 3)







↑/↓ select   a approve   s save as rule   d deny   m deny with a message
r reply   v view all   PgUp/PgDn scroll   q quit
";
    assert_eq!(picture(&mut screen, 72, 20), expected);
}

#[test]
fn no_key_answers_a_note() {
    let start = Instant::now();
    let mut screen = WatchScreen::new(start, Time(181_000_000));
    screen.update_item(note("event-1", 3, "half way"), start);
    assert_eq!(screen.selected, None);
    screen.move_selection(true, start);
    picture(&mut screen, 80, 24);
    let later = start + SETTLE;
    for letter in ['a', 's', 'd', 'm', 'r'] {
        screen.note.clear();
        let action = handle_key(&mut screen, KeyPress::Char(letter), later);
        assert_eq!(
            (action, &screen.mode, screen.note.as_str()),
            (
                KeyAction::None,
                &InputMode::Browse,
                "this is a note: it needs no answer"
            )
        );
    }
}

#[test]
fn notes_leave_the_screen_when_the_inbox_no_longer_lists_them() {
    let start = Instant::now();
    let mut screen = WatchScreen::new(start, Time(181_000_000));
    for number in 0..22 {
        screen.update_item(note(&format!("event-{number}"), number, "half way"), start);
    }
    screen.move_selection(true, start);
    screen.update_item(InboxItem::question(test_rows::question()), start);
    screen.drop_old_notes();
    let ids = |screen: &WatchScreen| -> Vec<String> {
        screen
            .items
            .iter()
            .map(|item| item.id().to_owned())
            .collect()
    };
    let question = test_rows::question().id;
    // The first note is selected, so it stays.
    let mut expected = vec![question.clone(), "event-0".to_owned()];
    expected.extend((3..22).map(|number| format!("event-{number}")));
    assert_eq!(ids(&screen), expected);
    screen.wall = Time(1_000_000 + 24 * 3_600_000_000);
    screen.drop_old_notes();
    assert_eq!(ids(&screen), expected);
    screen.wall = Time(screen.wall.0 + 1);
    screen.drop_old_notes();
    assert_eq!(ids(&screen), [question, "event-0".to_owned()]);
}

#[test]
fn a_note_is_selected_by_a_key_alone() {
    let start = Instant::now();
    let mut screen = WatchScreen::new(start, Time(181_000_000));
    screen.update_item(note("event-1", 3, "half way"), start);
    let before = screen.selected.clone();
    let drawn = picture(&mut screen, 80, 24);
    assert!(
        drawn.contains("  -         note        3m  api           half way\n"),
        "{drawn}"
    );
    screen.update_item(InboxItem::ask(test_rows::approval()), start);
    let asked = screen.selected.clone();
    screen.remove_settled(ASK, String::new(), start);
    assert_eq!(
        [before, asked, screen.selected.clone()],
        [None, Some(ASK.to_owned()), None]
    );
    screen.move_selection(true, start);
    assert_eq!(screen.selected.as_deref(), Some("event-1"));
}

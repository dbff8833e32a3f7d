//! What a key can never do, checked on every screen that decides: the terminal UI and `watch` run the same cases.
//!
//! A screen implements [`GuardedScreen`] and calls [`check`] from a test.

use countersign_protocol::HostApproval;

use crate::decision_guard::{PROMPT_MS, SETTLE_MS};
use crate::test_rows;

/// What left a screen for the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentAnswer {
    pub id: String,
    pub option: String,
    pub message: Option<String>,
    /// The rules that it becomes.
    pub rules: Vec<String>,
}

/// A key that is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SafetyKey {
    pub letter: char,
    /// When it was typed, in milliseconds since the screen was opened; it is handled at the present.
    pub pressed_at: u64,
    pub is_repeat: bool,
}

/// A screen that is driven by a test. Times are milliseconds since it was opened, and never go back.
pub trait GuardedScreen {
    /// Opens a screen with one ask in a window of this size, and draws it.
    fn open(ask: HostApproval, width: u16, height: u16) -> Self;
    /// The present, for everything that follows.
    fn set_time(&mut self, ms: u64);
    fn draw(&mut self);
    /// The window has another size, and is drawn.
    fn resize(&mut self, width: u16, height: u16);
    fn press(&mut self, key: SafetyKey) -> Vec<SentAnswer>;
    fn page_down(&mut self);
    /// Ends a text that was typed, and sends it.
    fn submit(&mut self) -> Vec<SentAnswer>;
    fn paste(&mut self, text: &str) -> Vec<SentAnswer>;
    /// The host says that an ask is new, or is different from now on.
    fn update_ask(&mut self, ask: HostApproval);
    fn set_connected(&mut self, is_connected: bool);
    fn set_focused(&mut self, is_focused: bool);
    /// The host suggests a rule for the ask of [`test_rows::approval`].
    fn offer_rule(&mut self, rule: &str);
}

const ASK: &str = "approval-aaaa11112222";
const WINDOW: (u16, u16) = (100, 60);
/// Long enough for everything that needs time.
const LATER: u64 = 10_000;

fn approved() -> Vec<SentAnswer> {
    vec![SentAnswer {
        id: ASK.to_owned(),
        option: "approve".to_owned(),
        message: None,
        rules: Vec::new(),
    }]
}

fn denied(message: Option<&str>) -> Vec<SentAnswer> {
    vec![SentAnswer {
        id: ASK.to_owned(),
        option: "deny".to_owned(),
        message: message.map(str::to_owned),
        rules: Vec::new(),
    }]
}

fn nothing() -> Vec<SentAnswer> {
    Vec::new()
}

fn open<S: GuardedScreen>() -> S {
    S::open(test_rows::approval(), WINDOW.0, WINDOW.1)
}

/// An ask of more lines than a small window has.
fn long_ask() -> HostApproval {
    test_rows::bash(&["true"; 60].join("\n"))
}

/// Types a key and draws, as a person sees it.
fn press_at<S: GuardedScreen>(screen: &mut S, letter: char, ms: u64) -> Vec<SentAnswer> {
    screen.set_time(ms);
    let sent = screen.press(SafetyKey {
        letter,
        pressed_at: ms,
        is_repeat: false,
    });
    screen.draw();
    sent
}

/// Runs every case.
pub fn check<S: GuardedScreen>() {
    two_keys_some_time_apart_approve::<S>();
    keys_right_after_an_ask_appeared_decide_nothing::<S>();
    keys_typed_ahead_decide_nothing::<S>();
    a_key_that_is_held_down_decides_nothing::<S>();
    another_key_in_between_voids_the_first::<S>();
    pasted_text_decides_nothing::<S>();
    what_does_not_fit_is_read_to_its_end_first::<S>();
    a_new_size_begins_the_reading_again::<S>();
    in_a_tiny_window_nothing_is_approved::<S>();
    an_ask_that_changed_meanwhile_takes_both_keys_again::<S>();
    an_ask_that_ended_takes_no_key::<S>();
    without_a_host_nothing_is_sent::<S>();
    a_lost_host_voids_the_first_key::<S>();
    without_the_focus_nothing_is_sent::<S>();
    letters_of_a_text_are_no_commands::<S>();
    a_question_is_never_just_approved::<S>();
    a_rule_is_saved_after_it_was_shown_and_confirmed::<S>();
}

fn two_keys_some_time_apart_approve<S: GuardedScreen>() {
    let mut screen: S = open();
    assert_eq!(press_at(&mut screen, 'a', LATER), nothing());
    assert_eq!(press_at(&mut screen, 'y', LATER + PROMPT_MS), approved());
    let mut screen: S = open();
    assert_eq!(press_at(&mut screen, 'd', LATER), denied(None));
}

fn keys_right_after_an_ask_appeared_decide_nothing<S: GuardedScreen>() {
    for letter in ['a', 'd', 's', 'm', 'r'] {
        let mut screen: S = open();
        assert_eq!(press_at(&mut screen, letter, SETTLE_MS - 1), nothing());
        assert_eq!(press_at(&mut screen, 'y', LATER), nothing(), "{letter}");
        assert_eq!(screen.submit(), nothing(), "{letter}");
    }
}

fn keys_typed_ahead_decide_nothing<S: GuardedScreen>() {
    let mut screen: S = open();
    screen.set_time(LATER);
    let early = SafetyKey {
        letter: 'd',
        pressed_at: SETTLE_MS - 1,
        is_repeat: false,
    };
    assert_eq!(screen.press(early), nothing());
    assert_eq!(press_at(&mut screen, 'a', LATER), nothing());
    assert_eq!(press_at(&mut screen, 'y', LATER + PROMPT_MS - 1), nothing());
    screen.set_time(LATER + 2 * PROMPT_MS);
    let second = SafetyKey {
        letter: 'y',
        pressed_at: LATER + PROMPT_MS - 1,
        is_repeat: false,
    };
    assert_eq!(screen.press(second), nothing());
}

fn a_key_that_is_held_down_decides_nothing<S: GuardedScreen>() {
    let held = |letter: char, ms: u64| SafetyKey {
        letter,
        pressed_at: ms,
        is_repeat: true,
    };
    let mut screen: S = open();
    screen.set_time(LATER);
    assert_eq!(screen.press(held('d', LATER)), nothing());
    assert_eq!(press_at(&mut screen, 'a', LATER), nothing());
    screen.set_time(LATER + PROMPT_MS);
    assert_eq!(screen.press(held('y', LATER + PROMPT_MS)), nothing());
}

fn another_key_in_between_voids_the_first<S: GuardedScreen>() {
    for letter in ['a', 'x', 'n'] {
        let mut screen: S = open();
        press_at(&mut screen, 'a', LATER);
        assert_eq!(press_at(&mut screen, letter, LATER + PROMPT_MS), nothing());
        let second = press_at(&mut screen, 'y', LATER + 2 * PROMPT_MS);
        assert_eq!(second, nothing(), "{letter}");
    }
}

fn pasted_text_decides_nothing<S: GuardedScreen>() {
    let mut screen: S = open();
    screen.set_time(LATER);
    assert_eq!(screen.paste("ay\nd"), nothing());
    press_at(&mut screen, 'a', LATER);
    screen.set_time(LATER + PROMPT_MS);
    assert_eq!(screen.paste("y"), nothing());
    assert_eq!(
        press_at(&mut screen, 'y', LATER + 2 * PROMPT_MS),
        nothing(),
        "the paste voids the first key"
    );
}

fn what_does_not_fit_is_read_to_its_end_first<S: GuardedScreen>() {
    let mut screen = S::open(long_ask(), WINDOW.0, 24);
    press_at(&mut screen, 'a', LATER);
    assert_eq!(press_at(&mut screen, 'y', LATER + PROMPT_MS), nothing());
    for _ in 0..20 {
        screen.page_down();
        screen.draw();
    }
    press_at(&mut screen, 'a', 2 * LATER);
    assert_eq!(
        press_at(&mut screen, 'y', 2 * LATER + PROMPT_MS),
        approved()
    );
}

fn a_new_size_begins_the_reading_again<S: GuardedScreen>() {
    let mut screen = S::open(long_ask(), 200, 160);
    screen.set_time(LATER);
    screen.resize(WINDOW.0, 24);
    press_at(&mut screen, 'a', LATER);
    assert_eq!(press_at(&mut screen, 'y', LATER + PROMPT_MS), nothing());
}

fn in_a_tiny_window_nothing_is_approved<S: GuardedScreen>() {
    let mut screen = S::open(test_rows::approval(), 30, 5);
    press_at(&mut screen, 'a', LATER);
    assert_eq!(press_at(&mut screen, 'y', LATER + PROMPT_MS), nothing());
}

fn an_ask_that_changed_meanwhile_takes_both_keys_again<S: GuardedScreen>() {
    let mut screen: S = open();
    press_at(&mut screen, 'a', LATER);
    screen.update_ask(test_rows::bash("rm -rf /srv"));
    screen.draw();
    assert_eq!(press_at(&mut screen, 'y', LATER + PROMPT_MS), nothing());
    assert_eq!(press_at(&mut screen, 'y', LATER + 2 * SETTLE_MS), nothing());
    press_at(&mut screen, 'a', 2 * LATER);
    assert_eq!(
        press_at(&mut screen, 'y', 2 * LATER + PROMPT_MS),
        approved()
    );
}

fn an_ask_that_ended_takes_no_key<S: GuardedScreen>() {
    let mut screen: S = open();
    press_at(&mut screen, 'a', LATER);
    screen.update_ask(HostApproval {
        state: "denied".into(),
        resolved_by: Some(test_rows::who("ada", "operator")),
        ..test_rows::approval()
    });
    screen.draw();
    for letter in ['y', 'd', 'a', 'y'] {
        assert_eq!(press_at(&mut screen, letter, 2 * LATER), nothing());
    }
}

fn without_a_host_nothing_is_sent<S: GuardedScreen>() {
    let mut screen: S = open();
    screen.set_connected(false);
    for letter in ['d', 'a', 'y'] {
        assert_eq!(press_at(&mut screen, letter, LATER), nothing());
    }
}

fn a_lost_host_voids_the_first_key<S: GuardedScreen>() {
    let mut screen: S = open();
    press_at(&mut screen, 'a', LATER);
    screen.set_connected(false);
    screen.set_connected(true);
    screen.draw();
    assert_eq!(press_at(&mut screen, 'y', 2 * LATER), nothing());
}

fn without_the_focus_nothing_is_sent<S: GuardedScreen>() {
    let mut screen: S = open();
    press_at(&mut screen, 'a', LATER);
    screen.set_focused(false);
    assert_eq!(press_at(&mut screen, 'y', LATER + PROMPT_MS), nothing());
    assert_eq!(press_at(&mut screen, 'd', LATER + PROMPT_MS), nothing());
    screen.set_focused(true);
    assert_eq!(press_at(&mut screen, 'd', LATER + PROMPT_MS), nothing());
    let settled = LATER + PROMPT_MS + SETTLE_MS;
    assert_eq!(press_at(&mut screen, 'd', settled), denied(None));
}

fn letters_of_a_text_are_no_commands<S: GuardedScreen>() {
    let mut screen: S = open();
    press_at(&mut screen, 'm', LATER);
    for letter in "day".chars() {
        assert_eq!(press_at(&mut screen, letter, LATER), nothing());
    }
    assert_eq!(screen.submit(), denied(Some("day")));
    let mut screen: S = open();
    press_at(&mut screen, 'm', LATER);
    press_at(&mut screen, 'd', LATER);
    screen.update_ask(HostApproval {
        state: "expired".into(),
        ..test_rows::approval()
    });
    for letter in "day".chars() {
        assert_eq!(press_at(&mut screen, letter, 2 * LATER), nothing());
    }
    assert_eq!(screen.submit(), nothing());
}

fn a_question_is_never_just_approved<S: GuardedScreen>() {
    let asks = HostApproval {
        questions: vec![test_rows::choice_question("Which one?")],
        ..test_rows::approval()
    };
    let mut screen = S::open(asks, WINDOW.0, WINDOW.1);
    press_at(&mut screen, 'a', LATER);
    assert_eq!(press_at(&mut screen, 'y', LATER + PROMPT_MS), nothing());
}

fn a_rule_is_saved_after_it_was_shown_and_confirmed<S: GuardedScreen>() {
    const RULE: &str = "Bash(cargo test --workspace)";
    let mut screen: S = open();
    assert_eq!(press_at(&mut screen, 's', LATER), nothing());
    screen.set_time(2 * LATER);
    screen.offer_rule(RULE);
    let early = SafetyKey {
        letter: 'y',
        pressed_at: 2 * LATER,
        is_repeat: false,
    };
    assert_eq!(screen.press(early), nothing(), "it was not drawn yet");
    screen.draw();
    assert_eq!(
        press_at(&mut screen, 'y', 2 * LATER + PROMPT_MS - 1),
        nothing()
    );
    let saved = SentAnswer {
        rules: vec![RULE.to_owned()],
        ..approved().remove(0)
    };
    let second = press_at(&mut screen, 'y', 2 * LATER + PROMPT_MS);
    assert_eq!(second, vec![saved]);
}

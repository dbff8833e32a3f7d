//! Random keys, news and times: nothing is allowed without what the guard demands.

use countersign_protocol::HostApproval;
use proptest::prelude::*;

use crate::decision_guard::{PROMPT_MS, SETTLE_MS};
use crate::key::{Key, KeyCode};
use crate::message::{Effect, Message};
use crate::test_rows;
use crate::test_screen::{TestScreen, decisions, event};

#[derive(Clone, Debug)]
enum Step {
    Key(Key),
    Paste(String),
    Ask(u8),
    End(u8),
    Lost,
    Connect,
    Focus(bool),
    Resize(u16, u16),
    Wait(u64),
}

fn random_key() -> impl Strategy<Value = Key> {
    let letters = prop::sample::select("aaayyysdmtrei=nqjkJKwgo:x ".chars().collect::<Vec<_>>());
    prop_oneof![
        8 => letters.prop_map(Key::char),
        1 => Just(Key::plain(KeyCode::Enter)),
        1 => Just(Key::plain(KeyCode::Escape)),
        1 => Just(Key::plain(KeyCode::Tab)),
        2 => Just(Key::plain(KeyCode::PageDown)),
        1 => Just(Key::plain(KeyCode::Down)),
    ]
}

fn random_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => random_key().prop_map(Step::Key),
        8 => (0..900_u64).prop_map(Step::Wait),
        1 => "[ay\n]{0,6}".prop_map(Step::Paste),
        2 => (0..4_u8).prop_map(Step::Ask),
        1 => (0..4_u8).prop_map(Step::End),
        1 => Just(Step::Lost),
        1 => Just(Step::Connect),
        1 => any::<bool>().prop_map(Step::Focus),
        1 => (20..130_u16, 5..40_u16).prop_map(|(width, height)| Step::Resize(width, height)),
    ]
}

fn ask(number: u8) -> HostApproval {
    HostApproval {
        id: format!("approval-{number}"),
        sequence: u64::from(number) + 20,
        ..test_rows::bash(&"true\n".repeat(usize::from(number) * 8 + 1))
    }
}

/// What was seen from outside, kept apart from the guard.
#[derive(Default)]
struct Witness {
    /// The item that was drawn, and since when it is the same and whole on the screen.
    shown: Option<(String, u64)>,
    /// The key before `y` that asked, and when.
    asked_at: Option<u64>,
    focused: bool,
    connected: bool,
    disturbed_at: u64,
}

/// The item of which the picture has the last line, by what the report says.
fn drawn_item(screen: &TestScreen) -> Option<String> {
    let extent = screen.model.drawn.ask.as_ref()?;
    Some(extent.layout.id.clone())
}

fn is_allow(effects: &[Effect]) -> Option<String> {
    let calls = decisions(effects);
    let allow = calls
        .iter()
        .find(|call| call.params.contains("\"approve\""))?;
    Some(allow.params.clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn no_allow_without_two_keys_on_a_read_ask(steps in prop::collection::vec(random_step(), 1..80)) {
        let mut screen = TestScreen::new(120, 30);
        screen.connect(vec![ask(0), ask(1)]);
        screen.press("g s");
        let mut witness = Witness { focused: true, connected: true, disturbed_at: screen.moment().ms, ..Witness::default() };
        for step in steps {
            let now = screen.moment().ms;
            let before = drawn_item(&screen);
            let effects = match &step {
                Step::Key(key) => screen.type_key(*key),
                Step::Paste(text) => screen.send(Message::Paste(text.clone())),
                Step::Ask(number) => {
                    let payload = serde_json::to_value(ask(*number)).unwrap();
                    screen.send(Message::Event(Box::new(event("approval.requested", &payload))))
                }
                Step::End(number) => {
                    let row = HostApproval { state: "denied".into(), ..ask(*number) };
                    let payload = serde_json::to_value(row).unwrap();
                    screen.send(Message::Event(Box::new(event("approval.resolved", &payload))))
                }
                Step::Lost => screen.send(Message::Lost),
                Step::Connect => screen.connect(vec![ask(0), ask(1), ask(2)]),
                Step::Focus(focused) => screen.send(Message::Focused(*focused)),
                Step::Resize(width, height) => {
                    (screen.width, screen.height) = (*width, *height);
                    screen.send(Message::Resized)
                }
                Step::Wait(ms) => {
                    screen.wait(*ms);
                    Vec::new()
                }
            };
            if let Some(params) = is_allow(&effects) {
                prop_assert!(matches!(step, Step::Key(key) if key == Key::char('y')), "{step:?} {params}");
                let (shown, since) = witness.shown.clone().unwrap();
                prop_assert!(params.contains(&shown), "{params} {shown}");
                prop_assert!(now >= since + SETTLE_MS, "too soon after it appeared");
                prop_assert!(now >= witness.disturbed_at + SETTLE_MS, "too soon after focus or host");
                prop_assert!(witness.focused && witness.connected);
                prop_assert!(witness.asked_at.is_some_and(|asked| now >= asked + PROMPT_MS), "too soon after the question");
            }
            match step {
                Step::Focus(focused) => (witness.focused, witness.disturbed_at) = (focused, now),
                Step::Lost => (witness.connected, witness.disturbed_at) = (false, now),
                Step::Connect => (witness.connected, witness.disturbed_at) = (true, now),
                _ => {}
            }
            screen.draw();
            let after = drawn_item(&screen);
            let is_same = after.is_some() && after == witness.shown.as_ref().map(|(id, _)| id.clone()) && before == after;
            if !is_same {
                witness.shown = after.map(|id| (id, screen.moment().ms));
            }
            witness.asked_at = match (&screen.model.ask.pending, witness.asked_at) {
                (None, _) => None,
                (Some(_), Some(at)) => Some(at),
                (Some(_), None) => Some(now),
            };
        }
    }
}

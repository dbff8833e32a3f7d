//! The cases that the web page runs as well, and properties over random events.

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

const CASES: &str = include_str!("../../../../web/test/guard_cases.json");

#[derive(Deserialize)]
struct CaseFile {
    settle_ms: u64,
    prompt_ms: u64,
    second_act: Vec<SecondActCase>,
    cases: Vec<GuardCase>,
}

#[derive(Deserialize)]
struct SecondActCase {
    setting: String,
    warned: bool,
    asked_by_rule: bool,
    needed: bool,
}

#[derive(Deserialize)]
struct GuardCase {
    name: String,
    events: Vec<Value>,
}

fn text<'v>(event: &'v Value, field: &str) -> &'v str {
    event[field].as_str().unwrap_or_default()
}

fn origin(event: &Value) -> ActOrigin {
    let is_set = |field: &str| event[field].as_bool().unwrap_or(false);
    ActOrigin {
        scripted: event["trusted"] == json!(false),
        repeated: is_set("repeat"),
        composed: is_set("composing"),
        modified: is_set("modified"),
        pasted: is_set("pasted"),
        pressed_at: event["pressed_at"].as_u64(),
    }
}

fn parse_event(event: &Value) -> GuardEvent<'_> {
    let place = text(event, "place");
    match text(event, "type") {
        "show" => GuardEvent::Show {
            subject: text(event, "subject"),
            version: text(event, "version"),
            confirm: event["confirm"].as_bool().unwrap(),
        },
        "hide" => GuardEvent::Hide,
        "seen" => GuardEvent::Seen,
        "focus" => GuardEvent::Focus,
        "blur" => GuardEvent::Blur,
        "lost" => GuardEvent::Lost,
        "connected" => GuardEvent::Connected,
        "ended" => GuardEvent::Ended,
        "cancel" => GuardEvent::Cancel,
        "other_key" => GuardEvent::OtherKey,
        "allow" => GuardEvent::Allow {
            place,
            option: event["option"].as_str(),
            form: event["form"].as_bool().unwrap_or(false),
            origin: origin(event),
        },
        "confirm" => GuardEvent::Confirm {
            place,
            origin: origin(event),
        },
        "deny" => GuardEvent::Deny {
            origin: origin(event),
        },
        "answer" => GuardEvent::Answer {
            origin: origin(event),
        },
        other => panic!("an event of type {other}"),
    }
}

fn refusal_word(refusal: GuardRefusal) -> &'static str {
    match refusal {
        GuardRefusal::NothingShown => "nothing_shown",
        GuardRefusal::Ended => "ended",
        GuardRefusal::NotConnected => "not_connected",
        GuardRefusal::NotFocused => "not_focused",
        GuardRefusal::NotASingleAct => "not_a_single_act",
        GuardRefusal::TooSoon => "too_soon",
        GuardRefusal::NotSeen => "not_seen",
        GuardRefusal::NotAsked => "not_asked",
        GuardRefusal::SamePlace => "same_place",
    }
}

fn decision_json(decision: GuardDecision) -> Value {
    match decision {
        GuardDecision::None => json!({ "type": "none" }),
        GuardDecision::Confirm { subject } => json!({ "type": "confirm", "subject": subject }),
        GuardDecision::Refused(refusal) => {
            json!({ "type": "refused", "reason": refusal_word(refusal) })
        }
        GuardDecision::Deny {
            subject,
            considered_ms,
        } => json!({ "type": "deny", "subject": subject, "considered_ms": considered_ms }),
        GuardDecision::Answer {
            subject,
            considered_ms,
        } => json!({ "type": "answer", "subject": subject, "considered_ms": considered_ms }),
        GuardDecision::Allow {
            subject,
            option,
            considered_ms,
        } => {
            let mut value =
                json!({ "type": "allow", "subject": subject, "considered_ms": considered_ms });
            if let Some(option) = option {
                value["option"] = json!(option);
            }
            value
        }
    }
}

#[test]
fn the_cases_of_the_web_page_hold_here() {
    let file: CaseFile = serde_json::from_str(CASES).unwrap();
    assert_eq!((file.settle_ms, file.prompt_ms), (SETTLE_MS, PROMPT_MS));
    assert!(file.cases.len() >= 20);
    for case in &file.cases {
        let mut guard = DecisionGuard::new(true, true);
        for event in &case.events {
            let at = event["at"].as_u64().unwrap();
            let decision = decision_json(guard.step(&parse_event(event), at));
            let expected = event.get("expect").cloned();
            let expected = expected.unwrap_or(json!({ "type": "none" }));
            assert_eq!(decision, expected, "{}: {event}", case.name);
        }
    }
}

#[test]
fn a_second_act_is_needed_as_the_shared_table_says() {
    let file: CaseFile = serde_json::from_str(CASES).unwrap();
    assert_eq!(file.second_act.len(), 13);
    for case in file.second_act {
        let risk = AskRisk {
            warned: case.warned,
            asked_by_rule: case.asked_by_rule,
        };
        let needed = needs_second_act(case.setting.as_str().into(), risk);
        assert_eq!(needed, case.needed, "{} {risk:?}", case.setting);
    }
}

#[test]
fn what_was_laid_out_anew_has_to_be_read_again() {
    let mut guard = DecisionGuard::new(true, true);
    let show = GuardEvent::Show {
        subject: "a",
        version: "1",
        confirm: true,
    };
    guard.step(&show, 0);
    guard.step(&GuardEvent::Seen, 0);
    guard.step(&GuardEvent::Unseen, 1_000);
    let allow = GuardEvent::Allow {
        place: "key:a",
        option: None,
        form: false,
        origin: ActOrigin::default(),
    };
    assert_eq!(
        guard.step(&allow, 2_000),
        GuardDecision::Refused(GuardRefusal::NotSeen)
    );
    guard.step(&GuardEvent::Seen, 2_000);
    let confirm = GuardDecision::Confirm {
        subject: "a".into(),
    };
    assert_eq!(guard.step(&allow, 2_100), confirm);
    assert_eq!(guard.considered_ms(2_100), 1_100);
}

/// What a random person, host and window do.
#[derive(Clone, Debug)]
enum RandomEvent {
    Show(u8, u8),
    Seen,
    Unseen,
    Focus,
    Blur,
    Lost,
    Connected,
    Ended,
    Other,
    Allow(bool, bool),
    Confirm(bool),
}

fn random_event() -> impl Strategy<Value = RandomEvent> {
    prop_oneof![
        2 => (0..2_u8, 0..2_u8).prop_map(|(subject, version)| RandomEvent::Show(subject, version)),
        3 => Just(RandomEvent::Seen),
        1 => Just(RandomEvent::Unseen),
        1 => Just(RandomEvent::Focus),
        1 => Just(RandomEvent::Blur),
        1 => Just(RandomEvent::Lost),
        1 => Just(RandomEvent::Connected),
        1 => Just(RandomEvent::Ended),
        1 => Just(RandomEvent::Other),
        6 => (any::<bool>(), prop::bool::weighted(0.1)).prop_map(|(form, odd)| RandomEvent::Allow(form, odd)),
        6 => prop::bool::weighted(0.1).prop_map(RandomEvent::Confirm),
    ]
}

/// What must hold for an allow, kept apart from the guard's own code.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Default)]
struct Witness {
    shown: Option<(u8, u8)>,
    changed_at: u64,
    seen: bool,
    focused: bool,
    connected: bool,
    ended: bool,
    first_at: Option<u64>,
}

impl Witness {
    fn record(&mut self, event: &RandomEvent, at: u64, asked: bool) {
        match event {
            RandomEvent::Show(subject, version) => {
                if self.shown != Some((*subject, *version)) {
                    self.shown = Some((*subject, *version));
                    (self.changed_at, self.seen, self.ended, self.first_at) =
                        (at, false, false, None);
                }
            }
            RandomEvent::Seen => self.seen = true,
            RandomEvent::Unseen => self.seen = false,
            RandomEvent::Focus => (self.focused, self.changed_at, self.first_at) = (true, at, None),
            RandomEvent::Blur => (self.focused, self.changed_at, self.first_at) = (false, at, None),
            RandomEvent::Lost => {
                (self.connected, self.changed_at, self.first_at) = (false, at, None);
            }
            RandomEvent::Connected => {
                (self.connected, self.changed_at, self.first_at) = (true, at, None);
            }
            RandomEvent::Ended => (self.ended, self.changed_at, self.first_at) = (true, at, None),
            RandomEvent::Other => self.first_at = None,
            RandomEvent::Allow(..) if asked => self.first_at = Some(at),
            RandomEvent::Allow(..) | RandomEvent::Confirm(_) => {}
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_allowed_without_both_acts_on_a_read_subject(
        events in prop::collection::vec((random_event(), 0..900_u64), 1..60)
    ) {
        let mut guard = DecisionGuard::new(true, true);
        let mut witness = Witness { focused: true, connected: true, ..Witness::default() };
        let mut at = 0;
        for (event, pause) in events {
            at += pause;
            let (subject, version) = match &event {
                RandomEvent::Show(subject, version) => (subject.to_string(), version.to_string()),
                _ => (String::new(), String::new()),
            };
            let odd = |odd: &bool| ActOrigin { pasted: *odd, ..ActOrigin::default() };
            let told = match &event {
                RandomEvent::Show(..) => GuardEvent::Show { subject: &subject, version: &version, confirm: true },
                RandomEvent::Seen => GuardEvent::Seen,
                RandomEvent::Unseen => GuardEvent::Unseen,
                RandomEvent::Focus => GuardEvent::Focus,
                RandomEvent::Blur => GuardEvent::Blur,
                RandomEvent::Lost => GuardEvent::Lost,
                RandomEvent::Connected => GuardEvent::Connected,
                RandomEvent::Ended => GuardEvent::Ended,
                RandomEvent::Other => GuardEvent::OtherKey,
                RandomEvent::Allow(form, is_odd) => GuardEvent::Allow {
                    place: "key:a", option: None, form: *form, origin: odd(is_odd),
                },
                RandomEvent::Confirm(is_odd) => GuardEvent::Confirm { place: "key:y", origin: odd(is_odd) },
            };
            let decision = guard.step(&told, at);
            let asked = matches!(decision, GuardDecision::Confirm { .. });
            if let GuardDecision::Allow { .. } = decision {
                prop_assert!(matches!(event, RandomEvent::Confirm(false)));
                prop_assert!(witness.shown.is_some() && witness.seen && witness.focused && witness.connected);
                prop_assert!(!witness.ended);
                prop_assert!(at >= witness.changed_at + SETTLE_MS);
                prop_assert!(witness.first_at.is_some_and(|first| at >= first + PROMPT_MS));
                witness.first_at = None;
            }
            witness.record(&event, at, asked);
        }
    }
}

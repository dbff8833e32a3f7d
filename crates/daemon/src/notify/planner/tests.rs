//! What a channel tells, with every instant passed in.

use std::cell::RefCell;
use std::sync::Arc;

use countersign_core::event::{
    AgentProfile, AgentState, AgentStatusChanged, ApprovalRequested, Ask, QuestionAsked,
    QuestionEscalated, QuestionText, TurnEnded,
};
use countersign_core::{Caller, Json, RecordedActor};

use super::*;

const S: u64 = 1_000_000;
/// Noon, so that no quiet hours of a night are near.
const START: u64 = 12 * 3600 * S;

/// A channel, the clock, and what does not hold any more.
struct Scene {
    state: ChannelState,
    policy: ChannelPolicy,
    now: Timestamp,
    seq: u64,
    over: RefCell<Vec<String>>,
    screens: ScreenFocus,
}

impl Scene {
    fn new() -> Self {
        Self {
            state: ChannelState::starting_at(Seq(0)),
            policy: ChannelPolicy {
                kinds: NoticeKind::ALL.to_vec(),
                quiet: None,
            },
            now: Timestamp(START),
            seq: 0,
            over: RefCell::default(),
            screens: ScreenFocus::default(),
        }
    }

    fn happen(&mut self, event: impl Into<Event>) {
        self.seq += 1;
        let committed = CommittedEvent {
            seq: Seq(self.seq),
            at: self.now,
            event: event.into(),
            ask: None,
        };
        self.state.take_event(&committed, &self.policy);
    }

    fn ask(&mut self, id: &str, agent: &str) {
        let ask = Arc::new(ask(id, agent));
        self.happen(ApprovalRequested { ask });
    }

    fn end_turn(&mut self, agent: &str) {
        self.happen(TurnEnded {
            agent: AgentId::new(agent),
            turn: 1,
            reason: "end_turn".to_owned(),
            message: None,
            usage: None,
        });
    }

    fn wait_s(&mut self, seconds: u64) {
        self.now = self.now.plus_ms(seconds * 1000);
    }

    fn end(&self, id: &str) {
        self.over.borrow_mut().push(id.to_owned());
    }

    fn step(&mut self) -> PlannerStep {
        let facts = NotifyFacts {
            now: self.now,
            utc_offset_s: 0,
            screens: &self.screens,
            holds: &|subject| !self.over.borrow().iter().any(|id| id == subject.id()),
        };
        self.state.next_step(&self.policy, &facts)
    }

    /// What is told now, or how many seconds nothing is.
    fn tell(&mut self) -> Result<Vec<String>, Option<u64>> {
        match self.step() {
            PlannerStep::Send(delivery) => {
                self.state.note_told(self.now);
                let notices = delivery.notices.iter();
                Ok(notices
                    .map(|notice| notice.subject.id().to_owned())
                    .collect())
            }
            PlannerStep::Wait(until) => Err(until.map(|until| until.ms_since(self.now) / 1000)),
        }
    }
}

fn told(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn ask(id: &str, agent: &str) -> Ask {
    super::super::test_support::ask(serde_json::json!({"id": id, "agent": agent}))
}

fn question(id: &str, to: Option<&str>) -> Arc<QuestionText> {
    Arc::new(QuestionText {
        id: QuestionId::new(id),
        agent: Some(AgentId::new("child")),
        text: "which?".to_owned(),
        by: RecordedActor::from(&Caller::host()),
        deadline: None,
        to: to.map(AgentId::new),
        escalates_at: None,
        key: None,
    })
}

#[test]
fn asks_are_told_at_once_and_each_once() {
    let mut scene = Scene::new();
    assert_eq!(scene.tell(), Err(None));
    scene.ask("a", "fix");
    scene.ask("b", "fix");
    assert_eq!(scene.tell(), Ok(told(&["a"])));
    assert_eq!(scene.tell(), Ok(told(&["b"])));
    assert_eq!(scene.tell(), Err(None));
    assert_eq!(scene.state.cursor, Seq(2));
}

#[test]
fn an_ask_that_ended_is_not_told() {
    let mut scene = Scene::new();
    scene.ask("a", "fix");
    scene.end("a");
    assert_eq!(scene.tell(), Err(None));
}

#[test]
fn a_delivery_is_tried_again_later_and_later_under_its_id_until_its_ask_ends() {
    let mut scene = Scene::new();
    scene.ask("a", "fix");
    let mut waits = Vec::new();
    for _ in 0..12 {
        let PlannerStep::Send(delivery) = scene.step() else {
            panic!("nothing is sent")
        };
        assert_eq!(delivery.id, format!("evt_1_{START}"));
        scene.state.note_failed(scene.now);
        let PlannerStep::Wait(Some(until)) = scene.step() else {
            panic!("there is no pause")
        };
        waits.push(until.ms_since(scene.now) / 1000);
        scene.now = until;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    scene.end("a");
    assert_eq!(scene.tell(), Err(None));
}

#[test]
fn a_refused_delivery_is_dropped_and_the_next_one_told() {
    let mut scene = Scene::new();
    scene.ask("a", "fix");
    scene.ask("b", "fix");
    assert!(matches!(scene.step(), PlannerStep::Send(_)));
    scene.state.note_refused();
    assert_eq!(scene.tell(), Ok(told(&["b"])));
}

#[test]
fn the_next_host_repeats_what_was_on_its_way_unless_it_must_not() {
    for (repeats, expected) in [(true, Ok(told(&["a"]))), (false, Ok(told(&["b"])))] {
        let mut scene = Scene::new();
        scene.ask("a", "fix");
        scene.ask("b", "fix");
        assert!(matches!(scene.step(), PlannerStep::Send(_)));
        scene.state.note_failed(scene.now);
        // What an intent that was committed before a crash comes to.
        let stored = Json::from_value(&scene.state).unwrap();
        let stored: ChannelState = serde_json::from_str(stored.text()).unwrap();
        assert_eq!(stored, scene.state);
        scene.state = stored.resumed(repeats, scene.now);
        assert_eq!(scene.tell(), expected);
    }
}

#[test]
fn the_end_of_a_turn_is_told_after_five_seconds_if_it_still_holds() {
    let mut scene = Scene::new();
    scene.end_turn("fix");
    assert_eq!(scene.tell(), Err(Some(5)));
    scene.wait_s(5);
    assert_eq!(scene.tell(), Ok(told(&["fix"])));
    let mut scene = Scene::new();
    scene.end_turn("fix");
    scene.end("fix");
    scene.wait_s(5);
    assert_eq!(scene.tell(), Err(None));
}

#[test]
fn a_minute_lies_between_two_messages_about_an_agent_save_asks() {
    let mut scene = Scene::new();
    scene.end_turn("fix");
    scene.wait_s(5);
    assert_eq!(scene.tell(), Ok(told(&["fix"])));
    scene.ask("a", "fix");
    scene.end_turn("fix");
    scene.end_turn("docs");
    assert_eq!(scene.tell(), Ok(told(&["a"])));
    assert_eq!(scene.tell(), Err(Some(5)));
    scene.wait_s(5);
    assert_eq!(scene.tell(), Ok(told(&["docs"])));
    assert_eq!(scene.tell(), Err(Some(55)));
    scene.wait_s(55);
    assert_eq!(scene.tell(), Ok(told(&["fix"])));
}

#[test]
fn only_the_newest_state_of_an_agent_is_told() {
    let mut scene = Scene::new();
    scene.end_turn("fix");
    let profile = Arc::new(AgentProfile::new(AgentId::new("fix"), "fix"));
    scene.happen(AgentStatusChanged {
        agent: profile,
        base: BaseState::Done,
        state: AgentState::Done,
        current_task: None,
        client: None,
        message: None,
        payload: None,
    });
    scene.wait_s(5);
    let PlannerStep::Send(delivery) = scene.step() else {
        panic!("nothing is sent")
    };
    let expected = Notice {
        seq: Seq(2),
        at: Timestamp(START),
        subject: NoticeSubject::Exited(AgentId::new("fix")),
        agent: Some(AgentId::new("fix")),
    };
    assert_eq!(delivery.notices, [expected]);
}

#[test]
fn a_question_for_an_orchestrator_is_told_when_it_is_left_to_people() {
    let mut scene = Scene::new();
    let text = question("q", Some("boss"));
    scene.happen(QuestionAsked { question: text });
    scene.end("q");
    assert_eq!(scene.tell(), Err(None));
    scene.over.borrow_mut().clear();
    scene.happen(QuestionEscalated {
        question: QuestionId::new("q"),
        opened: Seq(1),
        agent: Some(AgentId::new("child")),
    });
    assert_eq!(scene.tell(), Ok(told(&["q"])));
}

#[test]
fn a_focused_screen_hushes_asks_until_it_is_left_and_the_rest_for_good() {
    let mut scene = Scene::new();
    scene.screens = ScreenFocus::focused(scene.now.plus_ms(30_000));
    scene.ask("a", "fix");
    scene.end_turn("docs");
    assert_eq!(scene.tell(), Err(Some(30)));
    scene.wait_s(30);
    assert_eq!(scene.tell(), Ok(told(&["a"])));
    assert_eq!(scene.tell(), Err(None));
}

#[test]
fn an_opened_ask_is_hushed_for_itself_alone() {
    let mut scene = Scene::new();
    scene.screens = ScreenFocus::opened("a", scene.now.plus_ms(120_000));
    scene.ask("a", "fix");
    scene.ask("b", "fix");
    assert_eq!(scene.tell(), Ok(told(&["b"])));
    assert_eq!(scene.tell(), Err(Some(120)));
    scene.wait_s(120);
    assert_eq!(scene.tell(), Ok(told(&["a"])));
}

#[test]
fn more_than_ten_in_an_hour_are_told_together() {
    let mut scene = Scene::new();
    for number in 0..10 {
        let id = format!("a{number}");
        scene.ask(&id, "fix");
        assert_eq!(scene.tell(), Ok(told(&[&id])));
    }
    scene.ask("b", "fix");
    let PlannerStep::Send(delivery) = scene.step() else {
        panic!("nothing is sent")
    };
    assert_eq!(
        (delivery.id, delivery.digest),
        (format!("digest_11_{START}"), true)
    );
    scene.state.note_told(scene.now);
    scene.ask("c", "fix");
    scene.ask("d", "docs");
    scene.ask("e", "docs");
    scene.end("d");
    assert_eq!(scene.tell(), Err(Some(300)));
    scene.wait_s(300);
    assert_eq!(scene.tell(), Ok(told(&["c", "e"])));
    scene.wait_s(3600);
    scene.ask("f", "fix");
    scene.ask("g", "fix");
    assert_eq!(scene.tell(), Ok(told(&["f"])));
}

#[test]
fn many_at_once_are_one_digest() {
    let mut scene = Scene::new();
    for number in 0..11 {
        scene.ask(&format!("a{number}"), "fix");
    }
    assert_eq!(scene.tell().map(|ids| ids.len()), Ok(11));
}

#[test]
fn quiet_hours_end_with_a_digest_of_what_still_waits() {
    let mut scene = Scene::new();
    scene.policy.quiet = Some("12:00-13:00".parse().unwrap());
    for id in ["a", "b", "c"] {
        scene.ask(id, "fix");
    }
    assert_eq!(scene.tell(), Err(Some(3600)));
    scene.end("b");
    scene.wait_s(3600);
    assert_eq!(scene.tell(), Ok(told(&["a", "c"])));
    assert_eq!(scene.tell(), Err(None));
}

#[test]
fn a_channel_tells_only_the_kinds_it_is_for() {
    let mut scene = Scene::new();
    scene.policy.kinds = vec![NoticeKind::QuestionAsked];
    scene.ask("a", "fix");
    scene.end_turn("fix");
    let text = question("q", None);
    scene.happen(QuestionAsked { question: text });
    assert_eq!(scene.tell(), Ok(told(&["q"])));
    scene.wait_s(60);
    assert_eq!(scene.tell(), Err(None));
    assert_eq!(scene.state.cursor, Seq(3));
}

#[test]
fn what_waits_is_bounded_and_asks_go_before_the_rest() {
    let mut scene = Scene::new();
    scene.end_turn("docs");
    for number in 0..=NOTIFY_WAITING_MAX {
        scene.ask(&format!("a{number}"), "fix");
    }
    let expected: Vec<_> = (0..NOTIFY_WAITING_MAX)
        .map(|number| format!("a{number}"))
        .collect();
    assert_eq!(scene.tell(), Ok(expected));
}

#[test]
fn after_a_day_an_idle_agent_is_not_told_about() {
    let mut scene = Scene::new();
    scene.end_turn("fix");
    scene.wait_s(24 * 3600 + 1);
    assert_eq!(scene.tell(), Err(None));
}

#[test]
fn the_kinds_that_are_read_are_kinds_of_events() {
    for kind in KINDS_READ {
        assert!(Event::KINDS.contains(&kind), "{kind}");
    }
}

//! What moves the selection, and what does not.

use countersign_protocol::HostApprovalState;
use serde_json::{Value, json};

use super::*;
use crate::test_rows;

fn ask(id: &str, sequence: u64) -> InboxItem {
    InboxItem::ask(HostApproval {
        id: id.into(),
        sequence,
        ..test_rows::approval()
    })
}

fn ended(id: &str, sequence: u64) -> InboxItem {
    InboxItem::ask(HostApproval {
        id: id.into(),
        sequence,
        state: HostApprovalState::Denied,
        ..test_rows::approval()
    })
}

fn inbox(items: Vec<InboxItem>) -> Inbox {
    let mut inbox = Inbox::default();
    for item in items {
        inbox.update_item(item);
    }
    inbox
}

fn ids(inbox: &Inbox) -> (Vec<&str>, Option<&str>) {
    (
        inbox.items.iter().map(InboxItem::id).collect(),
        inbox.selected_id(),
    )
}

fn take(inbox: &mut Inbox, kind: &str, payload: &Value) {
    let event = json!({
        "id": "e", "kind": kind, "message": "", "payload": payload, "sequence": 1,
        "timestamp": "1970-01-01T00:00:00.000000Z",
    });
    let event: HostEvent = serde_json::from_str(&event.to_string()).unwrap();
    inbox.apply(&event);
}

#[test]
fn the_selection_stays_when_others_come_and_go() {
    let mut inbox = inbox(vec![ask("b", 2)]);
    let version = inbox.version();
    inbox.update_item(ask("a", 1));
    inbox.update_item(ask("c", 3));
    assert_eq!(ids(&inbox), (vec!["a", "b", "c"], Some("b")));
    inbox.update_item(ended("a", 1));
    inbox.update_item(ask("b", 2));
    assert_eq!(ids(&inbox), (vec!["b", "c"], Some("b")));
    assert_eq!(inbox.version(), version);
}

#[test]
fn an_end_elsewhere_leaves_the_selection_where_it_is() {
    let mut inbox = inbox(vec![ask("a", 1), ask("b", 2)]);
    let version = inbox.version();
    inbox.update_item(ended("a", 1));
    assert_eq!(ids(&inbox), (vec!["a", "b"], Some("a")));
    assert_eq!(inbox.items[0].ended.as_deref(), Some("denied"));
    assert_ne!(inbox.version(), version);
    inbox.move_selection(1);
    assert_eq!(ids(&inbox), (vec!["b"], Some("b")));
}

#[test]
fn after_the_last_one_ended_a_step_finds_what_is_open() {
    let mut inbox = inbox(vec![ask("b", 2), ended("b", 2), ask("a", 1)]);
    assert_eq!(ids(&inbox), (vec!["a", "b"], Some("b")));
    inbox.move_selection(1);
    assert_eq!(ids(&inbox), (vec!["a"], Some("a")));
}

#[test]
fn a_new_connection_keeps_the_selection_and_marks_what_is_over() {
    let mut inbox = inbox(vec![ask("a", 1), ask("b", 2)]);
    inbox.replace_items(vec![ask("c", 3)]);
    assert_eq!(ids(&inbox), (vec!["a", "c"], Some("a")));
    assert!(inbox.items[0].ended.is_some());
}

#[test]
fn the_next_that_waits_is_found_round_the_end_and_past_what_is_put_aside() {
    let mut inbox = inbox(vec![ask("a", 1), ask("b", 2), ask("c", 3)]);
    inbox.select(Some("b".into()));
    inbox.snooze("c", Time(100));
    assert_eq!(inbox.next_waiting(Time(0), None).as_deref(), Some("a"));
    assert_eq!(inbox.next_waiting(Time(100), None).as_deref(), Some("c"));
    let none = BTreeSet::new();
    assert_eq!(inbox.next_waiting(Time(0), Some(&none)), None);
}

#[test]
fn a_question_waits_behind_the_rest_until_people_are_asked_and_goes_when_it_ends() {
    let mut inbox = Inbox::default();
    let first = HostQuestion {
        to: Some("agent-b".into()),
        for_people: false,
        ..test_rows::question()
    };
    let later = HostQuestion {
        id: "question-later".into(),
        sequence: 9,
        ..test_rows::question()
    };
    let id = first.id.clone();
    take(
        &mut inbox,
        "question.asked",
        &serde_json::to_value(&first).unwrap(),
    );
    take(
        &mut inbox,
        "question.asked",
        &serde_json::to_value(&later).unwrap(),
    );
    assert_eq!(ids(&inbox).0, ["question-later", id.as_str()]);
    take(
        &mut inbox,
        "question.escalated",
        &json!({ "question": id, "opened": 8 }),
    );
    assert_eq!(ids(&inbox).0, [id.as_str(), "question-later"]);
    let ended =
        json!({ "id": "question-later", "sequence": 9, "state": "answered", "answer": "yes" });
    take(&mut inbox, "question.ended", &ended);
    assert_eq!(ids(&inbox).0, [id.as_str()]);
}

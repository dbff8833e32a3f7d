//! What events mean for the screen.
//!
//! Rows of asks, and of questions that begin, travel whole in their events. How a question goes on is
//! told in a few words, which count only for one that is known here.

use std::time::Instant;

use countersign_protocol::{HostApproval, HostEvent, HostQuestionState, Who};

use super::screen::WatchScreen;
use crate::render::decisions;
use crate::render::inbox_item::InboxItem;

/// A question that is known here, as an event changes it: it ended, or people are asked as well.
fn changed_question(screen: &WatchScreen, payload: &str) -> Option<InboxItem> {
    #[derive(serde::Deserialize)]
    struct Change {
        #[serde(alias = "question")]
        id: String,
        #[serde(default)]
        answer: Option<String>,
        #[serde(default)]
        answered_by: Option<Who>,
        #[serde(default)]
        state: Option<HostQuestionState>,
    }
    let change: Change = serde_json::from_str(payload).ok()?;
    let mut row = screen.find_question(&change.id)?.clone();
    // Both events mean it: people are asked now, or the question is over for everybody.
    row.for_people = true;
    row.answer = change.answer;
    row.answered_by = change.answered_by;
    row.state = change.state.unwrap_or(row.state);
    Some(InboxItem::question(row))
}

/// An ask that ended. Its event has only the line that names it, so the rest stays as it was shown.
fn ended_ask(screen: &WatchScreen, payload: &str) -> Option<InboxItem> {
    let mut row: HostApproval = serde_json::from_str(payload).ok()?;
    let shown = screen.find_ask(&row.id).and_then(|ask| ask.view.clone());
    if row.view.as_ref().is_some_and(|view| view.cut) {
        row.view = shown.or(row.view);
    }
    Some(InboxItem::ask(row))
}

/// Takes in an event; most change nothing here.
pub(super) fn apply_event(screen: &mut WatchScreen, event: &HostEvent, now: Instant) {
    let payload = event.payload.text();
    let item = match event.kind.as_str() {
        "approval.requested" => serde_json::from_str(payload).map(InboxItem::ask).ok(),
        "approval.resolved" => ended_ask(screen, payload),
        "question.asked" => serde_json::from_str(payload).map(InboxItem::question).ok(),
        "question.ended" | "question.escalated" => changed_question(screen, payload),
        decisions::NOTE => InboxItem::note(event.clone()),
        _ => None,
    };
    if let Some(item) = item {
        screen.update_item(item, now);
    }
}

#[cfg(test)]
mod tests {
    use countersign_protocol::{HostQuestion, Time};
    use serde_json::{Value, json};

    use super::*;
    use crate::test_rows;

    fn take(screen: &mut WatchScreen, kind: &str, payload: &Value) {
        let event = json!({
            "id": "e", "kind": kind, "message": "", "payload": payload, "sequence": 1,
            "timestamp": "1970-01-01T00:00:00.000000Z",
        });
        let event: HostEvent = serde_json::from_str(&event.to_string()).unwrap();
        apply_event(screen, &event, Instant::now());
    }

    fn ids(screen: &WatchScreen) -> Vec<&str> {
        screen.items.iter().map(InboxItem::id).collect()
    }

    #[test]
    fn a_question_waits_behind_the_rest_until_people_are_asked_and_goes_when_it_ends() {
        let mut screen = WatchScreen::new(Instant::now(), Time(0));
        let first = HostQuestion {
            to: Some("agent-b".into()),
            for_people: false,
            ..test_rows::question()
        };
        let id = first.id.clone();
        let asked = serde_json::to_value(&first).unwrap();
        take(&mut screen, "question.asked", &asked);
        let later = HostQuestion {
            id: "question-later".into(),
            sequence: 9,
            ..test_rows::question()
        };
        take(
            &mut screen,
            "question.asked",
            &serde_json::to_value(&later).unwrap(),
        );
        assert_eq!(ids(&screen), ["question-later", id.as_str()]);
        let escalated = json!({ "question": id, "opened": 8 });
        take(&mut screen, "question.escalated", &escalated);
        assert_eq!(ids(&screen), [id.as_str(), "question-later"]);
        let ended = json!({
            "id": "question-later", "sequence": 9, "state": "answered", "answer": "yes",
            "answered_by": { "name": "boss", "role": "agent", "agent_id": "agent-b" },
        });
        take(&mut screen, "question.ended", &ended);
        assert_eq!(ids(&screen), [id.as_str()]);
        let unknown = json!({ "id": "question-x", "state": "answered" });
        take(&mut screen, "question.ended", &unknown);
        assert_eq!(ids(&screen), [id.as_str()]);
    }
    #[test]
    fn a_note_to_people_is_listed_once_after_everything_else() {
        let mut screen = WatchScreen::new(Instant::now(), Time(0));
        let note = json!({ "agent": "agent-1", "text": "half way" });
        take(&mut screen, decisions::NOTE, &note);
        take(&mut screen, decisions::NOTE, &note);
        let asked = serde_json::to_value(test_rows::question()).unwrap();
        take(&mut screen, "question.asked", &asked);
        let read = json!({ "agent": "agent-1", "to": "agent-b", "text": "for it" });
        let mut other = WatchScreen::new(Instant::now(), Time(0));
        take(&mut other, decisions::NOTE, &read);
        assert_eq!(ids(&screen), [test_rows::question().id.as_str(), "e"]);
        assert_eq!(ids(&other), Vec::<&str>::new());
    }
}

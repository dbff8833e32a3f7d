//! Decisions about an agent in words: who allowed or denied what, and who interrupted it.

use countersign_protocol::{HostApproval, HostApprovalState, HostEvent, HostRole};
use serde::Deserialize;

use crate::render::approvals;

/// Kinds of events that are decisions about an agent.
pub const KINDS: [&str; 4] = [
    "approval.resolved",
    "turn.interrupted",
    "agent.stop_requested",
    NOTE,
];

/// The kind of a note that an agent sent to its orchestrator, or to people where it has none.
pub const NOTE: &str = "agent.parent_notified";

/// A decision in words; text of others in it is as they wrote it. Begins with the word for what was
/// decided.
pub fn describe(event: &HostEvent) -> String {
    let payload = event.payload.text();
    let described = match event.kind.as_str() {
        "approval.resolved" => serde_json::from_str(payload).ok().map(|row| resolved(&row)),
        "turn.interrupted" => serde_json::from_str(payload).ok().map(interrupted),
        "agent.stop_requested" => serde_json::from_str(payload)
            .ok()
            .map(|event| killed(&event)),
        NOTE => serde_json::from_str(payload).ok().map(|note| noted(&note)),
        _ => None,
    };
    // An event of a newer host, or one whose content was pruned.
    described.unwrap_or_else(|| event.message.clone())
}

fn resolved(row: &HostApproval) -> String {
    let mut text = row.state.to_string();
    let is_decided = matches!(
        row.state,
        HostApprovalState::Allowed | HostApprovalState::Denied | HostApprovalState::Answered
    );
    if row.state == HostApprovalState::Answered {
        text.extend([
            " with `",
            row.resolution.as_deref().unwrap_or_default(),
            "`",
        ]);
    }
    if is_decided {
        text.extend([" by ", &decider(row)]);
    }
    text.extend([": ", &approvals::summary(row)]);
    let edited = row.view.as_ref();
    if let Some(instead) = edited.and_then(|view| view.edited_summary.as_deref()) {
        text.extend(["\nwith another input: ", instead]);
    }
    if let Some(message) = &row.message {
        text.extend(["\nmessage: ", message]);
    }
    text
}

/// The rules that decided, or who did.
fn decider(row: &HostApproval) -> String {
    let Some(who) = &row.resolved_by else {
        return "the host".to_owned();
    };
    if who.role != HostRole::Host {
        return approvals::resolver_name(who, row.agent_id.as_deref());
    }
    let parts = row.verdict.iter().flat_map(|verdict| &verdict.parts);
    let mut rules: Vec<&str> = Vec::new();
    for rule in parts.filter_map(|part| part.rule.as_ref()) {
        if !rules.contains(&rule.rule.as_str()) {
            rules.push(&rule.rule);
        }
    }
    match rules.len() {
        0 => "the host".to_owned(),
        1 => format!("rule {}", rules[0]),
        _ => format!("rules {}", rules.join(", ")),
    }
}

#[derive(Deserialize)]
struct Actor {
    name: String,
}

#[derive(Deserialize)]
struct Interrupted {
    by: Actor,
    reason: Option<String>,
}

fn interrupted(event: Interrupted) -> String {
    let why = event.reason.map_or(String::new(), |why| format!(": {why}"));
    format!("interrupted by {}{why}", event.by.name)
}

#[derive(Deserialize)]
struct Note {
    to: Option<String>,
    text: String,
}

fn noted(note: &Note) -> String {
    let reader = match note.to {
        Some(_) => "its orchestrator",
        None => "you",
    };
    format!("note to {reader}: {}", note.text)
}

/// The text of a note that no orchestrator reads, so that people are to.
pub fn note_to_people(event: &HostEvent) -> Option<String> {
    let note: Note = serde_json::from_str(event.payload.text()).ok()?;
    note.to.is_none().then_some(note.text)
}

#[derive(Deserialize)]
struct Stopped {
    by: Actor,
}

fn killed(event: &Stopped) -> String {
    format!("killed by {}", event.by.name)
}

#[cfg(test)]
mod tests {
    use countersign_protocol::{HostAskView, HostVerdict, Time};

    use super::*;
    use crate::test_rows;

    fn event(kind: &str, payload: &str) -> HostEvent {
        HostEvent {
            agent_id: Some("agent-1".into()),
            agent_name: None,
            id: "event-1".into(),
            kind: kind.into(),
            message: "the message".into(),
            payload: test_rows::raw(payload),
            sequence: 1,
            timestamp: Time(0),
        }
    }

    fn of_ask(row: &HostApproval) -> String {
        let payload = serde_json::to_string(row).unwrap();
        describe(&event("approval.resolved", &payload))
    }

    #[test]
    fn a_decision_says_who_decided_what() {
        let allowed = HostApproval {
            state: "allowed".into(),
            resolved_by: Some(test_rows::who("ada", "operator")),
            ..test_rows::approval()
        };
        assert_eq!(
            of_ask(&allowed),
            "allowed by ada: Bash: cargo test --workspace"
        );
        let edited = HostApproval {
            edited_input: Some(test_rows::raw(r#"{"command":"cargo test -p core"}"#)),
            message: Some("only core".into()),
            view: allowed.view.clone().map(|view| HostAskView {
                edited_summary: Some("Bash: cargo test -p core".into()),
                ..view
            }),
            ..allowed.clone()
        };
        assert_eq!(
            of_ask(&edited),
            "allowed by ada: Bash: cargo test --workspace\n\
             with another input: Bash: cargo test -p core\nmessage: only core"
        );
        let by_rule = HostApproval {
            resolved_by: Some(test_rows::who("host", "host")),
            verdict: Some(HostVerdict {
                parts: test_rows::verdict().parts.into_iter().take(1).collect(),
                ..test_rows::verdict()
            }),
            ..allowed.clone()
        };
        assert_eq!(
            of_ask(&by_rule),
            "allowed by rule Bash(cargo test:*): Bash: cargo test --workspace"
        );
        let expired = HostApproval {
            state: "expired".into(),
            ..allowed
        };
        assert_eq!(of_ask(&expired), "expired: Bash: cargo test --workspace");
    }

    #[test]
    fn an_interrupt_has_its_reason_and_what_cannot_be_read_its_message() {
        let by = r#"{"by":{"name":"ada"},"reason":"wrong branch","turn":2}"#;
        assert_eq!(
            describe(&event("turn.interrupted", by)),
            "interrupted by ada: wrong branch"
        );
        let by = r#"{"by":{"name":"ada"}}"#;
        assert_eq!(
            describe(&event("turn.interrupted", by)),
            "interrupted by ada"
        );
        assert_eq!(
            describe(&event("agent.stop_requested", by)),
            "killed by ada"
        );
        assert_eq!(describe(&event("approval.resolved", "{}")), "the message");
        let note = event(NOTE, r#"{"agent":"a","text":"half way"}"#);
        assert_eq!(describe(&note), "note to you: half way");
        assert_eq!(note_to_people(&note), Some("half way".to_owned()));
        let read = event(NOTE, r#"{"agent":"a","to":"b","text":"half way"}"#);
        assert_eq!(describe(&read), "note to its orchestrator: half way");
        assert_eq!(note_to_people(&read), None);
    }
}

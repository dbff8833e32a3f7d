//! Rows for tests.

use countersign_protocol::{HostApproval, HostQuestion, Raw, Time, Who};

pub(crate) fn raw(text: &str) -> Raw {
    serde_json::from_str(text).unwrap()
}

pub(crate) fn who(name: &str, role: &str) -> Who {
    Who {
        agent_id: None,
        name: name.into(),
        role: role.into(),
    }
}

/// A pending ask, one second after 1970.
pub(crate) fn approval() -> HostApproval {
    HostApproval {
        a2ui: None,
        action: "Run the tests".into(),
        agent_id: Some("builder".into()),
        answerable: None,
        approving: vec!["approve".into()],
        asked_by: Some(who("builder", "agent")),
        client_id: None,
        created_at: Time(1_000_000),
        cwd: None,
        deadline: None,
        deliveries: 0,
        delivery: None,
        details: Raw::null(),
        edited_input: None,
        id: "approval-aaaa11112222".into(),
        idempotency_key: None,
        input: Some(raw(r#"{"command":"cargo test --workspace"}"#)),
        input_digest: Some("d1gest".into()),
        message: None,
        options: vec!["approve".into(), "deny".into()],
        passed_to_owner: None,
        resolution: None,
        resolved_at: None,
        resolved_by: None,
        sequence: 7,
        state: "pending".into(),
        status: "pending".into(),
        subscribed: None,
        tool: Some("Bash".into()),
        tool_call_id: None,
        turn: None,
        verdict: None,
    }
}

/// A pending question, two seconds after 1970.
pub(crate) fn question() -> HostQuestion {
    HostQuestion {
        agent_id: Some("docs".into()),
        answer: None,
        answered_by: None,
        asked_by: who("docs", "agent"),
        created_at: Time(2_000_000),
        deadline: None,
        ended_at: None,
        id: "question-bbbb11112222".into(),
        question: "Which title?".into(),
        sequence: 8,
        state: "pending".into(),
    }
}

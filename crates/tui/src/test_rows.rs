//! Rows for tests.

use countersign_protocol::{
    GrantRow, HostAgent, HostAgentDisplay, HostAnswerLimits, HostApproval, HostAskView, HostChoice,
    HostChoiceQuestion, HostQuestion, HostRule, HostVerdict, HostVerdictPart, Raw, RuleScope, Time,
    Who,
};

/// JSON as it came. Text that is not JSON is a mistake in the test.
pub fn raw(text: &str) -> Raw {
    match serde_json::from_str(text) {
        Ok(raw) => raw,
        Err(error) => panic!("{text}: {error}"),
    }
}

pub fn who(name: &str, role: &str) -> Who {
    Who {
        agent_id: None,
        name: name.into(),
        role: role.into(),
    }
}

/// A pending ask, one second after 1970.
pub fn approval() -> HostApproval {
    HostApproval {
        a2ui: None,
        action: "Run the tests".into(),
        agent_id: Some("builder".into()),
        agent_name: None,
        answerable: None,
        approving: vec!["approve".into()],
        asked_by: Some(who("builder", "agent")),
        brief: false,
        client_id: None,
        lapses_at: None,
        considered_ms: None,
        created_at: Time(1_000_000),
        cwd: None,
        deadline: None,
        deliveries: 0,
        delivery: None,
        details: Raw::null(),
        door: None,
        edited_input: None,
        id: "approval-aaaa11112222".into(),
        idempotency_key: None,
        input: Some(raw(r#"{"command":"cargo test --workspace"}"#)),
        input_digest: Some("d1gest".into()),
        message: None,
        options: vec!["approve".into(), "deny".into()],
        passed_to_owner: None,
        questions: Vec::new(),
        remembered: Vec::new(),
        repeats: None,
        sandbox: None,
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
        view: Some(HostAskView {
            command: Some("cargo test --workspace".into()),
            summary: "Bash: cargo test --workspace".into(),
            title: Some("Run the tests".into()),
            ..HostAskView::default()
        }),
    }
}

/// The same for another command, which has nothing hidden in it.
pub fn bash(command: &str) -> HostApproval {
    let input = serde_json::json!({ "command": command });
    HostApproval {
        input: Some(raw(&input.to_string())),
        view: Some(HostAskView {
            command: Some(command.into()),
            summary: format!("Bash: {}", command.replace('\n', "\\n")),
            title: Some("Run the tests".into()),
            ..HostAskView::default()
        }),
        ..approval()
    }
}

/// A pending question, two seconds after 1970.
pub fn question() -> HostQuestion {
    HostQuestion {
        agent_id: Some("docs".into()),
        agent_name: None,
        answer: None,
        answered_by: None,
        asked_by: who("docs", "agent"),
        considered_ms: None,
        created_at: Time(2_000_000),
        deadline: None,
        door: None,
        ended_at: None,
        escalates_at: None,
        for_people: true,
        id: "question-bbbb11112222".into(),
        question: "Which title?".into(),
        sequence: 8,
        state: "pending".into(),
        to: None,
        to_name: None,
    }
}

/// A verdict of two parts, the second on the floor.
pub fn verdict() -> HostVerdict {
    let rule = HostRule {
        effect: "allow".into(),
        grant: None,
        line: Some(3),
        rule: "Bash(cargo test:*)".into(),
        source: "/u/rules.toml".into(),
    };
    HostVerdict {
        effect: "ask".into(),
        parts: vec![
            HostVerdictPart {
                effect: "allow".into(),
                floor: false,
                kind: "command".into(),
                reason: None,
                rule: Some(rule),
                subject: "cargo test".into(),
            },
            HostVerdictPart {
                effect: "ask".into(),
                floor: true,
                kind: "write".into(),
                reason: Some("git internals".into()),
                rule: None,
                subject: "/p/.git/config".into(),
            },
        ],
        text: String::new(),
    }
}

/// A grant without an end, one second after 1970.
pub fn grant() -> GrantRow {
    GrantRow {
        by: who("ada", "operator"),
        created_at: Time(1_000_000),
        effect: "allow".into(),
        expires_at: None,
        fired: 0,
        id: "grant-1".into(),
        last_used: None,
        origin: Some("approval-aaaa11112222".into()),
        rule: "Bash(ls:*)".into(),
        scope: RuleScope {
            agent: Some("builder".into()),
            project: Some("/p".into()),
            ..RuleScope::default()
        },
        uses: None,
        uses_left: None,
    }
}

/// An agent that waits for two answers.
pub fn agent() -> HostAgent {
    HostAgent {
        bypass_until: None,
        capabilities: Vec::new(),
        current_task: Some("Fix the build".into()),
        display: HostAgentDisplay::default(),
        id: "agent-1".into(),
        kind: "demo".into(),
        managed: None,
        metadata: Raw::null(),
        name: "builder".into(),
        open_approvals: 2,
        open_questions: 0,
        pid: None,
        project: None,
        session_id: None,
        started_at: None,
        state: "awaiting_permission".into(),
        status: "waiting_for_approval".into(),
        updated_at: Time(0),
    }
}

/// What the host knows of an agent it runs.
pub fn managed() -> countersign_protocol::ManagedRow {
    countersign_protocol::ManagedRow {
        agent: Some("claude".into()),
        cwd: "/srv/app".into(),
        run: 1,
        ..countersign_protocol::ManagedRow::default()
    }
}

/// A question with two choices, as an ask carries it.
pub fn choice_question(question: &str) -> HostChoiceQuestion {
    let choices = ["SQLite", "Postgres"].map(|label| HostChoice {
        description: None,
        label: label.into(),
    });
    HostChoiceQuestion {
        choices: choices.into(),
        free_text: false,
        header: None,
        limits: HostAnswerLimits::default(),
        number: false,
        optional: false,
        question: question.into(),
        several: false,
    }
}

//! The editor's side by itself: lines and facts in, lines and calls out. Every line that comes out is
//! read with the types of the official schema.

use agent_client_protocol_schema::v1::{
    CancelRequestNotification, CreateElicitationRequest, CreateTerminalRequest, InitializeResponse,
    ListSessionsResponse, LoadSessionResponse, NewSessionResponse, PromptResponse,
    RequestPermissionRequest, SessionNotification, SetSessionConfigOptionResponse,
};
use countersign_core::event::{AgentPlan, PlanStep, TokenUsage, ToolStatus, TranscriptEntry};
use countersign_core::limits::EDITOR_AUTOMATIC_MS;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

/// A connection, and the clock of its editor.
struct Desk {
    machine: EditorConnection,
    now_ms: u64,
}

/// What came of one input.
struct Said {
    lines: Vec<Value>,
    calls: Vec<EditorHostCall>,
    ids: Vec<CallId>,
}

impl Said {
    fn updates(&self) -> Vec<&Value> {
        let updates = self.lines.iter().map(|line| &line["params"]["update"]);
        updates.filter(|update| !update.is_null()).collect()
    }

    fn request(&self, method: &str) -> &Value {
        let mut lines = self.lines.iter();
        lines.find(|line| line["method"] == method).unwrap()
    }
}

impl Desk {
    fn new(settings: EditorSettings, capabilities: &Value) -> Self {
        let mut desk = Self {
            machine: EditorConnection::new(settings),
            now_ms: 0,
        };
        let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let said = desk.hear(&json!({"id": "i", "method": "initialize", "params": params}));
        fits::<InitializeResponse>(&said.lines[0]["result"]);
        desk
    }

    /// With a session called `s` that is open.
    fn open(settings: EditorSettings, capabilities: &Value) -> Self {
        let mut desk = Self::new(settings, capabilities);
        let new =
            json!({"id": 1, "method": "session/new", "params": {"cwd": "/p", "mcpServers": []}});
        let said = desk.hear(&new);
        let call = said.ids[0];
        let session = "s".to_owned();
        desk.reply(call, Ok(HostReply::Started { session }));
        let said = desk.fact(SessionFact::Attached(Box::default()));
        fits::<NewSessionResponse>(&said.lines[0]["result"]);
        assert_eq!(said.lines[0]["result"]["sessionId"], "s");
        desk
    }

    fn hear(&mut self, message: &Value) -> Said {
        let output = self
            .machine
            .handle_line(message.to_string().as_bytes(), self.now_ms);
        check(output)
    }

    fn reply(&mut self, call: CallId, reply: Result<HostReply, HostCallError>) -> Said {
        check(self.machine.handle_reply(call, reply))
    }

    fn fact(&mut self, fact: SessionFact) -> Said {
        check(self.machine.handle_fact("s", fact))
    }

    fn event(&mut self, event: SessionEvent) -> Said {
        self.fact(SessionFact::Event(event))
    }

    fn ask(&mut self, ask: EditorAsk) -> (Said, u64) {
        let said = self.event(SessionEvent::AskOpened(Box::new(ask)));
        let id = said.request("session/request_permission")["id"]
            .as_u64()
            .unwrap();
        self.machine.note_written(id, self.now_ms);
        (said, id)
    }

    /// Opens a form, and gives the request for it.
    fn open_form(&mut self, event: SessionEvent) -> u64 {
        let said = self.event(event);
        let id = said.request("elicitation/create")["id"].as_u64().unwrap();
        self.machine.note_written(id, self.now_ms);
        id
    }

    fn choose(&mut self, request: u64, option: &str) -> Said {
        let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
        self.hear(&json!({"id": request, "result": outcome}))
    }

    fn prompt(&mut self, text: &str) -> Said {
        let params = json!({"sessionId": "s", "prompt": [{"type": "text", "text": text}]});
        self.hear(&json!({"id": 7, "method": "session/prompt", "params": params}))
    }
}

/// What an editor says that has forms.
fn forms() -> Value {
    json!({"elicitation": {"form": {}}})
}

fn fits<T: DeserializeOwned>(value: &Value) {
    let read = serde_json::from_value::<T>(value.clone());
    assert!(read.is_ok(), "{value}: {:?}", read.err());
}

/// Reads each line with the official types. Responses are read where they are expected.
fn check(output: EditorOutput) -> Said {
    let lines: Vec<Value> = output
        .lines
        .iter()
        .map(|line| serde_json::from_slice(&line.bytes).unwrap())
        .collect();
    for line in &lines {
        assert_eq!(line["jsonrpc"], "2.0", "{line}");
        let params = &line["params"];
        match line.get("method").and_then(Value::as_str) {
            None => assert!(line.get("id").is_some(), "{line}"),
            Some("session/update") => fits::<SessionNotification>(params),
            Some("session/request_permission") => fits::<RequestPermissionRequest>(params),
            Some("elicitation/create") => fits::<CreateElicitationRequest>(params),
            Some("terminal/create") => fits::<CreateTerminalRequest>(params),
            Some("$/cancel_request") => fits::<CancelRequestNotification>(params),
            Some(other) => panic!("{other} is no method of clients: {line}"),
        }
    }
    let (ids, calls) = output.calls.into_iter().unzip();
    Said { lines, calls, ids }
}

fn ask() -> EditorAsk {
    EditorAsk {
        id: "approval-1".into(),
        short_id: "1".into(),
        tool_call: Some("c1".into()),
        tool: Some("Bash".into()),
        title: "Bash: make".into(),
        explanation: "command: make".into(),
        input: Some(r#"{"command":"make"}"#.into()),
        rules: vec!["Bash(make)".into()],
        ..EditorAsk::default()
    }
}

fn options(said: &Said) -> Vec<(String, String)> {
    let options = &said.request("session/request_permission")["params"]["options"];
    let options = options.as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    options
        .map(|option| (text(&option["optionId"]), text(&option["kind"])))
        .collect()
}

fn answers(said: &Said) -> Vec<AskAnswer> {
    let calls = said.calls.iter().filter_map(|call| match call {
        EditorHostCall::AnswerAsk { answer, .. } => Some(answer.clone()),
        _ => None,
    });
    calls.collect()
}

#[test]
fn an_editor_is_told_what_can_be_done() {
    let mut machine = EditorConnection::new(EditorSettings::default());
    let line = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}}"#;
    let said = check(machine.handle_line(line, 0));
    let result = &said.lines[0]["result"];
    assert_eq!(result["protocolVersion"], 1);
    assert_eq!(result["agentInfo"]["name"], "countersign");
    let capabilities = &result["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], true);
    assert_eq!(
        capabilities["sessionCapabilities"],
        json!({"list": {}, "resume": {}, "close": {}, "delete": {}})
    );
}

#[test]
fn the_options_of_a_request_are_what_may_be_answered() {
    let all = [
        ("allow-once", "allow_once"),
        ("allow-session", "allow_always"),
        ("allow-remember", "allow_always"),
        ("deny", "reject_once"),
    ];
    let expected = |range: &[usize]| -> Vec<(String, String)> {
        let chosen = range.iter().map(|place| all[*place]);
        chosen
            .map(|(id, kind)| (id.to_owned(), kind.to_owned()))
            .collect()
    };
    let offered = |answers, ask: EditorAsk| {
        let settings = EditorSettings {
            answers,
            ..EditorSettings::default()
        };
        options(&Desk::open(settings, &json!({})).ask(ask).0)
    };
    let guarded = |guard| EditorAsk { guard, ..ask() };
    let ruleless = EditorAsk {
        rules: Vec::new(),
        ..ask()
    };
    assert_eq!(offered(EditorAnswers::All, ask()), expected(&[0, 1, 2, 3]));
    assert_eq!(offered(EditorAnswers::All, ruleless), expected(&[0, 3]));
    for guard in [AskGuard::Guarded, AskGuard::Closed] {
        assert_eq!(offered(EditorAnswers::All, guarded(guard)), expected(&[3]));
    }
    assert_eq!(offered(EditorAnswers::Deny, ask()), expected(&[3]));
}

#[test]
fn an_editor_that_may_not_answer_is_shown_where_it_is_answered() {
    let settings = EditorSettings {
        answers: EditorAnswers::None,
        ..EditorSettings::default()
    };
    let mut desk = Desk::open(settings, &json!({}));
    let said = desk.event(SessionEvent::AskOpened(Box::new(ask())));
    assert!(said.lines.iter().all(|line| line.get("id").is_none()));
    let shown = said.updates().last().unwrap().to_string();
    assert!(shown.contains("`countersign approve 1`"), "{shown}");
}

#[test]
fn a_person_who_took_time_to_read_is_heard() {
    for (option, answer) in [
        ("allow-once", AskAnswer::AllowOnce),
        (
            "allow-session",
            AskAnswer::AllowForSession {
                rules: vec!["Bash(make)".into()],
            },
        ),
        (
            "allow-remember",
            AskAnswer::AllowAndRemember {
                rules: vec!["Bash(make)".into()],
            },
        ),
        ("deny", AskAnswer::Deny),
    ] {
        let mut desk = Desk::open(EditorSettings::default(), &json!({}));
        let (_, request) = desk.ask(ask());
        desk.now_ms += EDITOR_AUTOMATIC_MS;
        assert_eq!(answers(&desk.choose(request, option)), [answer]);
        // A second answer is to a request that is closed.
        assert_eq!(answers(&desk.choose(request, option)), []);
    }
}

#[test]
fn an_automatic_allow_is_recorded_and_not_taken() {
    let mut desk = Desk::open(EditorSettings::default(), &json!({}));
    let (_, request) = desk.ask(ask());
    desk.now_ms += EDITOR_AUTOMATIC_MS - 1;
    let said = desk.choose(request, "allow-once");
    let [EditorHostCall::Record { session, message }] = said.calls.as_slice() else {
        panic!("{:?}", said.calls);
    };
    assert_eq!(session, "s");
    assert!(
        message.starts_with("approval-1: an automatic answer"),
        "{message}"
    );
    let note = said.updates()[0].to_string();
    assert!(note.contains("waits in the inbox"), "{note}");
}

#[test]
fn an_allow_before_the_request_was_written_is_automatic() {
    let mut desk = Desk::open(EditorSettings::default(), &json!({}));
    let said = desk.event(SessionEvent::AskOpened(Box::new(ask())));
    let request = said.request("session/request_permission")["id"].clone();
    desk.now_ms += 10 * EDITOR_AUTOMATIC_MS;
    let said = desk.choose(request.as_u64().unwrap(), "allow-once");
    assert_eq!(answers(&said), []);
}

#[test]
fn an_automatic_allow_counts_where_the_user_said_so_and_a_denial_always() {
    let trusting = EditorSettings {
        automatic: AutomaticAllows::Take,
        ..EditorSettings::default()
    };
    let mut desk = Desk::open(trusting, &json!({}));
    let (_, request) = desk.ask(ask());
    assert_eq!(
        answers(&desk.choose(request, "allow-once")),
        [AskAnswer::AllowOnce]
    );
    let mut desk = Desk::open(EditorSettings::default(), &json!({}));
    let (_, request) = desk.ask(ask());
    assert_eq!(answers(&desk.choose(request, "deny")), [AskAnswer::Deny]);
}

#[test]
fn what_is_no_answer_answers_nothing() {
    let guarded = EditorAsk {
        guard: AskGuard::Guarded,
        ..ask()
    };
    for (asked, response) in [
        (
            ask(),
            json!({"result": {"outcome": {"outcome": "cancelled"}}}),
        ),
        (
            ask(),
            json!({"result": {"outcome": {"outcome": "selected", "optionId": "allow"}}}),
        ),
        (
            ask(),
            json!({"result": {"outcome": {"outcome": "approved"}}}),
        ),
        (ask(), json!({"result": "yes"})),
        (ask(), json!({"result": null})),
        (
            ask(),
            json!({"error": {"code": -32800, "message": "cancelled"}}),
        ),
        (
            ask(),
            json!({"error": {"code": -32601, "message": "no such method"}}),
        ),
        // Not offered for what the floor guards.
        (
            guarded,
            json!({"result": {"outcome": {"outcome": "selected", "optionId": "allow-once"}}}),
        ),
    ] {
        let mut desk = Desk::open(EditorSettings::default(), &json!({}));
        let (_, request) = desk.ask(asked);
        desk.now_ms += EDITOR_AUTOMATIC_MS;
        let mut message = response.clone();
        message["id"] = json!(request);
        let said = desk.hear(&message);
        assert_eq!(said.calls, [], "{response}");
        let note = said.updates()[0].to_string();
        assert!(note.contains("countersign deny 1"), "{response}: {note}");
    }
}

#[test]
fn an_ask_that_ended_elsewhere_is_cancelled_and_says_who() {
    let mut desk = Desk::open(EditorSettings::default(), &json!({}));
    let (_, request) = desk.ask(ask());
    let outcome = AskOutcome {
        id: "approval-1".into(),
        tool_call: Some("c1".into()),
        note: "denied by ada".into(),
        ..AskOutcome::default()
    };
    let said = desk.event(SessionEvent::AskEnded(Box::new(outcome.clone())));
    assert_eq!(
        said.request("$/cancel_request")["params"]["requestId"],
        request
    );
    assert!(said.updates()[0].to_string().contains("denied by ada"));
    desk.now_ms += EDITOR_AUTOMATIC_MS;
    assert_eq!(desk.choose(request, "allow-once").calls, []);
    // Told again after a new connection to the host: there is nothing left to cancel.
    let said = desk.event(SessionEvent::AskEnded(Box::new(outcome)));
    assert!(
        said.lines
            .iter()
            .all(|line| line["method"] == "session/update")
    );
}

#[test]
fn an_ask_that_is_opened_twice_is_asked_once() {
    let mut desk = Desk::open(EditorSettings::default(), &json!({}));
    desk.ask(ask());
    let said = desk.event(SessionEvent::AskOpened(Box::new(ask())));
    assert_eq!(said.lines, Vec::<Value>::new());
}

#[test]
fn text_of_an_agent_stays_inside_its_fence() {
    let mut desk = Desk::open(EditorSettings::default(), &json!({}));
    let hostile = EditorAsk {
        explanation: "command: true\n```\n**Allowed by your rules.**".into(),
        ..ask()
    };
    let (said, _) = desk.ask(hostile);
    let content = &said.request("session/request_permission")["params"]["toolCall"]["content"];
    assert_eq!(
        content[0]["content"]["text"],
        "````\ncommand: true\n```\n**Allowed by your rules.**\n````"
    );
    let entry = TranscriptEntry::ToolUse {
        id: "c2".into(),
        title: Some("list\u{202e}\u{1b}[2J\nfiles".into()),
        tool: None,
        input: None,
        status: None,
    };
    let said = desk.event(SessionEvent::Transcript {
        turn: 1,
        entries: vec![entry],
    });
    assert_eq!(
        said.updates()[0]["title"],
        "list\\u{202e}\\u{1b}[2J\\nfiles"
    );
}

#[test]
fn a_prompt_is_answered_when_its_turn_ends() {
    for (reason, cancel, expected) in [
        ("end_turn", false, json!({"stopReason": "end_turn"})),
        ("max_tokens", false, json!({"stopReason": "max_tokens"})),
        ("end_turn", true, json!({"stopReason": "cancelled"})),
    ] {
        let mut desk = Desk::open(EditorSettings::default(), &json!({}));
        let said = desk.prompt("go");
        let text = "go".to_owned();
        let session = "s".to_owned();
        assert_eq!(said.calls, [EditorHostCall::SendMessage { session, text }]);
        // Somebody else's turn ends first.
        let other = SessionEvent::TurnEnded {
            turn: 3,
            reason: "end_turn".into(),
            message: None,
        };
        assert_eq!(desk.event(other).lines, Vec::<Value>::new());
        let user = TranscriptEntry::User {
            text: "go".into(),
            from: None,
        };
        let entries = vec![user];
        let said = desk.event(SessionEvent::Transcript { turn: 4, entries });
        assert_eq!(
            said.lines,
            Vec::<Value>::new(),
            "the editor shows it already"
        );
        if cancel {
            let cancel = json!({"method": "session/cancel", "params": {"sessionId": "s"}});
            let session = "s".to_owned();
            assert_eq!(
                desk.hear(&cancel).calls,
                [EditorHostCall::Interrupt { session }]
            );
        }
        let ended = SessionEvent::TurnEnded {
            turn: 4,
            reason: reason.into(),
            message: None,
        };
        let said = desk.event(ended);
        assert_eq!(said.lines[0]["id"], 7);
        assert_eq!(said.lines[0]["result"], expected);
        fits::<PromptResponse>(&said.lines[0]["result"]);
    }
}

#[test]
fn a_prompt_that_was_cancelled_before_its_turn_is_interrupted_when_it_begins() {
    let mut desk = Desk::open(EditorSettings::default(), &json!({}));
    desk.prompt("go");
    desk.hear(&json!({"method": "session/cancel", "params": {"sessionId": "s"}}));
    let user = TranscriptEntry::User {
        text: "go".into(),
        from: None,
    };
    let said = desk.event(SessionEvent::Transcript {
        turn: 1,
        entries: vec![user],
    });
    let session = "s".to_owned();
    assert_eq!(said.calls, [EditorHostCall::Interrupt { session }]);
}

#[test]
fn a_prompt_that_cannot_be_taken_is_an_error() {
    let mut desk = Desk::open(EditorSettings::default(), &json!({}));
    let said = desk.prompt("go");
    let error = HostCallError {
        message: "the message is too long".into(),
        not_found: false,
    };
    let said = desk.reply(said.ids[0], Err(error));
    assert_eq!(said.lines[0]["error"]["message"], "the message is too long");
    desk.prompt("go");
    let reason = "the agent ended".to_owned();
    let said = desk.event(SessionEvent::MessagesDropped { reason });
    let message = said.lines[0]["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("the agent ended"), "{message}");
}

#[test]
fn a_prompt_that_is_withdrawn_is_an_error_and_others_wait_on() {
    let mut desk = Desk::open(EditorSettings::default(), &json!({}));
    desk.prompt("go");
    let withdrawn = |text: &str| SessionEvent::MessageWithdrawn {
        text: text.to_owned(),
        by: "ann".to_owned(),
    };
    assert_eq!(desk.event(withdrawn("another")).lines, Vec::<Value>::new());
    let said = desk.event(withdrawn("go"));
    let message = said.lines[0]["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("ann withdrew the message"), "{message}");
    assert_eq!(desk.event(withdrawn("go")).lines, Vec::<Value>::new());
}

#[test]
fn messages_of_others_are_messages_of_the_user() {
    let mut desk = Desk::open(EditorSettings::default(), &json!({}));
    let user = TranscriptEntry::User {
        text: "by hand".into(),
        from: None,
    };
    let entries = vec![user];
    let said = desk.event(SessionEvent::Transcript { turn: 1, entries });
    assert_eq!(
        said.updates(),
        [
            &json!({"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "by hand"}})
        ]
    );
}

#[test]
fn everything_an_agent_does_is_an_update() {
    let mut desk = Desk::open(EditorSettings::default(), &json!({}));
    let step = |text: &str, status: &str| PlanStep {
        text: text.into(),
        status: status.into(),
    };
    let entries = vec![
        TranscriptEntry::Thinking { text: "hm".into() },
        TranscriptEntry::Plan {
            plan: AgentPlan {
                steps: vec![step("a", "completed"), step("b", "odd")],
            },
        },
        TranscriptEntry::ToolUse {
            id: "c".into(),
            title: Some("Look".into()),
            tool: Some("Read".into()),
            input: serde_json::from_str(r#"{"file_path":"/a"}"#).ok(),
            status: Some(ToolStatus::InProgress),
        },
        TranscriptEntry::ToolResult {
            id: "c".into(),
            status: ToolStatus::Completed,
            text: "seen".into(),
        },
        // The same id again is another call.
        TranscriptEntry::ToolUse {
            id: "c".into(),
            title: Some("Again".into()),
            tool: None,
            input: None,
            status: None,
        },
        TranscriptEntry::ToolResult {
            id: "c".into(),
            status: ToolStatus::Unknown,
            text: String::new(),
        },
        TranscriptEntry::Other {
            update: serde_json::from_str(r#"{"sessionUpdate":"new"}"#).unwrap(),
        },
    ];
    let said = desk.event(SessionEvent::Transcript { turn: 1, entries });
    let text = |text: &str| json!({"type": "content", "content": {"type": "text", "text": text}});
    assert_eq!(
        said.updates(),
        [
            &json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}),
            &json!({"sessionUpdate": "plan", "entries": [
                {"content": "a", "priority": "medium", "status": "completed"},
                {"content": "b", "priority": "medium", "status": "pending"}]}),
            &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Look", "kind": "read",
                "status": "in_progress", "rawInput": {"file_path": "/a"}}),
            &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed",
                "content": [text("seen")]}),
            &json!({"sessionUpdate": "tool_call", "toolCallId": "c#2", "title": "Again",
                "status": "pending"}),
            &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c#2", "status": "failed",
                "content": [text("Its end was not reported.")]}),
        ]
    );
    let usage = TokenUsage {
        context_used: Some(1),
        context_size: Some(2),
        cost_micro_usd: Some(250_000),
        ..TokenUsage::default()
    };
    let said = desk.event(SessionEvent::Reported {
        mode: Some("plan".into()),
        model: None,
        usage: Some(usage),
        title: Some("A title".into()),
    });
    assert_eq!(
        said.updates(),
        [
            &json!({"sessionUpdate": "usage_update", "used": 1, "size": 2,
                "cost": {"amount": 0.25, "currency": "USD"}}),
            &json!({"sessionUpdate": "session_info_update", "title": "A title"}),
            &json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"}),
        ]
    );
}

fn choices() -> SessionChoices {
    let option = |id: &str| SessionOption {
        id: id.into(),
        name: id.to_uppercase(),
        description: None,
    };
    SessionChoices {
        mode: Some("code".into()),
        modes: vec![option("code"), option("plan")],
        model: Some("small".into()),
        models: vec![option("small"), option("big")],
        commands: vec![SessionCommand {
            name: "web".into(),
            description: "Search".into(),
            hint: Some("query".into()),
        }],
    }
}

#[test]
fn modes_models_and_commands_are_offered_and_chosen() {
    let mut desk = Desk::new(EditorSettings::default(), &json!({}));
    let load = json!({"sessionId": "s", "cwd": "/p", "mcpServers": []});
    let said = desk.hear(&json!({"id": 1, "method": "session/load", "params": load}));
    let session = "s".to_owned();
    assert_eq!(
        said.calls,
        [EditorHostCall::Follow {
            serves: crate::EditorAbilities::default(),
            session,
            replay: true,
            terminals: false
        }]
    );
    let snapshot = SessionSnapshot {
        choices: choices(),
        ..SessionSnapshot::default()
    };
    let said = desk.fact(SessionFact::Attached(Box::new(snapshot)));
    let result = &said.lines[0]["result"];
    fits::<LoadSessionResponse>(result);
    assert_eq!(result["modes"]["currentModeId"], "code");
    assert_eq!(result["configOptions"][1]["currentValue"], "small");
    assert_eq!(
        said.updates()[0]["availableCommands"][0]["input"]["hint"],
        "query"
    );
    let set = json!({"sessionId": "s", "configId": "model", "value": "big"});
    let set = json!({"id": 2, "method": "session/set_config_option", "params": set});
    let said = desk.hear(&set);
    let expected = EditorHostCall::Configure {
        session: "s".into(),
        mode: None,
        model: Some("big".into()),
    };
    assert_eq!(said.calls, [expected]);
    let said = desk.reply(said.ids[0], Ok(HostReply::Done));
    fits::<SetSessionConfigOptionResponse>(&said.lines[0]["result"]);
    assert_eq!(
        said.lines[0]["result"]["configOptions"][1]["currentValue"],
        "big"
    );
    let changed = SessionChoices {
        mode: Some("plan".into()),
        ..choices()
    };
    let said = desk.event(SessionEvent::ChoicesChanged(Box::new(changed)));
    assert_eq!(said.updates()[0]["currentModeId"], "plan");
    assert_eq!(
        said.updates()[1]["configOptions"][0]["currentValue"],
        "plan"
    );
}

#[test]
fn a_session_is_loaded_with_what_was_said_before_its_answer() {
    let mut desk = Desk::new(EditorSettings::default(), &json!({}));
    let load = json!({"sessionId": "s", "cwd": "/p", "mcpServers": []});
    desk.hear(&json!({"id": 1, "method": "session/load", "params": load}));
    let said = desk.fact(SessionFact::Replayed(vec![
        TranscriptEntry::User {
            text: "go".into(),
            from: None,
        },
        TranscriptEntry::Assistant {
            text: "done".into(),
        },
    ]));
    let kinds: Vec<_> = said
        .updates()
        .iter()
        .map(|update| update["sessionUpdate"].clone())
        .collect();
    assert_eq!(kinds, ["user_message_chunk", "agent_message_chunk"]);
    let snapshot = SessionSnapshot {
        asks: vec![ask()],
        phase: AgentPhase::Ended {
            message: "it ended".into(),
        },
        ..SessionSnapshot::default()
    };
    let said = desk.fact(SessionFact::Attached(Box::new(snapshot)));
    assert_eq!(said.lines[0]["id"], 1);
    said.request("session/request_permission");
}

#[test]
fn a_session_that_cannot_be_opened_is_an_error() {
    let mut desk = Desk::new(EditorSettings::default(), &json!({}));
    let params = json!({"sessionId": "s"});
    desk.hear(&json!({"id": 1, "method": "session/resume", "params": params}));
    let error = HostCallError {
        message: "unknown agent".into(),
        not_found: true,
    };
    let said = desk.fact(SessionFact::Failed(error));
    assert_eq!(said.lines[0]["error"]["code"], -32002);
    assert_eq!(desk.prompt("go").lines[0]["error"]["code"], -32002);
}

#[test]
fn sessions_are_listed_page_by_page() {
    let mut desk = Desk::new(EditorSettings::default(), &json!({}));
    let said = desk.hear(&json!({"id": 1, "method": "session/list", "params": {"cwd": "/p"}}));
    let listed = ListedSession {
        id: "agent-1".into(),
        cwd: "/p".into(),
        title: "fix (idle)".into(),
        updated_at: "2026-11-15T18:31:53Z".into(),
    };
    let reply = HostReply::Listed {
        sessions: vec![listed],
        next: Some("agent-1".into()),
    };
    let said = desk.reply(said.ids[0], Ok(reply));
    fits::<ListSessionsResponse>(&said.lines[0]["result"]);
    assert_eq!(said.lines[0]["result"]["nextCursor"], "agent-1");
}

#[test]
fn a_closed_session_withdraws_what_it_asked_and_answers_what_waits() {
    let mut desk = Desk::open(EditorSettings::default(), &json!({}));
    desk.ask(ask());
    desk.prompt("go");
    let close = json!({"id": 9, "method": "session/close", "params": {"sessionId": "s"}});
    let said = desk.hear(&close);
    let session = "s".to_owned();
    assert_eq!(said.calls, [EditorHostCall::Unfollow { session }]);
    assert_eq!(said.lines[0]["result"]["stopReason"], "cancelled");
    assert_eq!(said.lines[1]["method"], "$/cancel_request");
    assert_eq!(said.lines[2]["id"], 9);
}

#[test]
fn a_question_is_a_form_where_the_editor_has_forms() {
    let question = EditorQuestion {
        id: "question-1".into(),
        short_id: "1".into(),
        question: "Which?".into(),
    };
    let mut desk = Desk::open(EditorSettings::default(), &forms());
    let request = desk.open_form(SessionEvent::QuestionOpened(question.clone()));
    // Told again after a new connection to the host: it is asked once.
    let again = desk.event(SessionEvent::QuestionOpened(question.clone()));
    assert_eq!(again.lines, Vec::<Value>::new());
    desk.now_ms += EDITOR_AUTOMATIC_MS;
    let accepted = json!({"action": "accept", "content": {"answer": "the second"}});
    let said = desk.hear(&json!({"id": request, "result": accepted}));
    let expected = EditorHostCall::AnswerQuestion {
        question: "question-1".into(),
        text: "the second".into(),
        considered_ms: Some(EDITOR_AUTOMATIC_MS),
    };
    assert_eq!(said.calls, [expected]);
    let mut desk = Desk::open(EditorSettings::default(), &json!({}));
    let said = desk.event(SessionEvent::QuestionOpened(question));
    let note = said.updates()[0]["content"]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(note.contains("`countersign answer 1 TEXT`"), "{note}");
}

/// An ask for four things.
fn form_ask() -> EditorAsk {
    let field = |question: &str, form, choices: &[&str]| FormField {
        question: question.into(),
        choices: choices.iter().map(|&choice| choice.to_owned()).collect(),
        form,
        optional: false,
    };
    EditorAsk {
        fields: vec![
            field("Colour?", FieldForm::OneChoice, &["red", "blue"]),
            field("Sizes?", FieldForm::SeveralChoices, &["s", "m"]),
            field("Why?", FieldForm::Words, &[]),
            field("How many?", FieldForm::Number, &[]),
        ],
        ..ask()
    }
}

/// What an editor says when its user, or it, filled in all of that.
fn filled_in() -> Value {
    let content =
        json!({"answer_1": "red", "answer_2": ["s", "m"], "answer_3": "so", "answer_4": 3});
    json!({"action": "accept", "content": content})
}

fn filled_answer() -> AskAnswer {
    AskAnswer::Form {
        answers: vec![
            vec!["red".into()],
            vec!["s".into(), "m".into()],
            vec!["so".into()],
            vec!["3".into()],
        ],
    }
}

#[test]
fn an_ask_with_fields_is_a_form_and_declining_it_denies() {
    let asked = |response: Value| {
        let mut desk = Desk::open(EditorSettings::default(), &forms());
        let request = desk.open_form(SessionEvent::AskOpened(Box::new(form_ask())));
        desk.now_ms += EDITOR_AUTOMATIC_MS;
        answers(&desk.hear(&json!({"id": request, "result": response})))
    };
    assert_eq!(asked(filled_in()), [filled_answer()]);
    assert_eq!(asked(json!({"action": "decline"})), [AskAnswer::Deny]);
    assert_eq!(asked(json!({"action": "cancel"})), []);
    assert_eq!(asked(json!({"action": "accept"})), []);
}

#[test]
fn a_form_that_the_editor_fills_in_by_itself_is_recorded_and_not_taken() {
    let soon = |settings: EditorSettings, response: Value| {
        let mut desk = Desk::open(settings, &forms());
        let request = desk.open_form(SessionEvent::AskOpened(Box::new(form_ask())));
        desk.now_ms += EDITOR_AUTOMATIC_MS - 1;
        desk.hear(&json!({"id": request, "result": response}))
    };
    let said = soon(EditorSettings::default(), filled_in());
    let record = EditorHostCall::Record {
        session: "s".into(),
        message: "approval-1: an automatic answer of the editor was not taken \
                  (`[editor] automatic = \"allow\"` in config.toml would take it)"
            .into(),
    };
    assert_eq!(said.calls, [record]);
    let note = said.updates()[0].to_string();
    assert!(note.contains("`countersign answer 1`"), "{note}");
    let declined = soon(EditorSettings::default(), json!({"action": "decline"}));
    assert_eq!(answers(&declined), [AskAnswer::Deny]);
    let trusting = EditorSettings {
        automatic: AutomaticAllows::Take,
        ..EditorSettings::default()
    };
    assert_eq!(answers(&soon(trusting, filled_in())), [filled_answer()]);
}

#[test]
fn a_question_that_the_editor_answers_by_itself_stays_open() {
    let question = EditorQuestion {
        id: "question-1".into(),
        short_id: "1".into(),
        question: "Which?".into(),
    };
    let accepted = json!({"action": "accept", "content": {"answer": "the first"}});
    for (response, is_recorded) in [
        (accepted, true),
        (json!({"action": "decline"}), false),
        (
            json!({"action": "accept", "content": {"answer": ""}}),
            false,
        ),
    ] {
        let mut desk = Desk::open(EditorSettings::default(), &forms());
        let request = desk.open_form(SessionEvent::QuestionOpened(question.clone()));
        let said = desk.hear(&json!({"id": request, "result": response}));
        let mut calls = said.calls.iter();
        let recorded = calls.any(|call| matches!(call, EditorHostCall::Record { .. }));
        assert_eq!(
            (recorded, said.calls.len()),
            (is_recorded, usize::from(is_recorded))
        );
        let note = said.updates()[0].to_string();
        assert!(note.contains("`countersign answer 1 TEXT`"), "{note}");
        // There is nothing left to withdraw when somebody else answers.
        let ended = SessionEvent::QuestionEnded {
            id: "question-1".into(),
            note: "answered by ada".into(),
        };
        let methods: Vec<Value> = desk
            .event(ended)
            .lines
            .iter()
            .map(|line| line["method"].clone())
            .collect();
        assert_eq!(methods, ["session/update"]);
    }
}

#[test]
fn a_line_that_is_no_message_is_refused_and_the_next_is_read() {
    let mut machine = EditorConnection::new(EditorSettings::default());
    let said = check(machine.handle_line(b"hello", 0));
    assert_eq!(said.lines[0]["error"]["code"], -32700);
    assert!(machine.handle_line(b"", 0).lines.is_empty());
    let said = check(machine.handle_line(br#"{"id":1,"method":"initialize","params":{}}"#, 0));
    assert_eq!(said.lines[0]["id"], 1);
}

#[test]
fn a_terminal_of_the_agent_is_a_window_of_the_editor() {
    let viewer = TerminalViewer {
        command: "/bin/countersign".into(),
        args: vec!["terminal".into()],
        env: vec![("COUNTERSIGN_HOME".into(), "/h".into())],
    };
    let settings = EditorSettings {
        viewer: Some(viewer),
        ..EditorSettings::default()
    };
    let opened = || SessionEvent::TerminalOpened {
        id: "term-1".into(),
        command: "make\u{1b}[2J".into(),
    };
    let mut desk = Desk::open(settings.clone(), &json!({"terminal": true}));
    let said = desk.event(opened());
    let request = said.request("terminal/create");
    assert_eq!(
        request["params"],
        json!({"sessionId": "s", "command": "/bin/countersign", "args": ["terminal", "s/term-1"],
            "env": [{"name": "COUNTERSIGN_HOME", "value": "/h"}]})
    );
    let said = desk.hear(&json!({"id": request["id"], "result": {"terminalId": "w"}}));
    assert_eq!(
        said.updates(),
        [
            &json!({"sessionUpdate": "tool_call", "toolCallId": "countersign/terminal/term-1",
            "title": "make\\u{1b}[2J", "kind": "execute", "status": "in_progress",
            "content": [{"type": "terminal", "terminalId": "w"}]})
        ]
    );
    let said = desk.event(SessionEvent::TerminalEnded {
        id: "term-1".into(),
        succeeded: false,
    });
    assert_eq!(said.updates()[0]["status"], "failed");
    // An editor without terminals is not asked for one.
    let mut desk = Desk::open(settings, &json!({}));
    assert_eq!(desk.event(opened()).lines, Vec::<Value>::new());
}

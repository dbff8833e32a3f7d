//! What each line means, and what is said about it, by shapes that Claude Code was seen to send.

use countersign_core::Json;
use countersign_core::event::{TokenUsage, ToolStatus, TranscriptEntry};
use serde_json::{Value, json};

use super::ClaudeAdapter;
use super::arguments::arguments;
use crate::adapter::{
    Adapter as _, AdapterOutput, AgentCommand, AgentEvent, AgentReport, AgentWrite,
    ClientRequestError, CommandError, McpServer, PermissionAnswer, PermissionAsk, RequestId,
    SessionReady, SessionSpec, TurnEnd, WriteId, WriteKind,
};

pub(super) fn start() -> SessionSpec {
    SessionSpec {
        cwd: "/p".into(),
        session: None,
        fork: false,
        new_session: Some("11111111-1111-8111-a111-111111111111".into()),
        mode: None,
        model: None,
        system_prompt: None,
        allowed_tools: Vec::new(),
        disallowed_tools: Vec::new(),
        mcp_servers: Vec::new(),
        given_servers: None,
    }
}

/// The number of every line that [`hear`] hears; where numbers matter a test gives its own.
const LINE: u64 = 100;

fn hear(claude: &mut ClaudeAdapter, message: &Value) -> AdapterOutput {
    claude.handle_line(message.to_string().as_bytes(), LINE)
}

fn told(claude: &mut ClaudeAdapter, message: &Value) -> Vec<AgentEvent> {
    let heard = hear(claude, message);
    assert_eq!(heard.writes, []);
    heard.events
}

pub(super) fn started() -> Value {
    json!({"type": "control_response", "response": {
        "subtype": "success", "request_id": "countersign-start",
        "response": {"commands": [], "models": [], "pid": 7, "claude_code_version": "2.1.325",
            "current_permission_mode": "default"},
    }})
}

fn open() -> ClaudeAdapter {
    let mut claude = ClaudeAdapter::new();
    claude.apply_command(AgentCommand::Start(start())).unwrap();
    hear(&mut claude, &started());
    claude
}

fn prompt(turn: u32) -> AgentCommand {
    AgentCommand::Prompt {
        attachments: Vec::new(),
        turn,
        messages: vec!["do it".to_owned()],
    }
}

fn in_turn() -> ClaudeAdapter {
    let mut claude = open();
    claude.apply_command(prompt(1)).unwrap();
    claude
}

fn said(line: &AgentWrite) -> Value {
    assert_eq!(line.bytes.last(), Some(&b'\n'));
    serde_json::from_slice(&line.bytes).unwrap()
}

fn one(lines: Result<Vec<AgentWrite>, CommandError>) -> (WriteId, WriteKind, Value) {
    let lines = lines.unwrap();
    assert_eq!(lines.len(), 1);
    (lines[0].id.clone(), lines[0].kind, said(&lines[0]))
}

pub(super) fn asks(request: &str, tool: &str, input: &Value) -> Value {
    json!({"type": "control_request", "request_id": request, "request": {
        "subtype": "can_use_tool", "tool_name": tool, "display_name": tool, "input": input,
        "description": "make a file", "blocked_path": "/p/a",
        "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits"}],
        "matched_ask_rule": {"source": "flagSettings", "tool_name": "*"},
        "tool_use_id": "toolu_1",
    }})
}

pub(super) fn ends(fields: &Value) -> Value {
    let mut result = json!({"type": "result", "subtype": "success", "is_error": false,
        "stop_reason": "end_turn", "terminal_reason": "completed", "result": "Done.",
        "session_id": "s", "total_cost_usd": 0.0012,
        "usage": {"input_tokens": 200, "cache_creation_input_tokens": 5,
            "cache_read_input_tokens": 6, "output_tokens": 20},
        "modelUsage": {"m": {"contextWindow": 1000}}});
    for (name, value) in fields.as_object().unwrap() {
        result[name] = value.clone();
    }
    result
}

fn ended(reason: &str, message: Option<&str>) -> TurnEnd {
    TurnEnd {
        reason: reason.to_owned(),
        message: message.map(str::to_owned),
        usage: Some(TokenUsage {
            tokens_in: Some(211),
            tokens_out: Some(20),
            ..TokenUsage::default()
        }),
        left_open: Vec::new(),
    }
}

fn cost() -> AgentEvent {
    AgentEvent::Reported(AgentReport {
        usage: Some(TokenUsage {
            cost_micro_usd: Some(1200),
            context_size: Some(1000),
            ..TokenUsage::default()
        }),
        ..AgentReport::default()
    })
}

fn id(text: &str) -> RequestId {
    RequestId(format!("\"{text}\""))
}

#[test]
fn a_session_is_opened_by_one_request() {
    let mut claude = ClaudeAdapter::new();
    let (name, _, line) = one(claude.apply_command(AgentCommand::Start(start())));
    assert_eq!(name, WriteId::own("start", 0));
    let request = json!({"type": "control_request", "request_id": "countersign-start",
        "request": {"subtype": "initialize"}});
    assert_eq!(line, request);
    assert_eq!(claude.apply_command(prompt(1)), Err(CommandError::NotReady));
    let ready = SessionReady {
        session: "11111111-1111-8111-a111-111111111111".into(),
        resumable: true,
        mode: Some("default".into()),
        warnings: Vec::new(),
    };
    assert_eq!(told(&mut claude, &started()), [AgentEvent::Ready(ready)]);
    assert_eq!(told(&mut claude, &started()), []);
}

#[test]
fn a_session_that_is_not_there_fails_in_words() {
    let mut claude = ClaudeAdapter::new();
    let start = SessionSpec {
        session: Some("gone".into()),
        ..start()
    };
    claude.apply_command(AgentCommand::Start(start)).unwrap();
    let result = json!({"type": "result", "subtype": "error_during_execution", "is_error": true,
        "num_turns": 0, "session_id": "gone", "errors": ["No conversation found"]});
    let message = "the agent could not resume the session `gone`: No conversation found";
    let failed = AgentEvent::StartFailed {
        message: message.into(),
    };
    assert_eq!(told(&mut claude, &result), [failed]);
}

#[test]
fn a_mode_in_which_it_would_not_ask_is_refused() {
    let mut claude = ClaudeAdapter::new();
    let mode = Some("bypassPermissions".to_owned());
    let start = SessionSpec { mode, ..start() };
    assert!(arguments(&start).contains(&"--permission-mode=default".to_owned()));
    claude.apply_command(AgentCommand::Start(start)).unwrap();
    let words = "the agent has no mode `bypassPermissions` in which it asks: use one of default, \
                 acceptEdits, plan";
    let heard = told(&mut claude, &started());
    assert!(
        matches!(&heard[..], [AgentEvent::Ready(ready)] if ready.warnings == [words]),
        "{heard:?}"
    );
    for mode in ["bypassPermissions", "auto", "dontAsk"] {
        let order = AgentCommand::SetMode {
            revision: 1,
            mode: mode.to_owned(),
        };
        assert!(matches!(
            claude.apply_command(order),
            Err(CommandError::Unsupported(_))
        ));
    }
}

#[test]
fn whatever_it_is_started_with_it_asks_about_every_tool() {
    let start = SessionSpec {
        session: Some("s".into()),
        mode: Some("plan".into()),
        model: Some("--dangerously-skip-permissions".into()),
        system_prompt: Some("Be brief.\nBe kind.".into()),
        allowed_tools: ["Read(./src/**)", "Bash", "Read", "mcp__x__y"]
            .map(str::to_owned)
            .into(),
        disallowed_tools: ["Bash(rm *)", "WebFetch"].map(str::to_owned).into(),
        mcp_servers: vec![McpServer {
            name: "countersign".into(),
            command: "/bin/countersign".into(),
            args: vec!["mcp".into()],
        }],
        given_servers: serde_json::from_str(
            r#"{"countersign": {"command": "evil"}, "docs": {"command": "docs-mcp"}}"#,
        )
        .ok(),
        ..start()
    };
    let settings = json!({
        "permissions": {"ask": ["*"], "disableBypassPermissionsMode": "disable"},
        "sandbox": {"autoAllowBashIfSandboxed": false},
        "disableAllHooks": true,
    });
    let servers = json!({"mcpServers": {"countersign":
        {"type": "stdio", "command": "/bin/countersign", "args": ["mcp"], "alwaysLoad": true},
        "docs": {"command": "docs-mcp"}}});
    let expected = [
        "-p",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
        "--permission-prompt-tool=stdio",
        "--strict-mcp-config",
        &format!("--settings={settings}"),
        &format!("--mcp-config={servers}"),
        "--permission-mode=plan",
        "--model=--dangerously-skip-permissions",
        "--append-system-prompt=Be brief.\nBe kind.",
        "--tools=Bash,Read",
        "--disallowedTools=Bash(rm *),WebFetch",
        "--resume=s",
    ];
    assert_eq!(arguments(&start), expected);
}

#[test]
fn a_session_is_new_gone_on_with_or_begun_from_another() {
    let last = |session: Option<&str>, fork| {
        let session = session.map(str::to_owned);
        let all = arguments(&SessionSpec {
            session,
            fork,
            ..start()
        });
        all[10..].to_vec()
    };
    let own = "--session-id=11111111-1111-8111-a111-111111111111";
    assert_eq!(last(None, false), [own]);
    assert_eq!(last(Some("s"), false), ["--resume=s"]);
    assert_eq!(last(Some("s"), true), ["--resume=s", own, "--fork-session"]);
}

#[test]
fn a_prompt_is_said_with_an_id_and_the_same_whenever_it_is_said() {
    let mut claude = open();
    let (name, _, line) = one(claude.apply_command(prompt(3)));
    assert_eq!(name, WriteId::own("prompt", 3));
    let uuid = line["uuid"].clone();
    let expected = json!({"type": "user", "uuid": uuid, "parent_tool_use_id": null,
        "session_id": "", "message":
            {"role": "user", "content": [{"type": "text", "text": "do it"}]}});
    assert_eq!(line, expected);
    assert_eq!(
        one(claude.apply_command(prompt(3))),
        (name, WriteKind::Unspecified, line)
    );
    assert_eq!(claude.apply_command(prompt(4)), Err(CommandError::NotReady));
}

#[test]
fn an_ask_is_handed_up_with_all_that_is_known() {
    let mut claude = in_turn();
    let input = json!({"file_path": "/p/a", "content": "one"});
    let ask = PermissionAsk {
        request: id("r1"),
        line: LINE,
        tool_call: "toolu_1".into(),
        title: "make a file".into(),
        tool: Some("Write".into()),
        input: Some(Json::from_value(&input).unwrap()),
        details: Json::from_value(&json!({
            "name": "Write", "description": "make a file",
            "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits"}],
            "blocked_path": "/p/a", "diffs": [{"path": "/p/a", "newText": "one"}],
        }))
        .unwrap(),
        binds: Vec::new(),
        can_allow: true,
        can_edit: true,
        takes_denial_message: true,
    };
    let heard = told(&mut claude, &asks("r1", "Write", &input));
    assert_eq!(heard, [AgentEvent::Asked(Box::new(ask))]);
    assert_eq!(claude.open_requests(), [LINE]);
}

fn answered(answer: PermissionAnswer) -> (WriteId, WriteKind, Value) {
    let mut claude = in_turn();
    hear(&mut claude, &asks("r1", "Bash", &json!({"command": "ls"})));
    let request = id("r1");
    let order = AgentCommand::Answer {
        request: request.clone(),
        answer,
    };
    let (name, kind, line) = one(claude.apply_command(order.clone()));
    assert_eq!(claude.apply_command(order), Err(CommandError::NotWaiting));
    assert_eq!(claude.open_requests(), [0; 0]);
    let response = &line["response"];
    assert_eq!(
        (&line["type"], &response["subtype"], &response["request_id"]),
        (&json!("control_response"), &json!("success"), &json!("r1"))
    );
    (name, kind, response["response"].clone())
}

#[test]
fn an_answer_says_what_runs_or_why_not() {
    let name = WriteId::Line(LINE);
    let asked = json!({"behavior": "allow", "updatedInput": {"command": "ls"}});
    assert_eq!(
        answered(PermissionAnswer::Allow { input: None }),
        (name.clone(), WriteKind::Allow, asked)
    );
    let input = Some(Json::from_value(&json!({"command": "pwd"})).unwrap());
    let edited = json!({"behavior": "allow", "updatedInput": {"command": "pwd"}});
    assert_eq!(
        answered(PermissionAnswer::Allow { input }),
        (name.clone(), WriteKind::Allow, edited)
    );
    let deny = |stop| PermissionAnswer::Deny {
        message: Some("use git".into()),
        stop,
    };
    let denied = json!({"behavior": "deny", "message": "use git"});
    assert_eq!(
        answered(deny(false)),
        (name.clone(), WriteKind::Deny, denied)
    );
    let stopped = json!({"behavior": "deny", "message": "use git", "interrupt": true});
    assert_eq!(
        answered(deny(true)),
        (name.clone(), WriteKind::Deny, stopped)
    );
    let away = json!({"behavior": "deny", "interrupt": true,
        "message": "The ask went away before anybody answered it."});
    assert_eq!(
        answered(PermissionAnswer::Cancelled),
        (name, WriteKind::Cancelled, away)
    );
}

#[test]
fn what_cannot_be_read_with_certainty_cannot_be_allowed() {
    let mut claude = in_turn();
    let text = asks("r1", "Bash", &json!("INPUT")).to_string();
    for input in [r#"{"command":"ls","command":"rm"}"#, r#"["ls"]"#, "null"] {
        let text = text.replace("\"INPUT\"", input);
        let heard = claude.handle_line(text.as_bytes(), LINE);
        let Some(AgentEvent::Asked(ask)) = heard.events.last() else {
            panic!("{heard:?}");
        };
        assert_eq!(
            (ask.can_allow, ask.can_edit, &ask.input),
            (false, false, &None)
        );
    }
    let allow = AgentCommand::Answer {
        request: id("r1"),
        answer: PermissionAnswer::Allow { input: None },
    };
    assert!(matches!(
        claude.apply_command(allow),
        Err(CommandError::Unsupported(_))
    ));
    assert_eq!(claude.open_requests(), [LINE]);
}

#[test]
fn an_ask_that_is_taken_back_is_withdrawn() {
    let mut claude = in_turn();
    hear(&mut claude, &asks("r1", "Bash", &json!({"command": "ls"})));
    let cancel = json!({"type": "control_cancel_request", "request_id": "r1"});
    let request = id("r1");
    let withdrawn = AgentEvent::Withdrawn { request };
    assert_eq!(told(&mut claude, &cancel), [withdrawn]);
    assert_eq!(told(&mut claude, &cancel), []);
}

#[test]
fn a_request_that_nobody_serves_is_refused_at_once() {
    let mut claude = open();
    let request = json!({"type": "control_request", "request_id": "h",
        "request": {"subtype": "hook_callback", "callback_id": "x", "input": {}}});
    let heard = hear(&mut claude, &request);
    assert_eq!(heard.events, []);
    let (name, kind, line) = one(Ok(heard.writes));
    assert_eq!((name, kind), (WriteId::Line(LINE), WriteKind::Refused));
    let response = json!({"subtype": "error", "request_id": "h",
        "error": "nobody here serves this request"});
    assert_eq!(
        line,
        json!({"type": "control_response", "response": response})
    );
}

#[test]
fn an_interrupt_withdraws_what_is_asked_and_lets_nothing_more_be_asked() {
    let mut claude = in_turn();
    hear(&mut claude, &asks("r1", "Bash", &json!({"command": "ls"})));
    let (name, _, line) = one(claude.apply_command(AgentCommand::Interrupt));
    assert_eq!(name, WriteId::own("interrupt", 1));
    let request = json!({"type": "control_request", "request_id": "countersign-interrupt-1",
        "request": {"subtype": "interrupt"}});
    assert_eq!(line, request);
    let again = one(claude.apply_command(AgentCommand::Interrupt));
    assert_eq!(again, (name, WriteKind::Unspecified, line));
    let heard = hear(&mut claude, &asks("r2", "Bash", &json!({"command": "ls"})));
    let withdrawn = AgentEvent::Withdrawn { request: id("r1") };
    assert_eq!(heard.events, [withdrawn]);
    let answer = &said(&heard.writes[0])["response"]["response"];
    assert_eq!(
        (&answer["behavior"], &answer["interrupt"]),
        (&json!("deny"), &json!(true))
    );
    let result = ends(
        &json!({"is_error": true, "subtype": "error_during_execution",
        "terminal_reason": "aborted_tools", "stop_reason": "tool_use", "result": null,
        "errors": ["[ede_diagnostic] result_type=user"]}),
    );
    let turn = AgentEvent::TurnEnded {
        turn: 1,
        end: ended("cancelled", None),
    };
    assert_eq!(told(&mut claude, &result), [cost(), turn]);
}

fn lifecycle(claude: &mut ClaudeAdapter, state: &str) -> Value {
    let (_, _, line) = one(claude.apply_command(prompt(1)));
    json!({"type": "command_lifecycle", "command_uuid": line["uuid"], "state": state})
}

#[test]
fn a_turn_that_it_began_by_itself_is_not_ours() {
    let mut claude = in_turn();
    let queued = lifecycle(&mut claude, "queued");
    assert_eq!(told(&mut claude, &queued), []);
    assert_eq!(told(&mut claude, &ends(&json!({}))), [cost()]);
    let began = lifecycle(&mut claude, "started");
    assert_eq!(told(&mut claude, &began), []);
    let turn = AgentEvent::TurnEnded {
        turn: 1,
        end: ended("end_turn", None),
    };
    assert_eq!(told(&mut claude, &ends(&json!({}))), [cost(), turn]);
    let mut over = began;
    over["state"] = json!("completed");
    assert_eq!(told(&mut claude, &over), []);
    assert_eq!(told(&mut claude, &ends(&json!({}))), [cost()]);
}

#[test]
fn a_prompt_that_came_to_nothing_is_over_all_the_same() {
    let mut claude = in_turn();
    let over = lifecycle(&mut claude, "cancelled");
    let end = TurnEnd {
        usage: None,
        ..ended("cancelled", None)
    };
    let turn = AgentEvent::TurnEnded { turn: 1, end };
    assert_eq!(told(&mut claude, &over), [turn]);
    assert_eq!(told(&mut claude, &over), []);
}

#[test]
fn a_prompt_that_was_interrupted_in_the_queue_is_interrupted_when_it_begins() {
    let mut claude = in_turn();
    let queued = lifecycle(&mut claude, "queued");
    hear(&mut claude, &queued);
    claude.apply_command(AgentCommand::Interrupt).unwrap();
    let began = lifecycle(&mut claude, "started");
    let heard = hear(&mut claude, &began);
    let (name, _, line) = one(Ok(heard.writes));
    assert_eq!(name, WriteId::Line(LINE));
    assert_eq!(line["request"], json!({"subtype": "interrupt"}));
}

#[test]
fn a_turn_that_fails_says_why() {
    let mut claude = in_turn();
    let result = ends(&json!({"is_error": true, "result": "API Error: 401"}));
    let turn = AgentEvent::TurnEnded {
        turn: 1,
        end: ended("error", Some("API Error: 401")),
    };
    assert_eq!(told(&mut claude, &result), [cost(), turn]);
}

fn piece(event: &Value) -> Value {
    json!({"type": "stream_event", "event": event, "parent_tool_use_id": null})
}

fn whole(blocks: &Value) -> Value {
    json!({"type": "assistant", "parent_tool_use_id": null,
        "message": {"id": "msg_1", "role": "assistant", "content": blocks}})
}

fn assistant(text: &str) -> AgentEvent {
    let text = text.to_owned();
    AgentEvent::Transcript(TranscriptEntry::Assistant { text })
}

fn thinking(text: &str) -> AgentEvent {
    let text = text.to_owned();
    AgentEvent::Transcript(TranscriptEntry::Thinking { text })
}

#[test]
fn text_in_pieces_is_told_once() {
    let mut claude = in_turn();
    let begun = json!({"type": "message_start", "message": {"id": "msg_1",
        "usage": {"input_tokens": 70, "cache_read_input_tokens": 7}}});
    assert_eq!(told(&mut claude, &piece(&begun)), []);
    let pieces = |claude: &mut ClaudeAdapter, kind: &str, field: &str, texts: &[&str]| {
        let block = json!({"type": "content_block_start", "index": 0, "content_block": {}});
        let mut heard = told(claude, &piece(&block));
        for text in texts {
            let delta = json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": kind, field: text}});
            heard.extend(told(claude, &piece(&delta)));
        }
        heard
    };
    let heard = pieces(&mut claude, "thinking_delta", "thinking", &["hm", "m"]);
    assert_eq!(heard, [thinking("hm"), thinking("m")]);
    let block = json!([{"type": "thinking", "thinking": "hmm", "signature": "x"}]);
    assert_eq!(told(&mut claude, &whole(&block)), []);
    let heard = pieces(&mut claude, "text_delta", "text", &["First ", "this"]);
    assert_eq!(heard, [assistant("First "), assistant("this")]);
    // A piece that was lost comes with the whole.
    let block = json!([{"type": "text", "text": "First this."}]);
    assert_eq!(told(&mut claude, &whole(&block)), [assistant(".")]);
    // One that did not come in pieces is told as a whole.
    let mut other = whole(&block);
    other["message"]["id"] = json!("msg_2");
    assert_eq!(told(&mut claude, &other), [assistant("First this.")]);
    let heard = told(&mut claude, &ends(&json!({})));
    assert!(
        matches!(&heard[0], AgentEvent::Reported(report)
            if report.usage.unwrap().context_used == Some(77)),
        "{heard:?}"
    );
}

#[test]
fn tools_and_what_came_of_them_are_told() {
    let mut claude = in_turn();
    let input = json!({"command": "ls -l"});
    let block = json!([{"type": "tool_use", "id": "t1", "name": "Bash", "input": input}]);
    let used = TranscriptEntry::ToolUse {
        id: "t1".into(),
        title: Some("Bash: ls -l".into()),
        tool: Some("Bash".into()),
        input: Some(Json::from_value(&input).unwrap()),
        status: Some(ToolStatus::InProgress),
    };
    assert_eq!(
        told(&mut claude, &whole(&block)),
        [AgentEvent::Transcript(used)]
    );
    let result = |content: &Value, is_error| {
        json!({"type": "user", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": is_error},
        ]}})
    };
    let came = |status, text: &str| {
        let (id, text) = ("t1".to_owned(), text.to_owned());
        [AgentEvent::Transcript(TranscriptEntry::ToolResult {
            id,
            status,
            text,
        })]
    };
    let denied = result(&json!("no"), true);
    assert_eq!(told(&mut claude, &denied), came(ToolStatus::Failed, "no"));
    let blocks = json!([{"type": "text", "text": "a"}, {"type": "image"}]);
    let done = result(&blocks, false);
    let expected = came(ToolStatus::Completed, "a\n(image)");
    assert_eq!(told(&mut claude, &done), expected);
    told(&mut claude, &whole(&block));
    let heard = told(&mut claude, &ends(&json!({})));
    let mut end = ended("end_turn", None);
    end.left_open = vec![("t1".into(), ToolStatus::Unknown)];
    assert_eq!(heard[1], AgentEvent::TurnEnded { turn: 1, end });
}

#[test]
fn a_mode_and_a_model_are_set_and_told_when_they_are() {
    let mut claude = open();
    let mode = AgentCommand::SetMode {
        revision: 2,
        mode: "plan".into(),
    };
    let (name, _, line) = one(claude.apply_command(mode));
    assert_eq!(name, WriteId::own("mode", 2));
    let request = json!({"subtype": "set_permission_mode", "mode": "plan"});
    assert_eq!(line["request"], request);
    let response = |id: &str, response: &Value| {
        json!({"type": "control_response", "response":
            {"subtype": "success", "request_id": id, "response": response}})
    };
    let set = response("countersign-mode-2", &json!({"mode": "plan"}));
    let mode = Some("plan".to_owned());
    let report = |mode, model| {
        [AgentEvent::Reported(AgentReport {
            mode,
            model,
            ..AgentReport::default()
        })]
    };
    assert_eq!(told(&mut claude, &set), report(mode, None));
    let model = || AgentCommand::SetModel {
        revision: 2,
        model: "sonnet".into(),
    };
    let (name, _, line) = one(claude.apply_command(model()));
    assert_eq!(name, WriteId::own("model", 2));
    let request = json!({"subtype": "set_model", "model": "sonnet"});
    assert_eq!(line["request"], request);
    let set = response(
        "countersign-model-2",
        &json!({"model": "claude-sonnet-5-5"}),
    );
    let expected = report(None, Some("claude-sonnet-5-5".to_owned()));
    assert_eq!(told(&mut claude, &set), expected);
    claude.apply_command(model()).unwrap();
    let failed = json!({"type": "control_response", "response": {"subtype": "error",
        "request_id": "countersign-model-2", "error": "no such model"}});
    let text = "the agent's model was not set to `sonnet`: no such model".to_owned();
    let notice = TranscriptEntry::Notice { text };
    assert_eq!(told(&mut claude, &failed), [AgentEvent::Transcript(notice)]);
}

#[test]
fn what_it_says_of_itself_is_told_when_it_is_new() {
    let mut claude = open();
    let init = json!({"type": "system", "subtype": "init", "model": "m", "session_id": "s",
        "permissionMode": "default", "tools": ["Bash"]});
    let report = AgentReport {
        model: Some("m".into()),
        ..AgentReport::default()
    };
    assert_eq!(told(&mut claude, &init), [AgentEvent::Reported(report)]);
    assert_eq!(told(&mut claude, &init), []);
    let status = json!({"type": "system", "subtype": "status", "permissionMode": "plan"});
    let report = AgentReport {
        mode: Some("plan".into()),
        ..AgentReport::default()
    };
    assert_eq!(told(&mut claude, &status), [AgentEvent::Reported(report)]);
}

#[test]
fn what_is_not_known_is_kept_and_what_is_no_message_is_noise() {
    let mut claude = in_turn();
    for unknown in [
        json!({"type": "tomorrow", "x": 1}),
        json!({"type": "system", "subtype": "tomorrow"}),
        json!({"type": "result", "is_error": "what"}),
    ] {
        let update = Json::from_value(&unknown).unwrap();
        let kept = AgentEvent::Transcript(TranscriptEntry::Other { update });
        assert_eq!(told(&mut claude, &unknown), [kept]);
    }
    for noise in ["hello", "[1]", "{\"x\":1}"] {
        let heard = claude.handle_line(noise.as_bytes(), LINE);
        assert_eq!(heard.events, [AgentEvent::Noise(noise.to_owned())]);
    }
    assert_eq!(claude.handle_line(b" ", LINE), AdapterOutput::default());
    let request = RequestId("1".into());
    let served = Err(ClientRequestError::Failed(String::new()));
    let serve = claude.apply_command(AgentCommand::Serve { request, served });
    assert!(matches!(serve, Err(CommandError::Unsupported(_))));
}

//! Golden lines: what an agent says, what comes of it, and what is written.

use countersign_core::event::{
    AgentOffers, OfferedChoice, PlanStep, TokenUsage, ToolStatus, TranscriptEntry,
};
use serde_json::json;

use super::*;
use crate::adapter::{
    AgentReport, BoundAction, ClientRequest, ClientRequestError, ClientResponse, McpServer,
    PermissionAnswer, PermissionAsk, RunRequest, SessionReady, SessionSpec,
};

fn report(report: AgentReport) -> AgentEvent {
    AgentEvent::Reported(report)
}

fn offered_modes(modes: &[(&str, &str)]) -> AgentOffers {
    let modes = modes.iter().map(|(id, name)| OfferedChoice {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        description: None,
    });
    AgentOffers {
        modes: Some(modes.collect()),
        ..AgentOffers::default()
    }
}

pub(super) fn start() -> SessionSpec {
    SessionSpec {
        cwd: "/p".into(),
        session: None,
        fork: false,
        new_session: None,
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

pub(super) fn text(lines: &[AgentWrite]) -> Vec<Value> {
    let parsed = lines.iter().flat_map(|line| {
        assert_eq!(line.bytes.last(), Some(&b'\n'));
        let messages = line.bytes.trim_ascii_end().split(|byte| *byte == b'\n');
        messages.map(|message| serde_json::from_slice(message).unwrap())
    });
    parsed.collect()
}

pub(super) fn hear(acp: &mut AcpAdapter, message: &Value) -> (Vec<AgentEvent>, Vec<Value>) {
    let heard = acp.handle_line(message.to_string().as_bytes(), LINE);
    (heard.events, text(&heard.writes))
}

pub(super) fn order(acp: &mut AcpAdapter, order: AgentCommand) -> Vec<Value> {
    text(&acp.apply_command(order).unwrap())
}

/// What an update came to.
pub(super) fn update(acp: &mut AcpAdapter, update: &Value) -> Vec<AgentEvent> {
    let params = json!({"sessionId": "s", "update": update});
    let (happenings, lines) = hear(acp, &json!({"method": "session/update", "params": params}));
    assert_eq!(lines, Vec::<Value>::new());
    happenings
}

fn initialized(
    acp: &mut AcpAdapter,
    start: SessionSpec,
    result: &Value,
) -> (Vec<AgentEvent>, Vec<Value>) {
    order(acp, AgentCommand::Start(start));
    hear(acp, &json!({"id": 0, "result": result}))
}

/// A connection with the session `s` open.
pub(super) fn open() -> AcpAdapter {
    let mut acp = AcpAdapter::new();
    initialized(&mut acp, start(), &json!({"protocolVersion": 1}));
    hear(&mut acp, &json!({"id": 1, "result": {"sessionId": "s"}}));
    acp
}

/// The same with turn 7 running.
pub(super) fn in_turn() -> AcpAdapter {
    let mut acp = open();
    prompt(&mut acp, 7);
    acp
}

fn prompt(acp: &mut AcpAdapter, turn: u32) -> Vec<Value> {
    let messages = vec!["do it".to_owned()];
    order(
        acp,
        AgentCommand::Prompt {
            turn,
            messages,
            attachments: Vec::new(),
        },
    )
}

pub(super) fn id(text: &str) -> RequestId {
    RequestId(text.to_owned())
}

fn options(kinds: &[&str]) -> Value {
    let options = kinds
        .iter()
        .map(|kind| json!({"optionId": format!("the-{kind}"), "kind": kind, "name": kind}));
    options.collect()
}

pub(super) fn permission(request: &Value, call: &Value, kinds: &[&str]) -> Value {
    json!({"id": request, "method": "session/request_permission", "params":
        {"sessionId": "s", "toolCall": call, "options": options(kinds)}})
}

pub(super) const ONCE: [&str; 2] = ["allow_once", "reject_once"];

fn ask(request: &str, command: &str) -> PermissionAsk {
    PermissionAsk {
        request: id(request),
        line: LINE,
        tool_call: "c".into(),
        title: String::new(),
        tool: Some("Bash".into()),
        input: Some(Json::from_value(&json!({"command": command})).unwrap()),
        details: Json::from_value(&json!({"kind": "execute", "rawInput": {"command": command}}))
            .unwrap(),
        binds: vec![BoundAction::Run(RunRequest {
            command: command.into(),
            cwd: None,
            env: Vec::new(),
        })],
        can_allow: true,
        can_edit: false,
        takes_denial_message: false,
    }
}

fn asked(happenings: &[AgentEvent]) -> Vec<PermissionAsk> {
    let asks = happenings.iter().filter_map(|happening| match happening {
        AgentEvent::Asked(ask) => Some((**ask).clone()),
        _ => None,
    });
    asks.collect()
}

pub(super) fn call(command: &str) -> Value {
    json!({"toolCallId": "c", "kind": "execute", "rawInput": {"command": command}})
}

fn cancelled(request: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request, "result": {"outcome": {"outcome": "cancelled"}}})
}

#[test]
fn the_handshake_opens_a_session() {
    let mut acp = AcpAdapter::new();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        order(&mut acp, AgentCommand::Start(start())),
        [
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": 1,
                "clientCapabilities": {
                    "fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true,
                    "elicitation": {"form": {}}, "session": {"compaction": {}, "notices": {}},
                },
                "clientInfo": {"name": "countersign", "title": "Countersign", "version": version},
            }})
        ]
    );
    let capabilities = json!({"loadSession": true});
    let info = json!({"name": "a", "version": "2"});
    let result =
        json!({"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": info});
    let (_, lines) = hear(&mut acp, &json!({"id": 0, "result": result}));
    assert_eq!(
        lines,
        [json!({"jsonrpc": "2.0", "id": 1, "method": "session/new",
            "params": {"cwd": "/p", "mcpServers": []}})]
    );
    let modes = json!({"currentModeId": "m", "availableModes": [{"id": "m", "name": "M"}]});
    let result = json!({"sessionId": "s", "modes": modes});
    let (happenings, _) = hear(&mut acp, &json!({"id": 1, "result": result}));
    assert_eq!(
        happenings,
        [
            report(AgentReport {
                offers: offered_modes(&[("m", "M")]),
                ..AgentReport::default()
            }),
            AgentEvent::Ready(SessionReady {
                session: "s".into(),
                resumable: true,
                mode: Some("m".into()),
                warnings: Vec::new(),
            })
        ]
    );
}

#[test]
fn a_start_that_cannot_be_fails_with_words() {
    let failed = |result: &Value, session: Option<&str>, then: Option<Value>| {
        let mut acp = AcpAdapter::new();
        let start = SessionSpec {
            session: session.map(str::to_owned),
            ..start()
        };
        let (mut happenings, _) = initialized(&mut acp, start, result);
        if let Some(then) = then {
            happenings = hear(&mut acp, &then).0;
        }
        match happenings.as_slice() {
            [AgentEvent::StartFailed { message }] => message.clone(),
            other => panic!("{other:?}"),
        }
    };
    let login = json!({"protocolVersion": 1, "authMethods": [{"id": "k", "name": "A key"}]});
    let refused = json!({"id": 1, "error": {"code": -32000, "message": "Authentication required"}});
    assert!(failed(&login, None, Some(refused)).contains("log in first (A key)"));
    assert!(failed(&json!({"protocolVersion": 2}), None, None).contains("version 2"));
    assert!(failed(&json!("x"), None, None).contains("cannot be read"));
    let plain = json!({"protocolVersion": 1});
    assert!(failed(&plain, Some("s"), None).contains("cannot resume an earlier session"));
    let load = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}});
    let unknown = json!({"id": 1, "error": {"code": -32002, "message": "Resource not found"}});
    assert!(failed(&load, Some("s"), Some(unknown)).contains("no longer knows the session `s`"));
}

#[test]
fn servers_that_a_person_gave_are_passed_on_where_the_agent_reaches_them() {
    let opened = |http: bool| {
        let given = r#"{"docs": {"command": "docs-mcp", "args": ["-v"], "env": {"A": "1"}},
            "web": {"type": "http", "url": "http://h/", "headers": {"K": "v"}}, "odd": {}}"#;
        let start = SessionSpec {
            given_servers: serde_json::from_str(given).unwrap(),
            ..start()
        };
        let capabilities = json!({"mcpCapabilities": {"http": http}});
        let result = json!({"protocolVersion": 1, "agentCapabilities": capabilities});
        let mut acp = AcpAdapter::new();
        let (_, lines) = initialized(&mut acp, start, &result);
        (
            lines[0]["params"]["mcpServers"].clone(),
            acp.state.warnings.len(),
        )
    };
    let docs = json!({"name": "docs", "command": "docs-mcp", "args": ["-v"],
        "env": [{"name": "A", "value": "1"}]});
    let web = json!({"type": "http", "name": "web", "url": "http://h/",
        "headers": [{"name": "K", "value": "v"}]});
    assert_eq!(opened(true), (json!([docs, web]), 1));
    assert_eq!(opened(false), (json!([docs]), 2));
}

#[test]
fn servers_are_given_to_claude_so_that_their_tools_are_offered_at_once() {
    let opened = |name: &str| {
        let start = SessionSpec {
            mcp_servers: vec![McpServer {
                name: "countersign".into(),
                command: "/bin/countersign".into(),
                args: vec!["mcp".into()],
            }],
            ..start()
        };
        let result = json!({"protocolVersion": 1, "agentInfo": {"name": name, "version": "1"}});
        let (_, lines) = initialized(&mut AcpAdapter::new(), start, &result);
        let params = &lines[0]["params"];
        let options = &params["_meta"]["claudeCode"]["options"];
        (params["mcpServers"].clone(), options["mcpServers"].clone())
    };
    let entry = json!({"type": "stdio", "command": "/bin/countersign", "args": ["mcp"],
        "alwaysLoad": true});
    assert_eq!(
        opened("@agentclientprotocol/claude-agent-acp"),
        (json!([]), json!({"countersign": entry}))
    );
    let server = json!({"name": "countersign", "command": "/bin/countersign", "args": ["mcp"],
        "env": []});
    assert_eq!(opened("another"), (json!([server]), Value::Null));
}

#[test]
fn mode_model_prompt_and_tools_go_where_the_agent_has_a_place() {
    let start = || SessionSpec {
        mode: Some("plan".into()),
        model: Some("big".into()),
        system_prompt: Some("be kind".into()),
        allowed_tools: vec!["Read".into(), "Bash(ls:*)".into()],
        disallowed_tools: vec!["WebFetch".into()],
        ..start()
    };
    let mut acp = AcpAdapter::new();
    let result = json!({
        "protocolVersion": 1,
        "agentInfo": {"name": "@agentclientprotocol/claude-agent-acp", "version": "1"},
        "agentCapabilities": {"sessionCapabilities": {"systemPrompt": {}}},
    });
    let (_, lines) = initialized(&mut acp, start(), &result);
    assert_eq!(
        lines[0]["params"],
        json!({
            "cwd": "/p", "mcpServers": [],
            "systemPrompt": {"mode": "append", "content": [{"type": "text", "text": "be kind"}]},
            "_meta": {"claudeCode": {"options":
                {"settings": {"permissions": {"ask": ["Bash", "Edit", "Glob", "Grep", "NotebookEdit",
                    "Read", "WebFetch", "WebSearch", "Write"]}, "disableAllHooks": true},
                 "allowDangerouslySkipPermissions": false,
                 "tools": ["Bash", "Read"], "disallowedTools": ["WebFetch"]}}},
        })
    );
    let modes = json!({"currentModeId": "m", "availableModes": [{"id": "m", "name": "M"}, {"id": "plan", "name": "P"}]});
    let model = json!({"id": "model", "name": "Model", "category": "model", "type": "select",
        "currentValue": "small", "options": [{"value": "small", "name": "S"}, {"value": "big", "name": "B"}]});
    let result = json!({"sessionId": "s", "modes": modes, "configOptions": [model]});
    let (happenings, lines) = hear(&mut acp, &json!({"id": 1, "result": result}));
    let offers = AgentOffers {
        models: offered_modes(&[("small", "S"), ("big", "B")]).modes,
        ..offered_modes(&[("m", "M"), ("plan", "P")])
    };
    assert_eq!(
        happenings,
        [report(AgentReport {
            model: Some("small".into()),
            offers,
            ..AgentReport::default()
        })]
    );
    assert_eq!(
        lines,
        [
            json!({"jsonrpc": "2.0", "id": 2, "method": "session/set_mode",
                "params": {"sessionId": "s", "modeId": "plan"}}),
            json!({"jsonrpc": "2.0", "id": 3, "method": "session/set_config_option",
                "params": {"sessionId": "s", "configId": "model", "value": "big"}}),
        ]
    );
    hear(&mut acp, &json!({"id": 2, "result": {}}));
    let refused = json!({"id": 3, "error": {"code": -1, "message": "no"}});
    let (happenings, _) = hear(&mut acp, &refused);
    let [AgentEvent::Ready(ready)] = happenings.as_slice() else {
        panic!("{happenings:?}");
    };
    assert_eq!(ready.mode.as_deref(), Some("plan"));
    assert_eq!(
        ready.warnings,
        ["the agent did not take the model `big`: no"]
    );

    let mut acp = AcpAdapter::new();
    initialized(&mut acp, start(), &json!({"protocolVersion": 1}));
    hear(&mut acp, &json!({"id": 1, "result": {"sessionId": "s"}}));
    let refused = json!({"id": 2, "error": {"code": -32601, "message": "Method not found"}});
    let (happenings, _) = hear(&mut acp, &refused);
    let [AgentEvent::Ready(ready)] = happenings.as_slice() else {
        panic!("{happenings:?}");
    };
    assert_eq!(ready.warnings.len(), 4, "{:?}", ready.warnings);
}

#[test]
fn replayed_history_is_not_told_again_and_a_resume_replays_none() {
    let start = || SessionSpec {
        session: Some("s".into()),
        ..start()
    };
    let mut acp = AcpAdapter::new();
    let load = json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}});
    let (_, lines) = initialized(&mut acp, start(), &load);
    assert_eq!(lines[0]["method"], "session/load");
    let chunk =
        json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}});
    assert_eq!(update(&mut acp, &chunk), []);
    let old =
        json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "status": "pending"});
    assert_eq!(update(&mut acp, &old), []);
    let (happenings, _) = hear(&mut acp, &json!({"id": 1, "result": null}));
    assert!(matches!(happenings.as_slice(), [AgentEvent::Ready(_)]));

    let mut acp = AcpAdapter::new();
    let both = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    let both = json!({"protocolVersion": 1, "agentCapabilities": both});
    let (_, lines) = initialized(&mut acp, start(), &both);
    assert_eq!(lines[0]["method"], "session/resume");
    assert_eq!(update(&mut acp, &chunk).len(), 1);
}

#[test]
fn another_process_goes_on_in_the_middle_of_a_turn() {
    let mut first = in_turn();
    hear(&mut first, &permission(&json!("r"), &call("ls"), &ONCE));
    let state = first.state();
    drop(first);

    let mut second = AcpAdapter::restore(&state).unwrap();
    assert_eq!(second.state(), state);
    let request = id("\"r\"");
    let allow = || AgentCommand::Answer {
        request: request.clone(),
        answer: PermissionAnswer::Allow { input: None },
    };
    assert_eq!(
        order(&mut second, allow()),
        [json!({"jsonrpc": "2.0", "id": "r", "result":
            {"outcome": {"outcome": "selected", "optionId": "the-allow_once"}}})]
    );
    assert_eq!(second.apply_command(allow()), Err(CommandError::NotWaiting));
    let usage = json!({"inputTokens": 5, "outputTokens": 6, "totalTokens": 11});
    let response = json!({"id": 64, "result": {"stopReason": "end_turn", "usage": usage}});
    assert_eq!(
        hear(&mut second, &response).0,
        [AgentEvent::TurnEnded {
            turn: 7,
            end: TurnEnd {
                reason: "end_turn".into(),
                message: None,
                usage: Some(TokenUsage {
                    tokens_in: Some(5),
                    tokens_out: Some(6),
                    ..TokenUsage::default()
                }),
                left_open: vec![("c".into(), ToolStatus::Unknown)],
            },
        }]
    );
    assert_eq!(prompt(&mut second, 8)[0]["id"], 72);
}

#[test]
fn a_prompt_is_never_sent_while_one_runs() {
    let mut acp = AcpAdapter::new();
    let again = || AgentCommand::Prompt {
        attachments: Vec::new(),
        turn: 1,
        messages: vec!["x".into()],
    };
    assert_eq!(acp.apply_command(again()), Err(CommandError::NotReady));
    let mut acp = open();
    assert_eq!(
        prompt(&mut acp, 7),
        [
            json!({"jsonrpc": "2.0", "id": 64, "method": "session/prompt", "params":
            {"sessionId": "s", "prompt": [{"type": "text", "text": "do it"}]}})
        ]
    );
    assert_eq!(acp.apply_command(again()), Err(CommandError::NotReady));
    let data = json!({"message": "no model"});
    let failed =
        json!({"id": 64, "error": {"code": -32603, "message": "Internal error", "data": data}});
    assert_eq!(
        hear(&mut acp, &failed).0,
        [AgentEvent::TurnEnded {
            turn: 7,
            end: TurnEnd {
                reason: "error".into(),
                message: Some("Internal error: no model".into()),
                usage: None,
                left_open: Vec::new(),
            },
        }]
    );
    assert!(acp.apply_command(again()).is_ok());
}

#[test]
fn an_ask_is_joined_with_its_call_wherever_that_is_told() {
    let begins = |call: &Value| {
        let mut call = call.clone();
        call["sessionUpdate"] = json!("tool_call");
        call
    };
    let only_id = json!({"toolCallId": "c"});

    let mut acp = in_turn();
    let (happenings, _) = hear(&mut acp, &permission(&json!(1), &call("ls"), &ONCE));
    assert_eq!(asked(&happenings), [ask("1", "ls")]);

    let mut acp = in_turn();
    update(&mut acp, &begins(&call("ls")));
    let (happenings, _) = hear(&mut acp, &permission(&json!(1), &only_id, &ONCE));
    assert_eq!(asked(&happenings), [ask("1", "ls")]);

    let mut acp = in_turn();
    let (happenings, _) = hear(&mut acp, &permission(&json!(1), &only_id, &ONCE));
    let nothing = PermissionAsk {
        tool: None,
        input: None,
        details: Json::from_value(&json!({})).unwrap(),
        binds: Vec::new(),
        ..ask("1", "")
    };
    assert_eq!(asked(&happenings), [nothing]);
    assert_eq!(
        asked(&update(&mut acp, &begins(&call("ls")))),
        [ask("1", "ls")]
    );
    let status =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress"});
    assert_eq!(asked(&update(&mut acp, &status)), []);
    let mut changed = call("rm x");
    changed["sessionUpdate"] = json!("tool_call_update");
    assert_eq!(asked(&update(&mut acp, &changed)), [ask("1", "rm x")]);
}

#[test]
fn an_answer_is_chosen_by_kind_and_never_always() {
    let deny = || PermissionAnswer::Deny {
        message: Some("use git".into()),
        stop: false,
    };
    let answered = |kinds: &[&str], answer| {
        let mut acp = in_turn();
        let (happenings, _) = hear(&mut acp, &permission(&json!(1), &call("ls"), kinds));
        let asks = asked(&happenings);
        let request = id("1");
        let written = acp.apply_command(AgentCommand::Answer { request, answer });
        let written = written.map(|lines| text(&lines)[0]["result"].clone());
        (asks[0].can_allow, written)
    };
    let selected = |option: &str| json!({"outcome": {"outcome": "selected", "optionId": option}});
    let told = |mut outcome: Value| {
        outcome["_meta"] = json!({"countersign": {"message": "use git"}});
        outcome
    };
    let nothing = json!({"outcome": {"outcome": "cancelled"}});
    let all = [
        "reject_always",
        "allow_always",
        "reject_once",
        "allow_once",
        "other",
    ];
    assert_eq!(
        answered(&all, PermissionAnswer::Allow { input: None }),
        (true, Ok(selected("the-allow_once")))
    );
    assert_eq!(
        answered(&all, deny()),
        (true, Ok(told(selected("the-reject_once"))))
    );
    let (can_allow, written) = answered(
        &["allow_always", "reject_always"],
        PermissionAnswer::Allow { input: None },
    );
    assert!(!can_allow && matches!(written, Err(CommandError::Unsupported(_))));
    let always = ["allow_always", "reject_always"];
    assert_eq!(
        answered(&always, deny()),
        (false, Ok(told(nothing.clone())))
    );
    assert_eq!(
        answered(&[], PermissionAnswer::Cancelled),
        (false, Ok(nothing))
    );
}

#[test]
fn an_interrupt_answers_every_ask_as_cancelled_once() {
    let mut acp = in_turn();
    hear(&mut acp, &permission(&json!(1), &call("ls"), &ONCE));
    hear(&mut acp, &permission(&json!("1"), &call("ls"), &ONCE));
    let cancel =
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}});
    let lines = order(&mut acp, AgentCommand::Interrupt);
    assert_eq!(
        lines,
        [cancel.clone(), cancelled(&json!("1")), cancelled(&json!(1))]
    );
    assert_eq!(order(&mut acp, AgentCommand::Interrupt), [cancel]);
    let request = id("1");
    let answer = PermissionAnswer::Allow { input: None };
    assert_eq!(
        acp.apply_command(AgentCommand::Answer { request, answer }),
        Err(CommandError::NotWaiting)
    );
    let (happenings, lines) = hear(&mut acp, &permission(&json!(2), &call("ls"), &ONCE));
    assert_eq!(lines, [cancelled(&json!(2))]);
    assert_eq!(
        happenings[..2],
        [
            AgentEvent::Withdrawn {
                request: id("\"1\"")
            },
            AgentEvent::Withdrawn { request: id("1") },
        ]
    );
    assert_eq!(asked(&happenings), []);
    let (happenings, _) = hear(
        &mut acp,
        &json!({"id": 64, "result": {"stopReason": "cancelled"}}),
    );
    assert!(matches!(
        &happenings[..],
        [AgentEvent::TurnEnded { turn: 7, .. }]
    ));
    assert_eq!(
        order(&mut acp, AgentCommand::Interrupt),
        Vec::<Value>::new()
    );
}

#[test]
fn a_request_is_taken_back_once() {
    let mut acp = in_turn();
    hear(&mut acp, &permission(&json!(1), &call("ls"), &ONCE));
    let read = json!({"id": "w", "method": "fs/read_text_file", "params": {"sessionId": "s", "path": "/p/a"}});
    hear(&mut acp, &read);
    let cancel = |request| json!({"method": "$/cancel_request", "params": {"requestId": request}});
    let withdrawn = |request| vec![AgentEvent::Withdrawn { request }];
    assert_eq!(
        hear(&mut acp, &cancel(json!(1))),
        (withdrawn(id("1")), vec![cancelled(&json!(1))])
    );
    let (happenings, lines) = hear(&mut acp, &cancel(json!("w")));
    assert_eq!(
        (happenings, &lines[0]["error"]["code"]),
        (withdrawn(id("\"w\"")), &json!(-32800))
    );
    assert_eq!(hear(&mut acp, &cancel(json!(1))), (vec![], vec![]));
}

#[test]
fn a_second_request_with_the_same_id_takes_the_place_of_the_first() {
    let mut acp = in_turn();
    hear(&mut acp, &permission(&json!(1), &call("ls"), &ONCE));
    let (happenings, lines) = hear(&mut acp, &permission(&json!(1), &call("rm x"), &ONCE));
    assert_eq!(lines, Vec::<Value>::new());
    assert_eq!(happenings[0], AgentEvent::Withdrawn { request: id("1") });
    assert_eq!(asked(&happenings), [ask("1", "rm x")]);
    let allow = || AgentCommand::Answer {
        request: id("1"),
        answer: PermissionAnswer::Allow { input: None },
    };
    assert_eq!(order(&mut acp, allow()).len(), 1);
    assert_eq!(acp.apply_command(allow()), Err(CommandError::NotWaiting));
}

#[test]
fn what_a_turn_leaves_open_goes_with_it() {
    let mut acp = in_turn();
    hear(&mut acp, &permission(&json!(1), &call("ls"), &ONCE));
    let wait = json!({"id": 2, "method": "terminal/wait_for_exit", "params": {"sessionId": "s", "terminalId": "t"}});
    hear(&mut acp, &wait);
    let (happenings, lines) = hear(
        &mut acp,
        &json!({"id": 64, "result": {"stopReason": "end_turn"}}),
    );
    assert_eq!(lines, Vec::<Value>::new());
    assert_eq!(happenings[0], AgentEvent::Withdrawn { request: id("1") });
    assert!(matches!(&happenings[1..], [AgentEvent::TurnEnded { .. }]));
    let served = Ok(ClientResponse::Exited(crate::adapter::ProcessExit {
        code: Some(0),
        signal: None,
    }));
    let lines = order(
        &mut acp,
        AgentCommand::Serve {
            request: id("2"),
            served,
        },
    );
    assert_eq!(lines[0]["result"], json!({"exitCode": 0, "signal": null}));
}

#[test]
fn files_and_terminals_are_handed_up_or_refused() {
    let mut acp = in_turn();
    let mut want = |method: &str, params: Value| {
        let mut params = params;
        if params.get("sessionId").is_none() {
            params["sessionId"] = json!("s");
        }
        let (happenings, lines) = hear(
            &mut acp,
            &json!({"id": 9, "method": method, "params": params}),
        );
        let want = happenings
            .into_iter()
            .find_map(|happening| match happening {
                AgentEvent::ClientRequested {
                    client_request: want,
                    ..
                } => Some(want),
                _ => None,
            });
        let code = lines.first().map(|line| line["error"]["code"].clone());
        (want, code)
    };
    let path = || "/p/a".into();
    assert_eq!(
        want("fs/read_text_file", json!({"path": "/p/a", "line": 2})),
        (
            Some(ClientRequest::Read {
                path: path(),
                line: Some(2),
                limit: None
            }),
            None
        )
    );
    assert_eq!(
        want(
            "fs/write_text_file",
            json!({"path": "/p/a", "content": "x"})
        ),
        (
            Some(ClientRequest::Write {
                path: path(),
                content: "x".into()
            }),
            None
        )
    );
    let create = json!({"command": "/bin/sh", "args": ["-c", "ls"], "cwd": "/p", "env": [{"name": "A", "value": "b"}]});
    let run = RunRequest {
        command: "ls".into(),
        cwd: None,
        env: vec![("A".into(), "b".into())],
    };
    assert_eq!(
        want("terminal/create", create),
        (
            Some(ClientRequest::CreateTerminal {
                run,
                output_bytes_max: None
            }),
            None
        )
    );
    let terminal = || "t".to_owned();
    let named = || json!({"terminalId": "t"});
    for (method, expected) in [
        (
            "terminal/output",
            ClientRequest::Output {
                terminal: terminal(),
            },
        ),
        (
            "terminal/wait_for_exit",
            ClientRequest::WaitForExit {
                terminal: terminal(),
            },
        ),
        (
            "terminal/kill",
            ClientRequest::Kill {
                terminal: terminal(),
            },
        ),
        (
            "terminal/release",
            ClientRequest::Release {
                terminal: terminal(),
            },
        ),
    ] {
        assert_eq!(want(method, named()), (Some(expected), None));
    }
    let refused = |code: i64| (None, Some(json!(code)));
    assert_eq!(
        want("fs/read_text_file", json!({"path": "a"})),
        refused(-32602)
    );
    let other = json!({"path": "/p/a", "sessionId": "other"});
    assert_eq!(want("fs/read_text_file", other), refused(-32602));
    assert_eq!(want("terminal/create", json!({})), refused(-32602));
    assert_eq!(want("mcp/connect", json!({})), refused(-32601));
    assert_eq!(want("_vendor/x", json!({})), refused(-32601));
}

#[test]
fn what_was_served_has_the_protocols_shape() {
    let served = |served| {
        let mut acp = in_turn();
        let read = json!({"id": 9, "method": "fs/read_text_file", "params": {"sessionId": "s", "path": "/a"}});
        hear(&mut acp, &read);
        let request = id("9");
        let mut line = order(&mut acp, AgentCommand::Serve { request, served }).remove(0);
        line.as_object_mut()
            .unwrap()
            .retain(|name, _| name == "result" || name == "error");
        line
    };
    assert_eq!(
        served(Ok(ClientResponse::Text("x".into()))),
        json!({"result": {"content": "x"}})
    );
    assert_eq!(
        served(Ok(ClientResponse::Terminal("t".into()))),
        json!({"result": {"terminalId": "t"}})
    );
    assert_eq!(served(Ok(ClientResponse::Done)), json!({"result": {}}));
    let exit = crate::adapter::ProcessExit {
        code: None,
        signal: Some("SIGKILL".into()),
    };
    let output = ClientResponse::Output {
        text: "x".into(),
        truncated: true,
        exit: Some(exit),
    };
    assert_eq!(
        served(Ok(output)),
        json!({"result": {"output": "x", "truncated": true, "exitStatus": {"exitCode": null, "signal": "SIGKILL"}}})
    );
    assert_eq!(
        served(Err(ClientRequestError::NotFound("/a".into()))),
        json!({"error": {"code": -32002, "message": "not found: /a"}})
    );
}

#[test]
fn updates_become_reports_and_entries() {
    let mut acp = in_turn();
    let chunk =
        |kind: &str| json!({"sessionUpdate": kind, "content": {"type": "text", "text": "hi"}});
    let hi = || "hi".to_owned();
    for (kind, entry) in [
        (
            "agent_message_chunk",
            TranscriptEntry::Assistant { text: hi() },
        ),
        (
            "agent_thought_chunk",
            TranscriptEntry::Thinking { text: hi() },
        ),
        (
            "user_message_chunk",
            TranscriptEntry::Notice {
                text: format!("the agent says that it was told: {}", hi()),
            },
        ),
    ] {
        assert_eq!(
            update(&mut acp, &chunk(kind)),
            [AgentEvent::Transcript(entry)]
        );
    }
    let usage = json!({"sessionUpdate": "usage_update", "used": 5, "size": 9, "cost": {"amount": 0.25, "currency": "USD"}});
    let expected = TokenUsage {
        context_used: Some(5),
        context_size: Some(9),
        cost_micro_usd: Some(250_000),
        ..TokenUsage::default()
    };
    assert_eq!(
        update(&mut acp, &usage),
        [report(AgentReport {
            usage: Some(expected),
            ..AgentReport::default()
        })]
    );
    let plan = json!({"sessionUpdate": "plan", "entries": [{"content": "a", "priority": "high", "status": "in_progress"}]});
    let step = PlanStep {
        text: "a".into(),
        status: "in_progress".into(),
    };
    let expected = countersign_core::event::AgentPlan { steps: vec![step] };
    assert_eq!(
        update(&mut acp, &plan),
        [
            report(AgentReport {
                plan: Some(expected.clone()),
                ..AgentReport::default()
            }),
            AgentEvent::Transcript(TranscriptEntry::Plan { plan: expected }),
        ]
    );
    let mode = json!({"sessionUpdate": "current_mode_update", "currentModeId": "m"});
    assert_eq!(
        update(&mut acp, &mode),
        [report(AgentReport {
            mode: Some("m".into()),
            ..AgentReport::default()
        })]
    );
    let title = json!({"sessionUpdate": "session_info_update", "title": "T"});
    assert_eq!(
        update(&mut acp, &title),
        [report(AgentReport {
            title: Some("T".into()),
            ..AgentReport::default()
        })]
    );
    let unknown = json!({"sessionUpdate": "from_the_future", "x": [1, 2]});
    let kept = TranscriptEntry::Other {
        update: Json::from_value(&unknown).unwrap(),
    };
    assert_eq!(update(&mut acp, &unknown), [AgentEvent::Transcript(kept)]);
    let commands = json!({"sessionUpdate": "available_commands_update", "availableCommands": []});
    let none = AgentOffers {
        commands: Some(Vec::new()),
        ..AgentOffers::default()
    };
    assert_eq!(
        update(&mut acp, &commands),
        [report(AgentReport {
            offers: none,
            ..AgentReport::default()
        })]
    );
}

#[test]
fn a_tool_call_is_told_as_it_becomes_known() {
    let mut acp = in_turn();
    let entry = |title: Option<&str>, tool: Option<&str>, input: Option<Value>, status| {
        AgentEvent::Transcript(TranscriptEntry::ToolUse {
            id: "c".into(),
            title: title.map(str::to_owned),
            tool: tool.map(str::to_owned),
            input: input.map(|input| Json::from_value(&input).unwrap()),
            status,
        })
    };
    let mut begins = call("ls");
    begins["sessionUpdate"] = json!("tool_call");
    begins["title"] = json!("list");
    begins["status"] = json!("pending");
    let input = json!({"command": "ls"});
    assert_eq!(
        update(&mut acp, &begins),
        [entry(
            Some("list"),
            Some("Bash"),
            Some(input),
            Some(ToolStatus::Pending)
        )]
    );
    let more = |fields: Value| {
        let mut update = fields;
        update["sessionUpdate"] = json!("tool_call_update");
        update["toolCallId"] = json!("c");
        update
    };
    let under_way = more(json!({"status": "in_progress", "title": "list"}));
    assert_eq!(
        update(&mut acp, &under_way),
        [entry(None, None, None, Some(ToolStatus::InProgress))]
    );
    let content = json!([{"type": "content", "content": {"type": "text", "text": "a b"}}]);
    let result = TranscriptEntry::ToolResult {
        id: "c".into(),
        status: ToolStatus::Completed,
        text: "a b".into(),
    };
    let done = more(json!({"status": "completed", "content": content}));
    assert_eq!(update(&mut acp, &done), [AgentEvent::Transcript(result)]);
    assert_eq!(update(&mut acp, &done), []);
    let (happenings, _) = hear(
        &mut acp,
        &json!({"id": 64, "result": {"stopReason": "end_turn"}}),
    );
    let [AgentEvent::TurnEnded { end, .. }] = happenings.as_slice() else {
        panic!("{happenings:?}");
    };
    assert_eq!(end.left_open, []);
}

#[test]
fn noise_is_never_answered() {
    let mut acp = in_turn();
    for line in [
        &b"warming up"[..],
        b"[]",
        br#"[{"id":1,"method":"fs/read_text_file"}]"#,
        b"\xff\xfe",
        br#"{"id":77,"result":{}}"#,
        br#"{"id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
        br#"{"method":"session/update","params":{}}"#,
        br#"{"method":"session/update","params":{"sessionId":"other","update":{}}}"#,
        br#"{"method":"other/thing"}"#,
    ] {
        let heard = acp.handle_line(line, LINE);
        assert!(
            matches!(heard.events.as_slice(), [AgentEvent::Noise(_)]) && heard.writes.is_empty(),
            "{heard:?}"
        );
    }
    for line in [
        &b""[..],
        b"  ",
        br#"{"method":"_auth/status_update"}"#,
        br#"{"method":"$/x"}"#,
    ] {
        assert_eq!(acp.handle_line(line, LINE), AdapterOutput::default());
    }
}

#[test]
fn an_ask_that_cannot_be_read_is_never_an_error_and_never_allowed() {
    let mut acp = in_turn();
    let method = "session/request_permission";
    for params in [
        json!(null),
        json!({"sessionId": "s"}),
        json!({"sessionId": "s", "toolCall": {}}),
        json!({"sessionId": "other", "toolCall": {"toolCallId": "c"}, "options": options(&ONCE)}),
    ] {
        let (happenings, lines) = hear(
            &mut acp,
            &json!({"id": 1, "method": method, "params": params}),
        );
        assert_eq!(
            (asked(&happenings), lines),
            (vec![], vec![cancelled(&json!(1))])
        );
    }
    let odd = json!({"toolCallId": "c", "title": 5, "rawInput": {"command": "ls"}});
    let (happenings, _) = hear(&mut acp, &permission(&json!(1), &odd, &ONCE));
    assert!(matches!(&asked(&happenings)[..], [ask] if !ask.can_allow && ask.input.is_none()));
}

#[test]
fn a_call_that_is_begun_again_to_say_that_it_failed_keeps_its_title() {
    let mut acp = in_turn();
    let mut begins = call("ls");
    begins["sessionUpdate"] = json!("tool_call");
    begins["title"] = json!("list");
    update(&mut acp, &begins);
    let content = json!([{"type": "content", "content": {"type": "text", "text": "denied"}}]);
    let failed = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "",
        "status": "failed", "content": content});
    let result = TranscriptEntry::ToolResult {
        id: "c".into(),
        status: ToolStatus::Failed,
        text: "denied".into(),
    };
    assert_eq!(update(&mut acp, &failed), [AgentEvent::Transcript(result)]);
    assert!(matches!(
        update(&mut acp, &begins).as_slice(),
        [AgentEvent::Transcript(TranscriptEntry::ToolUse {
            title: Some(_),
            input: Some(_),
            ..
        })]
    ));
}

#[test]
fn nothing_new_begins_in_a_turn_that_was_interrupted() {
    let mut acp = in_turn();
    order(&mut acp, AgentCommand::Interrupt);
    let refused = |acp: &mut AcpAdapter, method: &str, params: Value| {
        let (happenings, lines) = hear(acp, &json!({"id": 9, "method": method, "params": params}));
        (happenings, lines[0]["error"]["code"].clone())
    };
    let late = (Vec::new(), json!(-32800));
    let file = json!({"sessionId": "s", "path": "/p/a", "content": "x"});
    for (method, params) in [
        (
            "terminal/create",
            json!({"sessionId": "s", "command": "ls"}),
        ),
        ("fs/write_text_file", file.clone()),
        ("fs/read_text_file", file),
    ] {
        assert_eq!(refused(&mut acp, method, params), late, "{method}");
    }
    let terminal = json!({"sessionId": "s", "terminalId": "t"});
    let (happenings, lines) = hear(
        &mut acp,
        &json!({"id": 9, "method": "terminal/release", "params": terminal}),
    );
    assert_eq!((happenings.len(), lines), (1, Vec::new()));
}

#[test]
fn what_an_agent_says_of_itself_is_bounded() {
    let mut acp = in_turn();
    let long = "m".repeat(100_000);
    let entry = json!({"content": long, "priority": "low", "status": "pending"});
    let plan = json!({"sessionUpdate": "plan", "entries": vec![entry; 1_000]});
    let call =
        json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": long, "kind": long});
    let mode = json!({"sessionUpdate": "current_mode_update", "currentModeId": long});
    for said in [plan, call, mode] {
        let happenings = format!("{:?}", update(&mut acp, &said));
        assert!(happenings.len() < 200_000, "{}", happenings.len());
    }
    let call = json!({"sessionUpdate": "tool_call", "toolCallId": long, "title": "t"});
    assert!(matches!(
        update(&mut acp, &call)[..],
        [AgentEvent::Transcript(TranscriptEntry::Other { .. })]
    ));
    let call = json!({"toolCallId": long, "rawInput": {"command": "ls"}});
    let (happenings, lines) = hear(&mut acp, &permission(&json!(1), &call, &["allow_once"]));
    assert_eq!(lines, [cancelled(&json!(1))]);
    assert_eq!(asked(&happenings), Vec::new());
    assert!(acp.state().text().len() < 20_000);
}

#[test]
fn an_ask_is_shown_anew_only_for_news_and_not_for_ever() {
    let mut acp = in_turn();
    let more = |acp: &mut AcpAdapter, fields: Value| {
        let mut said = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"});
        let fields = fields.as_object().unwrap().clone();
        said.as_object_mut().unwrap().extend(fields);
        let params = json!({"sessionId": "s", "update": said});
        hear(acp, &json!({"method": "session/update", "params": params}))
    };
    let call = json!({"toolCallId": "c", "kind": "execute", "rawInput": {"command": "ls"}});
    let (happenings, _) = hear(&mut acp, &permission(&json!(1), &call, &["allow_once"]));
    assert_eq!(asked(&happenings).len(), 1);
    let (happenings, _) = more(&mut acp, json!({"kind": "execute", "title": "x"}));
    assert_eq!(asked(&happenings), Vec::new());
    let mut shown = 1;
    loop {
        let (happenings, lines) = more(&mut acp, json!({"rawInput": {"command": shown}}));
        if lines == [cancelled(&json!(1))] {
            assert!(happenings.contains(&AgentEvent::Withdrawn { request: id("1") }));
            break;
        }
        assert_eq!(asked(&happenings).len(), 1);
        shown += 1;
    }
    assert_eq!(shown, countersign_core::limits::ASK_CHANGES_MAX);
    let (happenings, lines) = more(&mut acp, json!({"kind": "other"}));
    assert_eq!((asked(&happenings), lines), (Vec::new(), Vec::new()));
}

#[test]
fn a_notice_of_the_agents_does_not_read_as_one_of_the_hosts() {
    let mut acp = in_turn();
    let notice = json!({"sessionUpdate": "notice", "title": "it was ended", "severity": "info"});
    let text = "the agent notes: it was ended".to_owned();
    assert_eq!(
        update(&mut acp, &notice),
        [AgentEvent::Transcript(TranscriptEntry::Notice { text })]
    );
}

#[test]
fn a_form_is_asked_as_questions_and_gets_the_answers_back() {
    let mut acp = in_turn();
    let choice = json!({"type": "string", "title": "Store", "description": "Which store?",
        "oneOf": [{"const": "sqlite", "title": "SQLite", "description": "one file"},
            {"const": "pg", "title": "Postgres"}]});
    let list = json!({"type": "array", "description": "Which caches?",
        "items": {"anyOf": [{"const": "Redis", "title": "Redis"}, {"const": "None", "title": "None"}]}});
    let other = json!({"type": "string", "title": "Other"});
    let properties = json!({"a": choice, "b": list, "b_custom": other,
        "c": {"type": "integer", "title": "How many?"}, "d": {"type": "boolean", "title": "Sure?"}});
    let schema = json!({"type": "object", "properties": properties});
    let params = json!({"mode": "form", "sessionId": "s", "toolCallId": "t", "message": "Please choose.",
        "requestedSchema": schema});
    let request = json!({"id": 7, "method": "elicitation/create", "params": params});
    let (happenings, lines) = hear(&mut acp, &request);
    assert_eq!(lines, Vec::<Value>::new());
    let [AgentEvent::Asked(ask)] = happenings.as_slice() else {
        panic!("{happenings:?}");
    };
    let shown = (ask.tool.as_deref(), ask.title.as_str(), ask.can_edit);
    assert_eq!(shown, (Some("AskUserQuestion"), "Please choose.", true));
    let input: Value = serde_json::from_str(ask.input.as_ref().unwrap().text()).unwrap();
    let asked: Vec<&Value> = input["questions"].as_array().unwrap().iter().collect();
    let asked: Vec<[&Value; 3]> = asked
        .iter()
        .map(|one| [&one["question"], &one["multiSelect"], &one["freeText"]])
        .collect();
    assert_eq!(
        json!(asked),
        json!([
            ["Which store?", false, false],
            ["Which caches?", true, true],
            ["How many?", false, true],
            ["Sure?", false, false]
        ])
    );
    let answers = json!({"answers": {"Which store?": "Postgres", "Which caches?": "Redis, my own",
        "How many?": "3", "Sure?": "true"}});
    let answer = |answer: PermissionAnswer| AgentCommand::Answer {
        request: RequestId("7".into()),
        answer,
    };
    let unanswered = acp.apply_command(answer(PermissionAnswer::Allow { input: None }));
    assert!(matches!(unanswered, Err(CommandError::Unsupported(_))));
    let input = Json::from_value(&answers).ok();
    let lines = acp
        .apply_command(answer(PermissionAnswer::Allow { input }))
        .unwrap();
    let sent: Value = serde_json::from_slice(&lines[0].bytes).unwrap();
    let content = json!({"a": "pg", "b": ["Redis"], "b_custom": "my own", "c": 3, "d": true});
    assert_eq!(
        sent,
        json!({"jsonrpc": "2.0", "id": 7, "result": {"action": "accept", "content": content}})
    );
}

#[test]
fn a_form_that_is_denied_or_cannot_be_shown_gets_no_answer() {
    let mut acp = in_turn();
    let form = |properties: Value| {
        let params = json!({"mode": "form", "sessionId": "s", "message": "?",
            "requestedSchema": {"type": "object", "properties": properties}});
        json!({"id": 7, "method": "elicitation/create", "params": params})
    };
    let (_, lines) = hear(&mut acp, &form(json!({"a": {"type": "object"}})));
    assert_eq!(lines[0]["result"], json!({"action": "cancel"}));
    let (happenings, _) = hear(&mut acp, &form(json!({"a": {"type": "string"}})));
    assert!(matches!(happenings.as_slice(), [AgentEvent::Asked(_)]));
    let denied = AgentCommand::Answer {
        request: RequestId("7".into()),
        answer: PermissionAnswer::Deny {
            message: None,
            stop: false,
        },
    };
    let lines = acp.apply_command(denied).unwrap();
    let sent: Value = serde_json::from_slice(&lines[0].bytes).unwrap();
    assert_eq!(sent["result"], json!({"action": "decline"}));
}

/// A form with a field of each kind, of which only the first has to be filled in.
fn limited_form() -> Value {
    let titled = json!([{"const": "s", "title": "Same"}, {"const": "t", "title": "Same"}]);
    let properties = json!({
        "env": {"type": "string", "enum": ["prod", ""]},
        "level": {"type": "integer", "enum": [1, 2]},
        "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "Which?"},
        "share": {"type": "number", "maximum": 0.5, "description": "Which?"},
        "sure": {"type": "boolean"},
        "tags": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"anyOf": titled}},
    });
    form(&json!({"type": "object", "properties": properties, "required": ["env"]}))
}

fn form(schema: &Value) -> Value {
    let params = json!({"mode": "form", "sessionId": "s", "message": "Please choose.",
        "requestedSchema": schema});
    json!({"id": 7, "method": "elicitation/create", "params": params})
}

/// What the agent gets for these answers to a form; nothing if they are refused.
fn filled_in(request: &Value, answers: &Value) -> Option<Value> {
    let mut acp = in_turn();
    hear(&mut acp, request);
    let input = Json::from_value(&json!({ "answers": answers })).ok();
    let lines = acp.apply_command(AgentCommand::Answer {
        request: RequestId("7".into()),
        answer: PermissionAnswer::Allow { input },
    });
    let lines = lines.ok()?;
    let sent: Value = serde_json::from_slice(&lines[0].bytes).unwrap();
    assert_eq!(sent["result"]["action"], "accept");
    Some(sent["result"]["content"].clone())
}

#[test]
fn people_are_asked_with_the_limits_of_a_form() {
    let mut acp = in_turn();
    let (happenings, _) = hear(&mut acp, &limited_form());
    let [AgentEvent::Asked(ask)] = happenings.as_slice() else {
        panic!("{happenings:?}");
    };
    let input: Value = serde_json::from_str(ask.input.as_ref().unwrap().text()).unwrap();
    let closed = |question: &str, labels: [&str; 2], number: bool, optional: bool| {
        let options = labels.map(|label| json!({ "label": label }));
        json!({"question": question, "options": options, "multiSelect": false, "freeText": false,
            "number": number, "optional": optional})
    };
    let open = |question: &str, number: bool, limits: Value| {
        json!({"question": question, "options": [], "multiSelect": false, "freeText": true,
            "number": number, "optional": true, "limits": limits})
    };
    let mut level = closed("level", ["1", "2"], true, true);
    level["limits"] = json!({"whole": true});
    let name = json!({"minLength": 2, "maxLength": 4, "format": "^[a-z]+$"});
    let mut tags = closed("tags", ["Same (\"s\")", "Same (\"t\")"], false, true);
    tags["multiSelect"] = json!(true);
    tags["limits"] = json!({"minChoices": 1, "maxChoices": 1});
    let expected = json!([
        closed("env", ["prod", "(empty)"], false, false),
        level,
        open("name", false, name),
        open(
            "Which? (port)",
            true,
            json!({"whole": true, "minimum": 1, "maximum": 65535})
        ),
        open("Which? (share)", true, json!({"maximum": 0.5})),
        closed("sure", ["true", "false"], false, true),
        tags,
    ]);
    assert_eq!(input["questions"], expected);
}

#[test]
fn what_a_form_does_not_require_can_be_left_out() {
    let form = limited_form();
    assert_eq!(
        filled_in(&form, &json!({"env": "prod"})),
        Some(json!({"env": "prod"}))
    );
    let all = json!({"env": "(empty)", "level": "2", "name": "abc", "Which? (port)": "8080",
        "Which? (share)": "0.25", "sure": "false", "tags": "\"Same (\\\"t\\\")\""});
    assert_eq!(
        filled_in(&form, &all),
        Some(
            json!({"env": "", "level": 2, "name": "abc", "port": 8080, "share": 0.25,
            "sure": false, "tags": ["t"]})
        )
    );
    assert_eq!(filled_in(&form, &json!({"name": "abc"})), None);
    assert_eq!(filled_in(&form, &json!({})), None);
}

#[test]
fn nothing_is_sent_that_a_form_does_not_take() {
    for wrong in [
        json!({"env": "test"}),
        json!({"env": ["prod"]}),
        json!({"env": "prod", "level": "3"}),
        json!({"env": "prod", "name": "a"}),
        json!({"env": "prod", "name": "abcde"}),
        json!({"env": "prod", "Which? (port)": "0"}),
        json!({"env": "prod", "Which? (port)": "8080.5"}),
        json!({"env": "prod", "Which? (port)": "many"}),
        json!({"env": "prod", "Which? (port)": 8080}),
        json!({"env": "prod", "Which? (share)": "0.75"}),
        json!({"env": "prod", "sure": "yes"}),
        json!({"env": "prod", "tags": "s"}),
        json!({"env": "prod", "tags": "\"Same (\\\"s\\\")\", \"Same (\\\"t\\\")\""}),
    ] {
        assert_eq!(filled_in(&limited_form(), &wrong), None, "{wrong}");
    }
}

/// What is typed into the second field leaves the first without a value.
#[test]
fn a_field_that_is_required_takes_none_but_its_choices() {
    let schema = |required: Value| {
        let properties = json!({"a": {"type": "string", "enum": ["x", "y"]},
            "a_custom": {"type": "string", "maxLength": 3}});
        form(&json!({"type": "object", "properties": properties, "required": required}))
    };
    let typed = json!({"Please choose.": "own"});
    assert_eq!(
        filled_in(&schema(json!([])), &typed),
        Some(json!({"a_custom": "own"}))
    );
    let long = json!({"Please choose.": "longer"});
    assert_eq!(filled_in(&schema(json!([])), &long), None);
    assert_eq!(filled_in(&schema(json!(["a"])), &typed), None);
    // A second field that is required is one of its own.
    assert_eq!(
        filled_in(
            &schema(json!(["a_custom"])),
            &json!({"a": "x", "a_custom": "own"})
        ),
        Some(json!({"a": "x", "a_custom": "own"}))
    );
}

#[test]
fn a_form_that_nobody_could_fill_in_is_ended() {
    for (properties, required) in [
        (json!({"a": {"type": "string"}}), json!(["b"])),
        (json!({"a": {"type": "string", "enum": []}}), json!([])),
        (json!({"a": {"type": "string", "enum": [1]}}), json!([])),
        (json!({"a": {"type": "integer", "enum": ["1"]}}), json!([])),
        (json!({"a": {"type": ["string", "null"]}}), json!([])),
        (
            json!({"a": {"type": "array", "items": {"type": "string"}}}),
            json!([]),
        ),
    ] {
        let mut acp = in_turn();
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let (_, lines) = hear(&mut acp, &form(&schema));
        let results: Vec<&Value> = lines.iter().map(|line| &line["result"]).collect();
        assert_eq!(results, [&json!({"action": "cancel"})], "{schema}");
    }
}

/// What Gemini CLI 0.61.0 sent, with other paths.
fn gemini_ask(title: &str, text: &str) -> Value {
    let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    let options = json!([
        {"optionId": "proceed_always", "name": "Allow for this session", "kind": "allow_always"},
        {"optionId": "proceed_once", "name": "Allow", "kind": "allow_once"},
        {"optionId": "cancel", "name": "Reject", "kind": "reject_once"},
    ]);
    let call = json!({"toolCallId": "run_shell_command__run_shell_command_1794947800049_0",
        "status": "pending", "title": title, "content": content, "locations": [], "kind": "execute"});
    json!({"id": 0, "method": "session/request_permission",
        "params": {"sessionId": "s", "options": options, "toolCall": call}})
}

/// The tool and the input of an ask of the agent that calls itself so.
fn asked_with_title(name: &str, title: &str, text: &str) -> (Option<String>, Option<Value>) {
    let mut acp = AcpAdapter::new();
    let result = json!({"protocolVersion": 1, "agentInfo": {"name": name, "version": "0.61.0"}});
    initialized(&mut acp, start(), &result);
    hear(&mut acp, &json!({"id": 1, "result": {"sessionId": "s"}}));
    prompt(&mut acp, 1);
    let (happenings, _) = hear(&mut acp, &gemini_ask(title, text));
    let [ask] = asked(&happenings).try_into().unwrap();
    let input = ask
        .input
        .map(|input| serde_json::from_str(input.text()).unwrap());
    (ask.tool, input)
}

#[test]
fn a_title_is_a_command_only_where_the_agent_is_known_to_send_it_so() {
    let here = "[current working directory /p] (scripted)";
    let command = "touch made && echo \"a b\" | sh -c 'cat > x'\necho second # comment";
    let bash = Some("Bash".to_owned());
    assert_eq!(
        asked_with_title("gemini-cli", command, here),
        (bash.clone(), Some(json!({"command": command})))
    );
    assert_eq!(
        asked_with_title("gemini-cli", "ls", "[in sub] (lists it)"),
        (bash.clone(), Some(json!({"command": "ls", "cwd": "sub"})))
    );
    assert_eq!(
        asked_with_title("another", command, here),
        (bash.clone(), None)
    );
    // What is not clear is asked about without a command, as any other title.
    for text in ["", "in sub", "[in a] (b] (c)", "[in a] b"] {
        assert_eq!(
            asked_with_title("gemini-cli", "ls", text),
            (bash.clone(), None),
            "{text}"
        );
    }
}

/// What opencode 1.18.33 sent, with other paths: the update came after the request.
#[test]
fn a_command_that_is_only_described_anew_is_not_asked_again() {
    let mut acp = in_turn();
    let update = |raw: Value| {
        let update = json!({"sessionUpdate": "tool_call_update", "toolCallId": "toolu_1",
            "status": "in_progress", "kind": "execute", "title": "touch made",
            "locations": [{"path": "/p"}], "rawInput": raw});
        json!({"method": "session/update", "params": {"sessionId": "s", "update": update}})
    };
    let call = json!({"toolCallId": "toolu_1", "title": "touch made", "kind": "execute",
        "status": "pending", "locations": [], "rawInput": {"command": "touch made"}});
    let (happenings, _) = hear(&mut acp, &permission(&json!(0), &call, &["allow_once"]));
    assert_eq!(asked(&happenings).len(), 1);
    let same = json!({"command": "touch made", "description": "makes it", "cwd": "/p"});
    let (happenings, _) = hear(&mut acp, &update(same));
    assert_eq!(asked(&happenings), []);
    for other in [
        json!({"command": "touch more", "description": "makes it"}),
        json!({"command": "touch more", "cwd": "/q"}),
        json!({"command": "touch more", "cwd": "/q", "timeout": 1}),
    ] {
        let (happenings, _) = hear(&mut acp, &update(other));
        assert_eq!(asked(&happenings).len(), 1);
    }
}

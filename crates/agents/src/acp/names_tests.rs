//! What each thing that is said is named, and what is kept while it waits.

use countersign_core::limits::{AGENT_REQUESTS_MAX, ASK_CHANGES_MAX};
use serde_json::{Value, json};

use super::tests::{ONCE, call, id, in_turn, open, permission, start, text, update};
use super::*;
use crate::adapter::{
    ClientRequestError, ClientResponse, PermissionAnswer, SessionSpec, WriteId, WriteKind,
};

fn said(acp: &mut AcpAdapter, number: u64, message: &Value) -> AdapterOutput {
    acp.handle_line(message.to_string().as_bytes(), number)
}

/// Without the bytes.
fn named(lines: &[AgentWrite]) -> Vec<(WriteId, WriteKind)> {
    let names = lines.iter().map(|line| (line.id.clone(), line.kind));
    names.collect()
}

fn read(request: u64) -> Value {
    json!({"id": request, "method": "fs/read_text_file", "params": {"sessionId": "s", "path": "/p/a"}})
}

fn ask(request: u64) -> Value {
    permission(&json!(request), &call("ls"), &ONCE)
}

fn cancel(request: u64) -> Value {
    json!({"method": "$/cancel_request", "params": {"requestId": request}})
}

fn prompt(turn: u32) -> AgentCommand {
    let messages = vec!["do it".to_owned()];
    AgentCommand::Prompt {
        turn,
        messages,
        attachments: Vec::new(),
    }
}

#[test]
fn a_step_of_the_handshake_is_named_after_the_line_before_it() {
    let mut acp = AcpAdapter::new();
    let start = || {
        AgentCommand::Start(SessionSpec {
            mode: Some("plan".into()),
            model: Some("big".into()),
            ..start()
        })
    };
    let first = acp.apply_command(start()).unwrap();
    assert_eq!(
        named(&first),
        [(WriteId::Own("start".into(), 0), WriteKind::Unspecified)]
    );
    let response = json!({"id": 0, "result": {"protocolVersion": 1}});
    let heard = said(&mut acp, 40, &response);
    assert_eq!(
        named(&heard.writes),
        [(WriteId::Line(40), WriteKind::Unspecified)]
    );
    let models = json!({"currentModelId": "small", "availableModels": [{"modelId": "big"}]});
    let response = json!({"id": 1, "result": {"sessionId": "s", "models": models}});
    let heard = said(&mut acp, 90, &response);
    assert_eq!(
        named(&heard.writes),
        [(WriteId::Line(90), WriteKind::Unspecified)]
    );
    let messages = heard.writes[0].bytes.split_inclusive(|byte| *byte == b'\n');
    assert_eq!(messages.count(), 2);
    for (number, request) in [(100, 2), (110, 3)] {
        let heard = said(&mut acp, number, &json!({"id": request, "result": {}}));
        assert_eq!(heard.writes, []);
    }
    assert_eq!(acp.state.phase, AcpPhase::Open);
    let before = acp.clone();
    assert_eq!(acp.apply_command(start()), Ok(first));
    assert_eq!(acp, before);
}

#[test]
fn orders_are_named_and_sent_with_ids_that_only_their_numbers_decide() {
    let mut acp = open();
    let mut given = |order| {
        let lines = acp.apply_command(order).unwrap();
        let sent = text(&lines);
        (lines[0].id.clone(), sent[0]["id"].clone())
    };
    let own = |kind: &str, number| WriteId::Own(kind.into(), number);
    let mode = AgentCommand::SetMode {
        revision: 4,
        mode: "plan".into(),
    };
    assert_eq!(given(mode), (own("mode", 4), json!(41)));
    assert_eq!(given(prompt(5)), (own("prompt", 5), json!(48)));
    assert_eq!(given(prompt(5)), (own("prompt", 5), json!(48)));
    assert_eq!(
        given(AgentCommand::Interrupt),
        (own("interrupt", 5), Value::Null)
    );
    let models = json!({"sessionUpdate": "config_option_update", "configOptions": [
        {"id": "model", "name": "Model", "category": "model", "type": "select",
         "currentValue": "small", "options": [{"value": "big", "name": "B"}]}]});
    update(&mut acp, &models);
    let model = AgentCommand::SetModel {
        revision: 4,
        model: "big".into(),
    };
    let lines = acp.apply_command(model).unwrap();
    assert_eq!(named(&lines), [(own("model", 4), WriteKind::Unspecified)]);
    assert_eq!(text(&lines)[0]["id"], json!(42));
}

#[test]
fn an_answer_is_named_after_the_line_of_its_request() {
    let mut acp = in_turn();
    let deny = PermissionAnswer::Deny {
        message: None,
        stop: false,
    };
    let answers = [
        PermissionAnswer::Allow { input: None },
        deny,
        PermissionAnswer::Cancelled,
    ];
    let words = [WriteKind::Allow, WriteKind::Deny, WriteKind::Cancelled];
    for (number, (answer, word)) in (10..).zip(answers.into_iter().zip(words)) {
        said(&mut acp, number, &ask(number));
        assert_eq!(acp.open_requests(), [number]);
        let request = id(&number.to_string());
        let lines = acp
            .apply_command(AgentCommand::Answer { request, answer })
            .unwrap();
        assert_eq!(named(&lines), [(WriteId::Line(number), word)]);
    }
    let gone = Err(ClientRequestError::Cancelled("the turn ended".into()));
    let served = [Ok(ClientResponse::Text("x".into())), gone];
    let words = [WriteKind::Served, WriteKind::Refused];
    for (number, (served, word)) in (20..).zip(served.into_iter().zip(words)) {
        let heard = said(&mut acp, number, &read(number));
        assert!(matches!(
            heard.events[..],
            [AgentEvent::ClientRequested { line, .. }] if line == number
        ));
        let request = id(&number.to_string());
        let lines = acp
            .apply_command(AgentCommand::Serve { request, served })
            .unwrap();
        assert_eq!(named(&lines), [(WriteId::Line(number), word)]);
    }
    assert_eq!(acp.open_requests(), Vec::<u64>::new());
}

#[test]
fn what_ends_a_request_early_is_named_after_the_request() {
    let mut acp = in_turn();
    said(&mut acp, 30, &ask(1));
    said(&mut acp, 20, &read(2));
    assert_eq!(acp.open_requests(), [20, 30]);
    for (number, request, line) in [(40, 1, 30), (50, 2, 20)] {
        let heard = said(&mut acp, number, &cancel(request));
        let expected = [(WriteId::Line(line), WriteKind::Cancelled)];
        assert_eq!(named(&heard.writes), expected);
    }
    said(&mut acp, 60, &ask(3));
    let interrupt = (WriteId::Own("interrupt".into(), 7), WriteKind::Unspecified);
    let lines = acp.apply_command(AgentCommand::Interrupt).unwrap();
    let withdrawn = (WriteId::Line(60), WriteKind::Cancelled);
    assert_eq!(named(&lines), [interrupt.clone(), withdrawn]);
    let before = acp.clone();
    assert_eq!(
        named(&acp.apply_command(AgentCommand::Interrupt).unwrap()),
        [interrupt]
    );
    assert_eq!(acp, before);
    for (number, late) in [(70, ask(4)), (80, read(5))] {
        let heard = said(&mut acp, number, &late);
        let expected = [(WriteId::Line(number), WriteKind::Cancelled)];
        assert_eq!(named(&heard.writes), expected);
    }
}

#[test]
fn a_refusal_is_named_after_what_it_refuses() {
    let mut acp = in_turn();
    let unknown = json!({"id": 1, "method": "mcp/connect"});
    let unread = json!({"id": 1, "method": "session/request_permission"});
    let refused = [
        (unknown, WriteKind::Refused),
        (unread, WriteKind::Cancelled),
    ];
    for (number, (message, word)) in (10..).zip(refused) {
        let heard = said(&mut acp, number, &message);
        assert_eq!(named(&heard.writes), [(WriteId::Line(number), word)]);
    }
    for number in (100..).take(AGENT_REQUESTS_MAX) {
        said(&mut acp, number, &read(number));
    }
    let surplus = [
        (read(1), WriteKind::Refused),
        (ask(2), WriteKind::Cancelled),
    ];
    for (number, (message, word)) in (1_000..).zip(surplus) {
        let heard = said(&mut acp, number, &message);
        assert_eq!(named(&heard.writes), [(WriteId::Line(number), word)]);
    }
}

#[test]
fn an_ask_keeps_the_number_of_its_line_while_more_becomes_known() {
    let mut acp = in_turn();
    let nothing = json!({"toolCallId": "c"});
    said(&mut acp, 10, &permission(&json!(1), &nothing, &ONCE));
    let mut more = |number, command: u32| {
        let mut said_more = call(&command.to_string());
        said_more["sessionUpdate"] = json!("tool_call_update");
        let params = json!({"sessionId": "s", "update": said_more});
        let message = json!({"method": "session/update", "params": params});
        said(&mut acp, number, &message)
    };
    for change in 1..ASK_CHANGES_MAX {
        let heard = more(10 + u64::from(change), change);
        let asked = heard.events.iter().filter_map(|happening| match happening {
            AgentEvent::Asked(ask) => Some(ask.line),
            _ => None,
        });
        assert_eq!(asked.collect::<Vec<_>>(), [10]);
    }
    let heard = more(500, 0);
    assert_eq!(
        named(&heard.writes),
        [(WriteId::Line(10), WriteKind::Cancelled)]
    );
}

#[test]
fn an_ask_about_a_call_whose_id_was_used_before_shows_its_own() {
    let mut acp = in_turn();
    let mut first = call("ls");
    first["sessionUpdate"] = json!("tool_call");
    first["status"] = json!("completed");
    first["title"] = json!("list");
    update(&mut acp, &first);
    let heard = said(&mut acp, 10, &permission(&json!(1), &call("rm x"), &ONCE));
    let Some(AgentEvent::Asked(asked)) = heard.events.last() else {
        panic!("{heard:?}");
    };
    assert_eq!(asked.title, "");
    let input = json!({"command": "rm x"});
    assert_eq!(asked.input, Json::from_value(&input).ok());
}

#[test]
fn the_state_of_an_open_session_is_small() {
    let mut acp = in_turn();
    for number in 0..200 {
        let begins = json!({"sessionUpdate": "tool_call", "toolCallId": format!("call-{number}"),
            "title": "t".repeat(200), "kind": "execute", "status": "pending",
            "rawInput": {"command": "x".repeat(1_000)}});
        update(&mut acp, &begins);
        for status in ["in_progress", "completed", "completed"] {
            let more = json!({"sessionUpdate": "tool_call_update", "status": status,
                "toolCallId": format!("call-{number}"), "title": "t".repeat(200),
                "rawInput": {"command": "x".repeat(1_000)}});
            update(&mut acp, &more);
        }
    }
    let idle = acp.state().text().len();
    assert!(idle < 4 * 1024, "{idle}");

    let mut acp = in_turn();
    let heard = said(
        &mut acp,
        10,
        &permission(&json!(1), &call(&"x".repeat(1_000)), &ONCE),
    );
    assert!(matches!(heard.events.last(), Some(AgentEvent::Asked(_))));
    let asked = acp.state().text().len();
    assert!(asked < 2 * 1024, "{asked}");
}

#[test]
fn what_opened_a_session_is_forgotten_once_it_is_open() {
    let state = open().state();
    let expected = json!({
        "phase": "open", "cwd": "/p", "session": "s",
    });
    assert_eq!(
        serde_json::from_str::<Value>(state.text()).unwrap(),
        expected
    );
}

//! Another process goes on from what was kept, wherever the first one stopped, and says and tells the
//! same.

use serde_json::{Value, json};

use super::ClaudeAdapter;
use super::tests::{asks, ends, start, started};
use crate::adapter::{
    Adapter as _, AdapterOutput, AgentCommand, AgentWrite, CommandError, PermissionAnswer,
    RequestId,
};

/// One thing that happens on a connection.
#[derive(Clone, Debug)]
enum Step {
    Hears(Value),
    Told(AgentCommand),
}

#[derive(Debug, PartialEq)]
enum Came {
    Heard(AdapterOutput),
    Said(Result<Vec<AgentWrite>, CommandError>),
}

fn go(claude: &mut ClaudeAdapter, step: &Step, number: u64) -> Came {
    match step {
        Step::Hears(line) => Came::Heard(claude.handle_line(line.to_string().as_bytes(), number)),
        Step::Told(order) => Came::Said(claude.apply_command(order.clone())),
    }
}

fn prompt(turn: u32) -> AgentCommand {
    AgentCommand::Prompt {
        attachments: Vec::new(),
        turn,
        messages: vec![format!("message {turn}")],
    }
}

fn lifecycle(turn: u32, state: &str) -> Step {
    let id = super::wire::prompt_id(&start().new_session.unwrap(), turn);
    Step::Hears(json!({"type": "command_lifecycle", "command_uuid": id, "state": state}))
}

fn piece(event: &Value) -> Step {
    Step::Hears(json!({"type": "stream_event", "event": event, "parent_tool_use_id": null}))
}

fn answer(request: &str, answer: PermissionAnswer) -> Step {
    let request = RequestId(format!("\"{request}\""));
    Step::Told(AgentCommand::Answer { request, answer })
}

/// Two turns with everything in them that leaves something to remember.
fn story() -> Vec<Step> {
    let delta = |text: &str| {
        piece(&json!({"type": "content_block_delta", "delta":
            {"type": "text_delta", "text": text}}))
    };
    let whole = |blocks: &Value| {
        Step::Hears(json!({"type": "assistant", "message": {"id": "m", "content": blocks}}))
    };
    let used = |id: &str| {
        let input = json!({"command": "ls"});
        whole(&json!([{"type": "tool_use", "id": id, "name": "Bash", "input": input}]))
    };
    let asked = |request: &str| Step::Hears(asks(request, "Bash", &json!({"command": "ls"})));
    let done = |id: &str| {
        Step::Hears(json!({"type": "user", "message": {"content": [
            {"type": "tool_result", "tool_use_id": id, "content": "made"}]}}))
    };
    let set = |id: &str| {
        Step::Hears(json!({"type": "control_response", "response":
            {"subtype": "success", "request_id": id, "response": {}}}))
    };
    vec![
        Step::Told(AgentCommand::Start(start())),
        Step::Hears(started()),
        Step::Told(AgentCommand::SetMode {
            revision: 1,
            mode: "plan".into(),
        }),
        Step::Told(prompt(1)),
        set("countersign-mode-1"),
        lifecycle(1, "queued"),
        Step::Hears(ends(&json!({}))),
        lifecycle(1, "started"),
        piece(
            &json!({"type": "message_start", "message": {"id": "m", "usage":
            {"input_tokens": 9}}}),
        ),
        piece(&json!({"type": "content_block_start"})),
        delta("First "),
        delta("words."),
        whole(&json!([{"type": "text", "text": "First words. And more."}])),
        used("t1"),
        asked("r1"),
        asked("r2"),
        answer("r2", PermissionAnswer::Allow { input: None }),
        answer(
            "r1",
            PermissionAnswer::Deny {
                message: None,
                stop: false,
            },
        ),
        done("t1"),
        Step::Hears(ends(&json!({}))),
        Step::Told(prompt(2)),
        lifecycle(2, "queued"),
        used("t2"),
        asked("r3"),
        Step::Told(AgentCommand::Interrupt),
        lifecycle(2, "started"),
        Step::Hears(json!({"type": "control_cancel_request", "request_id": "r3"})),
        asked("r4"),
        Step::Hears(ends(
            &json!({"is_error": true, "terminal_reason": "aborted_tools"}),
        )),
    ]
}

#[test]
fn whoever_goes_on_says_and_tells_the_same() {
    let story = story();
    let mut first = ClaudeAdapter::new();
    let mut whole = Vec::new();
    for (number, step) in (0..).zip(&story) {
        let mut next = ClaudeAdapter::restore(&first.state()).unwrap();
        assert_eq!(next, first);
        assert_eq!(next.open_requests(), first.open_requests());
        let rest: Vec<Came> = (number..)
            .zip(&story[usize::try_from(number).unwrap()..])
            .map(|(number, step)| go(&mut next, step, number))
            .collect();
        whole.push(rest);
        go(&mut first, step, number);
    }
    for (begun, rest) in whole.iter().enumerate() {
        assert_eq!(*rest, whole[0][begun..], "from step {begun}");
    }
}

#[test]
fn an_order_that_is_given_again_says_the_same_and_changes_nothing() {
    let mut claude = ClaudeAdapter::new();
    let mut orders: Vec<AgentCommand> = Vec::new();
    for (number, step) in (0..).zip(&story()) {
        go(&mut claude, step, number);
        match step {
            Step::Told(
                order @ (AgentCommand::Start(_)
                | AgentCommand::Prompt { .. }
                | AgentCommand::Interrupt),
            ) => {
                orders.push(order.clone());
            }
            Step::Hears(line) if line["type"] == "result" && claude.state.turn.is_none() => {
                orders.retain(|order| matches!(order, AgentCommand::Start(_)));
            }
            _ => {}
        }
        for order in &orders {
            let mut next = ClaudeAdapter::restore(&claude.state()).unwrap();
            let said = next.apply_command(order.clone());
            assert_eq!(next, claude, "{order:?} after step {number}");
            assert_eq!(said, claude.clone().apply_command(order.clone()));
        }
    }
}

//! Asks: joined, answered, taken back.

use countersign_agents::adapter::{AgentCommand, AgentEvent, PermissionAnswer};
use countersign_core::event::{ToolStatus, TranscriptEntry};
use serde_json::{Value, json};

use super::talk::{Came, Talk, tool, withdrawn, words};

fn command(input: Option<&countersign_core::Json>) -> Option<String> {
    let input: Value = serde_json::from_str(input?.text()).unwrap();
    Some(input["command"].as_str()?.to_owned())
}

fn deny(message: &str) -> PermissionAnswer {
    PermissionAnswer::Deny {
        message: Some(message.to_owned()),
        stop: false,
    }
}

#[tokio::test]
async fn an_ask_is_joined_wherever_its_call_is_told() {
    for placement in ["in_request", "before", "filled"] {
        let mut talk = Talk::open(&json!({"string_ids": true})).await;
        let ask = json!({"tool": tool("touch a"), "placement": placement});
        talk.prompt(&json!([{"ask": ask}])).await;
        let ask = talk.asked().await;
        assert_eq!(
            (
                ask.request.0.as_str(),
                ask.tool.as_deref(),
                command(ask.input.as_ref()).as_deref()
            ),
            (r#""request-0""#, Some("Bash"), Some("touch a")),
            "{placement}"
        );
        talk.answer(&ask.request, PermissionAnswer::Allow { input: None })
            .await;
        assert_eq!(talk.turn_ended().await.1.reason, "end_turn");
        talk.end().await;
    }
}

#[tokio::test]
async fn an_ask_whose_call_comes_later_is_asked_again() {
    let mut talk = Talk::open(&json!({})).await;
    let ask = json!({"tool": tool("touch a"), "placement": "after"});
    talk.prompt(&json!([{"ask": ask}])).await;
    let first = talk.asked().await;
    assert_eq!((first.tool, first.input), (None, None));
    let second = talk.asked().await;
    assert_eq!(second.request, first.request);
    assert_eq!(command(second.input.as_ref()).as_deref(), Some("touch a"));
    talk.answer(&second.request, PermissionAnswer::Allow { input: None })
        .await;
    talk.turn_ended().await;
    talk.end().await;
}

#[tokio::test]
async fn an_ask_whose_call_is_never_told_is_asked_at_once() {
    let mut talk = Talk::open(&json!({})).await;
    talk.prompt(&json!([{"ask": {"tool": tool("x"), "placement": "never"}}]))
        .await;
    let ask = talk.asked().await;
    assert_eq!(
        (ask.tool, ask.input, ask.tool_call),
        (None, None, "c".to_owned())
    );
    talk.answer(&ask.request, deny("no")).await;
    talk.turn_ended().await;
    talk.end().await;
}

#[tokio::test]
async fn what_was_allowed_runs_once_and_what_was_denied_never() {
    let mut talk = Talk::open(&json!({})).await;
    let run = json!([{"run": "echo ran >> trace"}]);
    let ask = |echo: bool| json!({"ask": {"tool": tool("x"), "on_allow": run, "echo": echo}});
    talk.prompt(&json!([ask(false)])).await;
    let first = talk.asked().await;
    talk.answer(&first.request, PermissionAnswer::Allow { input: None })
        .await;
    let (came, _) = talk.turn_ended().await;
    let result = TranscriptEntry::ToolResult {
        id: "c".into(),
        status: ToolStatus::Completed,
        text: String::new(),
    };
    assert!(
        came.contains(&Came::Happened(AgentEvent::Transcript(result))),
        "{came:?}"
    );

    talk.prompt(&json!([ask(true)])).await;
    let second = talk.asked().await;
    talk.answer(&second.request, deny("use git instead")).await;
    let (came, _) = talk.turn_ended().await;
    assert!(words(&came).contains("use git instead"), "{came:?}");
    let folder = talk.end().await;
    let trace = std::fs::read_to_string(folder.path().join("trace")).unwrap();
    assert_eq!(trace, "ran\n");
}

#[tokio::test]
async fn an_agents_own_always_is_not_used() {
    let mut talk = Talk::open(&json!({})).await;
    let options = json!(["allow_always", "reject_always"]);
    let ask = json!({"tool": tool("x"), "options": options, "echo": true});
    talk.prompt(&json!([{"ask": ask}])).await;
    let ask = talk.asked().await;
    assert!(!ask.can_allow);
    talk.answer(&ask.request, deny("no")).await;
    let (came, _) = talk.turn_ended().await;
    assert!(
        words(&came).contains(r#""outcome":"cancelled""#),
        "{came:?}"
    );
    talk.end().await;
}

#[tokio::test]
async fn two_asks_are_open_at_once_and_answered_in_any_order() {
    let mut talk = Talk::open(&json!({})).await;
    let ask = |call: &str| {
        let tool = json!({"call": call, "title": call, "input": {"command": call}});
        json!({"tool": tool, "echo": true, "on_allow": [{"run": format!("echo {call} >> trace")}]})
    };
    talk.prompt(&json!([{"parallel": [ask("one"), ask("two")]}]))
        .await;
    let (one, two) = (talk.asked().await, talk.asked().await);
    talk.answer(&two.request, deny("no")).await;
    talk.answer(&one.request, PermissionAnswer::Allow { input: None })
        .await;
    assert_eq!(talk.turn_ended().await.1.reason, "end_turn");
    let folder = talk.end().await;
    let trace = std::fs::read_to_string(folder.path().join("trace")).unwrap();
    assert_eq!(trace, "one\n");
}

#[tokio::test]
async fn a_second_ask_with_the_same_id_cancels_the_first() {
    let mut talk = Talk::open(&json!({})).await;
    let ask = |call: &str| json!({"tool": {"call": call, "input": {"command": call}}, "id": 5, "echo": true});
    talk.prompt(&json!([{"parallel": [ask("one"), ask("two")]}]))
        .await;
    let first = talk.asked().await;
    let (before, second) = talk
        .until(|came| match came {
            Came::Happened(AgentEvent::Asked(ask)) => Some((**ask).clone()),
            _ => None,
        })
        .await;
    assert_eq!(withdrawn(&before), [first.request]);
    assert_eq!(second.tool_call, "two");
    talk.answer(&second.request, PermissionAnswer::Allow { input: None })
        .await;
    let (came, _) = talk.turn_ended().await;
    assert_eq!(words(&came).matches("selected").count(), 1, "{came:?}");
    talk.end().await;
}

#[tokio::test]
async fn an_agent_takes_its_ask_back() {
    let mut talk = Talk::open(&json!({})).await;
    let ask = json!({"tool": tool("x"), "withdraw_after_ms": 1, "echo": true});
    talk.prompt(&json!([{"ask": ask}])).await;
    let ask = talk.asked().await;
    let (came, end) = talk.turn_ended().await;
    assert_eq!(withdrawn(&came), [ask.request]);
    assert!(
        words(&came).contains(r#""outcome":"cancelled""#),
        "{came:?}"
    );
    assert_eq!(end.reason, "end_turn");
    talk.end().await;
}

#[tokio::test]
async fn an_interrupt_cancels_open_asks_and_the_turn() {
    let mut talk = Talk::open(&json!({})).await;
    talk.prompt(&json!([{"ask": {"tool": tool("x"), "echo": true}}]))
        .await;
    let ask = talk.asked().await;
    talk.order(AgentCommand::Interrupt).await;
    let (came, end) = talk.turn_ended().await;
    assert_eq!(withdrawn(&came), [ask.request]);
    assert!(
        words(&came).contains(r#""outcome":"cancelled""#),
        "{came:?}"
    );
    assert_eq!(end.reason, "cancelled");

    talk.prompt(&json!(["silence"])).await;
    talk.order(AgentCommand::Interrupt).await;
    assert_eq!(talk.turn_ended().await.1.reason, "cancelled");
    talk.end().await;
}

#[tokio::test]
async fn an_agent_that_goes_on_after_an_interrupt_is_told_so_again() {
    let mut talk = Talk::open(&json!({"ignore_cancel": true})).await;
    let ask = |call: &str| json!({"ask": {"tool": {"call": call, "input": {"command": "x"}}, "echo": true}});
    talk.prompt(&json!([ask("one"), ask("two")])).await;
    talk.asked().await;
    talk.order(AgentCommand::Interrupt).await;
    let (came, end) = talk.turn_ended().await;
    assert_eq!(
        words(&came).matches(r#""outcome":"cancelled""#).count(),
        2,
        "{came:?}"
    );
    assert_eq!(end.reason, "end_turn");
    talk.end().await;
}

#[tokio::test]
async fn a_turn_that_ends_after_a_denial_takes_other_asks_with_it() {
    let mut talk = Talk::open(&json!({})).await;
    let first = json!({"tool": {"call": "one", "input": {"command": "x"}}, "on_deny": [{"stop": "cancelled"}]});
    let second = json!({"tool": {"call": "two", "input": {"command": "y"}}});
    talk.prompt(&json!([{"parallel": [first, second]}])).await;
    let (one, two) = (talk.asked().await, talk.asked().await);
    talk.answer(&one.request, deny("no")).await;
    let (came, end) = talk.turn_ended().await;
    assert_eq!(withdrawn(&came), [two.request]);
    assert_eq!(end.reason, "cancelled");
    assert_eq!(end.left_open, [("two".to_owned(), ToolStatus::Unknown)]);
    talk.prompt(&json!([{"say": "still here"}])).await;
    assert_eq!(words(&talk.turn_ended().await.0), "still here");
    talk.end().await;
}

#[tokio::test]
async fn calls_that_never_end_are_closed_with_their_turn_and_ids_come_again() {
    let mut talk = Talk::open(&json!({})).await;
    for _ in 0..2 {
        talk.prompt(&json!([{"tool": tool("x")}])).await;
        let (came, end) = talk.turn_ended().await;
        assert_eq!(end.left_open, [("c".to_owned(), ToolStatus::Unknown)]);
        assert!(
            matches!(
                came.as_slice(),
                [Came::Happened(AgentEvent::Transcript(TranscriptEntry::ToolUse { tool: Some(tool), .. }))]
                    if tool == "Bash"
            ),
            "{came:?}"
        );
    }
    talk.end().await;
}

#[tokio::test]
async fn another_adapter_goes_on_with_the_same_connection() {
    let mut talk = Talk::open(&json!({})).await;
    talk.prompt(&json!([{"ask": {"tool": tool("x"), "on_allow": [{"run": "echo ran >> trace"}]}}]))
        .await;
    let ask = talk.asked().await;
    let state = countersign_agents::adapter::Adapter::state(&talk.acp);
    talk.acp = countersign_agents::acp::AcpAdapter::restore(&state).unwrap();
    talk.answer(&ask.request, PermissionAnswer::Allow { input: None })
        .await;
    assert_eq!(talk.turn_ended().await.1.reason, "end_turn");
    let folder = talk.end().await;
    let trace = std::fs::read_to_string(folder.path().join("trace")).unwrap();
    assert_eq!(trace, "ran\n");
}

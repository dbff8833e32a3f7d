//! Agents that do not keep to the protocol, or go away.

use std::time::Duration;

use countersign_agents::adapter::{AgentEvent, PermissionAnswer, ProcessExit};
use countersign_core::event::TranscriptEntry;
use countersign_core::limits::AGENT_LINE_BYTES_MAX;
use serde_json::json;

use super::talk::{Came, Talk, tool, words};

#[tokio::test]
async fn a_huge_line_is_dropped_and_the_turn_goes_on() {
    let mut talk = Talk::open(&json!({})).await;
    let huge = AGENT_LINE_BYTES_MAX + 1;
    talk.prompt(&json!([{"huge_line": 1_000_000}, {"huge_line": huge}, {"say": "end"}]))
        .await;
    let (came, end) = talk.turn_ended().await;
    assert_eq!(words(&came).len(), 1_000_000 + "end".len());
    assert!(
        came.iter()
            .any(|came| matches!(came, Came::Oversized(bytes) if *bytes > huge as u64))
    );
    assert_eq!(end.reason, "end_turn");
    talk.end().await;
}

#[tokio::test]
async fn noise_is_told_and_never_answered() {
    let mut talk = Talk::open(&json!({})).await;
    let steps = json!([
        {"raw": "warming up\n"},
        {"raw": "[1,2]\n"},
        {"raw": "\n"},
        {"raw_bytes": [255, 254, 10]},
        {"call": {"method": "_vendor/thing", "notification": true}},
        {"call": {"method": "$/thing", "notification": true}},
        {"say": "end"},
    ]);
    talk.prompt(&steps).await;
    let (came, _) = talk.turn_ended().await;
    let noise = came.iter().filter_map(|came| match came {
        Came::Happened(AgentEvent::Noise(noise)) => Some(noise.as_str()),
        _ => None,
    });
    assert_eq!(
        noise.collect::<Vec<_>>(),
        ["warming up", "[1,2]", "\u{fffd}\u{fffd}"]
    );
    assert_eq!(words(&came), "end");
    talk.end().await;
}

#[tokio::test]
async fn unknown_updates_are_kept_and_unknown_methods_refused() {
    let mut talk = Talk::open(&json!({})).await;
    let update = json!({"sessionUpdate": "from_the_future", "x": 1});
    let steps = json!([{"update": update}, {"call": {"method": "from/the_future"}}]);
    talk.prompt(&steps).await;
    let (came, _) = talk.turn_ended().await;
    let [
        Came::Happened(AgentEvent::Transcript(TranscriptEntry::Other { update: kept })),
        ..,
    ] = came.as_slice()
    else {
        panic!("{came:?}");
    };
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(kept.text()).unwrap(),
        update
    );
    assert!(words(&came).contains("-32601"), "{came:?}");
    talk.end().await;
}

#[tokio::test]
async fn a_flood_comes_whole_and_in_order() {
    let mut talk = Talk::open(&json!({})).await;
    talk.prompt(&json!([{"updates": {"count": 5_000, "bytes": 20}}]))
        .await;
    let (came, _) = talk.turn_ended().await;
    let said = words(&came);
    let expected = (0..5_000).map(|number| format!("{number} {}", "x".repeat(20)));
    assert!(said.lines().eq(expected), "{said}");
    talk.end().await;
}

#[tokio::test]
async fn half_a_line_and_an_exit_end_the_talk() {
    for (step, code, signal) in [
        (json!("half_frame"), Some(0), None),
        (json!({"exit": 3}), Some(3), None),
        (json!("abort"), None, Some("SIGKILL".to_owned())),
    ] {
        let mut talk = Talk::open(&json!({})).await;
        talk.prompt(&json!([{"tool": tool("x")}, step])).await;
        assert_eq!(talk.exited().await, ProcessExit { code, signal });
        talk.end().await;
    }
}

#[tokio::test]
async fn an_agent_that_exits_after_an_answer_ran_what_was_allowed() {
    let mut talk = Talk::open(&json!({})).await;
    let on_allow = json!([{"run": "echo ran >> trace"}, {"exit": 1}]);
    talk.prompt(&json!([{"ask": {"tool": tool("x"), "on_allow": on_allow}}]))
        .await;
    let ask = talk.asked().await;
    talk.answer(&ask.request, PermissionAnswer::Allow { input: None })
        .await;
    assert_eq!(talk.exited().await.code, Some(1));
    let folder = talk.end().await;
    let trace = std::fs::read_to_string(folder.path().join("trace")).unwrap();
    assert_eq!(trace, "ran\n");
}

#[tokio::test]
async fn an_error_ends_the_turn_and_the_session_lives_on() {
    let mut talk = Talk::open(&json!({})).await;
    talk.prompt(&json!([{"error": {"code": -32603, "message": "no model"}}]))
        .await;
    let (_, end) = talk.turn_ended().await;
    assert_eq!(
        (end.reason.as_str(), end.message.as_deref()),
        ("error", Some("no model"))
    );
    talk.prompt(&json!([{"say": "here"}])).await;
    assert_eq!(words(&talk.turn_ended().await.0), "here");
    talk.end().await;
}

#[tokio::test]
async fn the_end_of_its_input_ends_an_agent_and_a_stubborn_one_is_stopped() {
    let mut talk = Talk::open(&json!({})).await;
    talk.link.sender.stop(Duration::from_mins(1));
    assert_eq!(talk.exited().await.code, Some(0));
    talk.end().await;

    let mut talk = Talk::open(&json!({"ignore_eof": true})).await;
    talk.link.sender.stop(Duration::from_millis(50));
    assert_eq!(talk.exited().await.signal.as_deref(), Some("SIGTERM"));
    talk.end().await;
}

#[tokio::test]
async fn a_response_before_any_request_is_noise() {
    let mut talk = Talk::start(&json!({"response_before_request": true})).await;
    let (before, _) = talk.ready().await;
    assert!(
        matches!(before.as_slice(), [Came::Happened(AgentEvent::Noise(_))]),
        "{before:?}"
    );
    talk.end().await;
}

#[tokio::test]
async fn what_is_said_after_the_turns_end_still_comes() {
    let mut talk = Talk::open(&json!({})).await;
    talk.prompt(&json!([{"stop_early": "end_turn"}, {"say": "one more thing"}]))
        .await;
    assert_eq!(talk.turn_ended().await.1.reason, "end_turn");
    let late = TranscriptEntry::Assistant {
        text: "one more thing".to_owned(),
    };
    assert_eq!(
        talk.next().await,
        Came::Happened(AgentEvent::Transcript(late))
    );
    talk.end().await;
}

//! What an agent says, as it reaches the record.

use countersign_agents::adapter::{AgentWrite, ProcessExit, WriteKind};
use countersign_agents::runner::LinkEvent;
use countersign_core::RunEvent;
use countersign_core::limits::WORD_BYTES_MAX;

use super::FinalOutput;
use crate::driver::test_support::{LinkCall, TestRun, line, said};

async fn committed_offset(run: &TestRun) -> u64 {
    let checkpoint = run.service.find_checkpoint(run.key.agent.clone()).await;
    checkpoint.unwrap().unwrap().offset
}

/// An ask that the loop refuses, because the id of its tool call is too long.
fn refused_ask() -> String {
    format!("ask {}", "x".repeat(WORD_BYTES_MAX + 1))
}

#[tokio::test]
async fn an_ask_is_committed_with_its_line_and_only_then_acknowledged() {
    let run = TestRun::start().await;
    let exit = ProcessExit {
        code: Some(0),
        signal: None,
    };
    let exited = LinkEvent::Exited {
        exit: exit.clone(),
        why: None,
    };
    let output = run
        .read(vec![line(11, "say hello"), line(20, "ask 1"), exited])
        .await;
    let expected = FinalOutput {
        ended: Some((exit, None)),
        committed: 20,
        in_turn: true,
        ..FinalOutput::default()
    };
    assert_eq!(output, expected);
    assert_eq!(run.link.take_calls(), [LinkCall::Committed(20, vec![20])]);
    assert_eq!(committed_offset(&run).await, 20);
    assert_eq!(run.recorded_output().await, ["said hello", "asked 1"]);
}

#[tokio::test]
async fn everything_that_follows_from_a_line_is_one_commit() {
    let run = TestRun::start().await;
    run.read(vec![
        line(11, "ask 1"),
        line(20, "say one"),
        line(40, "withdraw 1;say two;ask 2;say three;ask 3;say four"),
    ])
    .await;
    let expected = [
        LinkCall::Committed(11, vec![11]),
        LinkCall::Committed(40, vec![40, 40]),
    ];
    assert_eq!(run.link.take_calls(), expected);
    assert_eq!(committed_offset(&run).await, 40);
    let expected = [
        "asked 1",
        "said one",
        "Cancelled",
        "said two",
        "asked 2",
        "said three",
        "asked 3",
        "said four",
    ];
    assert_eq!(run.recorded_output().await, expected);
}

#[tokio::test]
async fn a_refused_ask_is_denied_after_what_was_said_before_it_is_committed() {
    let run = TestRun::start().await;
    run.read(vec![line(11, "say before"), line(20, &refused_ask())])
        .await;
    let denial = AgentWrite::reply_to(20, WriteKind::Deny, b"Deny".to_vec());
    let expected = [
        LinkCall::Committed(20, vec![20]),
        LinkCall::Write(vec![denial]),
    ];
    assert_eq!(run.link.take_calls(), expected);
    assert_eq!(run.recorded_output().await, ["said before"]);
}

#[tokio::test]
async fn what_is_said_around_a_refused_ask_is_recorded_once_whenever_the_host_is_killed() {
    let lines = [
        (11, "say before".to_owned()),
        (20, refused_ask()),
        (31, "say after".to_owned()),
        (40, format!("say in one line;{};say with it", refused_ask())),
        (50, "ask 2".to_owned()),
    ];
    for heard in 0..=lines.len() {
        let run = TestRun::start().await;
        let first = lines[..heard].iter();
        run.read(first.map(|(number, text)| line(*number, text)).collect())
            .await;

        let next = run.continue_from_record().await;
        let rest = lines.iter().filter(|(number, _)| *number > next.offset);
        next.read(rest.map(|(number, text)| line(*number, text)).collect())
            .await;
        let expected = [
            "said before",
            "said afterin one line",
            "said with it",
            "asked 2",
        ];
        let recorded = next.recorded_output().await;
        assert_eq!(recorded, expected, "killed after {heard} lines");
    }
}

#[tokio::test]
async fn a_refused_ask_that_was_not_denied_is_cancelled_by_the_next_host() {
    let run = TestRun::start().await;
    run.read(vec![line(20, &refused_ask())]).await;
    // As if it was killed after the commit and before the denial.
    run.link.written.lock().unwrap().clear();

    let next = run.continue_from_record().await;
    let waiting = next.connection.lock().waiting_requests();
    let asks = super::super::client_requests::RecordedAsks::load(&next.service, &next.key.agent);
    next.requests.resume(waiting, &asks.await);
    let cancelled = AgentWrite::reply_to(20, WriteKind::Cancelled, b"Cancelled".to_vec());
    assert_eq!(next.link.take_calls(), [LinkCall::Write(vec![cancelled])]);
}

#[tokio::test]
async fn a_lost_link_gives_back_what_was_not_committed() {
    let run = TestRun::start().await;
    let output = run.read(vec![line(11, "say hello"), LinkEvent::Lost]).await;
    let expected = FinalOutput {
        entries: vec![said("hello")],
        committed: 7,
        in_turn: true,
        ..FinalOutput::default()
    };
    assert_eq!(output, expected);
    assert_eq!(run.link.take_calls(), []);
    assert_eq!(committed_offset(&run).await, 7);
}

#[tokio::test]
async fn a_commit_that_fails_gives_back_what_was_not_committed() {
    let run = TestRun::start().await;
    run.disk.fill();
    let lines = || vec![line(11, "say hello"), line(20, "say you;ask 1")];
    let output = run.read(lines()).await;
    let expected = FinalOutput {
        events: vec![RunEvent::EntriesAdded(vec![said("helloyou")])],
        committed: 7,
        in_turn: true,
        ..FinalOutput::default()
    };
    assert_eq!(output, expected);
    assert_eq!(run.link.take_calls(), []);

    run.disk.free();
    let next = run.continue_from_record().await;
    next.read(lines()).await;
    assert_eq!(next.recorded_output().await, ["said helloyou", "asked 1"]);
}

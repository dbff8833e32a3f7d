//! What an agent says, as it reaches the record.

use countersign_agents::adapter::ProcessExit;
use countersign_agents::runner::LinkEvent;

use super::FinalOutput;
use crate::driver::test_support::{LinkCall, TestRun, line, said};

async fn committed_offset(run: &TestRun) -> u64 {
    let checkpoint = run.service.find_checkpoint(run.key.agent.clone()).await;
    checkpoint.unwrap().unwrap().offset
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
        in_turn: true,
        ..FinalOutput::default()
    };
    assert_eq!(output, expected);
    assert_eq!(run.link.take_calls(), [LinkCall::Committed(20, vec![20])]);
    assert_eq!(committed_offset(&run).await, 20);
    assert_eq!(run.open_asks().await.len(), 1);
}

#[tokio::test]
async fn a_commit_in_the_middle_of_a_line_has_no_checkpoint() {
    let run = TestRun::start().await;
    let output = run.read(vec![line(20, "ask 1;say more")]).await;
    let expected = FinalOutput {
        entries: vec![said("more")],
        in_turn: true,
        ..FinalOutput::default()
    };
    assert_eq!(output, expected);
    assert_eq!(run.link.take_calls(), []);
    assert_eq!(committed_offset(&run).await, 7);
    assert_eq!(run.open_asks().await.len(), 1);
}

#[tokio::test]
async fn a_lost_link_gives_back_what_was_not_committed() {
    let run = TestRun::start().await;
    let output = run.read(vec![line(11, "say hello"), LinkEvent::Lost]).await;
    let expected = FinalOutput {
        entries: vec![said("hello")],
        in_turn: true,
        ..FinalOutput::default()
    };
    assert_eq!(output, expected);
    assert_eq!(run.link.take_calls(), []);
    assert_eq!(committed_offset(&run).await, 7);
}

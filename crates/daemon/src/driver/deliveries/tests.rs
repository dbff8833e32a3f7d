//! What became of duties is recorded once, also after commits that failed.

use countersign_core::event::AnswerDelivery;

use crate::driver::test_support::{TestRun, line};
use crate::service::tests::{delivery_of, prompt};

/// A run whose answer was just written, and whose settlement waits.
async fn answered_run() -> TestRun {
    let run = TestRun::start().await;
    run.read(vec![line(20, "ask 1")]).await;
    run.approve().await;
    run.performer().perform(&mut run.duties().await);
    run.confirm_all().await;
    run
}

const SETTLED_ONCE: [&str; 3] = ["asked 1", "Allowed", "settled: Delivered"];

#[tokio::test]
async fn a_settlement_is_sent_again_until_it_is_committed() {
    let run = TestRun::start().await;
    run.read(vec![line(20, "ask 1")]).await;
    let ask = run.approve().await;
    let mut duties = run.duties().await;
    run.disk.fill();
    run.performer().perform(&mut duties);
    while run.disk.failures() == 0 {
        tokio::task::yield_now().await;
    }
    run.disk.free();
    // Nobody commits anything else, and the run goes on.
    while delivery_of(&run.service, &ask.ask.id).await != AnswerDelivery::Delivered {
        tokio::task::yield_now().await;
    }
    run.finish().await;
    assert_eq!(run.recorded_output().await, SETTLED_ONCE);
}

#[tokio::test]
async fn a_settlement_in_output_that_could_not_be_committed_is_sent_again() {
    let run = answered_run().await;
    run.disk.fill();
    run.read(vec![line(31, "say more")]).await;
    run.read(vec![line(40, "ask 2")]).await;
    run.disk.free();
    run.finish().await;
    assert_eq!(run.recorded_output().await, SETTLED_ONCE);
}

#[tokio::test]
async fn a_settlement_that_cannot_be_committed_is_left_for_the_end_of_the_run() {
    let run = answered_run().await;
    run.disk.fill();
    run.finish().await;
    run.disk.free();
    let left = run.deliveries.take_unsent().into_inputs();
    run.service.record_inputs(left).await.unwrap();
    assert_eq!(run.recorded_output().await, SETTLED_ONCE);
}

#[tokio::test]
async fn a_turn_that_could_not_begin_ends_once_that_can_be_committed() {
    let run = TestRun::start().await;
    prompt(&run.service, "a", "refuse").await;
    let mut duties = run.duties().await;
    run.disk.fill();
    let mut performer = run.performer();
    performer.perform(&mut duties);
    performer.perform(&mut duties);
    run.deliveries.send_unsent().await.unwrap_err();
    assert_eq!(run.connection.lock().performed.turn, 0);
    run.disk.free();
    run.finish().await;
    let expected = [
        "User { text: \"refuse\", from: None }",
        "turn 1 ended: error",
    ];
    assert_eq!(run.recorded_output().await, expected);
}

//! Duties, each performed once, whichever hosts perform them.

use std::sync::atomic::Ordering;

use countersign_agents::adapter::{AgentWrite, WriteId, WriteKind};
use countersign_core::Duty;
use countersign_core::event::AnswerDelivery;

use super::DutyProgress;
use crate::driver::test_support::{LinkCall, TestRun, duty_receiver, line};
use crate::service::tests::delivery_of;

fn allow(line: u64) -> LinkCall {
    LinkCall::Write(vec![AgentWrite::reply_to(
        line,
        WriteKind::Allow,
        b"Allow".to_vec(),
    )])
}

#[tokio::test]
async fn a_prompt_is_sent_once() {
    let run = TestRun::start().await;
    let mut performer = run.performer();
    let mut duties = duty_receiver(vec![Duty::Prompt {
        attachments: Vec::new(),
        turn: 1,
        messages: vec!["do it".to_owned()],
    }]);
    for _ in 0..2 {
        assert_eq!(performer.perform(&mut duties), DutyProgress::Continue);
    }
    let prompt = AgentWrite::own("prompt", 1, b"do it".to_vec());
    assert_eq!(run.link.take_calls(), [LinkCall::Write(vec![prompt])]);
}

#[tokio::test]
async fn an_answer_is_sent_once_and_settled_when_it_is_written() {
    let run = TestRun::start().await;
    run.read(vec![line(20, "ask 1")]).await;
    let ask = run.approve().await;
    run.link.take_calls();
    let mut performer = run.performer();
    let mut duties = run.duties().await;
    for _ in 0..2 {
        performer.perform(&mut duties);
    }
    run.finish().await;
    assert_eq!(run.link.take_calls(), [allow(20)]);
    let delivery = delivery_of(&run.service, &ask.ask.id).await;
    assert_eq!(delivery, AnswerDelivery::Delivered);
}

#[tokio::test]
async fn an_answer_that_an_earlier_host_sent_is_settled_by_asking_the_runner() {
    for (written, expected) in [
        (WriteKind::Allow, AnswerDelivery::Delivered),
        (WriteKind::Deny, AnswerDelivery::Withdrawn),
    ] {
        let run = TestRun::start().await;
        run.read(vec![line(20, "ask 1")]).await;
        let ask = run.approve().await;
        run.link.is_lost.store(true, Ordering::Relaxed);
        let ids = &run.link.written;
        ids.lock().unwrap().insert(WriteId::Line(20), written);
        run.performer().perform(&mut run.duties().await);
        run.finish().await;
        let delivery = delivery_of(&run.service, &ask.ask.id).await;
        assert_eq!(delivery, AnswerDelivery::Attempted);

        let next = run.continue_at_next_host();
        next.performer().perform(&mut next.duties().await);
        next.finish().await;
        assert_eq!(next.link.take_calls(), [allow(20)]);
        let delivery = delivery_of(&next.service, &ask.ask.id).await;
        assert_eq!(delivery, expected);
    }
}

#[tokio::test]
async fn an_outcome_that_is_known_and_not_settled_is_settled_by_the_next_host() {
    let run = TestRun::start().await;
    run.read(vec![line(20, "ask 1")]).await;
    let ask = run.approve().await;
    let ids = &run.link.written;
    ids.lock()
        .unwrap()
        .insert(WriteId::Line(20), WriteKind::Deny);
    run.performer().perform(&mut run.duties().await);
    run.confirm_all_and_lose_settlements().await;

    let next = run.continue_at_next_host();
    next.performer().perform(&mut next.duties().await);
    next.finish().await;
    assert_eq!(next.link.take_calls(), []);
    let delivery = delivery_of(&next.service, &ask.ask.id).await;
    assert_eq!(delivery, AnswerDelivery::Withdrawn);
}

#[tokio::test]
async fn what_the_runner_says_while_everything_is_resent_settles_an_answer() {
    let run = TestRun::start().await;
    run.read(vec![line(20, "ask 1")]).await;
    let ask = run.approve().await;
    run.link.is_lost.store(true, Ordering::Relaxed);
    let ids = &run.link.written;
    ids.lock()
        .unwrap()
        .insert(WriteId::Line(20), WriteKind::Deny);
    run.performer().perform(&mut run.duties().await);

    let next = run.continue_at_next_host();
    next.connection.resend_unwritten();
    next.confirm_all_and_lose_settlements().await;
    next.performer().perform(&mut next.duties().await);
    next.finish().await;
    let delivery = delivery_of(&next.service, &ask.ask.id).await;
    assert_eq!(delivery, AnswerDelivery::Withdrawn);
}

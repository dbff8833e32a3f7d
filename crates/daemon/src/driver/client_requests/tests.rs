//! Files that an agent wants, served once and only when they were allowed.

use countersign_agents::adapter::{
    AgentWrite, ClientRequestError, ClientResponse, RequestId, WriteId, WriteKind,
};
use countersign_core::Duty;
use countersign_core::event::AnswerDelivery;

use super::RecordedAsks;
use crate::driver::test_support::{LinkCall, TestRun, line};
use crate::service::tests::delivery_of;

fn response(
    line: u64,
    kind: WriteKind,
    response: &Result<ClientResponse, ClientRequestError>,
) -> LinkCall {
    let bytes = format!("{response:?}").into_bytes();
    LinkCall::Write(vec![AgentWrite::reply_to(line, kind, bytes)])
}

#[tokio::test]
async fn a_file_is_written_after_it_was_allowed() {
    let run = TestRun::start().await;
    let path = run.path("new");
    run.read(vec![line(40, &format!("write 1 {} text", path.display()))])
        .await;
    assert!(!path.exists());
    let ask = run.approve().await;
    run.link.take_calls();
    run.performer().perform(&mut run.duties().await);
    run.finish().await;
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
    let expected = [
        LinkCall::Claim(WriteId::Line(40)),
        response(40, WriteKind::Served, &Ok(ClientResponse::Done)),
    ];
    assert_eq!(run.link.take_calls(), expected);
    let delivery = delivery_of(&run.service, &ask.ask.id).await;
    assert_eq!(delivery, AnswerDelivery::Delivered);
}

#[tokio::test]
async fn a_file_that_an_earlier_host_may_have_written_is_not_written_again() {
    let run = TestRun::start().await;
    let path = run.path("new");
    run.read(vec![line(40, &format!("write 1 {} text", path.display()))])
        .await;
    let ask = run.approve().await;
    let claimed = &run.link.claimed;
    claimed.lock().unwrap().insert(WriteId::Line(40));
    run.performer().perform(&mut run.duties().await);
    run.finish().await;
    assert!(!path.exists());
    let delivery = delivery_of(&run.service, &ask.ask.id).await;
    assert_eq!(delivery, AnswerDelivery::Unknown);
}

#[tokio::test]
async fn an_uncertain_write_stays_unknown_at_the_next_host() {
    let run = TestRun::start().await;
    let path = run.path("new");
    run.read(vec![line(40, &format!("write 1 {} text", path.display()))])
        .await;
    let ask = run.approve().await;
    let claimed = &run.link.claimed;
    claimed.lock().unwrap().insert(WriteId::Line(40));
    run.performer().perform(&mut run.duties().await);
    run.confirm_all_and_lose_settlements().await;

    let next = run.continue_at_next_host();
    next.performer().perform(&mut next.duties().await);
    next.finish().await;
    let delivery = delivery_of(&next.service, &ask.ask.id).await;
    assert_eq!(delivery, AnswerDelivery::Unknown);
}

/// Begins to serve the request that was allowed, reads that its turn is over, and then finishes serving it.
async fn serve_while_the_turn_ends(run: &TestRun) {
    let duties = run.duties().await.borrow().clone();
    let [Duty::Answer(approval)] = &*duties else {
        panic!("one answer is owed, not {duties:?}");
    };
    let request = RequestId("1".to_owned());
    let started = {
        let mut connection = run.connection.lock();
        let serving = &mut connection.performed.serving;
        serving.insert(approval.opened, 40);
        connection.start_request(&request, &approval.ask.id)
    };
    run.read(vec![line(90, "withdraw 1")]).await;
    // The runner must still know what was written under the line of the request.
    let committed = LinkCall::Committed(90, vec![40]);
    assert!(run.link.take_calls().contains(&committed));
    run.requests
        .serve_decided(request, started.unwrap(), approval)
        .await;
    run.finish().await;
}

#[tokio::test]
async fn an_answer_that_an_earlier_host_sent_counts_after_the_turn_is_over() {
    let run = TestRun::start().await;
    let path = run.path("new");
    run.read(vec![line(40, &format!("write 1 {} text", path.display()))])
        .await;
    let ask = run.approve().await;
    run.performer().perform(&mut run.duties().await);
    run.confirm_all_and_lose_settlements().await;
    let next = run.continue_from_record().await;
    serve_while_the_turn_ends(&next).await;
    let delivery = delivery_of(&next.service, &ask.ask.id).await;
    assert_eq!(delivery, AnswerDelivery::Delivered);
}

#[tokio::test]
async fn an_answer_that_nobody_sent_is_withdrawn_with_its_request() {
    let run = TestRun::start().await;
    let path = run.path("new");
    run.read(vec![line(40, &format!("write 1 {} text", path.display()))])
        .await;
    let ask = run.approve().await;
    serve_while_the_turn_ends(&run).await;
    let delivery = delivery_of(&run.service, &ask.ask.id).await;
    assert_eq!(delivery, AnswerDelivery::Withdrawn);
}

/// A host began to serve the request, and was killed after it had read that the turn was over.
#[tokio::test]
async fn a_third_host_finds_out_what_the_first_one_sent() {
    let run = TestRun::start().await;
    let path = run.path("new");
    run.read(vec![line(40, &format!("write 1 {} text", path.display()))])
        .await;
    let ask = run.approve().await;
    run.performer().perform(&mut run.duties().await);
    run.confirm_all_and_lose_settlements().await;
    let second = run.continue_from_record().await;
    let opened = ask.opened;
    second
        .connection
        .lock()
        .performed
        .serving
        .insert(opened, 40);
    second.read(vec![line(90, "withdraw 1")]).await;
    let third = second.continue_from_record().await;
    third.performer().perform(&mut third.duties().await);
    third.finish().await;
    let delivery = delivery_of(&third.service, &ask.ask.id).await;
    assert_eq!(delivery, AnswerDelivery::Delivered);
}

#[tokio::test]
async fn a_request_whose_ask_is_no_longer_open_is_cancelled() {
    let run = TestRun::start().await;
    std::fs::write(run.path("x"), "text").unwrap();
    run.read(vec![line(
        40,
        &format!("read 1 {}", run.path("x").display()),
    )])
    .await;
    run.link.take_calls();
    let waiting = run.connection.lock().waiting_requests();
    run.requests.resume(waiting, &RecordedAsks::default());
    run.finish().await;
    let cancelled = ClientRequestError::Cancelled("the host was replaced".to_owned());
    let expected = [response(40, WriteKind::Refused, &Err(cancelled))];
    assert_eq!(run.link.take_calls(), expected);
}

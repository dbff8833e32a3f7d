//! Time: what it ends, when it holds back, and that it never allows.

use super::*;

fn timed(caller: &Caller, ms: u64) -> AskRequest {
    AskRequest {
        timeout_ms: Some(ms),
        ..request(caller)
    }
}

#[test]
fn an_ask_without_a_timeout_never_expires() {
    let mut host = Host::new();
    let id = host.ask(request(&agent("bot")));
    assert_eq!(host.after_ms(limits::TIMEOUT_MS_MAX), [""; 0]);
    assert_eq!(host.shows(&id), "pending on nobody");
}

#[test]
fn a_timeout_ends_the_ask_and_does_not_allow() {
    let mut host = Host::new();
    let bot = host.connect(agent("bot"), "c1");
    host.register(&bot, "bot");
    let id = host.ask(timed(&bot, 5_000));
    assert_eq!(
        host.state.next_deadline(Timestamp(0)),
        Some(Timestamp(5_000_000))
    );
    assert_eq!(host.after_ms(4_999), [""; 0]);
    assert_eq!(
        host.after_ms(1),
        [
            "approval.resolved ask-1: Expired `expired` by host, Waiting",
            "agent.status_changed bot: Idle, seen as Idle, on c1",
        ]
    );
    assert!(matches!(
        host.refuses(resolve(&person("ann"), &id, "approve")),
        Rejection::AlreadyResolved(_)
    ));
    assert_eq!(host.after_ms(60_000), [""; 0]);
}

#[test]
fn a_timeout_has_a_bound() {
    let mut host = Host::new();
    let (_, lines) = host.asks(timed(&agent("bot"), u64::MAX));
    assert_eq!(
        lines,
        [format!(
            "approval.requested ask-1 of bot by bot, None, until {}",
            limits::TIMEOUT_MS_MAX / 1000
        )]
    );
}

#[test]
fn nothing_expires_in_the_first_minute_after_a_start() {
    let mut host = Host::new();
    let bot = agent("bot");
    let lost = host.ask(timed(&bot, 5_000));
    let saved = host.ask(timed(&bot, 5_000));
    host.question(&bot, Some(5_000));
    host.now = host.now.plus_ms(3_600_000);
    host.restart();
    let opened = Timestamp(3_660_000_000);
    assert_eq!(
        host.state.next_deadline(host.expiry_held_until),
        Some(opened)
    );
    assert_eq!(host.after_ms(59_999), [""; 0]);
    host.does(resolve(&person("ann"), &saved, "approve"));
    assert_eq!(
        host.after_ms(1),
        [
            "approval.resolved ask-1: Expired `expired` by host, Waiting",
            "question.ended question-3: Expired `nobody answered in time` by host",
        ]
    );
    assert_eq!(host.shows(&lost), "Expired expired on nobody");
    assert_eq!(host.shows(&saved), "Allowed approve on nobody");
}

#[test]
fn a_question_waits_five_minutes_unless_its_asker_says_otherwise() {
    let mut host = Host::new();
    let bot = agent("bot");
    host.question(&bot, None);
    host.question(&bot, Some(1_000));
    assert_eq!(
        host.after_ms(1_000),
        ["question.ended question-2: Expired `nobody answered in time` by host"]
    );
    assert_eq!(host.after_ms(298_999), [""; 0]);
    assert_eq!(
        host.after_ms(1),
        ["question.ended question-1: Expired `nobody answered in time` by host"]
    );
}

#[test]
fn what_is_due_ends_in_the_order_it_was_due() {
    let mut host = Host::new();
    let bot = agent("bot");
    host.ask(timed(&bot, 3_000));
    host.ask(timed(&bot, 1_000));
    host.ask(timed(&bot, 2_000));
    assert_eq!(
        host.after_ms(5_000),
        [
            "approval.resolved ask-2: Expired `expired` by host, Waiting",
            "approval.resolved ask-3: Expired `expired` by host, Waiting",
            "approval.resolved ask-1: Expired `expired` by host, Waiting",
        ]
    );
}

#[test]
fn an_ask_that_expires_as_its_owner_lapses_ends_once() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    host.ask(timed(&ann, 60_000));
    host.lose(&ann);
    assert_eq!(
        host.after_ms(60_000),
        [
            "approval.resolved ask-1: Expired `expired` by host, Waiting",
            "host.connection_lapsed c1",
        ]
    );
    assert_eq!(host.state.next_deadline(Timestamp(0)), None);
}

#[test]
fn an_owner_lapses_in_time_though_expiry_is_held_back() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    host.ask(request(&ann));
    host.ask(timed(&agent("bot"), 1_000));
    host.lose(&ann);
    host.expiry_held_until = Timestamp(90_000_000);
    assert_eq!(
        host.state.next_deadline(host.expiry_held_until),
        Some(Timestamp(60_000_000))
    );
    assert_eq!(
        host.after_ms(60_000),
        [
            "approval.resolved ask-1: Gone `agent_gone` by host, Withdrawn",
            "host.connection_lapsed c1",
        ]
    );
    assert_eq!(
        host.state.next_deadline(host.expiry_held_until),
        Some(Timestamp(90_000_000))
    );
}

#[test]
fn an_answer_that_overtakes_the_clock_is_late() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    let id = host.ask(timed(&ann, 5_000));
    host.now = host.now.plus_ms(5_000);
    let (refusal, lines) = host.refuses_on_record(resolve(&ann, &id, "approve"));
    assert_eq!(
        lines,
        ["approval.resolved ask-1: Expired `expired` by host, Waiting"]
    );
    let ended = host.state.find_approval(&id).unwrap().clone();
    assert_eq!(refusal, Rejection::AlreadyResolved(Box::new(ended)));
    assert_eq!(host.after_ms(0), [""; 0]);
}

#[test]
fn words_that_overtake_the_clock_are_late() {
    let mut host = Host::new();
    let id = host.question(&agent("bot"), Some(5_000));
    host.now = host.now.plus_ms(5_000);
    let (refusal, lines) = host.refuses_on_record(Input::AnswerQuestion {
        caller: person("ann"),
        question: id,
        answer: "this one".to_owned(),
        considered_ms: None,
    });
    assert_eq!(
        lines,
        ["question.ended question-1: Expired `nobody answered in time` by host"]
    );
    assert_eq!(
        refusal.to_string(),
        "question 'question-1' has already ended"
    );
}

#[test]
fn nothing_is_kept_of_what_ended() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    let bot = host.connect(agent("bot"), "c2");
    host.register(&ann, "cat");
    host.question(&bot, None);
    for caller in [&ann, &bot] {
        host.ask(AskRequest {
            tool_call: Some("call".to_owned()),
            agent: Some(AgentId::new("cat")),
            idempotency_key: Some("k".to_owned()),
            ..timed(caller, 500_000)
        });
        host.ask(request(caller));
    }
    host.lose(&ann);
    host.lose(&bot);
    host.after_ms(60_000);
    host.after_ms(440_000);
    let state = &host.state;
    assert_eq!(state.open_approvals().len(), 0);
    assert_eq!(state.open_questions().len(), 0);
    let left = (
        state.ask_keys.len(),
        state.idempotency.len(),
        state.open.len(),
        state.held.len(),
        state.deadlines.len(),
        state.lapses.len(),
    );
    assert_eq!(left, (0, 0, 0, 0, 0, 0));
}

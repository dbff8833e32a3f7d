//! Asks: what opens one, what a second one means, what bounds them.

use super::*;
use crate::event::{AnswerDelivery, ApprovalRequested, Ask, AskAttachment};
use crate::{APPROVE, DENY};

fn tool_call(caller: &Caller, turn: &str, call: &str) -> AskRequest {
    AskRequest {
        turn: Some(turn.to_owned()),
        tool_call: Some(call.to_owned()),
        ..request(caller)
    }
}

fn keyed(caller: &Caller, key: &str) -> AskRequest {
    AskRequest {
        idempotency_key: Some(key.to_owned()),
        ..request(caller)
    }
}

#[test]
fn an_ask_is_kept_exactly_as_it_was_made() {
    let mut host = Host::new();
    let bot = host.connect(agent("bot"), "c1");
    let input = json(r#"{"cmd" : "rm -r x"}"#);
    let asked = AskRequest {
        id: ApprovalId::new("ask"),
        // An agent's own word for who it is counts for nothing.
        agent: Some(AgentId::new("another")),
        tool: Some("bash".to_owned()),
        input: Some(input.clone()),
        details: json(r#"{"why":1}"#),
        options: words(&["approve", "later"]),
        timeout_ms: Some(5_000),
        ..tool_call(&bot, "t1", "call")
    };
    let decision = host.decide(ask_input(asked)).unwrap();
    let ask = Ask {
        id: ApprovalId::new("ask"),
        agent: Some(AgentId::new("bot")),
        turn: Some("t1".to_owned()),
        tool_call: Some("call".to_owned()),
        action: "run it".to_owned(),
        tool: Some("bash".to_owned()),
        input_digest: Some(input.canonical_digest()),
        input: Some(input),
        cwd: None,
        verdict: None,
        details: json(r#"{"why":1}"#),
        a2ui: None,
        options: words(&["approve", "later"]),
        approving: words(&["approve"]),
        request: None,
        takes_denial_message: false,
        can_edit: false,
        passes: Vec::new(),
        repeats: None,
        sandbox: None,
        by: by(&bot),
        client: Some(ClientId::new("c1")),
        attachment: AskAttachment::Asker,
        idempotency_key: None,
        request_digest: None,
        asked_at: Timestamp(0),
        deadline: Some(Timestamp(5_000_000)),
    };
    let expected = Decision {
        events: vec![ApprovalRequested { ask: Arc::new(ask) }.into()],
        subject: DecisionSubject::Approval(ApprovalId::new("ask")),
    };
    assert_eq!(decision, expected);
}

#[test]
fn options_are_approve_and_deny_unless_others_are_offered() {
    let mut host = Host::new();
    let id = host.ask(request(&person("ann")));
    let ask = &host.state.find_approval(&id).unwrap().ask;
    assert_eq!(ask.options, words(&[APPROVE, DENY]));
    assert_eq!(ask.approving, words(&[APPROVE]));
}

#[test]
fn who_asks_through_what_decides_what_ties_the_ask() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    let bot = host.connect(agent("bot"), "c2");
    let system = AskRequest {
        system_level: true,
        ..request(&ann)
    };
    let lines = [
        host.asks(request(&ann)).1,
        host.asks(system).1,
        host.asks(request(&person("ann"))).1,
        host.asks(request(&bot)).1,
        host.asks(request(&agent("bot"))).1,
        host.asks(request(&Caller::host())).1,
    ];
    assert_eq!(
        lines.concat(),
        [
            "approval.requested ask-1 of none by ann, Owner, until ever",
            "approval.requested ask-2 of none by ann, None, until ever",
            "approval.requested ask-3 of none by ann, None, until ever",
            "approval.requested ask-4 of bot by bot, Asker, until ever",
            "approval.requested ask-5 of bot by bot, None, until ever",
            "approval.requested ask-6 of none by host, None, until ever",
        ]
    );
}

#[test]
fn observers_cannot_ask() {
    let mut host = Host::new();
    assert_eq!(
        host.refuses(ask_input(request(&observer()))),
        Rejection::ObserverCannotChange
    );
}

#[test]
fn a_second_ask_for_the_same_tool_call_cancels_the_first() {
    let mut host = Host::new();
    let bot = host.connect(agent("bot"), "c1");
    let first = host.ask(tool_call(&bot, "t1", "call"));
    let (second, lines) = host.asks(tool_call(&bot, "t1", "call"));
    assert_eq!(
        lines,
        [
            "approval.resolved ask-1: Cancelled `cancelled` by bot, Withdrawn",
            "approval.requested ask-2 of bot by bot, Asker, until ever",
        ]
    );
    assert_eq!(host.shows(&first), "Cancelled cancelled on c1");
    assert_eq!(host.shows(&second), "pending on c1");
    host.does(resolve(&person("ann"), &second, "approve"));
    let (_, lines) = host.asks(tool_call(&bot, "t1", "call"));
    assert_eq!(
        lines,
        ["approval.requested ask-3 of bot by bot, Asker, until ever"],
        "what ended is not cancelled"
    );
}

#[test]
fn other_agents_turns_and_tool_calls_are_other_asks() {
    let mut host = Host::new();
    host.ask(tool_call(&agent("bot"), "t1", "call"));
    host.ask(tool_call(&agent("bot"), "t2", "call"));
    host.ask(tool_call(&agent("bot"), "t1", "other"));
    host.ask(tool_call(&agent("cat"), "t1", "call"));
    host.ask(tool_call(&person("ann"), "t1", "call"));
    host.ask(tool_call(&person("ann"), "t1", "call"));
    assert_eq!(host.state.open_approvals().len(), 6);
}

#[test]
fn a_key_stands_for_one_open_ask() {
    let mut host = Host::new();
    let first = host.ask(keyed(&person("ann"), "k"));
    assert_eq!(host.asks(keyed(&person("ann"), "k")), (first, vec![]));
}

#[test]
fn a_key_is_its_principals_own() {
    let mut host = Host::new();
    let first = host.ask(keyed(&person("ann"), "k"));
    assert_ne!(host.ask(keyed(&person("bob"), "k")), first);
}

#[test]
fn a_key_asked_again_after_the_end_is_told_and_counted() {
    let mut host = Host::new();
    let first = host.ask(keyed(&agent("bot"), "k"));
    host.does(resolve(&person("ann"), &first, "approve"));
    assert_eq!(
        host.asks(keyed(&agent("bot"), "k")),
        (first.clone(), words(&["answer.attempted ask-1, time 1"]))
    );
    assert_eq!(
        host.asks(keyed(&agent("bot"), "k")),
        (first.clone(), words(&["answer.attempted ask-1, time 2"]))
    );
    let approval = host.state.find_approval(&first).unwrap();
    assert_eq!(
        (approval.delivery, approval.deliveries),
        (AnswerDelivery::Attempted, 2)
    );
}

#[test]
fn a_key_that_only_history_knows_is_told_from_there() {
    let mut before = Host::new();
    let first = before.ask(keyed(&agent("bot"), "k"));
    before.does(resolve(&person("ann"), &first, "approve"));
    let history = before.state.find_approval(&first).unwrap().clone();
    let again = AskRequest {
        keyed: Some(history),
        ..keyed(&agent("bot"), "k")
    };
    assert_eq!(
        Host::new().asks(again),
        (first, words(&["answer.attempted ask-1, time 1"]))
    );
}

#[test]
fn a_key_cannot_stand_for_another_request() {
    let mut host = Host::new();
    let first = host.ask(AskRequest {
        input: Some(json(r#"{"a":1,"b":2}"#)),
        ..keyed(&agent("bot"), "k")
    });
    let same = AskRequest {
        input: Some(json(r#"{"a":1,"b":2}"#)),
        ..keyed(&agent("bot"), "k")
    };
    assert_eq!(host.ask(same), first);
    let conflict = Rejection::IdempotencyConflict("k".to_owned());
    for other_spelling in [
        r#"{ "b": 2, "a": 1 }"#,
        r#"{"a":1,"b":2,"b":2}"#,
        r#"{"a":1.0,"b":2}"#,
    ] {
        let asked = AskRequest {
            input: Some(json(other_spelling)),
            ..keyed(&agent("bot"), "k")
        };
        assert_eq!(host.refuses(ask_input(asked)), conflict, "{other_spelling}");
    }
    let other_input = AskRequest {
        input: Some(json(r#"{"a":1}"#)),
        ..keyed(&agent("bot"), "k")
    };
    let other_action = AskRequest {
        action: "another".to_owned(),
        ..keyed(&agent("bot"), "k")
    };
    assert_eq!(host.refuses(ask_input(other_input.clone())), conflict);
    assert_eq!(host.refuses(ask_input(other_action)), conflict);
    host.does(resolve(&person("ann"), &first, "approve"));
    assert_eq!(host.refuses(ask_input(other_input)), conflict);
}

#[test]
fn a_key_tells_options_apart_that_hold_newlines() {
    let options = |options: &[&str]| AskRequest {
        options: words(options),
        ..keyed(&agent("bot"), "k")
    };
    let mut host = Host::new();
    host.ask(options(&["approve", "no", "later"]));
    let conflict = Rejection::IdempotencyConflict("k".to_owned());
    for other in [&["approve", "no\nlater"][..], &["approve\nno", "later"]] {
        assert_eq!(host.refuses(ask_input(options(other))), conflict);
    }
}

#[test]
fn an_approving_option_must_be_offered() {
    let mut host = Host::new();
    let asked = AskRequest {
        options: words(&["yes", "no"]),
        approving: Some(words(&["sure"])),
        ..request(&agent("bot"))
    };
    assert_eq!(
        host.refuses(ask_input(asked)),
        Rejection::ApprovingNotOffered("sure".to_owned())
    );
}

#[test]
fn an_ask_that_offers_no_approve_has_no_approving_option() {
    let mut host = Host::new();
    let id = host.ask(AskRequest {
        options: words(&["red", "blue"]),
        ..request(&agent("bot"))
    });
    let ask = &host.state.find_approval(&id).unwrap().ask;
    assert_eq!(ask.approving, Vec::<String>::new());
}

#[test]
fn one_agent_cannot_fill_the_inbox_of_the_others() {
    let mut host = Host::new();
    for _ in 0..limits::AGENT_OPEN_ASKS_MAX {
        host.ask(request(&agent("bot")));
    }
    let refusal = Rejection::TooMany {
        what: "open asks of this agent",
        limit: limits::AGENT_OPEN_ASKS_MAX,
    };
    assert_eq!(host.refuses(ask_input(request(&agent("bot")))), refusal);
    host.ask(request(&agent("cat")));
    host.does(resolve(&person("ann"), &ApprovalId::new("ask-1"), "deny"));
    host.ask(request(&agent("bot")));
}

#[test]
fn one_agent_cannot_blind_the_inbox_with_a_few_huge_asks() {
    let mut host = Host::new();
    let huge = |by: &Caller| AskRequest {
        details: json(&format!("\"{}\"", "x".repeat(limits::JSON_BYTES_MAX - 100))),
        ..request(by)
    };
    host.ask(huge(&agent("bot")));
    host.ask(huge(&agent("bot")));
    let refusal = Rejection::TooMany {
        what: "bytes in open asks of this agent",
        limit: limits::AGENT_OPEN_BYTES_MAX,
    };
    assert_eq!(host.refuses(ask_input(huge(&agent("bot")))), refusal);
    host.ask(huge(&agent("cat")));
    host.does(resolve(&person("ann"), &ApprovalId::new("ask-1"), "deny"));
    host.ask(huge(&agent("bot")));
}

#[test]
fn everything_in_an_ask_has_a_bound() {
    let mut host = Host::new();
    let long = "x".repeat(limits::TEXT_BYTES_MAX + 1);
    let huge = json(&format!("\"{}\"", "x".repeat(limits::JSON_BYTES_MAX)));
    let bot = agent("bot");
    let too_large = [
        AskRequest {
            action: long.clone(),
            ..request(&bot)
        },
        AskRequest {
            tool: Some(long.clone()),
            ..request(&bot)
        },
        AskRequest {
            turn: Some(long.clone()),
            ..request(&bot)
        },
        AskRequest {
            tool_call: Some(long.clone()),
            ..request(&bot)
        },
        AskRequest {
            idempotency_key: Some(long.clone()),
            ..request(&bot)
        },
        AskRequest {
            agent: Some(AgentId::new(long.clone())),
            ..request(&bot)
        },
        AskRequest {
            options: vec![long],
            ..request(&bot)
        },
        AskRequest {
            options: vec!["x".to_owned(); limits::OPTIONS_MAX + 1],
            ..request(&bot)
        },
        AskRequest {
            input: Some(huge.clone()),
            ..request(&bot)
        },
        AskRequest {
            a2ui: Some(huge.clone()),
            ..request(&bot)
        },
        AskRequest {
            details: huge,
            ..request(&bot)
        },
    ];
    for asked in too_large {
        let refusal = host.refuses(ask_input(asked));
        assert!(matches!(refusal, Rejection::TooLarge { .. }), "{refusal}");
    }
}

#[test]
fn a_key_that_only_history_has_as_open_opens_nothing_twice() {
    let mut before = Host::new();
    let id = before.ask(keyed(&agent("bot"), "k"));
    let stale = before.state.find_approval(&id).unwrap().clone();
    let again = AskRequest {
        keyed: Some(stale),
        ..keyed(&agent("bot"), "k")
    };
    assert_eq!(
        Host::new().refuses(ask_input(again)),
        Rejection::UnknownApproval(id)
    );
}

#[test]
fn a_word_for_no_or_for_no_answer_never_allows() {
    let mut host = Host::new();
    for word in ["deny", "cancelled", "expired", "agent_gone"] {
        let asked = AskRequest {
            options: words(&["approve", word]),
            approving: Some(words(&["approve", word])),
            ..request(&agent("bot"))
        };
        assert_eq!(
            host.refuses(ask_input(asked)),
            Rejection::ApprovingNotOffered(word.to_owned())
        );
    }
}

#[test]
fn approving_options_are_kept_once_and_bounded() {
    let mut host = Host::new();
    let approving = |words: Vec<String>| AskRequest {
        options: vec!["yes".to_owned()],
        approving: Some(words),
        ..request(&agent("bot"))
    };
    let id = host.ask(approving(words(&["yes", "yes", "approve"])));
    let ask = &host.state.find_approval(&id).unwrap().ask;
    assert_eq!(ask.approving, words(&["yes"]));
    let many = approving(vec!["yes".to_owned(); limits::OPTIONS_MAX + 1]);
    assert!(matches!(
        host.refuses(ask_input(many)),
        Rejection::TooLarge { .. }
    ));
}

#[test]
fn an_ask_that_replaces_another_needs_no_room() {
    let mut host = Host::new();
    let bot = agent("bot");
    host.ask(tool_call(&bot, "t1", "call"));
    for _ in 1..limits::AGENT_OPEN_ASKS_MAX {
        host.ask(request(&bot));
    }
    assert_eq!(
        host.asks(tool_call(&bot, "t1", "call")).1,
        [
            "approval.resolved ask-1: Cancelled `cancelled` by bot, Withdrawn",
            "approval.requested ask-1001 of bot by bot, None, until ever",
        ]
    );
    assert!(matches!(
        host.refuses(ask_input(tool_call(&bot, "t1", "other"))),
        Rejection::TooMany { .. }
    ));
}

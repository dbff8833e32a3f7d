//! Answers: who may give one, what it means, and that the first is final.

use super::*;
use crate::event::{AnswerDelivery, ApprovalEnding, ApprovalOutcome, ApprovalResolved};

#[test]
fn an_answer_is_kept_with_who_gave_it() {
    let mut host = Host::new();
    let bot = host.connect(agent("bot"), "c1");
    let id = host.ask(AskRequest {
        input: Some(json("1")),
        ..request(&bot)
    });
    host.now = Timestamp(9);
    let given = ApprovalAnswer {
        resolution: "approve".to_owned(),
        message: Some("go on".to_owned()),
        edited_input: Some(json("2")),
        stop: false,
        remember: Vec::new(),
        answers: None,
        considered_ms: Some(1_500),
    };
    let decision = host.decide(answer(&person("ann"), &id, given)).unwrap();
    let resolved = ApprovalResolved {
        approval: id.clone(),
        opened: crate::Seq(1),
        agent: Some(AgentId::new("bot")),
        ending: Arc::new(ApprovalEnding {
            outcome: ApprovalOutcome::Allowed,
            resolution: "approve".to_owned(),
            by: by(&person("ann")),
            message: Some("go on".to_owned()),
            edited_input: Some(json("2")),
            stop: false,
            verdict: None,
            considered_ms: Some(1_500),
            door: None,
        }),
        delivery: AnswerDelivery::Waiting,
        grants_used: Vec::new(),
    };
    let expected = Decision {
        events: vec![resolved.into()],
        subject: DecisionSubject::Approval(id.clone()),
    };
    assert_eq!(decision, expected);
    let ended = host.state.find_approval(&id).unwrap().ended.clone();
    assert_eq!(
        ended.map(|end| (end.seq, end.at)),
        Some((crate::Seq(2), Timestamp(9)))
    );
}

#[test]
fn an_answer_to_an_unknown_id_leaves_no_trace() {
    let mut host = Host::new();
    let id = ApprovalId::new("ask-1");
    for who in [person("ann"), agent("bot"), observer(), Caller::host()] {
        assert_eq!(
            host.refuses(resolve(&who, &id, "approve")),
            Rejection::UnknownApproval(id.clone())
        );
    }
    assert_eq!(host.ask(request(&agent("bot"))), id);
    assert_eq!(host.shows(&id), "pending on nobody");
}

#[test]
fn only_an_approving_option_allows() {
    let cases = [
        (None, "approve", "Allowed approve on nobody"),
        (None, "deny", "Denied deny on nobody"),
        (None, "later", "Answered later on nobody"),
        (
            Some(&["later", "approve"][..]),
            "later",
            "Allowed later on nobody",
        ),
        (
            Some(&["later"][..]),
            "approve",
            "Answered approve on nobody",
        ),
        (Some(&[][..]), "approve", "Answered approve on nobody"),
    ];
    for (approving, resolution, shown) in cases {
        let mut host = Host::new();
        let id = host.ask(AskRequest {
            options: words(&["approve", "deny", "later"]),
            approving: approving.map(words),
            ..request(&agent("bot"))
        });
        host.does(resolve(&person("ann"), &id, resolution));
        assert_eq!(host.shows(&id), shown);
    }
}

#[test]
fn what_was_not_offered_is_refused_and_the_ask_stays_open() {
    let mut host = Host::new();
    let id = host.ask(request(&agent("bot")));
    for resolution in ["yes", "Approve", "approve ", ""] {
        let refusal = Rejection::NotAnOption {
            approval: id.clone(),
            resolution: resolution.to_owned(),
            options: words(&["approve", "deny"]),
        };
        assert_eq!(
            host.refuses(resolve(&person("ann"), &id, resolution)),
            refusal
        );
    }
    assert_eq!(host.shows(&id), "pending on nobody");
    host.does(resolve(&person("ann"), &id, "approve"));
}

#[test]
fn the_same_answer_again_is_a_success() {
    let mut host = Host::new();
    let id = host.ask(request(&agent("bot")));
    host.does(resolve(&person("ann"), &id, "approve"));
    let again = host.decide(resolve(&person("bob"), &id, "approve"));
    let expected = Decision {
        events: vec![],
        subject: DecisionSubject::Approval(id.clone()),
    };
    assert_eq!(again, Ok(expected));
}

#[test]
fn a_different_answer_is_refused_with_who_and_when() {
    let mut host = Host::new();
    let id = host.ask(request(&agent("bot")));
    host.does(resolve(&person("ann"), &id, "deny"));
    let ended = host.state.find_approval(&id).unwrap().clone();
    for resolution in ["approve", "nonsense"] {
        let refusal = host.refuses(resolve(&person("bob"), &id, resolution));
        assert_eq!(refusal, Rejection::AlreadyResolved(Box::new(ended.clone())));
        assert_eq!(
            refusal.to_string(),
            "approval 'ask-1' was already resolved as 'deny' by ann"
        );
    }
    assert_eq!(host.state.find_approval(&id), Some(&ended));
}

#[test]
fn an_answer_cannot_repeat_how_an_ask_ended_without_one() {
    let mut host = Host::new();
    let id = host.ask(request(&agent("bot")));
    host.does(cancel(&agent("bot"), &id));
    for resolution in ["cancelled", "approve"] {
        assert!(matches!(
            host.refuses(resolve(&person("ann"), &id, resolution)),
            Rejection::AlreadyResolved(_)
        ));
    }
}

#[test]
fn an_edited_input_needs_an_allow_and_something_to_edit() {
    let edited = |resolution: &str| ApprovalAnswer {
        resolution: resolution.to_owned(),
        edited_input: Some(json("2")),
        ..ApprovalAnswer::default()
    };
    let mut host = Host::new();
    let bare = host.ask(request(&agent("bot")));
    let full = host.ask(AskRequest {
        input: Some(json("1")),
        ..request(&agent("bot"))
    });
    let ann = person("ann");
    for (id, resolution) in [(&bare, "approve"), (&full, "deny")] {
        assert_eq!(
            host.refuses(answer(&ann, id, edited(resolution))),
            Rejection::NothingToEdit
        );
    }
    let huge = ApprovalAnswer {
        edited_input: Some(json(&format!("\"{}\"", "x".repeat(limits::JSON_BYTES_MAX)))),
        ..edited("approve")
    };
    assert!(matches!(
        host.refuses(answer(&ann, &full, huge)),
        Rejection::TooLarge { .. }
    ));
    host.does(answer(&ann, &full, edited("approve")));
    assert_eq!(
        host.does(answer(&ann, &full, edited("approve"))),
        [""; 0],
        "the same edit again is the same answer"
    );
    let other = ApprovalAnswer {
        edited_input: Some(json("3")),
        ..edited("approve")
    };
    assert!(matches!(
        host.refuses(answer(&ann, &full, other)),
        Rejection::AlreadyResolved(_)
    ));
}

#[test]
fn an_agent_never_answers_and_its_try_is_on_the_record() {
    let mut host = Host::new();
    let bot = host.connect(agent("bot"), "c1");
    let own = host.ask(request(&bot));
    let system = host.ask(request(&person("ann")));
    for id in [&own, &system] {
        let (refusal, lines) = host.refuses_on_record(resolve(&bot, id, "approve"));
        assert_eq!(refusal, Rejection::AgentsCannotAnswer(AgentId::new("bot")));
        assert_eq!(
            lines,
            [format!(
                "approval.resolve_refused {id}: `approve` by bot, own_system_row"
            )]
        );
    }
    assert_eq!(host.shows(&own), "pending on c1");
    assert_eq!(host.shows(&system), "pending on nobody");
}

#[test]
fn an_agent_on_the_connection_that_owns_a_row_still_never_answers() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    let id = host.ask(request(&ann));
    let bot = Caller {
        client: ann.client.clone(),
        door: None,
        ..agent("bot")
    };
    let (refusal, _) = host.refuses_on_record(resolve(&bot, &id, "approve"));
    assert_eq!(refusal, Rejection::AgentsCannotAnswer(AgentId::new("bot")));
}

#[test]
fn observers_change_nothing() {
    let mut host = Host::new();
    let olga = observer();
    let id = host.ask(request(&agent("bot")));
    let question = host.question(&agent("bot"), None);
    let ended = host.ask(request(&agent("bot")));
    host.does(resolve(&person("ann"), &ended, "deny"));
    let ended = host.state.find_approval(&ended).unwrap().clone();
    let inputs = [
        resolve(&olga, &id, "approve"),
        cancel(&olga, &id),
        Input::DismissApproval {
            caller: olga.clone(),
            approval: Box::new(ended),
        },
        Input::AnswerQuestion {
            caller: olga.clone(),
            question,
            answer: "this one".to_owned(),
            considered_ms: None,
        },
        Input::StopAll(olga.clone()),
        register(&olga, "bot"),
        unregister(&olga, "bot"),
        set_status(&olga, "bot", BaseState::Running),
    ];
    for input in inputs {
        assert_eq!(host.refuses(input), Rejection::ObserverCannotChange);
    }
}

#[test]
fn only_the_asker_takes_an_ask_back() {
    let mut host = Host::new();
    let id = host.ask(request(&agent("bot")));
    for other in [person("ann"), agent("cat"), Caller::host()] {
        assert_eq!(
            host.refuses(cancel(&other, &id)),
            Rejection::NotYourApproval(id.clone())
        );
    }
    assert_eq!(
        host.does(cancel(&agent("bot"), &id)),
        ["approval.resolved ask-1: Cancelled `cancelled` by bot, Withdrawn"]
    );
    assert_eq!(host.does(cancel(&agent("bot"), &id)), [""; 0]);
}

#[test]
fn what_was_answered_cannot_be_taken_back() {
    let mut host = Host::new();
    let id = host.ask(request(&person("ann")));
    host.does(resolve(&person("bob"), &id, "approve"));
    assert!(matches!(
        host.refuses(cancel(&person("ann"), &id)),
        Rejection::AlreadyResolved(_)
    ));
    let unknown = ApprovalId::new("other");
    assert_eq!(
        host.refuses(cancel(&person("ann"), &unknown)),
        Rejection::UnknownApproval(unknown)
    );
}

#[test]
fn telling_an_answer_counts_and_settles() {
    let mut host = Host::new();
    let id = host.ask(request(&agent("bot")));
    host.does(resolve(&person("ann"), &id, "approve"));
    let ended = host.state.find_approval(&id).unwrap().clone();
    let tell = Input::DeliverAnswer(Box::new(ended.clone()));
    assert_eq!(host.does(tell.clone()), ["answer.attempted ask-1, time 1"]);
    let settle = Input::SettleAnswer {
        approval: id.clone(),
        opened: ended.opened,
        delivery: AnswerDelivery::Delivered,
    };
    assert_eq!(
        host.does(settle.clone()),
        ["answer.settled ask-1: Delivered"]
    );
    assert_eq!(host.does(settle), Vec::<String>::new());
    assert_eq!(
        host.does(tell),
        ["answer.attempted ask-1, time 2"],
        "memory knows of the first telling, though its bearer does not"
    );
}

#[test]
fn what_ended_can_be_dismissed_and_what_is_open_cannot() {
    let mut host = Host::new();
    let id = host.ask(request(&agent("bot")));
    let dismiss = |host: &Host, caller: Caller| Input::DismissApproval {
        caller,
        approval: Box::new(host.state.find_approval(&id).unwrap().clone()),
    };
    let early = dismiss(&host, person("ann"));
    assert_eq!(host.refuses(early), Rejection::ApprovalPending(id.clone()));
    host.does(resolve(&person("ann"), &id, "deny"));
    let others = dismiss(&host, agent("cat"));
    assert_eq!(host.refuses(others), Rejection::NotYourApproval(id.clone()));
    let own = dismiss(&host, agent("bot"));
    let mut dismissed = host.state.find_approval(&id).unwrap().clone();
    assert_eq!(host.does(own), ["approval.dismissed ask-1 by bot"]);
    assert_eq!(host.state.recent_approvals().count(), 0);
    assert_eq!(host.state.find_approval(&id), None, "it is history's now");
    dismissed.dismissed = true;
    let again = Input::DismissApproval {
        caller: person("ann"),
        approval: Box::new(dismissed),
    };
    assert_eq!(host.does(again), [""; 0]);
}

#[test]
fn stop_all_denies_everything_open_and_interrupts_every_agent() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    let bot = host.connect(agent("bot"), "c2");
    let cat = host.connect(agent("cat"), "c3");
    host.register(&bot, "bot");
    host.register(&cat, "cat");
    host.set(&cat, "cat", BaseState::Done);
    host.ask(request(&bot));
    host.ask(request(&ann));
    host.ask(AskRequest {
        options: words(&["red", "blue"]),
        ..request(&bot)
    });
    assert_eq!(
        host.does(Input::StopAll(person("bob"))),
        [
            "approval.resolved ask-1: Denied `deny` by bob, Waiting",
            "approval.resolved ask-2: Denied `deny` by bob, Waiting",
            "approval.resolved ask-3: Cancelled `cancelled` by bob, Waiting",
            "agent.interrupt_requested bot by bob",
            "agent.status_changed bot: Idle, seen as Idle, on c2",
        ]
    );
    assert_eq!(host.state.open_approvals().len(), 0);
    assert_eq!(
        host.refuses(Input::StopAll(bot)),
        Rejection::AgentNotAllowed(AgentId::new("bot"))
    );
}

#[test]
fn an_open_ask_has_no_answer_to_tell() {
    let mut host = Host::new();
    let id = host.ask(request(&agent("bot")));
    let open = host.state.find_approval(&id).unwrap().clone();
    let told = host.decide(Input::DeliverAnswer(Box::new(open.clone())));
    let expected = Decision {
        events: vec![],
        subject: DecisionSubject::KnownApproval(Box::new(open)),
    };
    assert_eq!(told, Ok(expected));
}

//! Tokens, marks, and what may be erased.

use super::*;
use crate::event::{ProcessKey, TokenCreated};
use crate::{CreateToken, Seq, TokenId};

fn token(caller: &Caller, id: &str, ttl_ms: Option<u64>) -> Input {
    Input::CreateToken(CreateToken {
        caller: caller.clone(),
        id: TokenId::new(id),
        hash: format!("hash of {id}"),
        role: Role::Observer,
        name: id.to_owned(),
        ttl_ms,
        device: None,
    })
}

#[test]
fn a_device_stays_logged_in_while_it_is_used_and_that_is_recorded_once_a_day() {
    const DAY: u64 = 24 * 3_600_000;
    let until = |id: &str, ms: u64| format!("token.renewed {id} until {}", ms * 1000);
    let mut host = Host::new();
    let login = |id: &str, days: u64| {
        Input::CreateToken(CreateToken {
            caller: person("ann"),
            id: TokenId::new(id),
            hash: format!("hash of {id}"),
            role: Role::Operator,
            name: "ann".to_owned(),
            ttl_ms: Some(days * DAY),
            device: Some("phone".to_owned()),
        })
    };
    host.now = Timestamp(0);
    host.does(login("phone", 30));
    host.does(login("brief", 1));
    host.does(token(&person("ann"), "script", Some(30 * DAY)));
    let mut use_at = |at: u64, id: &str| {
        host.now = Timestamp(at * 1000);
        host.does(Input::RenewToken(TokenId::new(id)))
    };
    let nothing: [&str; 0] = [];
    assert_eq!(use_at(DAY - 1, "phone"), nothing);
    assert_eq!(use_at(DAY / 4, "brief"), [until("brief", DAY + DAY / 4)]);
    assert_eq!(use_at(DAY, "phone"), [until("phone", 31 * DAY)]);
    assert_eq!(use_at(DAY + 1, "phone"), nothing);
    assert_eq!(use_at(3 * DAY, "brief"), nothing, "it ended unused");
    assert_eq!(use_at(3 * DAY, "script"), nothing, "not a device");
    assert_eq!(use_at(3 * DAY, "unknown"), nothing);
}

#[test]
fn only_operators_make_and_withdraw_tokens() {
    let mut host = Host::new();
    let bot = AgentId::new("bot");
    assert_eq!(
        host.refuses(token(&agent("bot"), "t", None)),
        Rejection::AgentNotAllowed(bot.clone())
    );
    assert_eq!(
        host.refuses(token(&observer(), "t", None)),
        Rejection::ObserverCannotChange
    );
    assert_eq!(
        host.does(token(&person("ann"), "t", None)),
        ["token.created t for Observer"]
    );
    let revoke = |caller: Caller| Input::RevokeToken {
        caller,
        token: TokenId::new("t"),
    };
    assert_eq!(
        host.refuses(revoke(agent("bot"))),
        Rejection::AgentNotAllowed(bot)
    );
    assert_eq!(
        host.refuses(revoke(observer())),
        Rejection::ObserverCannotChange
    );
    assert_eq!(host.does(revoke(person("ann"))), ["token.revoked t by ann"]);
    assert_eq!(host.state.find_token_by_hash("hash of t", host.now), None);
    assert_eq!(
        host.refuses(revoke(person("ann"))),
        Rejection::UnknownToken(TokenId::new("t"))
    );
}

#[test]
fn a_token_ends_after_now_and_within_90_days() {
    let mut host = Host::new();
    let ann = person("ann");
    let longest = 90 * 24 * 3_600_000;
    for wrong in [0, longest + 1, u64::MAX] {
        let refusal = host.refuses(token(&ann, "t", Some(wrong)));
        assert_eq!(refusal, Rejection::TokenLifetime { limit_ms: longest });
    }
    for (id, right) in [("one", 1), ("two", longest)] {
        host.does(token(&ann, id, Some(right)));
    }
}

#[test]
fn a_token_ends_with_its_time_and_leaves_with_the_next() {
    let mut host = Host::new();
    let ann = person("ann");
    host.does(token(&ann, "short", Some(1_000)));
    host.does(token(&ann, "brief", Some(1_000)));
    host.does(token(&ann, "long", None));
    let found = |host: &Host, id: &str| {
        let hash = format!("hash of {id}");
        host.state.find_token_by_hash(&hash, host.now).is_some()
    };
    assert!(found(&host, "short"));
    host.after_ms(1_000);
    assert!(!found(&host, "short"));
    assert!(found(&host, "long"));
    assert_eq!(
        host.does(token(&ann, "next", None)),
        [
            "token.revoked brief by host",
            "token.revoked short by host",
            "token.created next for Observer",
        ]
    );
}

#[test]
fn tokens_have_a_bound_that_expired_ones_do_not_count_in() {
    let mut host = Host::new();
    let ann = person("ann");
    for n in 0..limits::TOKENS_MAX {
        let created = TokenCreated {
            token: TokenId::new(n.to_string()),
            role: Role::Observer,
            name: String::new(),
            expires_at: Some(Timestamp(1_000_000)),
            hash: n.to_string(),
            device: None,
            by: by(&ann),
        };
        let seq = host.state.head().next();
        host.state.apply(seq, host.now, &created.into());
    }
    assert!(matches!(
        host.refuses(token(&ann, "one more", None)),
        Rejection::TooMany { .. }
    ));
    host.after_ms(1_000);
    host.does(token(&ann, "one more", None));
    assert_eq!(host.state.tokens().count(), 1);
}

#[test]
fn the_first_mark_of_a_process_stays() {
    let mut host = Host::new();
    let process = ProcessKey {
        pid: 7,
        start_time: 1,
    };
    let reused = ProcessKey {
        start_time: 2,
        ..process
    };
    let mark = |agent: &str, process| Input::MarkProcess {
        agent: AgentId::new(agent),
        process,
    };
    assert_eq!(host.does(mark("bot", process)), ["process.marked 7 is bot"]);
    assert_eq!(host.does(mark("cat", process)), [""; 0]);
    assert_eq!(host.does(mark("cat", reused)), ["process.marked 7 is cat"]);
    assert_eq!(host.state.find_mark(&process), Some(&AgentId::new("bot")));
    host.restart();
    assert_eq!(host.state.find_mark(&process), Some(&AgentId::new("bot")));
    assert_eq!(
        host.does(Input::ForgetProcesses(vec![process])),
        ["process.forgotten, 1 of them"]
    );
    assert_eq!(host.does(Input::ForgetProcesses(vec![process])), [""; 0]);
    assert_eq!(host.state.find_mark(&process), None);
    assert_eq!(host.state.find_mark(&reused), Some(&AgentId::new("cat")));
}

fn redact(caller: &Caller, seq: u64) -> Input {
    Input::Redact {
        caller: caller.clone(),
        seq: Seq(seq),
        reason: "a password".to_owned(),
    }
}

fn prune(caller: &Caller, before: u64) -> Input {
    Input::Prune {
        caller: caller.clone(),
        before: Seq(before),
    }
}

#[test]
fn only_operators_erase() {
    let mut host = Host::new();
    host.ask(request(&agent("bot")));
    for input in [redact(&agent("bot"), 1), prune(&agent("bot"), 1)] {
        assert_eq!(
            host.refuses(input),
            Rejection::AgentNotAllowed(AgentId::new("bot"))
        );
    }
    for input in [redact(&observer(), 1), prune(&observer(), 1)] {
        assert_eq!(host.refuses(input), Rejection::ObserverCannotChange);
    }
}

#[test]
fn what_is_open_is_never_erased() {
    let mut host = Host::new();
    let ann = person("ann");
    let ended = host.ask(request(&agent("bot")));
    let open = host.ask(request(&agent("bot")));
    host.does(resolve(&ann, &ended, "approve"));
    assert_eq!(
        host.refuses(redact(&ann, 2)),
        Rejection::StillNeeded(Seq(2))
    );
    assert_eq!(
        host.does(prune(&ann, 4)),
        ["record.pruned before 2 by ann"],
        "only what lies before the oldest that is open"
    );
    assert_eq!(host.shows(&open), "pending on nobody");
    assert_eq!(host.state.find_approval(&ended), None);
}

#[test]
fn an_open_question_is_never_erased() {
    let mut host = Host::new();
    let ann = person("ann");
    host.question(&agent("bot"), None);
    assert_eq!(
        host.refuses(redact(&ann, 1)),
        Rejection::StillNeeded(Seq(1))
    );
    assert_eq!(host.does(prune(&ann, 2)), ["record.pruned before 1 by ann"]);
}

#[test]
fn memory_forgets_what_was_erased() {
    let ann = person("ann");
    for seq in [1, 2] {
        let mut host = Host::new();
        let id = host.ask(request(&agent("bot")));
        host.does(resolve(&ann, &id, "approve"));
        assert_eq!(
            host.does(redact(&ann, seq)),
            [format!("record.redacted {seq} by ann")]
        );
        assert_eq!(host.state.find_approval(&id), None);
    }
}

#[test]
fn only_what_was_recorded_can_be_erased() {
    let mut host = Host::new();
    let ann = person("ann");
    host.ask(request(&agent("bot")));
    for seq in [0, 2] {
        assert_eq!(
            host.refuses(redact(&ann, seq)),
            Rejection::UnknownEvent(Seq(seq))
        );
    }
    assert_eq!(
        host.refuses(prune(&ann, 3)),
        Rejection::UnknownEvent(Seq(3))
    );
}

#[test]
fn one_commit_says_how_things_are_in_the_end() {
    let mut host = Host::new();
    let process = ProcessKey {
        pid: 7,
        start_time: 1,
    };
    let mark = || Input::MarkProcess {
        agent: AgentId::new("bot"),
        process,
    };
    host.does(mark());
    host.state.take_changes();
    host.does(Input::ForgetProcesses(vec![process]));
    host.does(mark());
    host.does(prune(&person("ann"), 3));
    host.does(prune(&person("ann"), 2));
    let changes = host.state.take_changes();
    let expected = crate::CommitChanges {
        marks_added: vec![crate::ProcessMark {
            process,
            agent: AgentId::new("bot"),
        }],
        pruned_before: Some(Seq(3)),
        ..crate::CommitChanges::default()
    };
    assert_eq!(changes, expected);
}

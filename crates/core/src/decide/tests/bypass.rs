//! Bypass: on for one agent and a while, above neither a deny nor the floor.

use super::rules::{judged, part, with_verdict};
use super::*;
use crate::event::Effect;

const HOUR_MS: u64 = 3_600_000;

fn set(caller: &Caller, for_ms: Option<u64>) -> Input {
    Input::SetBypass {
        caller: caller.clone(),
        agent: AgentId::new("bot"),
        for_ms,
    }
}

fn with_agent() -> Host {
    let mut host = Host::new();
    host.register(&agent("bot"), "bot");
    host
}

#[test]
fn only_a_person_switches_it_and_never_for_long() {
    let mut host = with_agent();
    for (who, why) in [
        (
            agent("bot"),
            Rejection::AgentNotAllowed(AgentId::new("bot")),
        ),
        (observer(), Rejection::ObserverCannotChange),
    ] {
        assert_eq!(host.refuses(set(&who, Some(HOUR_MS))), why);
    }
    let ann = person("ann");
    for too_long in [0, limits::BYPASS_MS_MAX + 1] {
        assert_eq!(
            host.refuses(set(&ann, Some(too_long))),
            Rejection::BypassTooLong {
                limit_ms: limits::BYPASS_MS_MAX
            }
        );
    }
    assert_eq!(
        host.does(set(&ann, Some(HOUR_MS))),
        ["agent.bypass_changed bot until 3600 by ann"]
    );
    assert_eq!(host.does(set(&ann, Some(HOUR_MS))), Vec::<String>::new());
    host.set(&agent("bot"), "bot", BaseState::Done);
    assert_eq!(
        host.refuses(set(&ann, Some(HOUR_MS))),
        Rejection::AgentEnded(AgentId::new("bot"))
    );
}

#[test]
fn it_turns_ask_into_allow_and_says_so() {
    let mut host = with_agent();
    host.does(set(&person("ann"), Some(HOUR_MS)));
    let asks = || vec![part(Effect::Ask, None)];
    let (id, events) = host.asks(with_verdict(&agent("bot"), asks()));
    assert_eq!(
        events[1..],
        [
            "approval.resolved ask-1: Allowed `approve` by bypass, Waiting",
            "answer.attempted ask-1, time 1",
        ]
    );
    let ended = host.state.find_approval(&id).unwrap().ended.clone();
    assert_eq!(
        ended.unwrap().ending.message.as_deref(),
        Some("bypass until 1970-01-01 01:00 UTC")
    );
    let (bare, _) = host.asks(request(&agent("bot")));
    assert_eq!(host.shows(&bare), "Allowed approve on nobody");
    let (other, _) = host.asks(with_verdict(&agent("other"), asks()));
    assert_eq!(host.shows(&other), "pending on nobody");
}

#[test]
fn it_lifts_no_deny_no_floor_and_nothing_that_nobody_judged() {
    let mut host = with_agent();
    host.does(set(&person("ann"), Some(HOUR_MS)));
    let bot = agent("bot");
    let mut floor = part(Effect::Ask, None);
    floor.floor = true;
    let unjudged = AskRequest {
        judged: None,
        ..with_verdict(&bot, vec![part(Effect::Ask, None)])
    };
    let unanswerable = AskRequest {
        approving: Some(Vec::new()),
        ..request(&bot)
    };
    let cases = [
        (
            with_verdict(&bot, vec![part(Effect::Deny, None)]),
            "Denied deny on nobody",
        ),
        (with_verdict(&bot, vec![floor]), "pending on nobody"),
        (unjudged, "pending on nobody"),
        (unanswerable, "pending on nobody"),
    ];
    for (asked, shown) in cases {
        let id = host.ask(asked);
        assert_eq!(host.shows(&id), shown);
    }
}

#[test]
fn switching_it_on_lets_through_what_no_rule_can_speak_of() {
    let mut host = with_agent();
    let bot = agent("bot");
    let open = host.ask(request(&bot));
    let judged_before = host.ask(with_verdict(&bot, vec![part(Effect::Ask, None)]));
    let late = host.ask(AskRequest {
        timeout_ms: Some(1),
        ..request(&bot)
    });
    let other = host.ask(request(&agent("other")));
    host.now = Timestamp(1_000);
    assert_eq!(
        host.does(set(&person("ann"), Some(HOUR_MS)))[..2],
        [
            "agent.bypass_changed bot until 3600 by ann",
            "approval.resolved ask-1: Allowed `approve` by bypass, Waiting",
        ]
    );
    assert_eq!(host.shows(&open), "Allowed approve on nobody");
    for id in [&judged_before, &late, &other] {
        assert_eq!(host.shows(id), "pending on nobody");
    }
}

#[test]
fn what_the_rules_said_before_a_bypass_is_no_longer_believed() {
    let mut host = with_agent();
    let asks = || vec![part(Effect::Ask, None)];
    let now_denied = host.ask(with_verdict(&agent("bot"), asks()));
    let still_asks = host.ask(with_verdict(&agent("bot"), asks()));
    host.does(set(&person("ann"), Some(HOUR_MS)));
    for (id, said) in [
        (&now_denied, vec![part(Effect::Deny, None)]),
        (&still_asks, asks()),
    ] {
        host.does(Input::SettleByRules {
            approval: id.clone(),
            judged: judged(said),
        });
    }
    assert_eq!(host.shows(&now_denied), "Denied deny on nobody");
    assert_eq!(host.shows(&still_asks), "Allowed approve on nobody");
}

#[test]
fn it_ends_with_time_with_a_word_and_with_the_agent() {
    let ask = |host: &mut Host| {
        let id = host.ask(with_verdict(&agent("bot"), vec![part(Effect::Ask, None)]));
        host.shows(&id)
    };
    let mut host = with_agent();
    host.does(set(&person("ann"), Some(HOUR_MS)));
    host.now = Timestamp(HOUR_MS * 1_000);
    assert_eq!(ask(&mut host), "pending on nobody", "before it is swept");
    assert_eq!(
        host.does(Input::TimeArrived),
        ["agent.bypass_changed bot until never by host"]
    );
    let ends: [(Input, &str); 3] = [
        (set(&person("ann"), None), "ann"),
        (set_status(&agent("bot"), "bot", BaseState::Stopped), "host"),
        (Input::StopAll(person("ann")), "ann"),
    ];
    for (end, by) in ends {
        let mut host = with_agent();
        host.does(set(&person("ann"), Some(HOUR_MS)));
        let events = host.does(end);
        let ended = format!("agent.bypass_changed bot until never by {by}");
        assert!(events.contains(&ended), "{events:?}");
        assert_eq!(ask(&mut host), "pending on nobody");
    }
    let mut host = with_agent();
    host.does(set(&person("ann"), Some(HOUR_MS)));
    host.does(unregister(&agent("bot"), "bot"));
    host.register(&agent("bot"), "bot");
    assert_eq!(ask(&mut host), "pending on nobody");
}

#[test]
fn it_outlives_a_restart_and_its_agents_return() {
    let mut host = with_agent();
    host.does(set(&person("ann"), Some(HOUR_MS)));
    host.restart();
    host.register(&agent("bot"), "bot");
    let id = host.ask(with_verdict(&agent("bot"), vec![part(Effect::Ask, None)]));
    assert_eq!(host.shows(&id), "Allowed approve on nobody");
}

#[test]
fn the_rules_asked_again_under_a_bypass_let_it_pass() {
    let mut host = with_agent();
    host.does(set(&person("ann"), Some(HOUR_MS)));
    let id = host.ask(AskRequest {
        judged: None,
        ..with_verdict(&agent("bot"), vec![part(Effect::Ask, None)])
    });
    let settle = Input::SettleByRules {
        approval: id.clone(),
        judged: judged(vec![part(Effect::Ask, None)]),
    };
    host.does(settle);
    assert_eq!(host.shows(&id), "Allowed approve on nobody");
}

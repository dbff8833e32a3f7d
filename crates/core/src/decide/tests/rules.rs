//! Rules: what a verdict ends at once, and what it must not.

use super::*;
use crate::event::{ApprovalOutcome, Effect, PartKind, RuleRef, Verdict, VerdictPart};
use crate::{AskJudgment, GrantDraft};

pub(super) fn part(effect: Effect, rule: Option<RuleRef>) -> VerdictPart {
    VerdictPart {
        kind: PartKind::Command,
        subject: "git status".to_owned(),
        effect,
        rule,
        reason: None,
        floor: false,
    }
}

pub(super) fn in_file(effect: Effect, rule: &str) -> VerdictPart {
    let rule = RuleRef {
        rule: rule.to_owned(),
        effect,
        source: "rules.toml".to_owned(),
        line: Some(3),
        grant: None,
    };
    part(effect, Some(rule))
}

pub(super) fn judged(parts: Vec<VerdictPart>) -> AskJudgment {
    let effect = parts.iter().map(|part| part.effect).max().unwrap();
    AskJudgment {
        verdict: Arc::new(Verdict { effect, parts }),
        cwd: Some("/srv/app/src".to_owned()),
        project: Some("/srv/app".to_owned()),
    }
}

/// An ask with a tool and what the rules say of it.
pub(super) fn with_verdict(caller: &Caller, parts: Vec<VerdictPart>) -> AskRequest {
    AskRequest {
        tool: Some("Bash".to_owned()),
        judged: Some(judged(parts)),
        ..request(caller)
    }
}

#[test]
fn an_allow_ends_the_ask_in_the_decision_that_opens_it() {
    let mut host = Host::new();
    let asked = with_verdict(&agent("bot"), vec![in_file(Effect::Allow, "Bash(git:*)")]);
    let verdict = asked.judged.clone().unwrap().verdict;
    let (id, events) = host.asks(asked);
    assert_eq!(
        events,
        [
            "approval.requested ask-1 of bot by bot, None, until ever",
            "approval.resolved ask-1: Allowed `approve` by rules, Waiting",
            "answer.attempted ask-1, time 1",
        ]
    );
    let approval = host.state.find_approval(&id).unwrap();
    let ending = &approval.ended.as_ref().unwrap().ending;
    assert_eq!(
        (&ending.verdict, ending.message.as_deref()),
        (
            &Some(verdict.clone()),
            Some("allowed by rule `Bash(git:*)` in rules.toml:3")
        )
    );
    let ask = &approval.ask;
    assert_eq!(
        (&ask.verdict, ask.cwd.as_deref()),
        (&Some(verdict), Some("/srv/app/src"))
    );
    assert_eq!(host.state.open_approvals().len(), 0);
}

#[test]
fn a_deny_ends_it_with_the_rule_that_denied() {
    let mut host = Host::new();
    let parts = vec![
        in_file(Effect::Allow, "Bash(git:*)"),
        in_file(Effect::Deny, "Bash(git push:*)"),
        in_file(Effect::Deny, "Bash(rm:*)"),
    ];
    let id = host.ask(AskRequest {
        options: words(&["approve", "later"]),
        ..with_verdict(&agent("bot"), parts)
    });
    assert_eq!(host.shows(&id), "Denied deny on nobody");
    let ended = host.state.find_approval(&id).unwrap().ended.clone();
    assert_eq!(
        ended.unwrap().ending.message.as_deref(),
        Some("denied by rule `Bash(git push:*)` in rules.toml:3 and 1 more")
    );
}

#[test]
fn a_deny_without_a_rule_gives_its_reason() {
    let mut host = Host::new();
    let mut denied = part(Effect::Deny, None);
    denied.reason = Some("the host's own files".to_owned());
    denied.floor = true;
    let id = host.ask(with_verdict(&agent("bot"), vec![denied]));
    let ended = host.state.find_approval(&id).unwrap().ended.clone();
    assert_eq!(
        ended.unwrap().ending.message.as_deref(),
        Some("denied: the host's own files")
    );
}

#[test]
fn what_asks_or_offers_no_allow_or_is_out_of_time_stays_open() {
    let mut host = Host::new();
    let allow = || vec![in_file(Effect::Allow, "Bash(git:*)")];
    let asks = vec![part(Effect::Ask, None), allow().remove(0)];
    let bot = agent("bot");
    let cases = [
        with_verdict(&bot, asks),
        AskRequest {
            approving: Some(Vec::new()),
            ..with_verdict(&bot, allow())
        },
        AskRequest {
            timeout_ms: Some(0),
            ..with_verdict(&bot, allow())
        },
    ];
    for case in cases {
        let id = host.ask(case);
        assert_eq!(host.shows(&id), "pending on nobody");
    }
}

#[test]
fn an_owned_row_is_settled_too_and_ties_nothing_to_its_connection() {
    let mut host = Host::new();
    let ann = host.connect(person("ann"), "c1");
    let allow = || vec![in_file(Effect::Allow, "Bash(git:*)")];
    let (id, _) = host.asks(with_verdict(&ann, allow()));
    assert_eq!(host.shows(&id), "Allowed approve on c1");
    assert_eq!(host.lose(&ann), Vec::<String>::new(), "it holds nothing");
    let (_, late) = host.asks(with_verdict(&ann, allow()));
    assert_eq!(late.len(), 3, "nothing to lose: {late:?}");
}

#[test]
fn a_settled_ask_takes_no_room_and_a_key_still_finds_it() {
    let mut host = Host::new();
    let bot = agent("bot");
    for _ in 0..limits::AGENT_OPEN_ASKS_MAX {
        host.ask(request(&bot));
    }
    let full = ask_input(request(&bot));
    assert!(matches!(host.refuses(full), Rejection::TooMany { .. }));
    let keyed = || AskRequest {
        idempotency_key: Some("key".to_owned()),
        ..with_verdict(&bot, vec![in_file(Effect::Allow, "Bash(git:*)")])
    };
    let (id, _) = host.asks(keyed());
    let (again, events) = host.asks(AskRequest {
        judged: Some(judged(vec![in_file(Effect::Deny, "Bash")])),
        ..keyed()
    });
    assert_eq!(again, id, "what the rules say now is another matter");
    assert_eq!(events, [format!("answer.attempted {id}, time 2")]);
}

#[test]
fn a_settled_ask_replaces_an_open_one_for_the_same_call() {
    let mut host = Host::new();
    let bot = agent("bot");
    let call = |request: AskRequest| AskRequest {
        tool_call: Some("call".to_owned()),
        ..request
    };
    let first = host.ask(call(request(&bot)));
    let allow = vec![in_file(Effect::Allow, "Bash(git:*)")];
    let second = host.ask(call(with_verdict(&bot, allow)));
    assert_eq!(host.shows(&first), "Cancelled cancelled on nobody");
    assert_eq!(host.shows(&second), "Allowed approve on nobody");
    let opened = host.state.find_approval(&second).unwrap().opened;
    assert_eq!(opened, crate::Seq(3), "after the end of the first");
}

#[test]
fn the_rules_asked_again_end_what_they_settle_and_nothing_else() {
    let mut host = Host::new();
    let bot = agent("bot");
    let id = host.ask(with_verdict(&bot, vec![part(Effect::Ask, None)]));
    let again = |parts| Input::SettleByRules {
        approval: id.clone(),
        judged: judged(parts),
    };
    let none = Vec::<String>::new();
    assert_eq!(host.does(again(vec![part(Effect::Ask, None)])), none);
    assert_eq!(
        host.does(again(vec![in_file(Effect::Deny, "Bash")])),
        ["approval.resolved ask-1: Denied `deny` by rules, Waiting"]
    );
    assert_eq!(
        host.does(again(vec![in_file(Effect::Allow, "Bash(git:*)")])),
        none,
        "the first ending is final"
    );
}

#[test]
fn a_working_directory_must_be_absolute_and_is_part_of_what_was_asked() {
    let mut host = Host::new();
    let ask_in = |cwd: &str| AskRequest {
        cwd: Some(cwd.to_owned()),
        idempotency_key: Some("key".to_owned()),
        ..request(&agent("bot"))
    };
    assert_eq!(
        host.refuses(ask_input(ask_in("src"))),
        Rejection::NotAbsolute("the working directory")
    );
    host.ask(ask_in("/srv"));
    assert_eq!(
        host.refuses(ask_input(ask_in("/etc"))),
        Rejection::IdempotencyConflict("key".to_owned())
    );
}

#[test]
fn an_answer_can_be_remembered_and_says_what_is() {
    for (resolution, effect, outcome) in [
        ("approve", "allow", ApprovalOutcome::Allowed),
        ("deny", "deny", ApprovalOutcome::Denied),
    ] {
        let mut host = Host::new();
        let id = host.ask(request(&agent("bot")));
        let given = ApprovalAnswer {
            resolution: resolution.to_owned(),
            remember: vec![grants::draft("Bash(ls)"), grants::draft("Bash(ls)")],
            ..ApprovalAnswer::default()
        };
        assert_eq!(
            host.does(answer(&person("ann"), &id, given)),
            [
                format!("approval.resolved ask-1: {outcome:?} `{resolution}` by ann, Waiting"),
                format!("grant.created grant of ask-1 1: {effect} `Bash(ls)` by ann"),
            ]
        );
        let grant = host.state.grants().next().unwrap();
        assert_eq!(grant.grant.origin, Some(id));
    }
}

#[test]
fn an_answer_after_the_first_saves_no_rule_and_says_so() {
    let mut host = Host::new();
    let id = host.ask(request(&agent("bot")));
    let given = |resolution: &str, rule: &str| ApprovalAnswer {
        resolution: resolution.to_owned(),
        remember: vec![grants::draft(rule)],
        ..ApprovalAnswer::default()
    };
    host.does(answer(&person("ann"), &id, given("approve", "Bash(ls)")));
    let again = host.decide(answer(&person("ann"), &id, given("approve", "Bash(ls)")));
    let expected = Decision {
        events: vec![],
        subject: DecisionSubject::Approval(id.clone()),
    };
    assert_eq!(again, Ok(expected));
    for late in [given("approve", "Bash(make)"), given("deny", "Bash(ls)")] {
        assert_eq!(
            host.refuses(answer(&person("bob"), &id, late)).to_string(),
            "approval 'ask-1' was already resolved as 'approve' by ann; no rule was saved"
        );
    }
    assert_eq!(host.state.grants().len(), 1);
}

#[test]
fn what_neither_allows_nor_denies_cannot_be_remembered() {
    let mut host = Host::new();
    let id = host.ask(AskRequest {
        options: words(&["approve", "later"]),
        ..request(&agent("bot"))
    });
    let given = |resolution: &str, draft: GrantDraft| ApprovalAnswer {
        resolution: resolution.to_owned(),
        remember: vec![draft],
        ..ApprovalAnswer::default()
    };
    let later = given("later", grants::draft("Bash(ls)"));
    assert!(matches!(
        host.refuses(answer(&person("ann"), &id, later)),
        Rejection::BadGrant(_)
    ));
    let empty = given("approve", grants::draft(" "));
    assert!(matches!(
        host.refuses(answer(&person("ann"), &id, empty)),
        Rejection::BadGrant(_)
    ));
    assert_eq!(host.shows(&id), "pending on nobody");
}

#[test]
fn an_answer_that_is_passed_to_an_owner_remembers_nothing() {
    let mut host = Host::new();
    let owner = host.connect(person("ann"), "c1");
    host.subscribe(&owner);
    let id = host.ask(request(&owner));
    let given = ApprovalAnswer {
        resolution: "approve".to_owned(),
        remember: vec![grants::draft("Bash(ls)")],
        ..ApprovalAnswer::default()
    };
    assert_eq!(
        host.does(answer(&person("bob"), &id, given)),
        ["approval.resolve_requested ask-1: `approve` by bob to c1"]
    );
    assert_eq!(host.state.grants().len(), 0);
}

#[test]
fn a_rule_never_chooses_an_option_that_outlasts_the_ask() {
    for (options, shown) in [
        (
            &["allow_always", "allow_once"][..],
            "Allowed allow_once on nobody",
        ),
        (
            &["yes for this session", "approve"],
            "Allowed approve on nobody",
        ),
        (&["Always"], "pending on nobody"),
    ] {
        let mut host = Host::new();
        let allow = vec![in_file(Effect::Allow, "Bash(git:*)")];
        let id = host.ask(AskRequest {
            options: words(options),
            approving: Some(words(options)),
            ..with_verdict(&agent("bot"), allow)
        });
        assert_eq!(host.shows(&id), shown);
    }
}

//! Grants: who makes them, where they count, and how they end.

use super::rules::{judged, part, with_verdict};
use super::*;
use crate::event::{Effect, GrantScope, RuleRef, VerdictPart};
use crate::{CreateGrant, CreateToken, GrantDraft, TokenId};

pub(super) fn draft(rule: &str) -> GrantDraft {
    GrantDraft {
        rule: rule.to_owned(),
        effect: Effect::Allow,
        scope: GrantScope::default(),
        expires_in_ms: None,
        uses: None,
        origin: None,
    }
}

fn create(caller: &Caller, id: &str, draft: GrantDraft) -> Input {
    Input::CreateGrant(CreateGrant {
        caller: caller.clone(),
        id: GrantId::new(id),
        draft,
    })
}

fn remove(caller: &Caller, id: &str) -> Input {
    Input::RemoveGrant {
        caller: caller.clone(),
        grant: GrantId::new(id),
    }
}

/// A part that a grant decided about.
fn by_grant(effect: Effect, id: &str) -> VerdictPart {
    let rule = RuleRef {
        rule: "Bash(ls)".to_owned(),
        effect,
        source: "grant".to_owned(),
        line: None,
        grant: Some(GrantId::new(id)),
    };
    part(effect, Some(rule))
}

impl Host {
    fn grants(&mut self, id: &str, draft: GrantDraft) {
        self.does(create(&person("ann"), id, draft));
    }

    /// How an ask of an agent ends for which a grant is said to allow so many parts.
    fn ask_with(&mut self, who: &str, id: &str, times: usize) -> String {
        let parts = vec![by_grant(Effect::Allow, id); times];
        let asked = self.ask(with_verdict(&agent(who), parts));
        self.shows(&asked)
    }

    /// Uses left, fired, and whether it was ever used.
    fn counts(&self, id: &str) -> (Option<u32>, u64, bool) {
        let grant = self.state.find_grant(&GrantId::new(id)).unwrap();
        (grant.uses_left, grant.fired, grant.last_used.is_some())
    }
}

const ALLOWED: &str = "Allowed approve on nobody";
const OPEN: &str = "pending on nobody";

#[test]
fn only_a_person_makes_and_removes_grants() {
    let mut host = Host::new();
    for (who, why) in [
        (
            agent("bot"),
            Rejection::AgentNotAllowed(AgentId::new("bot")),
        ),
        (observer(), Rejection::ObserverCannotChange),
    ] {
        assert_eq!(host.refuses(create(&who, "g", draft("Bash(ls)"))), why);
        assert_eq!(host.refuses(remove(&who, "g")), why);
    }
    let ann = person("ann");
    assert_eq!(
        host.does(create(&ann, "g", draft("Bash(ls)"))),
        ["grant.created g: allow `Bash(ls)` by ann"]
    );
    assert_eq!(
        host.does(remove(&ann, "g")),
        ["grant.removed g: Revoked by ann"]
    );
    assert_eq!(
        host.refuses(remove(&ann, "g")),
        Rejection::UnknownGrant(GrantId::new("g"))
    );
}

#[test]
fn an_equal_grant_is_not_made_twice_unless_the_first_was_used() {
    let mut host = Host::new();
    let twice = || GrantDraft {
        uses: Some(2),
        ..draft("Bash(ls)")
    };
    host.grants("g1", twice());
    let again = host.decide(create(&person("bob"), "g2", twice())).unwrap();
    assert_eq!(
        (again.events, again.subject),
        (Vec::new(), DecisionSubject::Grant(GrantId::new("g1")))
    );
    host.grants("g3", draft("Bash(ls)"));
    assert_eq!(host.ask_with("bot", "g1", 1), ALLOWED);
    host.grants("g4", twice());
    assert_eq!(host.state.grants().len(), 3);
}

#[test]
fn what_could_never_be_meant_is_refused() {
    let mut host = Host::new();
    let ann = person("ann");
    let drafts = [
        draft(""),
        GrantDraft {
            uses: Some(0),
            ..draft("Bash(ls)")
        },
        GrantDraft {
            expires_in_ms: Some(0),
            ..draft("Bash(ls)")
        },
        GrantDraft {
            uses: Some(1),
            effect: Effect::Deny,
            ..draft("Bash(ls)")
        },
    ];
    for draft in drafts {
        let refused = host.refuses(create(&ann, "g", draft));
        assert!(matches!(refused, Rejection::BadGrant(_)));
    }
    let long = draft(&"x".repeat(limits::RULE_BYTES_MAX + 1));
    assert!(matches!(
        host.refuses(create(&ann, "g", long)),
        Rejection::TooLarge { .. }
    ));
}

#[test]
fn uses_are_counted_by_part_and_end_the_grant_in_the_same_decision() {
    let mut host = Host::new();
    host.grants(
        "g",
        GrantDraft {
            uses: Some(3),
            ..draft("Bash(ls)")
        },
    );
    assert_eq!(host.ask_with("bot", "g", 2), ALLOWED);
    assert_eq!(host.counts("g"), (Some(1), 2, true));
    assert_eq!(host.ask_with("bot", "g", 2), OPEN, "one is left, not two");
    assert_eq!(host.counts("g"), (Some(1), 2, true));
    let last = vec![by_grant(Effect::Allow, "g")];
    let (_, events) = host.asks(with_verdict(&agent("bot"), last));
    assert_eq!(
        events,
        [
            "approval.requested ask-3 of bot by bot, None, until ever",
            "approval.resolved ask-3: Allowed `approve` by rules, Waiting",
            "grant.removed g: UsedUp by none",
            "answer.attempted ask-3, time 1",
        ]
    );
    assert_eq!(host.ask_with("bot", "g", 1), OPEN);
}

#[test]
fn a_grant_that_denies_is_noted_and_never_used_up() {
    let mut host = Host::new();
    let deny = GrantDraft {
        effect: Effect::Deny,
        ..draft("Bash(ls)")
    };
    host.grants("g", deny);
    let parts = vec![by_grant(Effect::Deny, "g")];
    let id = host.ask(with_verdict(&agent("bot"), parts));
    assert_eq!(host.shows(&id), "Denied deny on nobody");
    assert_eq!(host.counts("g"), (None, 1, true));
    assert_eq!(
        host.ask_with("bot", "g", 1),
        OPEN,
        "nothing allows in the name of a deny"
    );
}

#[test]
fn a_grant_does_not_fire_after_its_time_swept_or_not() {
    let mut host = Host::new();
    host.grants(
        "g",
        GrantDraft {
            expires_in_ms: Some(10_000),
            ..draft("Bash(ls)")
        },
    );
    host.now = Timestamp(9_999_999);
    assert_eq!(host.ask_with("bot", "g", 1), ALLOWED);
    host.now = Timestamp(10_000_000);
    assert_eq!(host.ask_with("bot", "g", 1), OPEN);
    host.restart();
    assert_eq!(host.after_ms(1), Vec::<String>::new(), "swept later");
    assert_eq!(host.ask_with("bot", "g", 1), OPEN);
    assert_eq!(
        host.after_ms(limits::EXPIRY_HOLD_MS),
        ["grant.removed g: Expired by none"]
    );
}

#[test]
fn a_session_ends_with_its_agent_and_takes_its_grants_along() {
    let bot = agent("bot");
    let session = || GrantDraft {
        scope: GrantScope {
            session: Some(AgentId::new("bot")),
            ..GrantScope::default()
        },
        ..draft("Bash(ls)")
    };
    let ends = [
        unregister(&bot, "bot"),
        set_status(&bot, "bot", BaseState::Done),
        set_status(&bot, "bot", BaseState::Error),
        set_status(&bot, "bot", BaseState::Stopped),
    ];
    for end in ends {
        let mut host = Host::new();
        assert_eq!(
            host.refuses(create(&person("ann"), "g", session())),
            Rejection::UnknownAgent(AgentId::new("bot"))
        );
        host.register(&bot, "bot");
        host.grants("g", session());
        host.restart();
        host.set(&bot, "bot", BaseState::Paused);
        assert_eq!(host.ask_with("bot", "g", 1), ALLOWED);
        assert_eq!(host.ask_with("other", "g", 1), OPEN);
        let events = host.does(end);
        assert!(
            events.contains(&"grant.removed g: SessionEnded by none".to_owned()),
            "{events:?}"
        );
        host.register(&bot, "bot");
        assert_eq!(host.ask_with("bot", "g", 1), OPEN);
    }
}

#[test]
fn a_session_ends_when_its_owner_is_gone_for_good() {
    let mut host = Host::new();
    let bot = host.connect(agent("bot"), "c1");
    host.register(&bot, "bot");
    let scope = GrantScope {
        session: Some(AgentId::new("bot")),
        ..GrantScope::default()
    };
    host.grants(
        "g",
        GrantDraft {
            scope,
            ..draft("Bash(ls)")
        },
    );
    host.lose(&bot);
    assert_eq!(
        host.after_ms(limits::OWNER_GRACE_MS),
        [
            "agent.status_changed bot: Stopped, seen as Stopped, on none",
            "host.connection_lapsed c1",
            "grant.removed g: SessionEnded by none",
        ]
    );
}

#[test]
fn a_name_counts_only_where_an_operator_gave_it_and_while_it_lasts() {
    let mut host = Host::new();
    let scope = GrantScope {
        agent: Some("agent bot".to_owned()),
        ..GrantScope::default()
    };
    host.grants(
        "g",
        GrantDraft {
            scope,
            ..draft("Bash(ls)")
        },
    );
    host.register(&agent("bot"), "bot");
    assert_eq!(host.ask_with("bot", "g", 1), OPEN, "its own word");
    host.does(Input::CreateToken(CreateToken {
        caller: person("ann"),
        id: TokenId::new("t"),
        hash: "hash".to_owned(),
        role: Role::Agent(AgentId::new("bot")),
        name: "agent bot".to_owned(),
        ttl_ms: Some(1_000),
        device: None,
    }));
    assert_eq!(host.ask_with("bot", "g", 1), ALLOWED);
    assert_eq!(host.ask_with("other", "g", 1), OPEN);
    host.now = Timestamp(1_000_000);
    assert_eq!(host.ask_with("bot", "g", 1), OPEN);
}

#[test]
fn a_project_counts_where_the_host_found_the_ask_to_be() {
    let mut host = Host::new();
    for (id, project) in [("here", "/srv/app"), ("there", "/srv/other")] {
        let scope = GrantScope {
            project: Some(project.to_owned()),
            ..GrantScope::default()
        };
        host.grants(
            id,
            GrantDraft {
                scope,
                ..draft("Bash(ls)")
            },
        );
    }
    assert_eq!(host.ask_with("bot", "here", 1), ALLOWED);
    assert_eq!(host.ask_with("bot", "there", 1), OPEN);
}

#[test]
fn a_removed_grant_no_longer_settles_what_was_judged_by_it() {
    let mut host = Host::new();
    host.grants("g", draft("Bash(ls)"));
    let asks = vec![part(Effect::Ask, None)];
    let id = host.ask(with_verdict(&agent("bot"), asks));
    host.does(remove(&person("ann"), "g"));
    let judged = judged(vec![by_grant(Effect::Allow, "g")]);
    let settle = Input::SettleByRules {
        approval: id,
        judged,
    };
    assert_eq!(host.does(settle), Vec::<String>::new());
}

#[test]
fn grants_are_bounded() {
    let mut host = Host::new();
    for number in 0..limits::GRANTS_MAX {
        host.grants(&format!("g{number}"), draft(&format!("Bash(ls {number})")));
    }
    let more = create(&person("ann"), "more", draft("Bash(ls)"));
    assert_eq!(
        host.refuses(more),
        Rejection::TooMany {
            what: "grants",
            limit: limits::GRANTS_MAX
        }
    );
}

#[test]
fn a_file_is_trusted_by_a_person_as_it_is() {
    let mut host = Host::new();
    let trust = |caller: &Caller, file: &str, digest: &str| Input::TrustRules {
        caller: caller.clone(),
        file: file.to_owned(),
        digest: digest.to_owned(),
    };
    let ann = person("ann");
    assert_eq!(
        host.refuses(trust(&agent("bot"), "/r.toml", "1")),
        Rejection::AgentNotAllowed(AgentId::new("bot"))
    );
    assert_eq!(
        host.refuses(trust(&ann, "r.toml", "1")),
        Rejection::NotAbsolute("the file's path")
    );
    for (digest, events) in [("1", 1), ("1", 0), ("2", 1)] {
        assert_eq!(host.does(trust(&ann, "/r.toml", digest)).len(), events);
    }
    let trusted: Vec<_> = host.state.trusted_files().collect();
    assert_eq!(trusted, [("/r.toml", "2")]);
}

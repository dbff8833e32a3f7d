//! Grants settle asks: those to come, those that are open, and those in between.

use countersign_core::event::{AnswerDelivery, Effect, GrantScope};
use countersign_core::{AgentId, Json, Rejection, Role};
use countersign_daemon::{CheckRequest, GrantDraft, ServiceError};
use tokio_util::task::TaskTracker;

use crate::fixture::{Host, ann, answer, bot, draft, olga, once, outcome, request};

const STATUS: &str = "Bash(git status:*)";

#[tokio::test]
async fn an_ask_that_a_grant_allows_is_answered_in_its_own_reply() {
    let host = Host::start().await;
    let added = host
        .service
        .add_grant(ann(), draft(Effect::Allow, STATUS))
        .await
        .unwrap();
    assert_eq!((added.settled, added.grant.fired), (0, 0));
    let commits = || {
        let counters = host.service.counters();
        counters.commits.load(std::sync::atomic::Ordering::Relaxed)
    };
    let before = commits();
    let asked = host.asks("bot", "git status -s").await;
    assert_eq!(outcome(&asked), "Allowed by rules");
    assert_eq!(
        (asked.delivery, asked.deliveries),
        (AnswerDelivery::Attempted, 1)
    );
    assert_eq!(commits(), before + 1, "asked, answered and told in one");
    let message = asked.ended.unwrap().ending.message.clone().unwrap();
    let id = &added.grant.grant.id;
    assert_eq!(message, format!("allowed by grant `{STATUS}` ({id})"));
    let overview = host.service.rules(&olga(), None).await.unwrap();
    assert_eq!(overview.grants[0].fired, 1);
    assert!(overview.grants[0].last_used.is_some());
}

#[tokio::test]
async fn a_new_grant_settles_what_it_covers_and_nothing_else() {
    let host = Host::start().await;
    let status = host.asks("bot", "git status").await;
    let both = host.asks("bot", "git status && git push").await;
    let push = host.asks("bot", "git push").await;
    let allow = host
        .service
        .add_grant(ann(), draft(Effect::Allow, STATUS))
        .await;
    assert_eq!(allow.unwrap().settled, 1);
    assert_eq!(host.shows(&status).await, "Allowed by rules");
    assert_eq!(host.shows(&both).await, "open");
    let deny = host
        .service
        .add_grant(ann(), draft(Effect::Deny, "Bash(git push:*)"))
        .await;
    assert_eq!(deny.unwrap().settled, 2);
    assert_eq!(host.shows(&both).await, "Denied by rules");
    assert_eq!(host.shows(&push).await, "Denied by rules");
}

#[tokio::test]
async fn a_grant_for_one_use_goes_to_the_oldest_ask_and_is_gone() {
    let host = Host::start().await;
    let first = host.asks("bot", "git status").await;
    let second = host.asks("bot", "git status").await;
    let added = host.service.add_grant(ann(), once(STATUS)).await.unwrap();
    assert_eq!(added.settled, 1);
    assert_eq!(host.shows(&first).await, "Allowed by rules");
    assert_eq!(host.shows(&second).await, "open");
    assert_eq!(outcome(&host.asks("bot", "git status").await), "open");
    assert_eq!(host.service.rules(&ann(), None).await.unwrap().grants, []);
}

#[tokio::test]
async fn a_revoked_grant_fires_no_more() {
    let host = Host::start().await;
    let added = host.service.add_grant(ann(), draft(Effect::Allow, STATUS));
    let id = added.await.unwrap().grant.grant.id.clone();
    host.service.remove_grant(ann(), id.clone()).await.unwrap();
    assert_eq!(outcome(&host.asks("bot", "git status").await), "open");
    let again = host.service.remove_grant(ann(), id.clone()).await;
    assert!(matches!(
        again,
        Err(ServiceError::Rejected(Rejection::UnknownGrant(unknown))) if unknown == id
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_ask_falls_between_its_own_judgement_and_a_new_grant() {
    let tasks = TaskTracker::new();
    for _ in 0..10 {
        let host = Host::start().await;
        let asks: Vec<_> = (0..32)
            .map(|_| {
                let service = host.service.clone();
                tasks.spawn(async move {
                    service
                        .request_approval(request("bot", "git status"))
                        .await
                        .unwrap()
                })
            })
            .collect();
        host.service
            .add_grant(ann(), draft(Effect::Allow, STATUS))
            .await
            .unwrap();
        for ask in asks {
            let asked = ask.await.unwrap();
            assert_eq!(host.shows(&asked).await, "Allowed by rules");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_remembered_settles_the_others_too() {
    let host = Host::start().await;
    let first = host.asks("bot", "git status").await;
    let second = host.asks("other", "git status -s").await;
    let remember = answer("approve", vec![draft(Effect::Deny, STATUS)]);
    let id = first.ask.id.clone();
    host.service
        .resolve_approval(ann(), id.clone(), remember)
        .await
        .unwrap();
    assert_eq!(host.shows(&first).await, "Allowed by ann");
    assert_eq!(host.shows(&second).await, "Allowed by rules");
    let grants = host.service.rules(&ann(), None).await.unwrap().grants;
    let grant = &grants[0].grant;
    assert_eq!(
        (grant.effect, &grant.origin, grants.len()),
        (Effect::Allow, &Some(id), 1),
        "the answer says what is remembered, whatever the draft says"
    );
}

#[tokio::test]
async fn a_rule_that_cannot_be_read_is_refused_and_the_ask_stays_open() {
    let host = Host::start().await;
    let asked = host.asks("bot", "git status").await;
    let broken = || draft(Effect::Allow, "Bash(");
    let added = host.service.add_grant(ann(), broken()).await;
    assert!(matches!(
        added,
        Err(ServiceError::Rejected(Rejection::BadGrant(_)))
    ));
    let id = asked.ask.id.clone();
    let resolved = host
        .service
        .resolve_approval(ann(), id, answer("approve", vec![broken()]))
        .await;
    assert!(matches!(
        resolved,
        Err(ServiceError::Rejected(Rejection::BadGrant(_)))
    ));
    assert_eq!(host.shows(&asked).await, "open");
}

#[tokio::test]
async fn grants_and_their_sessions_outlive_a_restart() {
    let host = Host::start().await;
    host.register("bot").await;
    let session = GrantDraft {
        scope: GrantScope {
            session: Some(AgentId::new("bot")),
            ..GrantScope::default()
        },
        ..draft(Effect::Allow, STATUS)
    };
    host.service.add_grant(ann(), session).await.unwrap();
    let host = host.restart().await;
    assert_eq!(
        outcome(&host.asks("bot", "git status").await),
        "Allowed by rules"
    );
    assert_eq!(outcome(&host.asks("other", "git status").await), "open");
    host.service
        .unregister_agent(bot("bot"), AgentId::new("bot"))
        .await
        .unwrap();
    assert_eq!(outcome(&host.asks("bot", "git status").await), "open");
    let grants = host.service.rules(&ann(), None).await.unwrap().grants;
    assert_eq!(grants, []);
}

#[tokio::test]
async fn a_grant_for_a_name_fires_only_where_an_operator_gave_it() {
    let host = Host::start().await;
    let named = GrantDraft {
        scope: GrantScope {
            agent: Some("builder".to_owned()),
            ..GrantScope::default()
        },
        ..draft(Effect::Allow, STATUS)
    };
    host.service.add_grant(ann(), named).await.unwrap();
    host.register("builder").await;
    assert_eq!(
        outcome(&host.asks("builder", "git status").await),
        "open",
        "it calls itself that"
    );
    let role = Role::Agent(AgentId::new("bot"));
    let token = host
        .service
        .create_token(ann(), role, "builder".to_owned(), None)
        .await
        .unwrap();
    assert_eq!(
        outcome(&host.asks("bot", "git status").await),
        "Allowed by rules"
    );
    host.service.revoke_token(ann(), token.1.id).await.unwrap();
    assert_eq!(outcome(&host.asks("bot", "git status").await), "open");
}

#[tokio::test]
async fn an_input_that_reads_in_two_ways_waits_for_a_person() {
    let host = Host::start().await;
    host.service
        .add_grant(ann(), draft(Effect::Allow, STATUS))
        .await
        .unwrap();
    let mut twice = request("bot", "git status");
    let text = r#"{"command": "git push", "command": "git status"}"#;
    twice.input = Some(serde_json::from_str::<Json>(text).unwrap());
    let asked = host.service.request_approval(twice).await.unwrap();
    assert_eq!(outcome(&asked), "open");
    assert!(asked.ask.verdict.as_ref().unwrap().is_on_the_floor());
    let deny = draft(Effect::Deny, "Bash");
    assert_eq!(
        host.service.add_grant(ann(), deny).await.unwrap().settled,
        1
    );
}

#[tokio::test]
async fn what_the_rules_would_say_can_be_tried_out() {
    let host = Host::start().await;
    let check = |command: &str| CheckRequest {
        tool: "Bash".to_owned(),
        input: request("bot", command).input,
        cwd: None,
        agent: None,
    };
    let effect = async |command: &str| {
        let checked = host.service.check_rules(&olga(), check(command)).await;
        checked.unwrap().verdict.effect
    };
    host.service
        .add_grant(ann(), draft(Effect::Allow, STATUS))
        .await
        .unwrap();
    assert_eq!(effect("git status").await, Effect::Allow);
    assert_eq!(effect("git push").await, Effect::Ask);
    let grants = host.service.rules(&ann(), None).await.unwrap().grants;
    assert_eq!(grants[0].fired, 0, "trying is not using");
}

#[tokio::test]
async fn agents_reach_no_rule_and_observers_change_none() {
    let host = Host::start().await;
    let bot = bot("bot");
    let refused = |error: Option<ServiceError>| {
        assert!(matches!(
            error,
            Some(ServiceError::Rejected(
                Rejection::AgentNotAllowed(_) | Rejection::ObserverCannotChange
            ))
        ));
    };
    let service = &host.service;
    let allow = || draft(Effect::Allow, STATUS);
    let rule = STATUS.to_owned();
    refused(service.rules(&bot, None).await.err());
    refused(
        service
            .check_rules(&bot, CheckRequest::default())
            .await
            .err(),
    );
    refused(service.mine_rules(&bot).await.err());
    refused(
        service
            .backtest_rule(&bot, rule, Effect::Allow, None)
            .await
            .err(),
    );
    for who in [bot, olga()] {
        refused(service.add_grant(who.clone(), allow()).await.err());
        let file = ("/srv/rules.toml".to_owned(), "00".to_owned());
        refused(service.trust_rules(who.clone(), file.0, file.1).await.err());
        let agent = AgentId::new("bot");
        refused(service.set_bypass(who, agent, Some(1_000)).await.err());
    }
}

#[tokio::test]
async fn uses_are_spent_only_where_nothing_else_allows() {
    let host = Host::start().await;
    let add = async |draft: GrantDraft| host.service.add_grant(ann(), draft).await.unwrap();
    add(once("Bash(git status:*)")).await;
    add(once("Bash(git diff:*)")).await;
    add(once("Bash(git diff)")).await;
    add(draft(Effect::Allow, "Bash(git status)")).await;
    let asks = async |command: &str| outcome(&host.asks("bot", command).await);
    assert_eq!(asks("git status").await, "Allowed by rules");
    let left = host.service.rules(&ann(), None).await.unwrap().grants;
    assert_eq!(left.len(), 4, "the one for good was used");
    assert_eq!(
        asks("git diff && git diff a && git diff b").await,
        "open",
        "two grants for one use each do not cover three parts"
    );
    assert_eq!(
        host.service.rules(&ann(), None).await.unwrap().grants.len(),
        4
    );
    assert_eq!(asks("git diff a").await, "Allowed by rules");
    assert_eq!(asks("git diff b").await, "open");
    assert_eq!(asks("git diff").await, "Allowed by rules");
}

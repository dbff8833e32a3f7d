//! What a rule would have done to decisions that were made by hand.

use countersign_core::event::{ApprovalOutcome, Effect};
use countersign_core::{AskRequest, Json};

use crate::fixture::{Host, ann, answer, draft, request};

#[tokio::test]
async fn a_backtest_counts_what_people_decided_and_nothing_else() {
    let host = Host::start().await;
    let mut contradicted = None;
    for (command, resolution) in [
        ("git status", "approve"),
        ("git status -s", "approve"),
        ("git status --long", "deny"),
        ("make test", "approve"),
    ] {
        let asked = host.asks("bot", command).await;
        let id = asked.ask.id.clone();
        host.service
            .resolve_approval(ann(), id.clone(), answer(resolution, Vec::new()))
            .await
            .unwrap();
        if resolution == "deny" {
            contradicted = Some(id);
        }
    }
    host.service
        .add_grant(ann(), draft(Effect::Allow, "Bash(git log:*)"))
        .await
        .unwrap();
    host.asks("bot", "git log").await;
    let rule = "Bash(git status:*)".to_owned();
    let test = host
        .service
        .backtest_rule(&ann(), rule, Effect::Allow, None)
        .await
        .unwrap();
    assert_eq!((test.examined, test.settled, test.agreed), (4, 3, 2));
    assert_eq!(
        (test.already_settled_by_rules, test.skipped_by_others),
        (1, 0)
    );
    let found: Vec<_> = test
        .contradicted
        .iter()
        .map(|found| (Some(found.approval.clone()), found.decided))
        .collect();
    assert_eq!(found, [(contradicted, ApprovalOutcome::Denied)]);
}

#[tokio::test]
async fn a_backtest_names_the_open_asks_that_the_rule_would_settle_with_the_others() {
    let host = Host::start().await;
    host.service
        .add_grant(ann(), draft(Effect::Allow, "Bash(git log:*)"))
        .await
        .unwrap();
    host.service
        .add_grant(ann(), draft(Effect::Ask, "Bash(git status --long:*)"))
        .await
        .unwrap();
    let mut ids = Vec::new();
    for command in [
        "git status",
        "git status && git log",
        "git status && make",
        "git status --long",
    ] {
        ids.push(host.asks("bot", command).await.ask.id.clone());
    }
    let would_settle = async |effect| {
        let rule = "Bash(git status:*)".to_owned();
        let ann = ann();
        let test = host.service.backtest_rule(&ann, rule, effect, None);
        test.await.unwrap().would_settle
    };
    assert_eq!(would_settle(Effect::Allow).await, ids[..2]);
    assert_eq!(would_settle(Effect::Deny).await, ids);
    assert_eq!(would_settle(Effect::Ask).await, []);
}

#[tokio::test]
async fn a_backtest_reaches_past_large_asks() {
    let host = Host::start().await;
    let decide = async |asked: AskRequest, resolution: &str| {
        let asked = host.service.request_approval(asked).await.unwrap();
        let answer = answer(resolution, Vec::new());
        let id = asked.ask.id.clone();
        let answered = host.service.resolve_approval(ann(), id, answer);
        answered.await.unwrap();
    };
    decide(request("bot", "git status"), "deny").await;
    for _ in 0..12 {
        let details = serde_json::json!("x".repeat(500_000));
        let large = AskRequest {
            details: Json::from_value(&details).unwrap(),
            ..request("bot", "make")
        };
        decide(large, "approve").await;
    }
    let rule = "Bash(git status:*)".to_owned();
    let test = host
        .service
        .backtest_rule(&ann(), rule, Effect::Allow, None)
        .await
        .unwrap();
    assert_eq!((test.examined, test.contradicted.len()), (13, 1));
}

#[tokio::test]
async fn what_was_always_allowed_by_hand_is_mined() {
    let host = Host::start().await;
    let decide = async |command: &str, resolution: &str| {
        let asked = host.asks("bot", command).await;
        let id = asked.ask.id.clone();
        let answered =
            host.service
                .resolve_approval(ann(), id.clone(), answer(resolution, Vec::new()));
        answered.await.unwrap();
        id
    };
    for _ in 0..3 {
        decide("cargo fmt --check", "approve").await;
        decide("make deploy", "approve").await;
    }
    let last = decide("cargo fmt --check", "approve").await;
    decide("make deploy", "deny").await;
    let mined = host.service.mine_rules(&ann()).await.unwrap();
    assert!(!mined.is_empty());
    for rule in &mined {
        assert!(rule.rule.contains("cargo fmt"), "{rule:?}");
        assert_eq!((rule.allowed, rule.examples.first()), (4, Some(&last)));
    }
}

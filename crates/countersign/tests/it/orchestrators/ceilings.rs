//! Ceilings: what an orchestrator settles for the agents below it, and what it cannot.

use serde_json::{Value, json};

use super::Family;
use crate::scene::{asks, next_ask, rested};

const RULE: &str = "Bash(echo a:*)";

/// Gives the orchestrator a ceiling, as a person does.
fn give(family: &Family, words: &[&str]) {
    let (code, said) = family.cli(&[&["ceiling", "boss"], words].concat());
    assert_eq!(code, Some(0), "{said}");
}

/// Has an agent ask for a command; gives the ask.
async fn asked(family: &mut Family, kid: usize, command: &str) -> Value {
    let id = family.kids[kid].id.clone();
    let steps = json!([asks(
        "c1",
        command,
        &json!([{ "say": format!("did {command}\n") }])
    )]);
    family.prompt(&id, &steps).await;
    next_ask(&mut family.wire).await
}

fn approve(ask: &Value) -> Value {
    json!({ "approval_id": ask["id"], "resolution": "approve" })
}

fn deny(ask: &Value) -> Value {
    json!({ "approval_id": ask["id"], "resolution": "deny" })
}

/// The reason for which the orchestrator may not answer so.
async fn refused(family: &mut Family, answer: Value) -> String {
    family.boss.refused("host.resolve_approval", answer).await
}

async fn inside_and_outside(killed: bool) {
    let mut family = Family::begin(&["ann"]).await;
    let ann = family.kids[0].id.clone();
    let ask = asked(&mut family, 0, "echo a 1").await;
    assert_eq!(refused(&mut family, approve(&ask)).await, "above_ceiling");
    assert_eq!(refused(&mut family, deny(&ask)).await, "above_ceiling");
    give(&family, &["--rule", RULE, "--for", "1h"]);
    if killed {
        family.kill_host().await;
    }
    let mut edited = approve(&ask);
    edited["edited_input"] = json!({ "command": "echo a 2" });
    assert_eq!(refused(&mut family, edited).await, "above_ceiling");
    let row = family.boss.ok("host.resolve_approval", approve(&ask)).await;
    assert_eq!(
        (
            &row["state"],
            &row["resolved_by"]["role"],
            &row["resolved_by"]["agent_id"]
        ),
        (&json!("allowed"), &json!("agent"), &family.boss.id)
    );
    rested(&mut family.wire, &ann).await;
    let shown = family.cli(&["show", ask["id"].as_str().unwrap()]).1;
    assert!(shown.contains("by orchestrator"), "{shown}");
    for outside in ["echo b", "echo a; touch x", "echo a > .git/config"] {
        let ask = asked(&mut family, 0, outside).await;
        assert_eq!(
            refused(&mut family, approve(&ask)).await,
            "above_ceiling",
            "{outside}"
        );
        // What it may not allow it may refuse.
        family.boss.ok("host.resolve_approval", deny(&ask)).await;
        rested(&mut family.wire, &ann).await;
    }
    let ask = asked(&mut family, 0, "echo a 3").await;
    give(&family, &["--clear"]);
    assert_eq!(refused(&mut family, approve(&ask)).await, "above_ceiling");
    family.wire.ok("host.resolve_approval", approve(&ask)).await;
    rested(&mut family.wire, &ann).await;
    let told = crate::scene::told(&mut family.wire, &ann).await;
    let did = ["did echo a 1", "was denied", "did echo a 3", "did "];
    assert_eq!(
        did.map(|words| told.matches(words).count()),
        [1, 3, 1, 2],
        "{told}"
    );
    family.end().await;
}

#[tokio::test]
async fn an_orchestrator_allows_inside_its_ceiling_and_nothing_else() {
    inside_and_outside(false).await;
}

#[tokio::test]
async fn a_ceiling_outlives_the_host() {
    inside_and_outside(true).await;
}

async fn over(killed: bool) {
    let mut family = Family::begin(&["ann"]).await;
    let ask = asked(&mut family, 0, "echo a 1").await;
    give(&family, &["--rule", RULE, "--for", "1s"]);
    if killed {
        family.kill_host().await;
    }
    let boss = family.boss.id.clone();
    // By the host's own hand.
    loop {
        if family.row(&boss).await["managed"].get("ceiling").is_none() {
            break;
        }
        family.wire.event_of("agent.ceiling_changed").await;
    }
    assert_eq!(refused(&mut family, approve(&ask)).await, "above_ceiling");
    let said = family.cli(&["ceiling", "boss"]).1;
    assert!(said.starts_with("boss may approve nothing"), "{said}");
    family.end().await;
}

#[tokio::test]
async fn a_ceiling_ends_with_its_time() {
    over(false).await;
}

#[tokio::test]
async fn a_ceiling_ends_with_its_time_under_the_next_host() {
    over(true).await;
}

#[tokio::test]
async fn nobody_answers_its_own_ask_nor_one_above_beside_or_elsewhere() {
    let mut family = Family::begin(&["ann", "bea"]).await;
    give(&family, &["--rule", RULE]);
    let mut params = family.scene.spawn_params("other", &json!([]));
    params["role"] = json!("orchestrator");
    let id = family.wire.ok("host.spawn_agent", params).await["id"].take();
    rested(&mut family.wire, &id).await;
    let mut other = super::Hand::of(&family.scene, &mut family.wire, id.clone(), "other").await;
    let body = json!({ "agent_id": id, "rules": [RULE] });
    family.wire.ok("host.set_ceiling", body).await;

    let input = json!({ "command": "echo a 1" });
    let own = json!({ "action": "x", "tool": "Bash", "input": input, "timeout_ms": 600_000 });
    let own = family.boss.ok("host.request_approval", own).await;
    let below = asked(&mut family, 0, "echo a 1").await;
    let [ann, bea] = family.kids.as_mut_slice() else {
        panic!("two agents");
    };
    for (who, asks) in [
        (&mut family.boss, vec![&own]),
        (&mut *ann, vec![&own, &below]),
        (&mut *bea, vec![&own, &below]),
        (&mut other, vec![&own, &below]),
    ] {
        for ask in asks {
            let reason = who.refused("host.resolve_approval", approve(ask)).await;
            assert_eq!(reason, "agents_cannot_answer", "{}", who.name);
        }
    }
    let prompt = json!({ "agent_id": ann.id, "message": "hi" });
    assert_eq!(
        other.refused("host.prompt_agent", prompt.clone()).await,
        "not_a_descendant"
    );
    assert_eq!(
        other
            .refused("host.kill_agent", json!({ "agent_id": ann.id }))
            .await,
        "not_a_descendant"
    );
    assert_eq!(
        bea.refused("host.prompt_agent", prompt).await,
        "agent_not_allowed"
    );
    let ceiling = json!({ "agent_id": ann.id, "rules": [RULE] });
    let no_orchestrator = family.wire.no("host.set_ceiling", ceiling.clone()).await;
    assert_eq!(no_orchestrator["data"]["reason"], "not_an_orchestrator");
    assert_eq!(
        family.boss.refused("host.set_ceiling", ceiling).await,
        "agent_not_allowed"
    );
    for ask in [own, below] {
        family.wire.ok("host.resolve_approval", approve(&ask)).await;
    }
    family.end().await;
}

async fn remembered(killed: bool) {
    let mut family = Family::begin(&["ann", "bea"]).await;
    let ann = family.kids[0].id.clone();
    give(&family, &["--rule", RULE]);
    let ask = asked(&mut family, 0, "echo a 1").await;
    let with = |rule: &str| {
        let mut answer = approve(&ask);
        answer["remember"] = json!({ "rules": [rule] });
        answer
    };
    assert_eq!(
        refused(&mut family, with("Bash(echo:*)")).await,
        "above_ceiling"
    );
    family.boss.ok("host.resolve_approval", with(RULE)).await;
    rested(&mut family.wire, &ann).await;
    if killed {
        family.kill_host().await;
    }
    // The same again goes through, for the agent that asked and no other.
    let steps = json!([asks("c2", "echo a 2", &json!([{ "say": "did it\n" }]))]);
    family.prompt(&ann, &steps).await;
    let row = rested(&mut family.wire, &ann).await;
    assert_eq!(row["open_approvals"], 0);
    let told = crate::scene::told(&mut family.wire, &ann).await;
    assert!(told.contains("did it"), "{told}");
    let beas = asked(&mut family, 1, "echo a 3").await;
    assert_eq!(beas["agent_id"], family.kids[1].id);
    give(&family, &["--clear"]);
    let again = asked(&mut family, 0, "echo a 4").await;
    assert_eq!(again["agent_id"], ann);
    let rules = family.wire.ok("host.rules", json!({})).await;
    assert_eq!(rules["grants"], json!([]), "{rules}");
    not_by_hand(&mut family).await;
    family.end().await;
}

/// What an orchestrator decided is nobody's habit.
async fn not_by_hand(family: &mut Family) {
    let params = json!({ "rule": RULE });
    let replayed = family.wire.ok("host.backtest_rule", params).await;
    assert_eq!(
        (&replayed["agreed"], &replayed["settled"]),
        (&json!(0), &json!(0)),
        "{replayed}"
    );
    let mined = family.wire.ok("host.suggest_rules", json!({})).await;
    assert!(!mined.to_string().contains("echo a"), "{mined}");
}

#[tokio::test]
async fn what_an_orchestrator_remembers_ends_with_its_ceiling() {
    remembered(false).await;
}

#[tokio::test]
async fn what_an_orchestrator_remembers_outlives_the_host_and_no_ceiling() {
    remembered(true).await;
}

/// Ends a host while an orchestrator allows something; it says so again to the next one.
async fn allowed_once(point: &str) {
    let mut family = Family::begin(&["ann"]).await;
    let ann = family.kids[0].id.clone();
    give(&family, &["--rule", RULE]);
    let ask = asked(&mut family, 0, "echo a 1").await;
    family.scene.host.kill();
    family.scene.host.start_armed(&format!("{point}:1"));
    family.boss.connect(&family.scene).await;
    let answer = approve(&ask);
    family
        .boss
        .process
        .try_reply("host.resolve_approval", answer.clone())
        .await;
    family.scene.host.restart_after_crash();
    family.come_back().await;
    let again = family
        .boss
        .process
        .reply("host.resolve_approval", answer)
        .await;
    assert_eq!(again["result"]["state"], "allowed", "{point}: {again}");
    rested(&mut family.wire, &ann).await;
    let told = crate::scene::told(&mut family.wire, &ann).await;
    assert_eq!(told.matches("did echo a 1").count(), 1, "{point}: {told}");
    family.end().await;
}

#[tokio::test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "only builds with debug assertions have crash points"
)]
async fn what_an_orchestrator_allows_runs_once_wherever_the_host_is_killed() {
    for point in [
        "decision_committing",
        "decision_committed",
        "answer_written",
    ] {
        allowed_once(point).await;
    }
}

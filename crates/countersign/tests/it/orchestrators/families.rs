//! Families: what people see of them, and what becomes of the children of one that ends.

use serde_json::{Value, json};

use super::{Below, Family};
use crate::scene::{asks, next_ask, rested};

async fn states(family: &mut Family) -> Vec<(String, Value)> {
    let agents = family.wire.ok("host.agents", json!({})).await;
    let named = |agent: &Value| {
        (
            agent["name"].as_str().unwrap().to_owned(),
            agent["state"].clone(),
        )
    };
    let mut states: Vec<_> = agents.as_array().unwrap().iter().map(named).collect();
    states.sort_by(|one, other| one.0.cmp(&other.0));
    states
}

fn expected(states: [(&str, &str); 3]) -> Vec<(String, Value)> {
    states
        .map(|(name, state)| (name.to_owned(), json!(state)))
        .to_vec()
}

#[tokio::test]
async fn what_becomes_of_children_has_to_be_said() {
    let mut family = Family::begin(&["ann", "bea"]).await;
    for words in [&["kill", "boss"], &["archive", "boss"]] {
        let (code, said) = family.cli(words);
        assert_eq!(code, Some(10), "{said}");
        assert!(
            said.contains("ann, bea") && said.contains("--children end"),
            "{said}"
        );
    }
    let boss = family.boss.id.clone();
    let params = json!({ "agent_id": boss });
    let refused = family.wire.no("host.kill_agent", params).await;
    assert_eq!(refused["data"]["reason"], "has_children");
    let idle = expected([("ann", "idle"), ("bea", "idle"), ("boss", "idle")]);
    assert_eq!(states(&mut family).await, idle);

    let (code, said) = family.cli(&["kill", "boss", "--children", "keep"]);
    assert_eq!((code, said.as_str()), (Some(0), "boss ended\n"));
    rested(&mut family.wire, &boss).await;
    let kept = expected([("ann", "idle"), ("bea", "idle"), ("boss", "stopped")]);
    assert_eq!(states(&mut family).await, kept);
    // Nobody above hears them any more, so people do.
    let asked = family.kids[0].asks("which port?").await;
    assert_eq!(
        (asked.get("to"), &asked["for_people"]),
        (None, &json!(true))
    );
    family.end().await;
}

async fn children_end(killed: bool) {
    let mut family = Family::begin(&["ann", "bea"]).await;
    let ids: Vec<Value> = [&family.boss, &family.kids[0], &family.kids[1]]
        .map(|hand| hand.id.clone())
        .to_vec();
    family.busy(&ids[1]).await;
    let (code, said) = family.cli(&["kill", "boss", "--children", "end"]);
    assert_eq!(code, Some(0), "{said}");
    if killed {
        family.kill_host().await;
    }
    for id in &ids {
        rested(&mut family.wire, id).await;
    }
    let gone = expected([("ann", "stopped"), ("bea", "stopped"), ("boss", "stopped")]);
    assert_eq!(states(&mut family).await, gone);
    family.end().await;
}

#[tokio::test]
async fn children_end_with_their_orchestrator_if_that_is_said() {
    children_end(false).await;
}

#[tokio::test]
async fn children_end_although_the_host_was_killed() {
    children_end(true).await;
}

#[tokio::test]
async fn people_see_who_belongs_to_whom() {
    let mut family = Family::begin(&["ann"]).await;
    let boss = family.boss.id.clone();
    family.kids[0].tells("half way", None).await;
    rested(&mut family.wire, &boss).await;
    let listed = family.cli(&["ls"]).1;
    let lines: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split_whitespace().take(3).collect())
        .collect();
    assert_eq!(
        lines[1][..3],
        ["boss", "countersign,", "orchestrator"],
        "{listed}"
    );
    assert!(listed.contains("\n  ann  "), "{listed}");
    let logs = family.cli(&["logs", "boss"]).1;
    let message = family.kids[0].note("half way").replace("\n\n", "\n^\n^ ");
    assert!(logs.contains(&format!("^ {message}\n")), "{logs}");

    let (code, said) = family.cli(&["bypass", "ann", "--for", "5m"]);
    assert_eq!(code, Some(10), "{said}");
    assert!(
        said.contains("such agents never get a bypass") && said.contains("hint: "),
        "{said}"
    );
    let (code, said) = family.cli(&["ceiling", "ann"]);
    assert_eq!(code, Some(1), "{said}");
    let (code, said) = family.cli(&["ceiling", "ann", "--rule", "Bash(ls:*)"]);
    assert!(
        code == Some(10) && said.contains("is not an orchestrator"),
        "{said}"
    );
    let (code, said) = family.cli(&["ceiling", "boss", "--rule", "Bash("]);
    assert_eq!(code, Some(2), "{said}");
    let (code, said) = family.cli(&["ceiling", "boss", "--rule", "Bash(ls:*)", "--for", "2h"]);
    let words = "boss may approve, for the agents it started,\n  Bash(ls:*)\nends in 2h\n";
    assert_eq!((code, said.as_str()), (Some(0), words));
    assert_eq!(family.cli(&["ceiling", "boss"]).1, words);
    family.end().await;
}

#[tokio::test]
async fn an_orchestrator_is_above_those_that_its_own_orchestrators_started() {
    let mut family = Family::begin(&[]).await;
    let below = Below {
        name: "lead",
        role: Some("orchestrator"),
    };
    let mut lead = below
        .started(&family.scene, &mut family.wire, &mut family.boss)
        .await;
    let below = Below {
        name: "leaf",
        role: None,
    };
    let mut leaf = below
        .started(&family.scene, &mut family.wire, &mut lead)
        .await;
    let listed = family.cli(&["ls"]).1;
    assert!(
        listed.contains("\nboss ")
            && listed.contains("\n  lead ")
            && listed.contains("\n    leaf "),
        "{listed}"
    );
    // It asks the nearest first, and whoever is above may answer.
    let asked = leaf.asks("which port?").await;
    assert_eq!(asked["to"], lead.id);
    let answer = json!({ "question_id": asked["id"], "answer": "7000" });
    family.boss.ok("host.answer_question", answer).await;
    // A ceiling is for everybody below, and nobody lends it.
    let ceiling = json!({ "agent_id": family.boss.id, "rules": ["Bash(echo a:*)"] });
    family.wire.ok("host.set_ceiling", ceiling).await;
    family
        .prompt(&leaf.id, &json!([asks("c1", "echo a", &json!([]))]))
        .await;
    let ask = next_ask(&mut family.wire).await;
    let answer = json!({ "approval_id": ask["id"], "resolution": "approve" });
    let refused = lead.refused("host.resolve_approval", answer.clone()).await;
    assert_eq!(refused, "above_ceiling");
    family.boss.ok("host.resolve_approval", answer).await;
    rested(&mut family.wire, &leaf.id).await;
    // Nobody reaches upwards.
    let up = json!({ "agent_id": family.boss.id, "message": "hi" });
    assert_eq!(
        lead.refused("host.prompt_agent", up).await,
        "not_a_descendant"
    );
    let (code, said) = family.cli(&["kill", "boss", "--children", "end"]);
    assert_eq!(code, Some(0), "{said}");
    for id in [&family.boss.id, &lead.id, &leaf.id] {
        let row = rested(&mut family.wire, id).await;
        assert_eq!(row["state"], "stopped");
    }
    family.end().await;
}

//! Questions to an orchestrator: early, late and second answers, and people who take over.

use serde_json::{Value, json};

use super::Family;
use crate::scene::rested;

fn answer(asked: &Value, words: &str) -> Value {
    json!({ "question_id": asked["id"], "answer": words })
}

async fn row(family: &mut Family, asked: &Value) -> Value {
    let params = json!({ "question_id": asked["id"] });
    family.wire.ok("host.question", params).await
}

/// What an asker is told: how it ended, who answered, and the words.
fn ending(row: &Value) -> (Value, Value, Value) {
    let who = &row["answered_by"];
    (
        row["state"].clone(),
        json!([who["role"], who["agent_id"]]),
        row["answer"].clone(),
    )
}

async fn an_orchestrator_answers(killed: bool) {
    let mut family = Family::begin(&["ann", "bea"]).await;
    let boss = family.boss.id.clone();
    let turns = family.row(&boss).await["managed"]["turns"]
        .as_u64()
        .unwrap();
    let asked = family.kids[0].asks("which port?").await;
    assert_eq!((&asked["to"], &asked["for_people"]), (&boss, &json!(false)));
    if killed {
        family.kill_host().await;
    }
    let ann = family.kids[0].id.clone();
    assert_eq!(family.row(&ann).await["state"], "waiting");
    rested(&mut family.wire, &boss).await;
    let heard = (turns + 1, ann.clone(), family.kids[0].question(&asked));
    assert_eq!(family.heard(&boss, turns).await, [heard]);
    // Neither the asker nor its sibling answers, by no door.
    for kid in &mut family.kids {
        let refused = kid
            .refused("host.answer_question", answer(&asked, "1"))
            .await;
        assert_eq!(refused, "agents_cannot_answer");
    }
    family
        .boss
        .ok("host.answer_question", answer(&asked, "7000"))
        .await;
    let params = json!({ "question_id": asked["id"], "timeout_ms": 30_000 });
    let told = family.kids[0].ok("host.wait_question", params).await;
    assert_eq!(
        ending(&told),
        (json!("answered"), json!(["agent", boss]), json!("7000"))
    );
    let late = family
        .wire
        .no("host.answer_question", answer(&asked, "8000"))
        .await;
    assert_eq!(late["data"]["reason"], "already_resolved", "{late}");
    let second = family
        .boss
        .refused("host.answer_question", answer(&asked, "9000"))
        .await;
    assert_eq!(second, "already_resolved");
    assert_eq!(family.row(&ann).await["state"], "idle");
    let shown = family.cli(&["show", asked["id"].as_str().unwrap()]).1;
    assert!(
        shown.contains("answered by orchestrator") && shown.contains("its orchestrator boss first"),
        "{shown}"
    );
    family.end().await;
}

#[tokio::test]
async fn an_orchestrator_answers_and_the_first_answer_is_final() {
    an_orchestrator_answers(false).await;
}

#[tokio::test]
async fn an_orchestrator_answers_although_the_host_was_killed() {
    an_orchestrator_answers(true).await;
}

async fn a_person_is_faster(killed: bool) {
    let mut family = Family::begin(&["ann"]).await;
    let boss = family.boss.id.clone();
    let turn = family.busy(&boss).await;
    let asked = family.kids[0].asks("which port?").await;
    let again = family.kids[0].asks("which port?").await;
    assert_eq!(again["id"], asked["id"]);
    assert_eq!(family.row(&boss).await["managed"]["queued"], 1);
    if killed {
        family.kill_host().await;
    }
    let inbox = family.cli(&["inbox"]).1;
    assert!(inbox.contains("[asks boss first, you in "), "{inbox}");
    let (code, said) = family.cli(&["answer", asked["id"].as_str().unwrap(), "7000"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(family.row(&boss).await["managed"]["queued"], 0);
    family.interrupted(&boss).await;
    assert_eq!(family.heard(&boss, turn).await, []);
    let (state, by, words) = ending(&row(&mut family, &asked).await);
    assert_eq!(
        (state, by, words),
        (json!("answered"), json!(["operator", null]), json!("7000"))
    );
    let late = family
        .boss
        .refused("host.answer_question", answer(&asked, "8000"))
        .await;
    assert_eq!(late, "already_resolved");
    family.end().await;
}

#[tokio::test]
async fn what_a_person_answered_is_not_heard_any_more() {
    a_person_is_faster(false).await;
}

#[tokio::test]
async fn what_a_person_answered_is_not_heard_by_the_next_host_either() {
    a_person_is_faster(true).await;
}

async fn people_are_asked(killed: bool) {
    let config = "[questions]\nto_person_seconds = 1\n";
    let mut family = Family::begin_with(&["ann"], "", config).await;
    let boss = family.boss.id.clone();
    family.busy(&boss).await;
    let asked = family.kids[0].asks("which port?").await;
    assert_eq!(asked["for_people"], false);
    if killed {
        family.kill_host().await;
    }
    // A new subscriber is not told what came before it.
    while row(&mut family, &asked).await["for_people"] == false {
        if !killed {
            family.wire.event_of("question.escalated").await;
        }
    }
    let kinds = json!({ "kinds": ["question.escalated"], "limit": 10 });
    let told = family.wire.ok("host.events", kinds).await;
    assert_eq!(told.as_array().unwrap().len(), 1, "{told}");
    let shown = family.cli(&["show", asked["id"].as_str().unwrap()]).1;
    assert!(shown.contains("people are asked now"), "{shown}");
    // The orchestrator may answer all the same.
    family
        .boss
        .ok("host.answer_question", answer(&asked, "7000"))
        .await;
    assert_eq!(row(&mut family, &asked).await["state"], "answered");
    family.end().await;
}

#[tokio::test]
async fn people_are_asked_after_the_time_in_the_file() {
    people_are_asked(false).await;
}

#[tokio::test]
async fn people_are_asked_by_the_next_host() {
    people_are_asked(true).await;
}

#[tokio::test]
async fn an_answer_after_the_end_is_late() {
    let mut family = Family::begin(&["ann"]).await;
    let params = json!({ "question": "now?", "timeout_ms": 1 });
    let asked = family.kids[0].ok("host.ask_question", params).await;
    let params = json!({ "question_id": asked["id"], "timeout_ms": 30_000 });
    let told = family.kids[0].ok("host.wait_question", params).await;
    assert_eq!(told["state"], "expired");
    let late = family
        .boss
        .refused("host.answer_question", answer(&asked, "yes"))
        .await;
    assert_eq!(late, "already_resolved");
    family.end().await;
}

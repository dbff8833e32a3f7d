//! Parent messages: what agents tell the orchestrator that started them.

use serde_json::json;

use super::Family;
use crate::scene::rested;

async fn parent_messages_come_together(killed: bool) {
    let mut family = Family::begin(&["ann", "bea"]).await;
    let boss = family.boss.id.clone();
    let turn = family.busy(&boss).await;
    for _ in 0..2 {
        family.kids[0].tells("half way", None).await;
        family.kids[0].tells("the tests fail", Some("k1")).await;
    }
    family.kids[1].tells("half way", None).await;
    if killed {
        family.kill_host().await;
    }
    family.kids[0].tells("the tests fail", Some("k1")).await;
    assert_eq!(family.heard(&boss, turn).await, []);
    assert_eq!(family.row(&boss).await["managed"]["queued"], 3);
    family.interrupted(&boss).await;
    let [ann, bea] = family.kids.as_slice() else {
        panic!("two agents");
    };
    let expected = vec![
        (
            turn + 1,
            ann.id.clone(),
            ann.note("half way\n\n(said 2 times)"),
        ),
        (turn + 1, ann.id.clone(), ann.note("the tests fail")),
        (turn + 1, bea.id.clone(), bea.note("half way")),
    ];
    assert_eq!(family.heard(&boss, turn).await, expected);
    // It was heard, so it is said anew.
    family.kids[1].tells("half way", None).await;
    rested(&mut family.wire, &boss).await;
    let bea = &family.kids[1];
    let again = (turn + 2, bea.id.clone(), bea.note("half way"));
    assert_eq!(family.heard(&boss, turn + 1).await, [again]);
    family.end().await;
}

#[tokio::test]
async fn parent_messages_come_once_between_turns_and_together() {
    parent_messages_come_together(false).await;
}

#[tokio::test]
async fn parent_messages_come_once_although_the_host_was_killed() {
    parent_messages_come_together(true).await;
}

#[tokio::test]
async fn an_orchestrator_hears_when_what_it_wanted_is_done_and_not_when_people_did() {
    let mut family = Family::begin(&["ann"]).await;
    let (boss, ann) = (family.boss.id.clone(), family.kids[0].id.clone());
    let before = family.row(&boss).await["managed"]["turns"]
        .as_u64()
        .unwrap();
    family
        .prompt(&ann, &json!([{ "say": "for a person" }]))
        .await;
    rested(&mut family.wire, &ann).await;
    let params = json!({ "agent_id": ann, "message": "for you" });
    family.boss.ok("host.prompt_agent", params).await;
    rested(&mut family.wire, &ann).await;
    rested(&mut family.wire, &boss).await;
    let words = format!(
        "[countersign] Agent `ann` ({}) is done with what you told it (end_turn); \
         `read_transcript` shows what it did",
        ann.as_str().unwrap()
    );
    assert_eq!(
        family.heard(&boss, before).await,
        [(before + 1, ann, words)]
    );
    family.end().await;
}

/// Ends a host while an agent tells something under a key; the agent says it again to the next one.
async fn told_once(point: &str) {
    let mut family = Family::begin(&["ann"]).await;
    let boss = family.boss.id.clone();
    let turns = family.row(&boss).await["managed"]["turns"]
        .as_u64()
        .unwrap();
    family.scene.host.kill();
    family.scene.host.start_armed(&format!("{point}:1"));
    family.kids[0].connect(&family.scene).await;
    let params = json!({ "message": "hello", "idempotency_key": "k" });
    family.kids[0]
        .process
        .try_reply("host.notify_parent", params)
        .await;
    family.scene.host.restart_after_crash();
    family.come_back().await;
    family.kids[0].tells("hello", Some("k")).await;
    rested(&mut family.wire, &boss).await;
    let ann = &family.kids[0];
    let expected = (turns + 1, ann.id.clone(), ann.note("hello"));
    assert_eq!(family.heard(&boss, turns).await, [expected], "{point}");
    let told = crate::scene::told(&mut family.wire, &boss).await;
    assert_eq!(told.matches("hello").count(), 1, "{point}: {told}");
    family.end().await;
}

#[tokio::test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "only builds with debug assertions have crash points"
)]
async fn a_letter_comes_once_wherever_in_its_life_the_host_is_killed() {
    let points = countersign_testkit::crash::PARENT_MESSAGE_CRASH_POINTS.into_iter();
    for point in points.chain(["prompt_written"]) {
        told_once(point).await;
    }
}

#[tokio::test]
async fn a_note_of_an_agent_without_an_orchestrator_reaches_people() {
    let mut family = Family::begin(&[]).await;
    family.boss.tells("half way", None).await;
    let inbox = family.cli(&["inbox"]).1;
    let note = inbox.lines().find(|line| line.starts_with("- "));
    let words: Vec<&str> = note.unwrap_or_default().split_whitespace().collect();
    assert_eq!(words[1], "note", "{inbox}");
    assert_eq!(words[3..], ["boss", "half", "way"], "{inbox}");
    let logs = family.cli(&["logs", "boss"]).1;
    assert!(logs.contains("! note to you: half way\n"), "{logs}");
    family.end().await;
}

//! Questions of real agents to whoever is above them: across hosts, and answered early, late and twice.

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::family::{self, Family, spawns};
use super::told::{host_tool, script};

const BOTH: &str = "allow = [\"SpawnAgent(codex)\", \"SpawnAgent(claude)\"]\n";

/// A question to which the orchestrator is told no answer.
fn asks(more: &Value) -> Value {
    let mut input = more.clone();
    input["question"] = json!("Which port?");
    json!([{ "tool": host_tool("ask_orchestrator"), "input": input }])
}

/// What the orchestrator does to answer a question.
fn answers(id: &str, answer: &str) -> Value {
    let input = json!({ "question_id": id, "answer": answer });
    json!([{ "tool": host_tool("answer_question"), "input": input }])
}

/// How a question ended: its state, the answer, and who gave it.
async fn ended(family: &mut Family, id: &str) -> [Value; 4] {
    let rows = family.stage.wire.ok("host.questions", json!({})).await;
    let mut rows = rows.as_array().unwrap().iter();
    let row = rows.find(|row| row["id"] == id).unwrap();
    let by = &row["answered_by"];
    ["state", "answer"]
        .map(|field| row[field].clone())
        .into_iter()
        .chain([by["role"].clone(), by["name"].clone()])
        .collect::<Vec<_>>()
        .try_into()
        .unwrap()
}

#[tokio::test]
async fn claude_waits_across_hosts_and_the_first_answer_counts() {
    a_child_waits_across_hosts_and_the_first_answer_counts("claude").await;
}

#[tokio::test]
async fn codex_waits_across_hosts_and_the_first_answer_counts() {
    a_child_waits_across_hosts_and_the_first_answer_counts("codex").await;
}

async fn a_child_waits_across_hosts_and_the_first_answer_counts(kind: &str) {
    let steps = json!([spawns(kind, "ann", &asks(&json!({})))]);
    let Some(mut family) = Family::set(RealAgent::Claude, BOTH, &steps).await else {
        return;
    };
    let ann = family.child("ann").await;
    let id = family.stage.question(&ann).await;
    // The orchestrator hears of it, and has nothing to say.
    family.stage.turn_ended(&family.boss, 2).await;
    family.stage.restart_host().await;
    let row = family.stage.row(&ann).await;
    let waits = (&row["state"], &row["open_questions"]);
    assert_eq!(waits, (&json!("waiting"), &json!(1)), "{row}");
    family.tell_boss(&answers(&id, "port 7000"));
    family.stage.turn_ended(&ann, 1).await;
    family.stage.hears(&ann, "assistant", "port 7000").await;
    let expected = ["answered", "port 7000", "agent", "boss"].map(|word| json!(word));
    assert_eq!(ended(&mut family, &id).await, expected);
    let second = family.stage.run(&["answer", &id, "port 8000"]);
    let words = String::from_utf8(second.stderr).unwrap();
    let earlier = "was already answered by boss";
    assert!(words.contains(earlier), "{words}");
    assert_eq!(second.status.code(), Some(9), "{words}");
    family.hears(&family::done(&ann)).await;
    // Its turns were the start, the question, the answer and the end of its child.
    family.tell_boss(&answers(&id, "port 9000"));
    family.stage.turn_ended(&family.boss, 5).await;
    assert!(family.stage.model_received(earlier));
    let heard = family.parent_messages().await;
    let asked = heard.iter().filter(|message| message.contains(&id));
    assert_eq!((asked.count(), heard.len()), (1, 2), "{heard:?}");
    assert_eq!(ended(&mut family, &id).await, expected);
    family.end(&[&ann]).await;
}

#[tokio::test]
async fn an_early_answer_spares_the_orchestrator_the_question() {
    let steps = json!([
        spawns("claude", "ann", &asks(&json!({}))),
        spawns("gemini", "gem", &json!([])),
    ]);
    let Some(mut family) = Family::set(RealAgent::Claude, BOTH, &steps).await else {
        return;
    };
    let ann = family.child("ann").await;
    let stage = &mut family.stage;
    let id = stage.question(&ann).await;
    let fits = |event: &Value| {
        let action = event["payload"]["action"].as_str();
        action.is_some_and(|action| action.contains("start an agent: gemini"))
    };
    let spawn = stage.event(fits).await;
    stage.ok(&["answer", &id, "port 7000"]);
    stage.turn_ended(&ann, 1).await;
    stage.hears(&ann, "assistant", "port 7000").await;
    let spawn = spawn["payload"]["id"].as_str().unwrap();
    stage.ok(&["deny", spawn]);
    family.hears(&family::done(&ann)).await;
    assert_eq!(family.parent_messages().await, [family::done(&ann)]);
    family.end(&[&ann]).await;
}

#[tokio::test]
async fn a_late_answer_is_refused_and_the_asker_was_told() {
    let hold = [("COUNTERSIGN_EXPIRY_HOLD_MS", "0")];
    let Some(mut stage) = family::stage(RealAgent::ClaudeCode, "", &hold).await else {
        return;
    };
    let asks = asks(&json!({ "timeout_s": 1 }));
    let ann = stage.spawn("ann", &script(&asks));
    let id = stage.question(&ann).await;
    stage.turn_ended(&ann, 1).await;
    stage
        .hears(&ann, "assistant", "nobody answered within 1 s")
        .await;
    let late = stage.run(&["answer", &id, "port 7000"]);
    let words = String::from_utf8(late.stderr).unwrap();
    assert_eq!(late.status.code(), Some(9), "{words}");
    stage.end(&ann).await;
}

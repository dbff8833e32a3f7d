//! An orchestrator with children of two kinds: what they ask it, what only a person gives them, and what
//! it hears of them.

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};

use super::actor::Actor;
use super::family::{Family, done, spawns};
use super::stage::Stage;
use super::stories::{ended, ending};
use super::told::{self, host_tool, script};

/// A question that carries what the orchestrator is to answer.
pub(super) fn question(answer: &str) -> Value {
    let input = json!({ "question_id": { "after": "waits for an answer to " }, "answer": answer });
    let answers = json!([{ "tool": host_tool("answer_question"), "input": input }]);
    let question = format!("Which port? {}", script(&answers));
    json!({ "tool": host_tool("ask_orchestrator"), "input": { "question": question } })
}

/// What an orchestrator asked to start, and who decided: oldest first.
async fn spawns_decided(stage: &mut Stage, boss: &Actor) -> Vec<[Value; 3]> {
    let rows = stage.asks_of(boss).await;
    let is_spawn = |row: &&Value| row["action"].to_string().contains("start an agent");
    let rows = rows.iter().filter(is_spawn);
    rows.map(|row| {
        let by = &row["resolved_by"]["role"];
        [&row["action"], &row["state"], by].map(Clone::clone)
    })
    .collect()
}

/// Every agent with its kind and its parent, by name.
async fn members(stage: &mut Stage) -> Vec<[Value; 3]> {
    let rows = stage.wire.ok("host.agents", json!({})).await;
    let rows = rows.as_array().unwrap().iter();
    let member = |row: &Value| {
        let managed = &row["managed"];
        [&row["name"], &managed["agent"], &managed["parent"]].map(Clone::clone)
    };
    let mut members: Vec<_> = rows.map(member).collect();
    members.sort_by_key(|member| member[0].to_string());
    members
}

/// What the orchestrator hears of a question.
fn asked(child: &Actor, question: &Value) -> String {
    format!(
        "[countersign] Agent `{}` ({}) asks you, and waits for an answer to {} (`answer_question`). \
         These are its words, not a person's:\n\n{}",
        child.name,
        child.id,
        question["id"].as_str().unwrap(),
        question["question"].as_str().unwrap()
    )
}

/// Both children have done their work: this is all that is on the record of it.
async fn is_on_record(
    family: &mut Family,
    first: RealAgent,
    second: &str,
    [ann, cody]: [&Actor; 2],
) {
    let boss = json!(family.boss.id);
    let stage = &mut family.stage;
    let expected = [
        [json!("ann"), json!(second), boss.clone()],
        [json!("boss"), json!(first.catalog_name()), Value::Null],
        [json!("cody"), json!("codex"), boss.clone()],
    ];
    assert_eq!(members(stage).await, expected);
    let wanted = format!("start an agent: {second} in ann");
    let expected = [
        ["start an agent: codex in cody", "allowed", "host"],
        [&wanted, "allowed", "operator"],
    ];
    let decided = spawns_decided(stage, &family.boss).await;
    assert_eq!(decided, expected.map(|row| row.map(|word| json!(word))));
    assert_eq!(stage.asks_waited_for(ann).await, ["Bash"]);
    assert_eq!(stage.asks_waited_for(cody).await, Vec::<Value>::new());
    let questions = stage.wire.ok("host.questions", json!({})).await;
    let [question] = questions.as_array().unwrap().as_slice() else {
        panic!("{questions}");
    };
    let by = json!({ "agent_id": boss, "name": "boss", "role": "agent" });
    assert_eq!(
        (
            &question["agent_id"],
            &question["answer"],
            &question["answered_by"]
        ),
        (&json!(cody.id), &json!("port 7000"), &by)
    );
    let mut messages = family.parent_messages().await;
    messages.sort();
    let mut expected = [asked(cody, question), done(ann), done(cody)];
    expected.sort();
    assert_eq!(messages, expected);
}

#[tokio::test]
async fn over_acp_it_starts_two_kinds_answers_one_and_hears_of_both() {
    starts_answers_and_hears(RealAgent::Claude, "claude").await;
}

#[tokio::test]
async fn natively_it_starts_two_kinds_answers_one_and_hears_of_both() {
    starts_answers_and_hears(RealAgent::ClaudeCode, "claude-acp").await;
}

/// A rule lets it start codex, and a person the second kind.
async fn starts_answers_and_hears(boss: RealAgent, second: &str) {
    let asks = json!([question("port 7000")]);
    let runs = json!([{ "shell": told::ADDS }]);
    let steps = json!([
        spawns("codex", "cody", &asks),
        spawns(second, "ann", &runs),
        { "say": "Both are at work. " },
    ]);
    let rules = "allow = [\"SpawnAgent(codex)\"]\n";
    let Some(mut family) = Family::set(boss, rules, &steps).await else {
        return;
    };
    let cody = family.child("cody").await;
    let stage = &mut family.stage;
    let fits = |event: &Value| {
        event["kind"] == "approval.requested"
            && event["payload"]["input"]["agent"] == second
            && event["payload"]["action"]
                .to_string()
                .contains("start an agent")
    };
    let wanted = stage.event(fits).await;
    stage.approve(&wanted["payload"]).await;
    let ann = family.child("ann").await;
    let stage = &mut family.stage;
    let ask = stage.ask(&ann).await;
    assert!(!ann.has("ran"));
    stage.approve(&ask).await;
    let end = stage.turn_ended(&ann, 1).await;
    assert_eq!(end["reason"], "end_turn", "{end}");
    stage.turn_ended(&cody, 1).await;
    stage.hears(&cody, "assistant", "port 7000").await;
    for child in [&ann, &cody] {
        family.hears(&done(child)).await;
    }
    assert_eq!(ann.lines_of("ran"), ["ran"]);
    assert_eq!(
        ending(&mut family.stage, &ask).await,
        ended("allowed", "operator", "delivered")
    );
    is_on_record(&mut family, boss, second, [&ann, &cody]).await;
    family.end(&[&ann, &cody]).await;
}

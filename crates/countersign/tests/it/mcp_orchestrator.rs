//! Orchestrators by MCP: they start agents of their own, look after them, and reach nobody else.

use serde_json::{Value, json};

use crate::host::command;
use crate::managed::{PROGRAM, script};
use crate::mcp::Bearer;
use crate::scene::{Scene, asks, rested};
use crate::wire::Wire;

/// A scripted agent that was started as an orchestrator, and its bearer.
async fn orchestrator(scene: &Scene, wire: &mut Wire) -> (Value, Bearer) {
    let mut params = scene.spawn_params("boss", &json!([{ "say": "ready" }]));
    params["role"] = json!("orchestrator");
    let boss = wire.ok("host.spawn_agent", params).await["id"].take();
    // What it asks in a turn ends with the turn.
    rested(wire, &boss).await;
    let bearer = Bearer::of(&scene.host, wire, boss.as_str().unwrap()).await;
    (boss, bearer)
}

/// What an orchestrator says to start a scripted agent that does these steps.
fn child(scene: &Scene, name: &str, steps: &Value) -> Value {
    let state = scene.folder();
    json!({
        "name": name, "command": [PROGRAM, "demo", "agent"], "prompt": script(steps),
        "env": { "SCRIPTED_AGENT_STATE": state, "SCENE_MARK": scene.mark() },
    })
}

async fn pending(wire: &mut Wire, list: &str) -> Value {
    loop {
        let mut open = wire.ok(list, json!({ "status": "pending" })).await;
        if !open[0].is_null() {
            return open[0].take();
        }
    }
}

async fn decide(wire: &mut Wire, mut answer: Value) -> Value {
    let asked = pending(wire, "host.approvals").await;
    answer["approval_id"] = asked["id"].clone();
    wire.ok("host.resolve_approval", answer).await;
    asked
}

/// Starts a child, with a person's yes.
async fn spawned(boss: &mut Bearer, wire: &mut Wire, wanted: Value) -> Value {
    let spawning = boss.call("spawn_agent", wanted);
    let ((is_error, words, child), _) =
        tokio::join!(spawning, decide(wire, json!({ "resolution": "approve" })));
    assert!(!is_error, "{words}");
    child
}

#[tokio::test]
async fn an_orchestrator_starts_looks_after_and_ends_an_agent() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let (id, mut boss) = orchestrator(&scene, &mut wire).await;
    let wanted = child(&scene, "hand", &json!([{ "say": "the work is done" }]));
    let spawning = boss.call("spawn_agent", wanted.clone());
    let ((is_error, _, hand), asked) = tokio::join!(
        spawning,
        decide(&mut wire, json!({ "resolution": "approve" }))
    );
    assert!(!is_error);
    assert_eq!(
        (&asked["tool"], &asked["input"], &asked["agent_id"]),
        (&json!("mcp__countersign__spawn_agent"), &wanted, &id)
    );
    assert_eq!((&hand["name"], &hand["parent"]), (&json!("hand"), &id));

    let all = json!({ "agents": ["hand"], "timeout_s": 30 });
    let (_, words, rested) = boss.call("wait_for_agents", all).await;
    assert_eq!(rested["all_idle"], true, "{words}");
    let (_, text, _) = boss
        .call("read_transcript", json!({ "agent": "hand" }))
        .await;
    assert!(text.contains("assistant: the work is done"), "{text}");
    let (_, _, listed) = boss.call("list_agents", json!({})).await;
    assert_eq!(listed["agents"][0]["id"], hand["id"]);
    let message = script(&json!([{ "say": "more was done" }]));
    let sent = json!({ "agent": hand["id"], "message": message });
    let (is_error, words, _) = boss.call("send_to_agent", sent).await;
    assert!(!is_error, "{words}");
    boss.call("wait_for_agents", json!({ "timeout_s": 30 }))
        .await;
    let (_, text, _) = boss
        .call("read_transcript", json!({ "agent": "hand" }))
        .await;
    assert!(text.contains("[turn 2] assistant: more was done"), "{text}");
    let (is_error, words, _) = boss.call("kill_agent", json!({ "agent": "hand" })).await;
    assert!(!is_error, "{words}");
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn nothing_starts_without_a_yes() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let (_, mut boss) = orchestrator(&scene, &mut wire).await;
    let wanted = child(&scene, "hand", &json!([]));
    let spawning = boss.call("spawn_agent", wanted);
    let no = json!({ "resolution": "deny", "message": "do it yourself" });
    let ((is_error, words, _), _) = tokio::join!(spawning, decide(&mut wire, no));
    assert!(is_error && words.contains("do it yourself"), "{words}");
    let (_, words, listed) = boss.call("list_agents", json!({})).await;
    assert_eq!(
        (words.as_str(), listed),
        ("no agents", json!({ "agents": [] }))
    );
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_call_that_is_repeated_starts_one_agent() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let (_, mut boss) = orchestrator(&scene, &mut wire).await;
    boss.key = Some("the-same".to_owned());
    let wanted = child(&scene, "hand", &json!([{ "say": "done" }]));
    let first = spawned(&mut boss, &mut wire, wanted.clone()).await;
    let (is_error, words, second) = boss.call("spawn_agent", wanted).await;
    assert!(!is_error, "{words}");
    assert_eq!(first["id"], second["id"]);
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_child_asks_its_orchestrator_which_answers() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let (_, mut boss) = orchestrator(&scene, &mut wire).await;
    let hand = spawned(&mut boss, &mut wire, child(&scene, "hand", &json!([]))).await;
    rested(&mut wire, &hand["id"]).await;
    let mut hand = Bearer::of(&scene.host, &mut wire, hand["id"].as_str().unwrap()).await;
    let asking = hand.call("ask_orchestrator", json!({ "question": "which port?" }));
    let answering = async {
        pending(&mut wire, "host.questions").await;
        let (_, _, mut open) = boss.call("list_questions", json!({})).await;
        assert_eq!(open["questions"][0]["question"], "which port?");
        let answer = json!({ "question_id": open["questions"][0]["id"].take(), "answer": "7000" });
        boss.call("answer_question", answer).await
    };
    let ((_, words, _), (is_error, said, _)) = tokio::join!(asking, answering);
    assert!(!is_error, "{said}");
    assert!(
        words.starts_with("agent `") && words.ends_with("answers: 7000"),
        "{words}"
    );
    scene.end_all(&mut wire).await;
}

/// Questions are heard between turns, and whoever waits is in one.
#[tokio::test]
async fn a_question_ends_the_wait_of_an_orchestrator() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let (_, mut boss) = orchestrator(&scene, &mut wire).await;
    // It is in the middle of a turn as long as nobody says whether it may.
    let steps = json!([asks("c1", "make", &json!([]))]);
    let hand = spawned(&mut boss, &mut wire, child(&scene, "hand", &steps)).await;
    let asked = pending(&mut wire, "host.approvals").await;
    assert_eq!(asked["agent_id"], hand["id"]);
    let mut hand = Bearer::of(&scene.host, &mut wire, hand["id"].as_str().unwrap()).await;
    let waiting = boss.call("wait_for_agents", json!({ "timeout_s": 60 }));
    let asking = hand.call("ask_orchestrator", json!({ "question": "which port?" }));
    tokio::pin!(asking);
    let (_, words, data) = tokio::select! {
        woken = waiting => woken,
        early = &mut asking => panic!("nobody answered yet: {early:?}"),
    };
    assert_eq!(data["all_idle"], false);
    assert!(words.starts_with("one of them asks something"), "{words}");
    let open = pending(&mut wire, "host.questions").await;
    let answer = json!({ "question_id": open["id"], "answer": "7000" });
    let (_, answered) = tokio::join!(boss.call("answer_question", answer), asking);
    assert!(answered.1.ends_with("answers: 7000"), "{answered:?}");
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn an_orchestrator_settles_only_what_its_ceiling_covers() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let (id, mut boss) = orchestrator(&scene, &mut wire).await;
    let hand = spawned(&mut boss, &mut wire, child(&scene, "hand", &json!([]))).await;
    rested(&mut wire, &hand["id"]).await;
    let mut hand = Bearer::of(&scene.host, &mut wire, hand["id"].as_str().unwrap()).await;
    let wanted =
        json!({ "tool_name": "Bash", "input": { "command": "cargo test" }, "tool_use_id": "t1" });
    let asking = hand.call("request_permission", wanted);
    let deciding = async {
        let asked = pending(&mut wire, "host.approvals").await;
        let allow = json!({ "approval_id": asked["id"], "decision": "allow" });
        let (is_error, words, data) = boss.call("resolve_approval", allow.clone()).await;
        assert_eq!(
            (is_error, &data["reason"]),
            (true, &json!("above_ceiling")),
            "{words}"
        );
        let ceiling = json!({ "agent_id": id, "rules": ["Bash(cargo test)"] });
        wire.ok("host.set_ceiling", ceiling).await;
        boss.call("resolve_approval", allow).await
    };
    let ((_, told, _), (is_error, words, _)) = tokio::join!(asking, deciding);
    assert!(!is_error, "{words}");
    let told: Value = serde_json::from_str(&told).unwrap();
    let expected = json!({ "behavior": "allow", "updatedInput": { "command": "cargo test" } });
    assert_eq!(told, expected);
    scene.end_all(&mut wire).await;
}

/// The input of an ask that is a question: one closed, one with free text, one that can be left out.
fn questions() -> Value {
    json!({ "questions": [
        { "question": "Which store?", "header": "Store", "freeText": false,
          "options": [{ "label": "SQLite", "description": "one file" }, { "label": "Postgres" }] },
        { "question": "Which caches?", "multiSelect": true,
          "options": [{ "label": "Redis" }, { "label": "Memory" }] },
        { "question": "How many?", "number": true, "optional": true,
          "limits": { "whole": true, "maximum": 9 } },
    ] })
}

/// The reason and the words with which an answer by MCP is refused.
async fn refused(bearer: &mut Bearer, answer: &Value) -> (Value, String) {
    let (is_error, words, mut data) = bearer.call("resolve_approval", answer.clone()).await;
    assert!(is_error, "{answer}: {words}");
    (data["reason"].take(), words)
}

/// Everything that an orchestrator must not answer with, and why.
async fn every_wrong_answer_is_refused(boss: &mut Bearer, id: &str) {
    let fit = format!("the answers do not fit approval '{id}': ");
    for (answers, why) in [
        (
            Value::Null,
            format!("approval '{id}' asks a question: answer it, or deny it"),
        ),
        (
            json!([["SQLite"], ["Redis"]]),
            format!("{fit}it asks 3 questions and 2 answers were given"),
        ),
        (
            json!([["SQLite"], ["Redis"], [], []]),
            format!("{fit}it asks 3 questions and 4 answers were given"),
        ),
        (
            json!([["DuckDB"], ["Redis"], []]),
            format!("{fit}`DuckDB` is not a choice of `Which store?`"),
        ),
        (
            json!([["SQLite", "Postgres"], ["Redis"], []]),
            format!("{fit}`Which store?` takes one answer"),
        ),
        (
            json!([[], ["Redis"], []]),
            format!("{fit}`Which store?` has no answer"),
        ),
        (
            json!([["SQLite"], ["Redis", "Redis"], []]),
            format!("{fit}`Redis` is chosen twice for `Which caches?`"),
        ),
        (
            json!([["SQLite"], ["Redis"], ["many"]]),
            format!("{fit}`many` is not a number, which `How many?` wants"),
        ),
        (
            json!([["SQLite"], ["Redis"], ["1.5"]]),
            format!("{fit}`1.5` is not a whole number, which `How many?` wants"),
        ),
        (
            json!([["SQLite"], ["Redis"], ["10"]]),
            format!("{fit}`How many?` wants a number up to 9, and 10 is more"),
        ),
    ] {
        let mut answer = json!({ "approval_id": id, "decision": "allow" });
        if !answers.is_null() {
            answer["answers"] = answers;
        }
        assert_eq!(refused(boss, &answer).await, (json!("invalid_params"), why));
    }
}

#[tokio::test]
async fn an_orchestrator_answers_what_its_own_agent_asks_people() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let (id, mut boss) = orchestrator(&scene, &mut wire).await;
    let mut params = scene.spawn_params("stranger", &json!([]));
    params["role"] = json!("orchestrator");
    let stranger = wire.ok("host.spawn_agent", params).await["id"].take();
    rested(&mut wire, &stranger).await;
    let hand = spawned(&mut boss, &mut wire, child(&scene, "hand", &json!([]))).await["id"].take();
    rested(&mut wire, &hand).await;
    for agent in [&id, &stranger] {
        let ceiling = json!({ "agent_id": agent, "rules": ["AskUserQuestion"] });
        wire.ok("host.set_ceiling", ceiling).await;
    }
    let mut stranger = Bearer::of(&scene.host, &mut wire, stranger.as_str().unwrap()).await;
    let mut itself = Bearer::of(&scene.host, &mut wire, hand.as_str().unwrap()).await;
    let mut hand = Bearer::of(&scene.host, &mut wire, hand.as_str().unwrap()).await;
    let asked =
        json!({ "tool_name": "AskUserQuestion", "input": questions(), "tool_use_id": "t1" });
    let asking = hand.call("request_permission", asked);
    let deciding = async {
        let asked = pending(&mut wire, "host.approvals").await;
        let id = asked["id"].as_str().unwrap();
        let (_, _, listed) = boss.call("list_approvals", json!({})).await;
        assert_eq!(listed["approvals"][0]["questions"], asked["questions"]);
        let right = json!({ "approval_id": id, "decision": "allow",
            "answers": [["Postgres"], ["Redis", "a, b"], []] });
        let (reason, _) = refused(&mut stranger, &right).await;
        assert_eq!(reason, json!("agents_cannot_answer"));
        let (reason, _) = refused(&mut itself, &right).await;
        assert_eq!(reason, json!("agent_not_allowed"));
        let attempts = json!({ "kinds": ["approval.resolve_refused"] });
        let attempts = wire.ok("host.events", attempts).await;
        assert_eq!(attempts.as_array().map(Vec::len), Some(1), "{attempts}");
        every_wrong_answer_is_refused(&mut boss, id).await;
        boss.call("resolve_approval", right).await
    };
    let ((_, told, _), (is_error, words, _)) = tokio::join!(asking, deciding);
    assert!(!is_error, "{words}");
    let mut input = questions();
    input["answers"] = json!({ "Which store?": "Postgres", "Which caches?": "Redis, \"a, b\"" });
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told, json!({ "behavior": "allow", "updatedInput": input }));
    scene.end_all(&mut wire).await;
}

/// Without a ceiling that names the tool, only a person answers it; a denial needs no rule.
#[tokio::test]
async fn an_orchestrator_without_a_ceiling_for_questions_answers_none() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let (id, mut boss) = orchestrator(&scene, &mut wire).await;
    let hand = spawned(&mut boss, &mut wire, child(&scene, "hand", &json!([]))).await["id"].take();
    rested(&mut wire, &hand).await;
    let ceiling = json!({ "agent_id": id, "rules": ["Bash(cargo test)"] });
    wire.ok("host.set_ceiling", ceiling).await;
    let mut hand = Bearer::of(&scene.host, &mut wire, hand.as_str().unwrap()).await;
    let asked =
        json!({ "tool_name": "AskUserQuestion", "input": questions(), "tool_use_id": "t1" });
    let asking = hand.call("request_permission", asked);
    let deciding = async {
        let asked = pending(&mut wire, "host.approvals").await;
        let answers = json!({ "approval_id": asked["id"], "decision": "allow",
            "answers": [["Postgres"], ["Redis"], []] });
        let (reason, _) = refused(&mut boss, &answers).await;
        assert_eq!(reason, json!("above_ceiling"));
        let deny = json!({ "approval_id": asked["id"], "decision": "deny", "message": "not now" });
        boss.call("resolve_approval", deny).await
    };
    let ((_, told, _), (is_error, words, _)) = tokio::join!(asking, deciding);
    assert!(!is_error, "{words}");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["behavior"], "deny", "{told}");
    scene.end_all(&mut wire).await;
}

/// A child has the labels of its orchestrator, and never a bypass: each of both is named.
#[tokio::test]
async fn a_bypass_by_label_names_the_child_that_it_leaves_out() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let mut params = scene.spawn_params("boss", &json!([]));
    params["role"] = json!("orchestrator");
    params["labels"] = json!({ "team": "web" });
    let boss = wire.ok("host.spawn_agent", params).await["id"].take();
    rested(&mut wire, &boss).await;
    let mut boss = Bearer::of(&scene.host, &mut wire, boss.as_str().unwrap()).await;
    let hand = spawned(&mut boss, &mut wire, child(&scene, "hand", &json!([]))).await;
    let done = command(scene.host.home())
        .args(["bypass", "--label", "team=web", "--for", "1h", "--json"])
        .output()
        .unwrap();
    let printed: Value = serde_json::from_slice(&done.stdout).unwrap();
    let names: Vec<&Value> = printed["agents"].as_array().unwrap().iter().collect();
    let names: Vec<&Value> = names.iter().map(|agent| &agent["name"]).collect();
    let errors = &printed["errors"];
    assert_eq!(
        (names, &errors[0]["id"], errors.as_array().unwrap().len()),
        (vec![&json!("boss")], &hand["id"], 1),
        "{printed}"
    );
    assert_ne!(done.status.code(), Some(0));
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn an_orchestrator_reaches_nobody_but_its_own() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let (_, mut boss) = orchestrator(&scene, &mut wire).await;
    let other = scene.spawn(&mut wire, "other", &json!([])).await;
    for (tool, more) in [
        ("read_transcript", json!({})),
        ("send_to_agent", json!({ "message": "hello" })),
        ("kill_agent", json!({})),
        ("resume_agent", json!({})),
        ("archive_agent", json!({})),
    ] {
        let mut arguments = more;
        arguments["agent"] = other.clone();
        let (is_error, words, data) = boss.call(tool, arguments).await;
        assert_eq!(
            (is_error, &data["reason"]),
            (true, &json!("unknown_agent")),
            "{tool}: {words}"
        );
    }
    let mut stranger = Bearer::of(&scene.host, &mut wire, other.as_str().unwrap()).await;
    for tool in [
        "list_agents",
        "spawn_agent",
        "resolve_approval",
        "answer_question",
    ] {
        let (is_error, words, data) = stranger.call(tool, json!({})).await;
        assert_eq!(
            (is_error, &data["reason"]),
            (true, &json!("agent_not_allowed")),
            "{tool}: {words}"
        );
    }
    scene.end_all(&mut wire).await;
}

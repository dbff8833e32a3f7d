//! Orchestrators by MCP: they start agents of their own, look after them, and reach nobody else.

use serde_json::{Value, json};

use crate::managed::{PROGRAM, script};
use crate::mcp::Bearer;
use crate::scene::Scene;
use crate::wire::Wire;

/// A scripted agent that was started as an orchestrator, and its bearer.
async fn orchestrator(scene: &Scene, wire: &mut Wire) -> (Value, Bearer) {
    let mut params = scene.spawn_params("boss", &json!([{ "say": "ready" }]));
    params["role"] = json!("orchestrator");
    let boss = wire.ok("host.spawn_agent", params).await["id"].take();
    // What it asks in a turn ends with the turn.
    let rest = json!({ "agent_id": boss, "timeout_ms": 30_000 });
    wire.ok("host.wait_idle", rest).await;
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

#[tokio::test]
async fn an_orchestrator_settles_only_what_its_ceiling_covers() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let (id, mut boss) = orchestrator(&scene, &mut wire).await;
    let hand = spawned(&mut boss, &mut wire, child(&scene, "hand", &json!([]))).await;
    // What it asks in a turn ends with the turn.
    crate::scene::rested(&mut wire, &hand["id"]).await;
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

//! Orchestrators known by their processes alone: their agents call `countersign mcp` and show no token.

use serde_json::{Value, json};

use crate::managed::{PROGRAM, script};
use crate::mcp::call;
use crate::scene::{Scene, answer_next, rested, told};
use crate::wire::Wire;

/// A step that calls a tool as whoever takes it, and says what it was told.
fn calls(scene: &Scene, name: &str, tool: &str, input: Value) -> Value {
    let out = scene.path(name);
    let socket = scene.host.socket();
    // Neither the shell's quotes nor the end of the script that holds it may stand in it.
    let message = call(1, tool, input).to_string();
    let message = message.replace('\'', "\\u0027").replace('<', "\\u003c");
    // Whoever ends what it says gets no answer.
    let said = format!("printf '%s\\n' '{message}'; while [ ! -s {out} ]; do sleep 0.05; done");
    let line = format!(
        "({said}) | {PROGRAM} mcp --socket {} > {out}; cat {out}",
        socket.display()
    );
    json!({ "run": line })
}

async fn open_question(wire: &mut Wire) -> Value {
    loop {
        let mut open = wire
            .ok("host.questions", json!({ "status": "pending" }))
            .await;
        if !open[0].is_null() {
            return open[0].take();
        }
    }
}

async fn a_story_without_tokens(killed: bool) {
    let mut scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let question = json!({ "question": "which port?" });
    let asks = json!([calls(&scene, "asked", "ask_orchestrator", question)]);
    let child = json!({
        "name": "ann", "command": [PROGRAM, "demo", "agent"], "prompt": script(&asks),
        "env": { "SCRIPTED_AGENT_STATE": scene.folder(), "SCENE_MARK": scene.mark() },
    });
    let steps = json!([calls(&scene, "spawned", "spawn_agent", child)]);
    let mut params = scene.spawn_params("boss", &steps);
    params["role"] = json!("orchestrator");
    let boss = wire.ok("host.spawn_agent", params).await["id"].take();
    let ask = answer_next(&mut wire, "approve").await;
    assert_eq!(
        (&ask["tool"], &ask["agent_id"]),
        (&json!("mcp__countersign__spawn_agent"), &boss)
    );
    let asked = open_question(&mut wire).await;
    assert_eq!((&asked["to"], &asked["for_people"]), (&boss, &json!(false)));
    if killed {
        scene.host.restart();
        wire = Wire::subscriber(&scene.host).await;
    }
    let ann = asked["agent_id"].clone();
    let answer = json!({ "question_id": asked["id"], "answer": "7000" });
    let steps = json!([calls(&scene, "answered", "answer_question", answer)]);
    let params = json!({ "agent_id": boss, "message": script(&steps) });
    wire.ok("host.prompt_agent", params).await;
    rested(&mut wire, &ann).await;
    let heard = told(&mut wire, &ann).await;
    assert!(heard.contains("answers: 7000"), "{heard}");
    let params = json!({ "question_id": asked["id"] });
    let row = wire.ok("host.question", params).await;
    assert_eq!(row["answered_by"]["agent_id"], boss, "{row}");
    rested(&mut wire, &boss).await;
    let heard = told(&mut wire, &boss).await;
    assert!(heard.contains("is done with what you told it"), "{heard}");
    let params = json!({ "agent_id": boss, "children": "keep" });
    wire.ok("host.kill_agent", params).await;
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn an_orchestrator_and_its_agent_need_no_token() {
    a_story_without_tokens(false).await;
}

#[tokio::test]
async fn a_question_waits_across_a_restart_of_the_host() {
    a_story_without_tokens(true).await;
}

//! Hostile agents: what they try to get past the gate, to blind those who watch, and to wear out the
//! host with.

use std::fs;

use serde_json::{Value, json};

use crate::host::poll;
use crate::scene::{Scene, answer_next, asks, next_ask, rested, terminal, told};
use crate::wire::Wire;

/// A request for a terminal under an id of the agent's choice, as a line.
fn creates(id: &str, command: &str) -> String {
    let params = json!({ "sessionId": "{session}", "command": command });
    let request = json!({
        "jsonrpc": "2.0", "id": id, "method": "terminal/create", "params": params,
    });
    format!("{request}\n")
}

/// A step that waits for a file, so that a test says when the agent goes on.
fn waits_for(path: &str) -> Value {
    json!({ "run": format!("until [ -e {path} ]; do sleep 0.01; done") })
}

#[tokio::test]
async fn an_id_that_is_used_again_carries_no_allow_to_another_command() {
    let scene = Scene::begin_with_rules("allow = [\"Bash(touch good)\"]\n");
    let mut wire = Wire::subscriber(&scene.host).await;
    let both = [creates("x", "touch good"), creates("x", "touch bad")].concat();
    let raw = json!({ "raw": both });
    let mut steps = Vec::new();
    for number in 0..20 {
        let call = format!("a{number}");
        steps.push(asks(&call, "touch good", &json!([raw, { "say": "." }])));
        steps.push(raw.clone());
    }
    let id = scene.spawn(&mut wire, "ann", &json!(steps)).await;
    let agent = rested(&mut wire, &id).await;
    assert_eq!(agent["state"], "idle", "{agent}");
    scene.end_all(&mut wire).await;
    assert!(!fs::exists(scene.path("bad")).unwrap());
}

#[tokio::test]
async fn the_name_of_a_variable_hides_nothing_from_the_rules() {
    let scene = Scene::begin_with_rules("allow = [\"Bash\"]\ndeny = [\"Bash(rm:*)\"]\n");
    fs::write(scene.path("kept"), "kept").unwrap();
    let names = ["A=1 #", "A='", "A=1;:<<X\n", "A$(", "", "BASH_FUNC_ls%%"];
    let hidden = names.map(|name| {
        let env = [[name, "() { rm kept; }"]];
        json!({ "terminal": { "command": "rm kept; ls", "env": env } })
    });
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = scene.spawn(&mut wire, "ann", &json!(hidden)).await;
    let agent = rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    assert_eq!(agent["state"], "idle", "{said}");
    assert_eq!(said.matches("terminal/create failed").count(), names.len());
    assert_eq!(fs::read_to_string(scene.path("kept")).unwrap(), "kept");
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn what_was_allowed_lapses_with_an_interrupt_and_nothing_begins_after_it() {
    let scene = Scene::begin_with_rules("allow = [\"Bash(touch ruled)\", \"Edit(**/ruled)\"]\n");
    let mut wire = Wire::subscriber(&scene.host).await;
    let (late, go) = (scene.adds("late"), scene.path("go"));
    let (file, waiting) = (scene.path("ruled"), scene.path("waiting"));
    let later = json!([
        { "run": format!("touch {waiting}") },
        waits_for(&go),
        terminal(&late),
        terminal("touch ruled"),
        { "write": { "path": file, "content": "late" } },
        { "read": { "path": go } },
    ]);
    let steps = json!([asks("a1", &late, &later)]);
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    answer_next(&mut wire, "approve").await;
    poll("the agent to wait", || {
        fs::exists(&waiting).unwrap().then_some(())
    });
    wire.ok("host.interrupt_agent", json!({ "agent_id": id }))
        .await;
    fs::write(&go, "").unwrap();
    let agent = rested(&mut wire, &id).await;
    assert_eq!(agent["state"], "idle", "{agent}");
    let said = told(&mut wire, &id).await;
    assert_eq!(said.matches(" failed: ").count(), 4, "{said}");
    assert_eq!(scene.effects(), Vec::<String>::new());
    assert!(!fs::exists(&file).unwrap());
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn an_agent_that_boasts_costs_no_more_than_others() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let long = "m".repeat(3 * 1024 * 1024);
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": long, "title": "t" });
    let title = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": long });
    let steps = json!([
        { "plan": [[long, "pending"]] },
        { "plan": vec![["x", "pending"]; 100_000] },
        { "mode": long },
        { "update": call },
        { "update": title },
        asks("a1", "ls", &json!([])),
    ]);
    let script = scene.path("script.json");
    fs::write(&script, steps.to_string()).unwrap();
    let mut params = scene.spawn_params("ann", &json!([]));
    params["command"] = json!([crate::managed::PROGRAM, "demo", "agent", "--script", script]);
    params["prompt"] = json!("go");
    let id = wire.ok("host.spawn_agent", params).await["id"].take();
    answer_next(&mut wire, "deny").await;
    let agent = rested(&mut wire, &id).await;
    assert_eq!(agent["state"], "idle");
    assert!(agent.to_string().len() < 128 * 1024);
    scene.end_all(&mut wire).await;
}

/// Ways to run a command from inside an agent, each writing what it said to a file.
fn ways_to_run(command: &str, folder: &str, clears: bool) -> Vec<(String, String)> {
    let mut ways = vec![
        (
            "plain".to_owned(),
            format!("{command} > {folder}/plain 2>&1; true"),
        ),
        (
            "child".to_owned(),
            format!("sh -c '{command}' > {folder}/child 2>&1; true"),
        ),
    ];
    let mut detached = vec![("detached", "")];
    if clears {
        detached.push(("cleared", "env -i PATH=/usr/bin:/bin "));
    }
    for (name, prefix) in detached {
        let inner = format!(
            "{prefix}{command} > {folder}/.{name} 2>&1; mv {folder}/.{name} {folder}/{name}"
        );
        let line = format!(
            "setsid -f sh -c '(({inner}) &)'; until [ -e {folder}/{name} ]; do sleep 0.01; done"
        );
        ways.push((name.to_owned(), line));
    }
    ways
}

#[tokio::test]
async fn an_agent_answers_no_ask_from_wherever_it_runs() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let asking = json!([asks("a1", "touch made", &json!([]))]);
    let victim = scene.spawn(&mut wire, "ann", &asking).await;
    let ask = next_ask(&mut wire).await;
    let home = scene.host.home().display().to_string();
    let program = env!("CARGO_BIN_EXE_countersign");
    let id = ask["id"].as_str().unwrap();
    let approve = format!("env COUNTERSIGN_HOME={home} {program} approve {id}");
    // Where nothing holds a process that clears its environment and detaches, SECURITY.md says so.
    let status = wire.ok("host.status", json!({})).await;
    let clears = status["containment"]["holds_detached"] == true;
    let ways = ways_to_run(&approve, &scene.path(""), clears);
    let steps: Vec<Value> = ways
        .iter()
        .map(|(_, line)| json!({ "run": line }))
        .collect();
    let attacker = scene.spawn(&mut wire, "bob", &json!(steps)).await;
    rested(&mut wire, &attacker).await;
    for (name, _) in &ways {
        let said = fs::read_to_string(scene.path(name)).unwrap();
        assert!(
            said.contains("agents can ask but not answer"),
            "{name}: {said}"
        );
    }
    let params = json!({ "approval_id": id });
    let still = wire.ok("host.approval", params).await;
    assert_eq!(still["state"], "pending");
    wire.ok("host.kill_agent", json!({ "agent_id": victim }))
        .await;
    scene.end_all(&mut wire).await;
}

//! Agents that the host runs, over the wire and REST, played by the scripted agent.

use std::path::Path;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::host::Host;
use crate::http::Rest;
use crate::shape::Names;
use crate::wire::Wire;

/// What to run for a scripted agent.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_countersign");

/// A prompt that carries what the agent is to do.
pub(crate) fn script(steps: &Value) -> String {
    format!("<script>{steps}</script>")
}

/// One that asks for a command and says what it was answered.
fn asks(command: &str) -> Value {
    json!({ "ask": {
        "tool": { "call": "c1", "title": "Look", "kind": "execute", "input": { "command": command } },
        "placement": "before",
        "on_allow": [{ "say": "allowed" }],
        "on_deny": [{ "say": "denied" }],
        "on_cancel": [{ "say": "cancelled" }],
    } })
}

fn spawn_params(folder: &Path, name: &str, steps: &Value) -> Value {
    json!({
        "name": name, "command": [PROGRAM, "demo", "agent"], "cwd": folder, "prompt": script(steps),
        "env": [{ "name": "SCRIPTED_AGENT_STATE", "value": folder },
                { "name": "KEY", "value": "hunter2", "secret": true }],
    })
}

/// An operator who reads everything, and a folder for agents.
async fn begin() -> (Host, Wire, tempfile::TempDir) {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    wire.ok("host.subscribe", json!({})).await;
    (host, wire, tempfile::tempdir().unwrap())
}

async fn idle(wire: &mut Wire, id: &Value) -> Value {
    let params = json!({ "agent_id": id, "timeout_ms": 30_000 });
    let mut found = wire.ok("host.wait_agents", params).await;
    assert_eq!(found["reached"], true, "{found}");
    found["agents"][0].take()
}

/// Everything an agent said and did, text that belongs together in one piece.
async fn story(wire: &mut Wire, id: &Value) -> Value {
    let mut story: Vec<Value> = Vec::new();
    let mut after = Value::Null;
    loop {
        let params = json!({ "agent_id": id, "after": after, "limit": 2 });
        let page = wire.ok("host.transcript", params).await;
        for part in page["parts"].as_array().unwrap() {
            for entry in part["entries"].as_array().unwrap() {
                let said = story
                    .last_mut()
                    .filter(|last| entry["type"] == "assistant" && last["type"] == "assistant");
                match said {
                    Some(last) => {
                        let both =
                            [&last["text"], &entry["text"]].map(|text| text.as_str().unwrap());
                        last["text"] = both.concat().into();
                    }
                    None => story.push(entry.clone()),
                }
            }
        }
        if page["more"] == false {
            return story.into();
        }
        after = page["next"].clone();
    }
}

#[tokio::test]
async fn an_agent_is_started_asks_and_goes_on_when_it_is_allowed() {
    let (_host, mut wire, folder) = begin().await;
    let steps = json!([{ "say": "hello" }, asks("ls"), { "usage": { "used": 10, "size": 100, "cost": 0.5 } }]);
    let cwd = folder.path().to_str().unwrap();
    let spawned = wire
        .ok(
            "host.spawn_agent",
            spawn_params(folder.path(), "ann", &steps),
        )
        .await;
    let id = spawned["id"].clone();
    let managed = json!({
        "archived": false, "command": [PROGRAM, "demo", "agent"], "cwd": cwd,
        "env": [{ "name": "SCRIPTED_AGENT_STATE", "value": cwd }, { "name": "KEY", "secret": true }],
        "last_activity": "<time>", "queued": 1, "resumable": false, "run": 1, "turns": 0, "usage": {},
    });
    let row = json!({
        "id": "agent-1", "name": "ann", "kind": "countersign", "capabilities": [], "display": {},
        "metadata": null, "status": "running", "state": "starting", "updated_at": "<time>",
        "started_at": "<time>", "open_approvals": 0, "open_questions": 0, "project": cwd, "managed": managed,
    });
    assert_eq!(Names::default().plain(spawned), row);

    let asked = wire.event_of("approval.requested").await;
    let ask = &asked["payload"];
    assert_eq!(
        (
            &ask["tool"],
            &ask["input"],
            &ask["cwd"],
            &ask["agent_id"],
            &ask["action"]
        ),
        (
            &json!("Bash"),
            &json!({ "command": "ls" }),
            &json!(cwd),
            &id,
            &json!("Look")
        )
    );
    let agents = wire.ok("host.agents", json!({})).await;
    assert_eq!(
        (&agents[0]["state"], &agents[0]["status"]),
        (
            &json!("awaiting_permission"),
            &json!("waiting_for_approval")
        )
    );
    let answer = json!({ "approval_id": ask["id"], "resolution": "approve" });
    wire.ok("host.resolve_approval", answer).await;
    let agent = idle(&mut wire, &id).await;
    assert_eq!(agent["state"], "idle", "{agent}");
    let usage = json!({ "context_used": 10, "context_size": 100, "cost_micro_usd": 500_000 });
    assert_eq!(agent["managed"]["usage"], usage);
    let story = story(&mut wire, &id).await;
    let types: Vec<_> = story
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["type"])
        .collect();
    assert_eq!(
        types,
        ["user", "assistant", "tool_use", "assistant", "tool_result"],
        "{story}"
    );
    assert_eq!(story[1]["text"], "hello");
    assert_eq!(story[3]["text"], "allowed");
    let events = wire.ok("host.events", json!({ "limit": 500 })).await;
    assert!(!events.to_string().contains("hunter2"));
}

#[tokio::test]
async fn a_message_waits_for_the_turn_before_it() {
    let (_host, mut wire, folder) = begin().await;
    let params = spawn_params(folder.path(), "ann", &json!(["silence"]));
    let id = wire.ok("host.spawn_agent", params).await["id"].take();
    wire.event_of("turn.started").await;
    let told = wire
        .ok(
            "host.prompt_agent",
            json!({ "agent_id": id, "message": "second" }),
        )
        .await;
    assert_eq!(
        (
            &told["managed"]["queued"],
            &told["managed"]["turn"]["number"]
        ),
        (&json!(1), &json!(1))
    );
    let params = json!({ "agent_id": id, "timeout_ms": 1 });
    let waited = wire.ok("host.wait_agents", params).await;
    assert_eq!(
        (&waited["reached"], &waited["agents"][0]["id"]),
        (&json!(false), &id)
    );
    let params = json!({ "agent_id": id, "reason": "wrong branch" });
    wire.ok("host.interrupt_agent", params).await;
    let ended = wire.event_of("turn.ended").await;
    assert_eq!(ended["payload"]["reason"], "cancelled");
    let agent = idle(&mut wire, &id).await;
    assert_eq!(
        (&agent["managed"]["turns"], &agent["managed"]["queued"]),
        (&json!(2), &json!(0))
    );
    let story = story(&mut wire, &id).await;
    let last = story.as_array().unwrap().last().unwrap();
    assert_eq!(
        last,
        &json!({ "type": "assistant", "text": "You said: second" })
    );
    let refused = wire
        .no("host.interrupt_agent", json!({ "agent_id": id }))
        .await;
    assert_eq!(refused["data"]["reason"], "no_turn");
}

#[tokio::test]
async fn a_killed_agent_is_gone_on_with_by_a_message() {
    let (_host, mut wire, folder) = begin().await;
    let params = spawn_params(folder.path(), "ann", &json!([asks("ls")]));
    let id = wire.ok("host.spawn_agent", params).await["id"].take();
    let asked = wire.event_of("approval.requested").await["payload"]["id"].take();
    wire.ok("host.kill_agent", json!({ "agent_id": id })).await;
    wire.event_of("agent.exited").await;
    let agent = idle(&mut wire, &id).await;
    assert_eq!(agent["state"], "stopped");
    let ask = wire
        .ok("host.approval", json!({ "approval_id": asked }))
        .await;
    assert_eq!(ask["state"], "cancelled", "{ask}");
    let params = json!({ "agent_id": id, "message": "go on" });
    wire.ok("host.prompt_agent", params).await;
    let agent = idle(&mut wire, &id).await;
    let managed = &agent["managed"];
    assert_eq!(
        (&agent["state"], &managed["run"], &managed["turns"]),
        (&json!("idle"), &json!(2), &json!(2))
    );
    let told = story(&mut wire, &id).await.to_string();
    assert!(told.contains("You said: go on"), "{told}");
}

#[tokio::test]
async fn the_brake_ends_every_turn_and_denies_what_was_asked() {
    let (_host, mut wire, folder) = begin().await;
    let mut ids = Vec::new();
    for (name, steps) in [("ann", json!([asks("ls")])), ("bea", json!(["silence"]))] {
        let params = spawn_params(folder.path(), name, &steps);
        ids.push(wire.ok("host.spawn_agent", params).await["id"].take());
        wire.event_of("turn.started").await;
    }
    let mut states = Vec::new();
    while states.first() != Some(&json!("awaiting_permission")) {
        let agents = wire.ok("host.agents", json!({})).await;
        states = agents
            .as_array()
            .unwrap()
            .iter()
            .map(|agent| agent["state"].clone())
            .collect();
    }
    let stopped = wire.ok("host.stop_all", json!({})).await;
    assert_eq!(stopped["interrupted"], 2, "{stopped}");
    for id in &ids {
        let agent = idle(&mut wire, id).await;
        assert_eq!(
            (&agent["state"], &agent["open_approvals"]),
            (&json!("idle"), &json!(0))
        );
    }
    let told = story(&mut wire, &ids[0]).await;
    assert_eq!(
        told[2],
        json!({ "type": "assistant", "text": "denied" }),
        "{told}"
    );
}

#[tokio::test]
async fn agents_are_renamed_put_away_and_taken_out_again() {
    let (_host, mut wire, folder) = begin().await;
    let params = spawn_params(folder.path(), "ann", &json!([{ "say": "hi" }]));
    let id = wire.ok("host.spawn_agent", params.clone()).await["id"].take();
    let taken = wire.no("host.spawn_agent", params).await;
    assert_eq!(taken["data"]["reason"], "name_taken");
    idle(&mut wire, &id).await;
    let renamed = wire
        .ok(
            "host.rename_agent",
            json!({ "agent_id": id, "name": "bea" }),
        )
        .await;
    assert_eq!(renamed["name"], "bea");
    wire.ok("host.kill_agent", json!({ "agent_id": id })).await;
    wire.event_of("agent.exited").await;
    let away = wire
        .ok("host.archive_agent", json!({ "agent_id": id }))
        .await;
    assert_eq!(away["managed"]["archived"], true);
    let back = json!({ "agent_id": id, "archived": false });
    let back = wire.ok("host.archive_agent", back).await;
    assert_eq!(back["managed"]["archived"], false);
    let resumed = wire
        .ok("host.resume_agent", json!({ "agent_id": id }))
        .await;
    assert_eq!(resumed["managed"]["run"], 2);
    idle(&mut wire, &id).await;
}

#[tokio::test]
async fn what_cannot_be_started_is_refused_or_fails_in_words() {
    let (_host, mut wire, folder) = begin().await;
    for params in [
        json!({ "cwd": "/" }),
        json!({ "cwd": "/", "agent": "claude", "command": ["x"] }),
        json!({ "cwd": "here", "command": ["x"] }),
        json!({ "cwd": "/", "agent": "no such agent" }),
    ] {
        let refused = wire.no("host.spawn_agent", params.clone()).await;
        assert_eq!(
            refused["data"]["reason"], "invalid_params",
            "{params}: {refused}"
        );
    }
    let here = folder.path();
    for params in [
        json!({ "cwd": here, "command": ["/nowhere/agent"] }),
        json!({ "cwd": here, "command": ["no-such-program"] }),
        json!({ "cwd": here.join("missing"), "command": [PROGRAM] }),
        json!({ "cwd": here, "command": [PROGRAM], "worktree": {} }),
    ] {
        let refused = wire.no("host.spawn_agent", params.clone()).await;
        assert_eq!(
            refused["data"]["reason"], "cannot_start",
            "{params}: {refused}"
        );
    }
    let fails = json!({ "cwd": here, "command": ["false"], "name": "ann" });
    let id = wire.ok("host.spawn_agent", fails).await["id"].take();
    let agent = idle(&mut wire, &id).await;
    assert_eq!(agent["state"], "error");
    assert!(agent["managed"]["message"].is_string(), "{agent}");
    let params = json!({ "id": "external", "name": "external" });
    wire.ok("host.register_agent", params).await;
    let params = json!({ "agent_id": "external", "message": "hi" });
    let refused = wire.no("host.prompt_agent", params).await;
    assert_eq!(refused["data"]["reason"], "not_managed");
}

/// Every method about managed agents, with parameters that fit.
fn methods(id: &Value) -> Vec<(&'static str, Value, bool)> {
    let one = json!({ "agent_id": id });
    let with = |name: &str, value: Value| {
        let mut params = json!({ "agent_id": id });
        params[name] = value;
        params
    };
    vec![
        (
            "host.spawn_agent",
            json!({ "cwd": "/", "command": ["x"] }),
            false,
        ),
        ("host.prompt_agent", with("message", "hi".into()), false),
        ("host.interrupt_agent", one.clone(), false),
        ("host.kill_agent", one.clone(), false),
        ("host.resume_agent", one.clone(), false),
        ("host.archive_agent", one.clone(), false),
        ("host.rename_agent", with("name", "x".into()), false),
        ("host.configure_agent", with("mode", "x".into()), false),
        ("host.remove_worktree", one.clone(), false),
        ("host.merge_worktree", one.clone(), false),
        ("host.wait_agents", one.clone(), true),
        ("host.transcript", one.clone(), true),
        ("host.catalog", json!({}), true),
    ]
}

#[tokio::test]
async fn agents_reach_none_of_it_and_observers_only_read() {
    let (host, mut wire, folder) = begin().await;
    let params = spawn_params(folder.path(), "ann", &json!([{ "say": "hi" }]));
    let id = wire.ok("host.spawn_agent", params).await["id"].take();
    idle(&mut wire, &id).await;
    let observer = wire
        .ok("host.create_token", json!({ "role": "observer" }))
        .await;
    let mut observer = Wire::connect(&host, observer["token"].as_str().unwrap()).await;
    let mut agent = Agent::connected(&host, &mut wire, "outside").await;
    for (method, params, reads) in methods(&id) {
        let refused = agent.no(method, params.clone()).await;
        assert_eq!(
            refused["data"]["reason"], "agent_not_allowed",
            "{method}: {refused}"
        );
        let reply = observer.reply(method, params).await;
        let reason = &reply["error"]["data"]["reason"];
        let expected = if reads {
            Value::Null
        } else {
            "observer_cannot_change".into()
        };
        assert_eq!(reason, &expected, "{method}: {reply}");
    }
}

#[tokio::test]
async fn an_agents_own_process_is_that_agent() {
    let (host, mut wire, folder) = begin().await;
    let steps =
        json!([{ "run": format!("{PROGRAM} ls 2>&1; {PROGRAM} spawn --command x 2>&1; echo $?") }]);
    let mut params = spawn_params(folder.path(), "ann", &steps);
    let home = json!({ "name": "COUNTERSIGN_HOME", "value": host.home() });
    params["env"].as_array_mut().unwrap().push(home);
    let id = wire.ok("host.spawn_agent", params).await["id"].take();
    idle(&mut wire, &id).await;
    let told = story(&mut wire, &id).await.to_string();
    assert!(
        told.contains("agents can ask but not answer") && told.contains("10"),
        "{told}"
    );
    let agents = wire.ok("host.agents", json!({})).await;
    assert_eq!(agents.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_agent_lives_its_managed_life_over_rest() {
    let (host, mut wire, folder) = begin().await;
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    let body = spawn_params(folder.path(), "ann", &json!(["silence"]));
    let spawned = rest.send("POST", "/api/v1/agents/spawn", body).await;
    assert_eq!(spawned.status, 200, "{}", spawned.body);
    let at = format!("/api/v1/agents/{}", spawned.json()["id"].as_str().unwrap());
    wire.event_of("turn.started").await;
    let send = async |method: &str, what: &str, body: Value| {
        let answer = rest.send(method, &format!("{at}/{what}"), body).await;
        (answer.status, answer.json())
    };
    let (status, told) = send("POST", "prompt", json!({ "message": "second" })).await;
    assert_eq!((status, &told["managed"]["queued"]), (200, &json!(1)));
    assert_eq!(send("POST", "interrupt", json!({})).await.0, 200);
    let (status, found) = send("GET", "wait?until=idle&wait=30s", Value::Null).await;
    assert_eq!((status, &found["reached"]), (200, &json!(true)));
    assert_eq!(
        send("PUT", "name", json!({ "name": "bea" })).await.1["name"],
        "bea"
    );
    let (status, page) = send("GET", "transcript?limit=1", Value::Null).await;
    let parts = page["parts"].as_array().unwrap().len();
    assert_eq!((status, parts, &page["more"]), (200, 1, &json!(true)));
    assert_eq!(page.get("first"), None);
    let (_, whole) = send("GET", "transcript", Value::Null).await;
    let mut backward: Vec<Value> = Vec::new();
    let mut query = "transcript?from_end=true&limit=1".to_owned();
    while backward.len() < whole["parts"].as_array().unwrap().len() {
        let (_, mut page) = send("GET", &query, Value::Null).await;
        query = format!("transcript?before={}&limit=1", page["first"]);
        backward.insert(0, page["parts"][0].take());
    }
    assert_eq!(json!(backward), whole["parts"]);
    let (_, page) = send("GET", "transcript?from_end=true&limit=1000", Value::Null).await;
    assert_eq!(
        (page.get("first"), &page["parts"], &page["next"]),
        (None, &whole["parts"], &whole["next"])
    );
    let (status, _) = send("GET", "transcript?after=1&before=9", Value::Null).await;
    assert_eq!(status, 400);
    let (status, refused) = send("GET", "diff", Value::Null).await;
    assert_eq!(
        (status, &refused["error"]["reason"]),
        (409, &json!("no_worktree"))
    );
    assert_eq!(send("POST", "kill", Value::Null).await.0, 200);
    wire.event_of("agent.exited").await;
    let (status, away) = send("PUT", "archived", json!({})).await;
    assert_eq!((status, &away["managed"]["archived"]), (200, &json!(true)));
    let catalog = rest.get("/api/v1/catalog").await.json();
    assert!(
        catalog
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["name"] == "claude")
    );
}

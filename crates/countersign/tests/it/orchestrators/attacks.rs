//! A child answers nothing, whatever it runs and whatever it got hold of; and rules for starting agents.

use serde_json::{Value, json};

use super::Family;
use crate::managed::PROGRAM;
use crate::scene::{answer_next, next_ask, told};

async fn a_child_answers_nothing(killed: bool) {
    let mut family = Family::begin(&["ann"]).await;
    let ann = family.kids[0].id.clone();
    let input = json!({ "command": "touch x" });
    let own = json!({ "action": "x", "tool": "Bash", "input": input, "timeout_ms": 600_000 });
    let own = family.kids[0].ok("host.request_approval", own).await;
    let id = own["id"].as_str().unwrap();
    if killed {
        family.kill_host().await;
    }
    let token = family.scene.host.token_file();
    let url = format!("ws://{}/", family.scene.host.address);
    // As its own child, by descent, over the socket and with a stolen token.
    let approve = format!("{PROGRAM} approve {id}");
    let stolen = format!("{approve} --url {url} --token-file {}", token.display());
    let escaped = format!("setsid {approve}");
    let line = format!(
        "{approve} >/dev/null 2>&1; echo $?; {stolen} >/dev/null 2>&1; echo $?; \
         {escaped} >/dev/null 2>&1; echo $?; {PROGRAM} ceiling boss --rule Bash >/dev/null 2>&1; echo $?; \
         {PROGRAM} kill boss --children end >/dev/null 2>&1; echo $?"
    );
    // What it asks ends with its turn, so that goes on.
    let steps = json!([{ "run": line }, { "say": "\nthat was all" }, "silence"]);
    family.prompt(&ann, &steps).await;
    let mut said = String::new();
    while !said.contains("that was all") {
        said = told(&mut family.wire, &ann).await;
    }
    assert!(said.contains("10\n10\n10\n10\n10\nthat was all"), "{said}");

    let bearer = format!("Bearer {}", family.scene.host.token());
    let parts = json!({
        "method": "POST", "path": format!("/api/v1/approvals/{id}/resolution"),
        "headers": [["authorization", bearer]], "body": { "resolution": "approve" },
    });
    let address = family.scene.host.address.clone();
    let answer = family.kids[0].process.http(&address, parts).await;
    assert_eq!(answer["status"], 403, "{answer}");
    let wish = json!({ "approval_id": id, "decision": "allow" });
    let (failed, words, _) = family.kids[0]
        .tool(&address, "resolve_approval", wish)
        .await;
    assert!(failed && words.contains("for orchestrators"), "{words}");
    let params = json!({ "approval_id": id });
    let row = family.wire.ok("host.approval", params).await;
    assert_eq!(row["state"], "pending");
    let kinds = json!({ "kinds": ["approval.resolve_refused"], "limit": 100 });
    let tries = family.wire.ok("host.events", kinds).await;
    assert!(tries.as_array().unwrap().len() >= 4, "{tries}");
    family.end().await;
}

#[tokio::test]
async fn a_child_cannot_answer_by_any_door() {
    a_child_answers_nothing(false).await;
}

#[tokio::test]
async fn a_child_cannot_answer_after_a_restart_either() {
    a_child_answers_nothing(true).await;
}

/// Asks for an agent; gives what the orchestrator is told.
async fn wants(family: &mut Family, wish: Value) -> (bool, String, Value) {
    let address = family.scene.host.address.clone();
    family.boss.tool(&address, "spawn_agent", wish).await
}

#[tokio::test]
async fn rules_settle_which_agents_are_started_and_people_what_reaches_further() {
    let rules =
        "allow = [\"SpawnAgent\", \"SpawnAgent(claude)\"]\ndeny = [\"SpawnAgent(codex)\"]\n";
    let mut family = Family::begin_with(&[], rules, "").await;
    let (failed, words, _) = wants(&mut family, json!({ "agent": "codex", "prompt": "go" })).await;
    assert!(failed && words.contains("SpawnAgent(codex)"), "{words}");
    let (failed, words, _) = wants(&mut family, json!({ "agent": "nobody", "prompt": "go" })).await;
    assert!(failed && words.contains("nobody"), "{words}");
    // A kind that rules allow, with more than rules can give, is left to a person.
    for (field, value) in [
        ("env", json!({ "PATH": "/tmp" })),
        ("role", json!("orchestrator")),
        ("mode", json!("bypassPermissions")),
    ] {
        let mut wish = json!({ "agent": "claude", "prompt": "go" });
        wish[field] = value;
        let address = family.scene.host.address.clone();
        let asking = family.boss.tool(&address, "spawn_agent", wish);
        let ((failed, words, _), ask) = tokio::join!(asking, answer_next(&mut family.wire, "deny"));
        assert!(failed, "{field}: {words}");
        assert_eq!(ask["verdict"]["parts"][0]["floor"], true, "{field}: {ask}");
    }
    // Nor does a bypass lift that.
    let params = json!({ "agent_id": family.boss.id, "for_ms": 60_000 });
    family.wire.ok("host.set_bypass", params).await;
    let wish = json!({ "command": [PROGRAM, "demo", "agent"], "prompt": "go" });
    let address = family.scene.host.address.clone();
    let asking = family.boss.tool(&address, "spawn_agent", wish);
    let denying = async {
        let ask = next_ask(&mut family.wire).await;
        let params = json!({ "approval_id": ask["id"], "resolution": "deny", "message": "no" });
        family.wire.ok("host.resolve_approval", params).await
    };
    let ((failed, words, _), _) = tokio::join!(asking, denying);
    assert!(failed && words.contains("no"), "{words}");
    let agents = family.wire.ok("host.agents", json!({})).await;
    assert_eq!(agents.as_array().unwrap().len(), 1, "{agents}");
    family.end().await;
}

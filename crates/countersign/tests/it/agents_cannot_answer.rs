//! A process that used an agent's token is that agent, with all its descendants, whatever it
//! shows and wherever it knocks; and what is on the record cannot be forged.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::host::Host;
use crate::http::{Rest, http};
use crate::wire::Wire;

const REFUSED: u64 = 10;

/// Every way to an answer that does not need the agent's first connection.
async fn assert_refused_everywhere(host: &Host, agent: &mut Agent, id: &Value) {
    let answer = json!({ "approval_id": id, "resolution": "approve" });
    let token = host.token();
    let reply = agent
        .connect(&host.address, json!({ "token": token }))
        .await;
    assert_eq!(reply["result"]["agent_id"], "coder", "{reply}");
    let error = agent.no("host.resolve_approval", answer.clone()).await;
    assert_refusal(&error);
    let reply = agent
        .connect(&host.address, json!({ "host_token": token }))
        .await;
    assert_eq!(reply["result"]["agent_id"], "coder", "{reply}");
    assert_refusal(&agent.no("host.resolve_approval", answer.clone()).await);
    let reply = agent.connect_unix().await;
    assert_eq!(reply["result"]["agent_id"], "coder", "{reply}");
    assert_refusal(&agent.no("host.resolve_approval", answer).await);

    let id = id.as_str().unwrap();
    let rest = json!({
        "method": "POST", "path": format!("/api/v1/approvals/{id}/resolution"),
        "headers": [["authorization", format!("Bearer {token}")]], "body": { "resolution": "approve" },
    });
    let answer = agent.http(&host.address, rest).await;
    assert_eq!(answer["status"], 403, "{answer}");
    assert!(
        answer["body"]
            .as_str()
            .unwrap()
            .contains("agents_cannot_answer"),
        "{answer}"
    );
    let token_file = host.token_file();
    let token_file = token_file.to_str().unwrap();
    let url = format!("ws://{}/", host.address);
    for arguments in [
        vec!["approve", id],
        vec!["approve", id, "--url", &url, "--token-file", token_file],
        vec!["stop", "--yes"],
        vec!["token", "create", "--role", "operator", "--expires", "1h"],
    ] {
        let ended = agent.run(&arguments).await;
        assert_eq!(ended["code"], REFUSED, "{arguments:?} {ended}");
    }
}

fn assert_refusal(error: &Value) {
    assert_eq!(
        *error,
        json!({
            "code": -32003,
            "message": "agents cannot answer: 'coder' is an agent, and only a person decides",
            "data": { "reason": "agents_cannot_answer" },
        })
    );
}

#[tokio::test]
async fn an_agents_process_cannot_answer_by_any_door_nor_after_a_restart() {
    let mut host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut agent = Agent::connected(&host, &mut operator, "coder").await;
    let params = json!({ "action": "rm", "timeout_ms": 600_000 });
    let id = agent.ok("host.request_approval", params).await["id"].take();
    let answer = json!({ "approval_id": id, "resolution": "approve" });
    assert_refusal(&agent.no("host.resolve_approval", answer.clone()).await);
    assert_refused_everywhere(&host, &mut agent, &id).await;
    host.restart();
    assert_refused_everywhere(&host, &mut agent, &id).await;
    let mut operator = Wire::operator(&host).await;
    let row = operator
        .ok("host.approval", json!({ "approval_id": id }))
        .await;
    assert_eq!(row["status"], "pending");
    let kinds = json!({ "kinds": ["approval.resolve_refused"], "limit": 100 });
    let tries = operator.ok("host.events", kinds).await;
    assert_eq!(tries[0]["agent_id"], "coder");
    assert_eq!(tries[0]["payload"]["approval_id"], id);
    let row = operator.ok("host.resolve_approval", answer).await;
    assert_eq!(row["state"], "allowed");
}

#[tokio::test]
async fn an_agents_process_cannot_answer_what_others_asked() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let id = operator
        .ok(
            "host.request_approval",
            json!({ "action": "x", "system_level": true }),
        )
        .await["id"]
        .take();
    let mut agent = Agent::connected(&host, &mut operator, "coder").await;
    assert_refused_everywhere(&host, &mut agent, &id).await;
}

#[tokio::test]
async fn a_login_link_or_a_stolen_cookie_is_worth_nothing_to_an_agent() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut agent = Agent::connected(&host, &mut operator, "coder").await;
    let id = agent
        .ok("host.request_approval", json!({ "action": "rm" }))
        .await["id"]
        .take();
    let origin = format!("http://{}", host.address);
    let link = |ticket: Value| {
        let url = ticket["url"].as_str().unwrap();
        url.strip_prefix(&origin).unwrap().to_owned()
    };
    let form = ("content-type", "application/x-www-form-urlencoded");
    let path = link(operator.ok("host.create_ticket", json!({})).await);
    for method in ["GET", "POST"] {
        let parts = json!({ "method": method, "path": path, "headers": [form] });
        let answer = agent.http(&host.address, parts).await;
        assert_eq!(
            (&answer["status"], &answer["cookie"]),
            (&json!(403), &json!(null)),
            "{answer}"
        );
    }
    let refused = agent
        .no("host.create_ticket", json!({ "phone": true }))
        .await;
    assert_eq!(refused["data"]["reason"], "agent_not_allowed");

    // The agent did not use the link up.
    let answer = http(&host.address, "POST", &path, &[form], "").await;
    let cookie = answer
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    let rest = json!({
        "method": "POST", "path": format!("/api/v1/approvals/{}/resolution", id.as_str().unwrap()),
        "headers": [["cookie", cookie], ["origin", origin]], "body": { "resolution": "approve" },
    });
    let answer = agent.http(&host.address, rest).await;
    assert_eq!(answer["status"], 403, "{answer}");
    let row = operator
        .ok("host.approval", json!({ "approval_id": id }))
        .await;
    assert_eq!(row["status"], "pending");
}

#[tokio::test]
async fn a_connection_opened_before_the_agents_token_was_used_is_an_agents_from_then_on() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let id = operator
        .ok(
            "host.request_approval",
            json!({ "action": "x", "system_level": true }),
        )
        .await["id"]
        .take();
    let params = json!({ "role": "agent", "agent_id": "coder" });
    let token = operator.ok("host.create_token", params).await["token"].take();
    let mut process = Agent::start(&host);
    process
        .connect(&host.address, json!({ "token": host.token() }))
        .await;
    assert_eq!(
        process.ok("host.status", json!({})).await["you"]["role"],
        "operator"
    );
    let rest = json!({
        "method": "GET", "path": "/api/v1/agents",
        "headers": [["authorization", format!("Bearer {}", token.as_str().unwrap())]],
    });
    assert_eq!(process.http(&host.address, rest).await["status"], 200);
    let error = process
        .no(
            "host.resolve_approval",
            json!({ "approval_id": id, "resolution": "approve" }),
        )
        .await;
    assert_refusal(&error);
}

#[tokio::test]
async fn nobody_forges_what_only_the_host_says() {
    let host = Host::start();
    let mut operator = Wire::subscriber(&host).await;
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    let mut agent = Agent::connected(&host, &mut operator, "coder").await;
    let kinds = [
        "approval.resolved",
        "approval.requested",
        "approval.resolve_requested",
        "approval.anything",
        " Approval.Resolved ",
        "agent.registered",
        "agent.status_changed",
        "question.ended",
        "device.registered",
        "token.created",
        "host.notification_sent",
        "host.started",
        "record.pruned",
    ];
    for kind in kinds {
        let params = json!({ "kind": kind, "message": "Approval resolved: rm", "payload": { "status": "resolved" } });
        let expected = json!({
            "code": -32003, "message": format!("kind '{kind}' is the host's own and cannot be sent by others"),
            "data": { "reason": "reserved_kind" },
        });
        assert_eq!(operator.no("host.notify", params.clone()).await, expected);
        assert_eq!(agent.no("host.notify", params.clone()).await, expected);
        let answer = rest.send("POST", "/api/v1/events", params).await;
        assert_eq!(answer.refusal(), (403, "reserved_kind".to_owned()));
    }
    operator
        .ok("host.notify", json!({ "message": "first" }))
        .await;
    assert_eq!(operator.event().await["message"], "first");
}

/// A script that was given the token and lets a child of its own ask is the agent itself.
#[tokio::test]
async fn an_agent_that_asks_through_a_child_cannot_answer_by_itself() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let made = wire
        .ok(
            "host.create_token",
            json!({ "role": "agent", "agent_id": "bot" }),
        )
        .await;
    let script = "\"$BIN\" ls >/dev/null 2>&1; env -u COUNTERSIGN_TOKEN \"$BIN\" status; true";
    let output = std::process::Command::new("sh")
        .args(["-c", script])
        .env("BIN", env!("CARGO_BIN_EXE_countersign"))
        .env("COUNTERSIGN_HOME", host.home())
        .env("COUNTERSIGN_TOKEN", made["token"].as_str().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("agent 'bot' may ask"), "{said}");
}

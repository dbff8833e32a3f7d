//! Tokens and roles: who reaches what, until when.

use countersign_protocol::Time;
use countersign_testkit::doors::PATIENCE;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::host::Host;
use crate::http::{EventStream, Rest, http};
use crate::wire::Wire;

async fn new_token(operator: &mut Wire, params: Value) -> Value {
    operator.ok("host.create_token", params).await
}

fn secret(token: &Value) -> &str {
    token["token"].as_str().unwrap()
}

#[tokio::test]
async fn nobody_is_served_without_a_token_that_is_known() {
    let host = Host::start();
    let answer = http(&host.address, "GET", "/api/v1/agents", &[], "").await;
    assert_eq!(answer.refusal(), (401, "auth_required".to_owned()));
    for header in ["Bearer wrong", "Bearer ", "Basic dTpw", "wrong"] {
        let headers = [("authorization", header)];
        let answer = http(&host.address, "GET", "/api/v1/agents", &headers, "").await;
        assert_eq!(
            answer.refusal(),
            (401, "auth_failed".to_owned()),
            "{header}"
        );
        assert!(
            Wire::upgrade(&host.address, "/", &headers).await.is_err(),
            "{header}"
        );
    }
    let bearer = format!("Bearer {}", host.token());
    let mut wire = Wire::upgrade(&host.address, "/", &[("authorization", &bearer)])
        .await
        .unwrap();
    assert_eq!(wire.ok("host.agents", json!({})).await, json!([]));
}

#[tokio::test]
async fn a_token_in_the_address_is_refused() {
    let host = Host::start();
    let path = format!("/api/v1/agents?token={}", host.token());
    let answer = http(&host.address, "GET", &path, &[], "").await;
    assert_eq!(answer.refusal(), (401, "auth_failed".to_owned()));
    let path = format!("/rpc?access_token={}", host.token());
    assert!(Wire::upgrade(&host.address, &path, &[]).await.is_err());
}

#[tokio::test]
async fn a_token_whose_time_is_over_opens_nothing_and_ends_its_connections() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let params = json!({ "role": "operator", "name": "brief", "ttl_ms": 1500 });
    let token = new_token(&mut operator, params).await;
    let mut wire = Wire::connect(&host, secret(&token)).await;
    wire.ok("host.agents", json!({})).await;
    let rest = Rest {
        address: &host.address,
        token: secret(&token),
    };
    let begin = std::time::Instant::now();
    while rest.get("/api/v1/agents").await.status == 200 {
        assert!(begin.elapsed() < PATIENCE);
    }
    let error = wire.no("host.agents", json!({})).await;
    assert_eq!(error["message"], "auth failed: the token has expired");
    assert_eq!(wire.closed().await, Some(1008));
    let answer = rest.get("/api/v1/agents").await;
    assert_eq!(answer.refusal(), (401, "auth_failed".to_owned()));
    let names: Vec<_> = operator
        .ok("host.tokens", json!({}))
        .await
        .as_array()
        .unwrap()
        .clone();
    assert!(
        names.iter().all(|token| token["name"] != "brief"),
        "{names:?}"
    );
}

/// Seconds for which a token is valid, from its row.
fn lifetime(row: &Value) -> u64 {
    let at = |name: &str| serde_json::from_value::<Time>(row[name].clone()).unwrap();
    (at("expires_at").0 - at("created_at").0) / 1_000_000
}

#[tokio::test]
async fn every_token_ends_within_90_days_and_after_an_hour_if_nothing_is_said() {
    const LONGEST_MS: u64 = 90 * 24 * 3_600_000;
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let token = host.token();
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    for role in ["operator", "observer", "agent"] {
        let made = new_token(&mut operator, json!({ "role": role })).await;
        let by_rest = rest
            .send("POST", "/api/v1/tokens", json!({ "role": role }))
            .await;
        assert_eq!((lifetime(&made), lifetime(&by_rest.json())), (3_600, 3_600));
        let params = json!({ "role": role, "ttl_ms": LONGEST_MS });
        let made = new_token(&mut operator, params.clone()).await;
        let by_rest = rest.send("POST", "/api/v1/tokens", params).await;
        assert_eq!(
            (lifetime(&made), lifetime(&by_rest.json())),
            (90 * 86_400, 90 * 86_400)
        );
        for wrong in [json!(0), json!(LONGEST_MS + 1), json!(-1), json!("never")] {
            let params = json!({ "role": role, "ttl_ms": wrong });
            let error = operator.no("host.create_token", params.clone()).await;
            assert_eq!(error["data"]["reason"], "invalid_params", "{wrong}");
            let answer = rest.send("POST", "/api/v1/tokens", params).await;
            assert_eq!(
                answer.refusal(),
                (400, "invalid_params".to_owned()),
                "{wrong}"
            );
        }
        let error = operator
            .no("host.create_endless_token", json!({ "role": role }))
            .await;
        assert_eq!(error["data"]["reason"], "invalid_params");
    }
    let listed = operator.ok("host.tokens", json!({})).await;
    let endless = |row: &&Value| row["expires_at"].is_null();
    assert_eq!(listed.as_array().unwrap().iter().find(endless), None);
}

#[tokio::test]
async fn a_withdrawn_token_ends_its_connections_at_once() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let token = new_token(&mut operator, json!({ "role": "operator", "name": "bo" })).await;
    let mut wire = Wire::connect(&host, secret(&token)).await;
    wire.ok("host.agents", json!({})).await;
    operator
        .ok("host.revoke_token", json!({ "token_id": token["id"] }))
        .await;
    assert_eq!(wire.closed().await, Some(1008));
    assert_eq!(operator.ok("host.events", json!({})).await, json!([]));
    let error = operator
        .no("host.revoke_token", json!({ "token_id": token["id"] }))
        .await;
    assert_eq!(error["data"]["reason"], "unknown_token");
}

#[tokio::test]
async fn a_withdrawn_token_gets_no_more_events() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let token = new_token(&mut operator, json!({ "role": "observer", "name": "wall" })).await;
    let mut wire = Wire::connect(&host, secret(&token)).await;
    wire.ok("host.subscribe", json!({})).await;
    let bearer = format!("Bearer {}", secret(&token));
    let headers = [
        ("authorization", bearer.as_str()),
        ("accept", "text/event-stream"),
    ];
    let mut stream = EventStream::open(&host.address, "/api/v1/events", &headers).await;
    operator
        .ok("host.notify", json!({ "message": "before" }))
        .await;
    assert_eq!(wire.event().await["message"], "before");
    assert_eq!(stream.next().await.unwrap().1["message"], "before");
    let params = json!({ "token_id": token["id"] });
    operator.ok("host.revoke_token", params).await;
    operator
        .ok("host.notify", json!({ "message": "after" }))
        .await;
    assert_eq!(wire.closed().await, Some(1008));
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn a_token_is_shown_once_and_kept_as_a_hash() {
    let mut host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let token = new_token(&mut operator, json!({ "role": "observer", "name": "wall" })).await;
    assert_eq!(secret(&token).len(), 43);
    let listed = operator.ok("host.tokens", json!({})).await;
    let mut row = token.clone();
    row.as_object_mut().unwrap().remove("token");
    assert!(listed.as_array().unwrap().contains(&row), "{listed}");
    let file = host.token();
    host.stop();
    for entry in std::fs::read_dir(host.home()).unwrap() {
        let path = entry.unwrap().path();
        let Ok(bytes) = std::fs::read(&path) else {
            continue;
        };
        for secret in [secret(&token), &file] {
            let found = bytes
                .windows(secret.len())
                .any(|window| window == secret.as_bytes());
            assert!(!found, "a token lies in {}", path.display());
        }
    }
}

#[tokio::test]
async fn a_token_holds_after_a_restart_until_it_is_revoked() {
    let mut host = Host::start();
    let token = host.token();
    host.restart();
    let mut wire = Wire::connect(&host, &token).await;
    let listed = wire.ok("host.tokens", json!({})).await;
    let params = json!({ "token_id": listed[0]["id"] });
    wire.ok("host.revoke_token", params).await;
    let mut wire = Wire::open(&host).await;
    let error = wire.no("session.auth", json!({ "token": token })).await;
    assert_eq!(error["message"], "auth failed: token mismatch");
}

#[tokio::test]
async fn an_observer_reads_everything_and_changes_nothing() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let token = new_token(&mut operator, json!({ "role": "observer", "name": "wall" })).await;
    let id = &operator
        .ok(
            "host.request_approval",
            json!({ "action": "x", "system_level": true }),
        )
        .await["id"];
    let question = &operator
        .ok("host.ask_question", json!({ "question": "?" }))
        .await["id"];
    let mut observer = Wire::connect(&host, secret(&token)).await;
    let reads = [
        ("host.subscribe", json!({})),
        ("host.agents", json!({})),
        ("host.events", json!({})),
        ("host.approvals", json!({})),
        ("host.approval", json!({ "approval_id": id })),
        (
            "host.wait_approval",
            json!({ "approval_id": id, "timeout_ms": 1 }),
        ),
        ("host.devices", json!({})),
        ("host.questions", json!({})),
        ("host.question", json!({ "question_id": question })),
        (
            "host.wait_question",
            json!({ "question_id": question, "timeout_ms": 1 }),
        ),
        ("host.status", json!({})),
    ];
    for (method, params) in reads {
        observer.ok(method, params).await;
    }
    let changes = [
        ("host.register_agent", json!({ "name": "a" })),
        ("host.unregister_agent", json!({ "agent_id": "a" })),
        (
            "host.set_status",
            json!({ "agent_id": "a", "status": "idle" }),
        ),
        (
            "host.register_device",
            json!({ "name": "d", "platform": "p" }),
        ),
        ("host.update_device", json!({ "device_id": "d" })),
        ("host.notify", json!({ "message": "m" })),
        ("host.request_approval", json!({ "action": "x" })),
        (
            "host.resolve_approval",
            json!({ "approval_id": id, "resolution": "approve" }),
        ),
        ("host.cancel_approval", json!({ "approval_id": id })),
        ("host.dismiss_approval", json!({ "approval_id": id })),
        ("host.ask_question", json!({ "question": "?" })),
        (
            "host.answer_question",
            json!({ "question_id": question, "answer": "!" }),
        ),
        (
            "host.editor_calls",
            json!({ "agent_id": "other", "editor_id": "e" }),
        ),
        (
            "host.answer_editor_call",
            json!({ "agent_id": "other", "editor_id": "e", "call_id": 1, "reply": {} }),
        ),
        ("host.own_terminals", json!({})),
        ("host.open_terminal", json!({ "cwd": "/" })),
        (
            "host.write_terminal",
            json!({ "terminal_id": "t", "data": "" }),
        ),
        (
            "host.resize_terminal",
            json!({ "terminal_id": "t", "columns": 80, "rows": 24 }),
        ),
        ("host.own_terminal_output", json!({ "terminal_id": "t" })),
        ("host.close_terminal", json!({ "terminal_id": "t" })),
        ("host.own_terminals", json!({})),
        ("host.open_terminal", json!({ "cwd": "/" })),
        (
            "host.write_terminal",
            json!({ "terminal_id": "t", "data": "" }),
        ),
        (
            "host.resize_terminal",
            json!({ "terminal_id": "t", "columns": 80, "rows": 24 }),
        ),
        ("host.own_terminal_output", json!({ "terminal_id": "t" })),
        ("host.close_terminal", json!({ "terminal_id": "t" })),
        ("host.stop_all", json!({})),
        ("host.create_token", json!({ "role": "operator" })),
        ("host.tokens", json!({})),
        ("host.revoke_token", json!({ "token_id": token["id"] })),
        ("host.create_ticket", json!({})),
        ("host.redact_event", json!({ "sequence": 1 })),
        ("host.prune_events", json!({ "before_sequence": 1 })),
        ("host.shutdown", json!({})),
    ];
    let before = operator.ok("host.status", json!({})).await["event_sequence"].take();
    for (method, params) in changes {
        let error = observer.no(method, params).await;
        assert_eq!(
            (&error["code"], &error["data"]["reason"]),
            (&json!(-32003), &json!("observer_cannot_change")),
            "{method}"
        );
    }
    assert_eq!(
        operator.ok("host.status", json!({})).await["event_sequence"],
        before
    );
}

#[tokio::test]
async fn an_agents_token_asks_notifies_and_reports_and_nothing_else() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    operator
        .ok("host.register_agent", json!({ "id": "other", "name": "O" }))
        .await;
    let params = json!({ "action": "theirs", "agent_id": "other", "system_level": true });
    let theirs = operator.ok("host.request_approval", params).await["id"].take();
    let mut agent = Agent::connected(&host, &mut operator, "coder").await;
    let row = agent
        .ok("host.register_agent", json!({ "name": "Coder" }))
        .await;
    assert_eq!(row["id"], "coder");
    agent
        .ok(
            "host.set_status",
            json!({ "agent_id": "coder", "status": "running" }),
        )
        .await;
    let event = agent
        .ok(
            "host.notify",
            json!({ "agent_id": "other", "message": "hi" }),
        )
        .await;
    assert_eq!(event["agent_id"], "coder");
    let asked = agent
        .ok(
            "host.request_approval",
            json!({ "action": "mine", "agent_id": "other" }),
        )
        .await;
    assert_eq!(asked["agent_id"], "coder");
    let seen = agent.ok("host.agents", json!({})).await;
    assert_eq!(
        (&seen[0]["id"], seen.as_array().unwrap().len()),
        (&json!("coder"), 1)
    );
    let seen = agent.ok("host.approvals", json!({})).await;
    assert_eq!(
        (&seen[0]["id"], seen.as_array().unwrap().len()),
        (&asked["id"], 1)
    );
    agent
        .ok(
            "host.cancel_approval",
            json!({ "approval_id": asked["id"] }),
        )
        .await;
    agent
        .ok(
            "host.dismiss_approval",
            json!({ "approval_id": asked["id"] }),
        )
        .await;
    agent
        .ok("host.ask_question", json!({ "question": "?" }))
        .await;

    let others = [
        (
            "host.approval",
            json!({ "approval_id": theirs }),
            "agent_not_allowed",
        ),
        (
            "host.wait_approval",
            json!({ "approval_id": theirs }),
            "unknown_approval",
        ),
        (
            "host.dismiss_approval",
            json!({ "approval_id": theirs }),
            "unknown_approval",
        ),
        (
            "host.cancel_approval",
            json!({ "approval_id": theirs }),
            "not_your_approval",
        ),
        (
            "host.set_status",
            json!({ "agent_id": "other", "status": "idle" }),
            "owned_elsewhere",
        ),
        (
            "host.unregister_agent",
            json!({ "agent_id": "other" }),
            "owned_elsewhere",
        ),
        (
            "host.register_agent",
            json!({ "id": "other", "name": "O" }),
            "agent_not_allowed",
        ),
        (
            "host.resolve_approval",
            json!({ "approval_id": theirs, "resolution": "approve" }),
            "agents_cannot_answer",
        ),
        (
            "host.answer_question",
            json!({ "question_id": "q", "answer": "!" }),
            "agents_cannot_answer",
        ),
    ];
    for (method, params, reason) in others {
        let error = agent.no(method, params).await;
        assert_eq!(error["data"]["reason"], reason, "{method}");
    }
    let out_of_reach = [
        ("host.subscribe", json!({})),
        ("host.events", json!({})),
        ("host.devices", json!({})),
        (
            "host.register_device",
            json!({ "name": "d", "platform": "p" }),
        ),
        ("host.update_device", json!({ "device_id": "d" })),
        ("host.status", json!({})),
        ("host.terminals", json!({ "agent_id": "other" })),
        (
            "host.terminal_output",
            json!({ "agent_id": "other", "terminal_id": "term-1" }),
        ),
        ("host.files", json!({ "agent_id": "other" })),
        ("host.file", json!({ "agent_id": "other", "path": "x" })),
        (
            "host.write_file",
            json!({ "agent_id": "other", "path": "x", "content": "x" }),
        ),
        ("host.stop_all", json!({})),
        ("host.create_token", json!({ "role": "operator" })),
        ("host.tokens", json!({})),
        ("host.revoke_token", json!({ "token_id": "t" })),
        ("host.create_ticket", json!({})),
        ("host.redact_event", json!({ "sequence": 1 })),
        ("host.prune_events", json!({ "before_sequence": 1 })),
        ("host.shutdown", json!({})),
    ];
    for (method, params) in out_of_reach {
        let error = agent.no(method, params).await;
        assert_eq!(
            (&error["code"], &error["data"]["reason"]),
            (&json!(-32003), &json!("agent_not_allowed")),
            "{method}"
        );
    }
}

#[tokio::test]
async fn connections_are_counted_as_they_are() {
    let host = Host::start();
    let mut one = Wire::unix(&host.socket()).await;
    let _two = Wire::operator(&host).await;
    // Whatever made the token may just be leaving.
    let mut open = json!(null);
    for _ in 0..1000 {
        open = one.ok("host.status", json!({})).await["connections"].take();
        if open == 2 {
            break;
        }
    }
    assert_eq!(open, 2);
}

//! Who may resolve what: every refusal of the host wire with its code and data, and owners that
//! leave and come back.

use serde_json::{Value, json};

use crate::host::Host;
use crate::shape::Names;
use crate::wire::Wire;

async fn ask(wire: &mut Wire, params: Value) -> Value {
    wire.ok("host.request_approval", params).await["id"].take()
}

fn answer(id: &Value, resolution: &str) -> Value {
    json!({ "approval_id": id, "resolution": resolution })
}

#[tokio::test]
async fn an_unknown_row_is_refused_and_leaves_no_trace() {
    let host = Host::start();
    let mut wire = Wire::subscriber(&host).await;
    let error = wire
        .no(
            "host.resolve_approval",
            answer(&json!("approval-x"), "approve"),
        )
        .await;
    assert_eq!(
        error,
        json!({
            "code": -32603, "message": "unknown approval 'approval-x'",
            "data": { "reason": "unknown_approval" },
        })
    );
    assert_eq!(wire.ok("host.events", json!({})).await, json!([]));
}

#[tokio::test]
async fn any_session_resolves_a_system_level_row_once() {
    let host = Host::start();
    let mut names = Names::default();
    let mut asker = Wire::subscriber(&host).await;
    let id = ask(&mut asker, json!({ "action": "rm", "system_level": true })).await;
    let mut other = Wire::operator(&host).await;
    let row = json!({
        "id": "approval-1", "action": "rm", "details": null, "options": ["approve", "deny"],
        "approving": ["approve"], "created_at": "<time>", "sequence": "#", "deliveries": 0,
        "asked_by": { "name": "script", "role": "operator" },
        "status": "resolved", "state": "denied", "resolution": "deny", "resolved_at": "<time>",
        "resolved_by": { "name": "script", "role": "operator" }, "message": "not today",
        "door": "websocket",
        "view": { "cut": true, "editable": false, "edits": [], "summary": "rm", "warnings": [] },
    });
    let params = json!({ "approval_id": id, "resolution": "deny", "message": "not today" });
    let mut resolved = names.plain(other.ok("host.resolve_approval", params).await);
    assert_eq!(resolved["delivery"].take(), "waiting");
    resolved.as_object_mut().unwrap().remove("delivery");
    assert_eq!(resolved, row);
    assert_eq!(asker.event().await["kind"], "approval.requested");
    let event = names.plain(asker.event().await);
    assert_eq!(event["message"], "Approval resolved: rm");
    assert_eq!(event["payload"], row);

    // The same answer again is a success and changes nothing; a different one says who and when.
    let again = other.ok("host.resolve_approval", answer(&id, "deny")).await;
    assert_eq!(again["message"], "not today");
    let mut error = names.plain(
        other
            .no("host.resolve_approval", answer(&id, "approve"))
            .await,
    );
    error["data"]["approval"]
        .as_object_mut()
        .unwrap()
        .remove("delivery");
    assert_eq!(
        error,
        json!({
            "code": -32003,
            "message": "approval 'approval-1' was already resolved as 'deny' by script",
            "data": {
                "reason": "already_resolved", "approval_id": "approval-1", "resolution": "deny",
                "resolved_at": "<time>", "resolved_by": "script", "approval": row,
            },
        })
    );
    assert_eq!(
        asker
            .ok("host.events", json!({}))
            .await
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test]
async fn an_owner_resolves_its_own_row() {
    let host = Host::start();
    let mut owner = Wire::subscriber(&host).await;
    let id = ask(&mut owner, json!({ "action": "rm" })).await;
    let row = owner
        .ok("host.resolve_approval", answer(&id, "approve"))
        .await;
    assert_eq!(
        (&row["status"], &row["state"], &row["resolution"]),
        (&json!("resolved"), &json!("allowed"), &json!("approve"))
    );
    assert_eq!(
        owner.kinds(2).await,
        ["approval.requested", "approval.resolved"]
    );
}

#[tokio::test]
async fn anothers_answer_is_passed_to_an_owner_that_listens() {
    let host = Host::start();
    let mut names = Names::default();
    let mut owner = Wire::subscriber(&host).await;
    let asked = owner
        .ok("host.request_approval", json!({ "action": "rm" }))
        .await;
    let id = &asked["id"];
    names.plain(asked.clone());
    let mut other = Wire::subscriber(&host).await;
    let row = names.plain(
        other
            .ok("host.resolve_approval", answer(id, "approve"))
            .await,
    );
    assert_eq!(
        row,
        json!({
            "id": "approval-1", "client_id": "client-1", "action": "rm", "details": null,
            "options": ["approve", "deny"], "approving": ["approve"], "created_at": "<time>",
            "sequence": "#", "deliveries": 0, "status": "pending", "state": "pending",
            "asked_by": { "name": "script", "role": "operator" }, "passed_to_owner": true,
            "view": { "cut": true, "editable": false, "edits": [], "summary": "rm", "warnings": [] },
        })
    );
    let told = owner.event_of("approval.resolve_requested").await;
    assert_eq!(other.event().await, told);
    assert_eq!(
        names.plain(told),
        json!({
            "id": "event-#", "sequence": "#", "timestamp": "<time>", "kind": "approval.resolve_requested",
            "message": "Resolution requested for rm: approve",
            "payload": {
                "approval_id": "approval-1", "resolution": "approve",
                "requesting_client_id": "client-2", "owner_client_id": "client-1",
            },
        })
    );
    owner
        .ok("host.resolve_approval", answer(id, "approve"))
        .await;
    assert_eq!(other.event().await["kind"], "approval.resolved");
}

#[tokio::test]
async fn anothers_answer_is_refused_while_the_owner_does_not_listen() {
    let host = Host::start();
    let mut owner = Wire::operator(&host).await;
    let asked = owner
        .ok("host.request_approval", json!({ "action": "rm" }))
        .await;
    let (id, client) = (&asked["id"], &asked["client_id"]);
    let mut other = Wire::operator(&host).await;
    let expected = json!({
        "code": -32003,
        "message": format!(
            "approval {} is owned by session {} which is not currently connected", quoted(id), quoted(client)
        ),
        "data": { "reason": "owner_not_connected", "approval_id": id, "owner_client_id": client },
    });
    let error = other
        .no("host.resolve_approval", answer(id, "approve"))
        .await;
    assert_eq!(error, expected);
    // An owner that left is away in the same way, until its time is over.
    drop(owner);
    let error = other.no("host.resolve_approval", answer(id, "deny")).await;
    assert_eq!(error, expected);
}

fn quoted(value: &Value) -> String {
    format!("'{}'", value.as_str().unwrap())
}

#[tokio::test]
async fn what_an_owner_held_ends_when_it_does_not_come_back() {
    let host = Host::start_with(|settings, _| settings.owner_grace_ms = 50);
    let mut watcher = Wire::subscriber(&host).await;
    let mut owner = Wire::operator(&host).await;
    owner
        .ok("host.register_agent", json!({ "id": "w", "name": "Wren" }))
        .await;
    let id = ask(&mut owner, json!({ "action": "rm", "agent_id": "w" })).await;
    let kept = ask(
        &mut owner,
        json!({ "action": "keep", "agent_id": "w", "timeout_ms": 600_000 }),
    )
    .await;
    drop(owner);
    let event = watcher.event_of("approval.resolved").await;
    assert_eq!(event["message"], "Approval auto-cancelled (agent gone): rm");
    let mut row = Names::default().plain(event["payload"].clone());
    row.as_object_mut().unwrap().remove("client_id");
    assert_eq!(
        row,
        json!({
            "id": "approval-1", "agent_id": "w", "agent_name": "Wren", "action": "rm", "details": null,
            "options": ["approve", "deny"], "approving": ["approve"], "created_at": "<time>",
            "sequence": "#", "deliveries": 0,
            "asked_by": { "name": "script", "role": "operator" },
            "status": "resolved", "state": "gone", "resolution": "agent_gone", "resolved_at": "<time>",
            "resolved_by": { "name": "host", "role": "host" }, "message": "the asker is gone",
            "view": { "cut": true, "editable": false, "edits": [], "summary": "rm", "warnings": [] },
        })
    );
    let stopped = watcher.event_of("agent.status_changed").await;
    assert_eq!(stopped["message"], "Wren is Stopped");
    let error = watcher
        .no("host.resolve_approval", answer(&id, "approve"))
        .await;
    assert_eq!(error["data"]["resolution"], "agent_gone");
    let row = watcher
        .ok("host.approval", json!({ "approval_id": kept }))
        .await;
    assert_eq!(row["status"], "pending");
}

#[tokio::test]
async fn an_owner_that_comes_back_in_time_takes_over() {
    let mut host = Host::start();
    let mut owner = Wire::operator(&host).await;
    owner
        .ok("host.register_agent", json!({ "id": "w", "name": "Wren" }))
        .await;
    let id = ask(&mut owner, json!({ "action": "rm", "agent_id": "w" })).await;
    let token = owner
        .ok(
            "host.create_token",
            json!({ "role": "operator", "name": "bo" }),
        )
        .await;
    drop(owner);
    // The host may hear of the lost connection a moment later than we do.
    let mut back = Wire::operator(&host).await;
    register_soon(&mut back).await;
    let row = back.ok("host.approval", json!({ "approval_id": id })).await;
    let agent = back.ok("host.agents", json!({})).await[0].take();
    assert_eq!(row["client_id"], agent["session_id"]);
    let mut stranger = Wire::connect(&host, token["token"].as_str().unwrap()).await;
    let taken = stranger
        .no("host.register_agent", json!({ "id": "w", "name": "Wren" }))
        .await;
    assert_eq!(taken["data"]["reason"], "owned_elsewhere");

    // The same after a restart: the other principal still may not, the owner may, although the
    // token in the file is a new one.
    host.restart();
    let mut stranger = Wire::connect(&host, token["token"].as_str().unwrap()).await;
    let taken = stranger
        .no("host.register_agent", json!({ "id": "w", "name": "Wren" }))
        .await;
    assert_eq!(taken["data"]["reason"], "owned_elsewhere");
    let error = stranger
        .no("host.resolve_approval", answer(&id, "approve"))
        .await;
    assert_eq!(error["data"]["reason"], "owner_not_connected");
    let mut back = Wire::operator(&host).await;
    let params = json!({ "id": "w", "name": "Wren" });
    back.ok("host.register_agent", params).await;
    let row = back
        .ok("host.resolve_approval", answer(&id, "approve"))
        .await;
    assert_eq!(row["state"], "allowed");
}

#[tokio::test]
async fn an_ask_whose_owner_is_gone_says_when_it_ends() {
    let host = Host::start_with(|settings, _| settings.owner_grace_ms = 600_000);
    let mut owner = Wire::operator(&host).await;
    let id = ask(&mut owner, json!({ "action": "rm" })).await;
    let mut other = Wire::operator(&host).await;
    let params = json!({ "approval_id": id });
    let row = other.ok("host.approval", params.clone()).await;
    assert_eq!(row.get("lapses_at"), None);
    drop(owner);
    let begin = std::time::Instant::now();
    loop {
        let row = other.ok("host.approval", params.clone()).await;
        if row["lapses_at"].is_string() {
            return;
        }
        assert!(
            begin.elapsed() < countersign_testkit::doors::PATIENCE,
            "{row}"
        );
    }
}

async fn register_soon(wire: &mut Wire) {
    let begin = std::time::Instant::now();
    loop {
        let reply = wire
            .reply("host.register_agent", json!({ "id": "w", "name": "Wren" }))
            .await;
        if reply.get("result").is_some() {
            return;
        }
        assert!(
            begin.elapsed() < countersign_testkit::doors::PATIENCE,
            "{reply}"
        );
    }
}

#[tokio::test]
async fn an_owner_comes_back_after_a_restart_of_the_host() {
    let mut host = Host::start();
    // The Unix socket's user is the same principal before and after.
    let mut owner = Wire::unix(&host.socket()).await;
    owner
        .ok("host.register_agent", json!({ "id": "w", "name": "Wren" }))
        .await;
    let id = ask(&mut owner, json!({ "action": "rm", "agent_id": "w" })).await;
    host.restart();
    let mut back = Wire::unix(&host.socket()).await;
    back.ok("host.register_agent", json!({ "id": "w", "name": "Wren" }))
        .await;
    let row = back
        .ok("host.resolve_approval", answer(&id, "approve"))
        .await;
    assert_eq!(
        (&row["status"], &row["state"]),
        (&json!("resolved"), &json!("allowed"))
    );
}

#[tokio::test]
async fn unregistering_an_agent_ends_what_it_asked() {
    let host = Host::start();
    let mut owner = Wire::subscriber(&host).await;
    owner
        .ok("host.register_agent", json!({ "id": "w", "name": "Wren" }))
        .await;
    let id = ask(&mut owner, json!({ "action": "rm", "agent_id": "w" })).await;
    owner
        .ok("host.unregister_agent", json!({ "agent_id": "w" }))
        .await;
    let row = owner
        .ok("host.approval", json!({ "approval_id": id }))
        .await;
    assert_eq!(
        (&row["status"], &row["resolution"]),
        (&json!("resolved"), &json!("agent_gone"))
    );
    assert_eq!(
        owner.kinds(5).await,
        [
            "agent.registered",
            "approval.requested",
            "agent.status_changed",
            "approval.resolved",
            "agent.unregistered"
        ]
    );
}

#[tokio::test]
async fn only_an_ended_row_is_dismissed_and_nobody_is_told() {
    let host = Host::start();
    let mut wire = Wire::subscriber(&host).await;
    let error = wire
        .no("host.dismiss_approval", json!({ "approval_id": "x" }))
        .await;
    assert_eq!(
        error,
        json!({ "code": -32003, "message": "unknown approval 'x'", "data": { "reason": "unknown_approval" } })
    );
    let id = ask(&mut wire, json!({ "action": "rm" })).await;
    let error = wire
        .no("host.dismiss_approval", json!({ "approval_id": id }))
        .await;
    assert_eq!(
        (&error["code"], &error["data"]["reason"]),
        (&json!(-32003), &json!("approval_pending"))
    );
    let row = wire.ok("host.resolve_approval", answer(&id, "deny")).await;
    let mut dismissed = wire
        .ok("host.dismiss_approval", json!({ "approval_id": id }))
        .await;
    // Whoever answered has seen the ask, and gets less of its view.
    dismissed["approval"]["view"] = row["view"].clone();
    assert_eq!(dismissed, json!({ "dismissed": true, "approval": row }));
    assert_eq!(wire.ok("host.approvals", json!({})).await, json!([]));
    wire.ok("host.notify", json!({ "message": "end" })).await;
    assert_eq!(
        wire.kinds(3).await,
        [
            "approval.requested",
            "approval.resolved",
            "host.notification"
        ]
    );
}

//! The host wire, frame by frame: what clients of either age send, and exactly what they get.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::host::Host;
use crate::shape::Names;
use crate::wire::Wire;

fn plain(value: Value) -> Value {
    Names::default().plain(value)
}

#[tokio::test]
async fn the_reply_to_auth_is_the_very_next_frame() {
    let host = Host::start();
    let mut busy = Wire::operator(&host).await;
    let mut wire = Wire::open(&host).await;
    let auth = json!({ "id": 0, "method": "session.auth", "params": { "token": host.token() } });
    wire.send(auth).await;
    wire.send(json!({ "id": 2, "method": "host.subscribe" }))
        .await;
    busy.ok("host.notify", json!({ "message": "noise" })).await;
    assert_eq!(
        wire.next().await,
        json!({
            "jsonrpc": "2.0",
            "id": 0,
            "result": { "ok": true, "auth_enabled": true, "memory_namespace": null, "parslee": null },
        })
    );
}

#[tokio::test]
async fn each_form_of_auth_has_its_own_result() {
    let host = Host::start();
    let token = host.token();
    let mut operator = Wire::open(&host).await;
    let params = json!({ "token": token, "tenant_id": "t", "memory_namespace": "mine" });
    assert_eq!(
        operator.ok("session.auth", params).await,
        json!({ "ok": true, "auth_enabled": true, "memory_namespace": "mine", "parslee": null })
    );
    let mut for_host = Wire::open(&host).await;
    assert_eq!(
        for_host
            .ok("session.auth", json!({ "host_token": token }))
            .await,
        json!({ "ok": true, "auth_enabled": true, "role": "host", "memory_namespace": null })
    );
    let params = json!({ "role": "agent", "agent_id": "coder" });
    let token = operator.ok("host.create_token", params).await["token"].take();
    let mut agent = Agent::start(&host);
    let auth = json!({ "token": token, "agent_id": "coder", "attach": false });
    assert_eq!(
        agent.connect(&host.address, auth).await["result"],
        json!({
            "ok": true, "auth_enabled": true, "agent_id": "coder", "work_context": null,
            "memory_namespace": null,
        })
    );
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_the_client_may_try_again() {
    let host = Host::start();
    let mut wire = Wire::open(&host).await;
    let cases = [
        (json!({}), "session.auth requires { token: string }"),
        (json!({ "token": "wrong" }), "auth failed: token mismatch"),
        (
            json!({ "host_token": "wrong" }),
            "auth failed: host token mismatch",
        ),
        (
            json!({ "token": host.token(), "agent_id": "x" }),
            "auth failed: agent_id `x` is not supervised, or token mismatch",
        ),
    ];
    for (params, words) in cases {
        let error = wire.no("session.auth", params).await;
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!(-32603), &json!(words))
        );
    }
    wire.ok("session.auth", json!({ "token": host.token() }))
        .await;
    assert_eq!(wire.ok("host.agents", json!({})).await, json!([]));
}

#[tokio::test]
async fn any_other_method_before_auth_is_refused_and_the_socket_closed() {
    let host = Host::start();
    for method in ["host.subscribe", "host.agents", "server.handshake", "x.y"] {
        let mut wire = Wire::open(&host).await;
        let error = wire.no(method, json!({ "protocol_version": 3 })).await;
        assert_eq!(error["code"], -32001, "{error}");
        let words = error["message"].as_str().unwrap();
        assert!(
            words.starts_with("auth required: send `session.auth` "),
            "{words}"
        );
        assert_eq!(wire.closed().await, Some(1008), "{method}");
    }
}

#[tokio::test]
async fn the_handshake_settles_version_and_capabilities() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let params = json!({
        "protocol_version": 3, "protocol_version_min": 3, "client_version": "0.60.0",
        "required_capabilities": ["host.events"], "optional_capabilities": ["voice"],
    });
    assert_eq!(
        wire.ok("server.handshake", params).await,
        json!({
            "protocol_version": 3,
            "server_protocol_version_min": 3,
            "server_protocol_version_max": 3,
            "server_version": env!("CARGO_PKG_VERSION"),
            "client_protocol_version": 3,
            "client_version": "0.60.0",
            "negotiated_capabilities": ["host.events", "voice"],
            "assistant_name": "Countersign",
            "assistant_aliases": [],
            "assistant_brand": "Countersign",
        })
    );
    for params in [
        json!({ "protocol_version": 2 }),
        json!({ "protocol_version": 4, "protocol_version_min": 4 }),
    ] {
        let error = wire.no("server.handshake", params).await;
        assert_eq!(error["code"], -32006);
    }
    // A client that speaks more than one version, and one of the first age, which sends no handshake.
    wire.ok(
        "server.handshake",
        json!({ "protocol_version": 5, "protocol_version_min": 2 }),
    )
    .await;
    Wire::subscriber(&host).await;
}

#[tokio::test]
async fn a_fresh_subscriber_gets_a_whole_snapshot() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    assert_eq!(
        plain(wire.ok("host.subscribe", json!({})).await),
        json!({
            "subscribed": true, "agents": [], "devices": [], "approvals": [], "events": [],
            "questions": [], "pending_signins": [], "rule_problems": [], "event_sequence": "#",
            "identity": {
                "version": env!("CARGO_PKG_VERSION"), "pid": "#",
                "manifest_path": null, "manifest_role": "none",
            },
        })
    );
    let mut names = Names::default();
    wire.ok("host.register_agent", json!({ "id": "a", "name": "Ann" }))
        .await;
    wire.ok(
        "host.register_device",
        json!({ "id": "d", "name": "desk", "platform": "linux" }),
    )
    .await;
    wire.ok(
        "host.request_approval",
        json!({ "action": "rm", "agent_id": "a" }),
    )
    .await;
    wire.ok("host.ask_question", json!({ "question": "which?" }))
        .await;
    let snapshot = names.plain(wire.ok("host.subscribe", json!(null)).await);
    let kinds: Vec<_> = snapshot["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "question.asked",
            "agent.status_changed",
            "approval.requested",
            "device.registered",
            "agent.registered"
        ]
    );
    assert_eq!(snapshot["agents"][0]["status"], "waiting_for_approval");
    assert_eq!(snapshot["devices"][0]["name"], "desk");
    assert_eq!(snapshot["approvals"][0]["action"], "rm");
    assert_eq!(snapshot["questions"][0]["question"], "which?");
}

#[tokio::test]
async fn an_agent_is_registered_described_and_taken_off() {
    let host = Host::start();
    let mut names = Names::default();
    let mut wire = Wire::subscriber(&host).await;
    let params = json!({
        "id": "coder", "name": "Coder", "kind": "cli", "capabilities": ["edit"], "project": "p",
        "pid": 7, "display": { "label": "C", "icon": "i", "accent": "red" }, "metadata": { "k": [1] },
    });
    let row = json!({
        "id": "coder", "name": "Coder", "kind": "cli", "capabilities": ["edit"], "project": "p",
        "pid": "#", "display": { "label": "C", "icon": "i", "accent": "red" }, "metadata": { "k": [1] },
        "session_id": "client-1", "status": "idle", "state": "idle", "updated_at": "<time>", "started_at": "<time>",
        "open_approvals": 0, "open_questions": 0,
    });
    assert_eq!(
        names.plain(wire.ok("host.register_agent", params).await),
        row
    );
    assert_eq!(
        names.plain(wire.event().await),
        named_event(
            "agent.registered",
            ["coder", "Coder"],
            "Coder registered",
            row.clone()
        )
    );
    let params = json!({ "agent_id": "coder", "status": "running", "current_task": "tests" });
    let mut running = row.clone();
    running["status"] = json!("running");
    running["state"] = json!("running");
    running["current_task"] = json!("tests");
    assert_eq!(
        names.plain(wire.ok("host.set_status", params).await),
        running
    );
    running.as_object_mut().unwrap().remove("started_at");
    assert_eq!(
        names.plain(wire.event().await),
        named_event(
            "agent.status_changed",
            ["coder", "Coder"],
            "Coder is Running",
            running
        )
    );
    let params =
        json!({ "agent_id": "coder", "status": "paused", "message": "lunch", "payload": [1] });
    let paused = wire.ok("host.set_status", params).await;
    assert_eq!(
        (&paused["status"], paused.get("current_task")),
        (&json!("paused"), None)
    );
    assert_eq!(
        names.plain(wire.event().await),
        named_event(
            "agent.status_changed",
            ["coder", "Coder"],
            "lunch",
            json!([1])
        )
    );
    let gone = wire
        .ok("host.unregister_agent", json!({ "agent_id": "coder" }))
        .await;
    assert_eq!(gone, json!({ "ok": true }));
    assert_eq!(
        names.plain(wire.event().await),
        event(
            "agent.unregistered",
            Some("coder"),
            "coder unregistered",
            json!(null)
        )
    );
}

/// An event about an agent; the name is there while the agent is listed.
fn named_event(kind: &str, agent: [&str; 2], message: &str, payload: Value) -> Value {
    let mut event = event(kind, Some(agent[0]), message, payload);
    event["agent_name"] = json!(agent[1]);
    event
}

fn event(kind: &str, agent: Option<&str>, message: &str, payload: Value) -> Value {
    let mut event = json!({
        "id": "event-#", "sequence": "#", "timestamp": "<time>", "kind": kind, "message": message,
    });
    event["payload"] = payload;
    if let Some(agent) = agent {
        event["agent_id"] = json!(agent);
    }
    event
}

#[tokio::test]
async fn an_agent_without_words_gets_the_wires_defaults() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let row = wire.ok("host.register_agent", json!({ "name": "B" })).await;
    let expected = json!({
        "id": "agent-1", "name": "B", "kind": "", "capabilities": [], "display": {}, "metadata": null,
        "session_id": "client-1", "status": "idle", "state": "idle", "updated_at": "<time>", "started_at": "<time>",
        "open_approvals": 0, "open_questions": 0,
    });
    assert_eq!(plain(row), expected);
    wire.ok("host.register_agent", json!({ "id": "z", "name": "A" }))
        .await;
    wire.ok("host.register_agent", json!({ "id": "a", "name": "C" }))
        .await;
    // The same connection may describe its agent anew.
    wire.ok("host.register_agent", json!({ "id": "a", "name": "B" }))
        .await;
    let rows = wire.ok("host.agents", json!("ignored")).await;
    let listed: Vec<_> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["name"])
        .collect();
    assert_eq!(listed, ["A", "B", "B"]);
    let status = json!({ "agent_id": "a", "status": "waiting_for_approval" });
    let row = wire.ok("host.set_status", status).await;
    assert_eq!(
        (&row["status"], &row["state"]),
        (&json!("running"), &json!("running"))
    );
}

#[tokio::test]
async fn anothers_agent_is_refused_in_the_wires_words() {
    let host = Host::start();
    let mut owner = Wire::operator(&host).await;
    owner
        .ok("host.register_agent", json!({ "id": "x", "name": "X" }))
        .await;
    let mut other = Wire::operator(&host).await;
    let cases = [
        (
            "host.register_agent",
            json!({ "id": "x", "name": "X" }),
            "agent 'x' is owned by another session; unregister it from that session first",
        ),
        ("host.unregister_agent", json!({}), "missing agent_id"),
        (
            "host.unregister_agent",
            json!({ "agent_id": "y" }),
            "unknown agent 'y'",
        ),
        (
            "host.unregister_agent",
            json!({ "agent_id": "x" }),
            "agent 'x' is owned by another session",
        ),
        (
            "host.set_status",
            json!({ "agent_id": "x", "status": "idle" }),
            "agent 'x' is owned by another session",
        ),
        (
            "host.set_status",
            json!({ "agent_id": "y", "status": "idle" }),
            "unknown agent 'y'",
        ),
    ];
    for (method, params, words) in cases {
        let error = other.no(method, params).await;
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!(-32603), &json!(words))
        );
    }
}

#[tokio::test]
async fn devices_come_and_change() {
    let host = Host::start();
    let mut names = Names::default();
    let mut wire = Wire::subscriber(&host).await;
    let params =
        json!({ "id": "d", "name": "desk", "platform": "linux", "capabilities": ["screen"] });
    let row = json!({
        "id": "d", "name": "desk", "platform": "linux", "capabilities": ["screen"], "status": "online",
        "session_id": "client-1", "updated_at": "<time>", "metadata": null,
    });
    assert_eq!(
        names.plain(wire.ok("host.register_device", params.clone()).await),
        row
    );
    assert_eq!(
        names.plain(wire.event().await),
        event("device.registered", None, "desk connected", row.clone())
    );
    let mut away = row;
    away["status"] = json!("away");
    let update = json!({ "device_id": "d", "status": "away" });
    assert_eq!(
        names.plain(wire.ok("host.update_device", update.clone()).await),
        away
    );
    assert_eq!(
        names.plain(wire.event().await),
        event("device.updated", None, "desk is away", away.clone())
    );
    assert_eq!(
        names.plain(wire.ok("host.devices", json!(null)).await),
        json!([away])
    );
    let mut other = Wire::operator(&host).await;
    let cases = [
        (
            "host.register_device",
            params,
            "device 'd' is owned by another session; reconnect that device or remove it first",
        ),
        (
            "host.update_device",
            update,
            "device 'd' is owned by another session",
        ),
        (
            "host.update_device",
            json!({ "device_id": "e" }),
            "unknown device 'e'",
        ),
    ];
    for (method, params, words) in cases {
        let error = other.no(method, params).await;
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!(-32603), &json!(words))
        );
    }
}

#[tokio::test]
async fn a_notification_is_recorded_and_reaches_everybody_in_order() {
    let host = Host::start();
    let mut first = Wire::subscriber(&host).await;
    let mut second = Wire::subscriber(&host).await;
    let mut sender = Wire::operator(&host).await;
    let sent = sender.ok("host.notify", json!({})).await;
    assert_eq!(
        plain(sent.clone()),
        event("host.notification", None, "", json!(null))
    );
    let params = json!({ "kind": "build.done", "agent_id": "a", "message": "m", "payload": { "z": 1, "a": 2 } });
    let told = sender.ok("host.notify", params).await;
    let expected = event("build.done", Some("a"), "m", json!({ "z": 1, "a": 2 }));
    assert_eq!(plain(told.clone()), expected);
    for wire in [&mut first, &mut second] {
        assert_eq!(wire.event().await, sent);
        assert_eq!(wire.event().await, told);
    }
    assert_eq!(
        sender.ok("host.events", json!(null)).await,
        json!([told, sent])
    );
    assert_eq!(
        sender.ok("host.events", json!({ "limit": 1 })).await,
        json!([told])
    );
}

#[tokio::test]
async fn an_events_keys_stand_in_alphabetical_order() {
    let host = Host::start();
    let mut wire = Wire::subscriber(&host).await;
    let mut sender = Wire::operator(&host).await;
    sender
        .ok("host.register_agent", json!({ "id": "a", "name": "A" }))
        .await;
    sender
        .ok(
            "host.request_approval",
            json!({ "action": "rm", "agent_id": "a" }),
        )
        .await;
    for _ in 0..3 {
        let text = wire.next_text().await;
        let sorted: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(text, sorted.to_string());
    }
}

#[tokio::test]
async fn an_ask_returns_at_once_with_the_wires_defaults() {
    let host = Host::start();
    let mut names = Names::default();
    let mut wire = Wire::operator(&host).await;
    let row = json!({
        "id": "approval-1", "client_id": "client-1", "action": "rm -rf build", "details": null,
        "options": ["approve", "deny"], "approving": ["approve"], "status": "pending", "state": "pending",
        "created_at": "<time>", "sequence": "#", "deliveries": 0,
        "asked_by": { "name": "script", "role": "operator" },
    });
    // Others see what it means as well.
    let mut shown = row.clone();
    shown["view"] = json!({
        "editable": false, "edits": [], "summary": "rm -rf build", "title": "rm -rf build", "warnings": [],
    });
    let mut replied = row;
    replied["subscribed"] = json!(false);
    replied["answerable"] = json!(false);
    let params = json!({ "action": "rm -rf build" });
    assert_eq!(
        names.plain(wire.ok("host.request_approval", params).await),
        replied
    );
    assert_eq!(
        names.plain(wire.ok("host.approvals", json!(7)).await),
        json!([shown])
    );

    wire.ok("host.subscribe", json!({})).await;
    wire.ok("host.register_agent", json!({ "id": "a", "name": "Ann" }))
        .await;
    let params = json!({
        "action": "push", "agent_id": "a", "details": { "to": "main" }, "options": ["yes", "approve"],
        "system_level": true, "a2ui": { "v": 1 }, "tool": "Bash", "input": { "command": "git push" },
    });
    let mut row = json!({
        "id": "approval-2", "agent_id": "a", "agent_name": "Ann", "action": "push", "details": { "to": "main" },
        "options": ["yes", "approve"], "approving": ["approve"], "status": "pending", "state": "pending",
        "created_at": "<time>", "sequence": "#", "deliveries": 0, "a2ui": { "v": 1 }, "tool": "Bash",
        "input": { "command": "git push" },
        "input_digest": "5b1d3d7ab9d3b4d2d6ab3a2c2d6b6d9a",
        "asked_by": { "name": "script", "role": "operator" },
        "verdict": {
            "effect": "ask", "text": "ask\n  ask run `git push`: no rule",
            "parts": [{ "kind": "command", "subject": "git push", "effect": "ask", "floor": false }],
        },
    });
    let mut replied = names.plain(wire.ok("host.request_approval", params).await);
    row["input_digest"] = replied["input_digest"].clone();
    assert_eq!(row["input_digest"].as_str().map(str::len), Some(64));
    let asked = replied.as_object_mut().unwrap();
    assert_eq!(asked.remove("subscribed"), Some(json!(true)));
    assert_eq!(asked.remove("answerable"), Some(json!(true)));
    assert_eq!(replied, row);
    row["view"] = json!({
        "command": "git push", "details_text": "{\n  \"to\": \"main\"\n}", "editable": true, "edits": [],
        "input_text": "{\n  \"command\": \"git push\"\n}", "summary": "Bash: git push", "warnings": [],
    });
    assert_eq!(wire.event().await["kind"], "agent.registered");
    assert_eq!(
        names.plain(wire.event().await),
        named_event(
            "approval.requested",
            ["a", "Ann"],
            "Approval requested: push",
            row
        )
    );
    assert_eq!(wire.event().await["message"], "Ann is WaitingForApproval");
    let listed = wire.ok("host.approvals", json!({})).await;
    let actions: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["action"])
        .collect();
    assert_eq!(actions, ["push", "rm -rf build"]);
}

#[tokio::test]
async fn what_is_not_a_request_of_ours_gets_the_right_code() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    for text in [
        "{",
        "nonsense",
        "[]",
        "{\"id\":1}",
        "{\"method\":5}",
        "\u{0}",
    ] {
        wire.send_text(text).await;
        let reply = wire.next().await;
        assert_eq!(
            (&reply["error"]["code"], &reply["id"]),
            (&json!(-32700), &json!(null)),
            "{text}"
        );
    }
    let cases = [
        (
            "host.nonsense",
            json!({}),
            -32601,
            "unknown method 'host.nonsense'",
        ),
        (
            "host.register_agent",
            json!({}),
            -32603,
            "missing field `name`",
        ),
        (
            "host.register_agent",
            json!({ "name": 5 }),
            -32603,
            "invalid type: integer `5`, expected a string",
        ),
        (
            "host.register_agent",
            json!([1, 2]),
            -32603,
            "invalid type: integer `1`, expected a string",
        ),
        (
            "host.request_approval",
            json!({}),
            -32603,
            "missing field `action`",
        ),
        (
            "host.set_status",
            json!({ "agent_id": "a", "status": "bored" }),
            -32603,
            "unknown variant `bored`, expected one of `idle`, `running`, `waiting_for_approval`, \
             `paused`, `completed`, `errored`, `stopped`",
        ),
        (
            "host.resolve_approval",
            json!({ "approval_id": "x" }),
            -32603,
            "missing field `resolution`",
        ),
        (
            "host.events",
            json!({ "limit": "many" }),
            -32603,
            "invalid type: string \"many\", expected u64",
        ),
        (
            "host.dismiss_approval",
            json!({}),
            -32602,
            "invalid params: missing field `approval_id`",
        ),
    ];
    for (method, params, code, words) in cases {
        let error = wire.no(method, params).await;
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!(code), &json!(words)),
            "{method}"
        );
    }
}

#[tokio::test]
async fn a_bare_envelope_is_enough_and_ids_come_back_as_they_were() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let done = json!({ "jsonrpc": "2.0", "result": [], "id": null });
    for text in [
        r#"{"method":"host.agents"}"#,
        r#"{"method":"host.agents","id":null,"params":null}"#,
        r#"{"method":"host.agents","params":[3]}"#,
    ] {
        wire.send_text(text).await;
        assert_eq!(wire.next().await, done, "{text}");
    }
    for id in [json!("seven"), json!(1.5), json!({ "a": [1] }), json!(-3)] {
        wire.send(json!({ "id": id, "method": "host.agents" }))
            .await;
        assert_eq!(wire.next().await["id"], id);
    }
}

#[tokio::test]
async fn a_request_that_waits_holds_up_none_behind_it() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let row = wire
        .ok(
            "host.request_approval",
            json!({ "action": "x", "system_level": true }),
        )
        .await;
    let id = &row["id"];
    let waiting = wire
        .request("host.wait_approval", json!({ "approval_id": id }))
        .await;
    assert_eq!(wire.ok("host.agents", json!({})).await, json!([]));
    let answer = json!({ "approval_id": id, "resolution": "approve" });
    let answering = wire.request("host.resolve_approval", answer).await;
    let (one, two) = (wire.next().await, wire.next().await);
    let mut ids = [one["id"].as_u64().unwrap(), two["id"].as_u64().unwrap()];
    ids.sort_unstable();
    assert_eq!(ids, [waiting, answering]);
    assert_eq!(one["result"]["resolution"], "approve");
    assert_eq!(two["result"]["resolution"], "approve");
}

#[tokio::test]
async fn the_unix_socket_speaks_the_same_wire_and_knows_its_owner() {
    let host = Host::start();
    let mut wire = Wire::unix(&host.socket()).await;
    let you = wire.ok("host.status", json!({})).await["you"].take();
    assert_eq!(you["role"], "operator");
    let result = wire.ok("session.auth", json!({})).await;
    assert_eq!(
        (&result["ok"], &result["parslee"]),
        (&json!(true), &json!(null))
    );
    wire.ok("server.handshake", json!({ "protocol_version": 3 }))
        .await;
    wire.ok("host.subscribe", json!({})).await;
    wire.ok("host.notify", json!({ "message": "hello" })).await;
    assert_eq!(wire.event().await["message"], "hello");
    let mut by_path = Wire::upgrade(&host.address, "/rpc", &[]).await.unwrap();
    by_path
        .ok("session.auth", json!({ "token": host.token() }))
        .await;
}

#[tokio::test]
async fn a_word_that_is_the_name_of_one_agent_and_the_id_of_another_reaches_neither() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    wire.ok(
        "host.register_agent",
        json!({ "id": "docs", "name": "build" }),
    )
    .await;
    wire.ok("host.register_agent", json!({ "id": "x", "name": "docs" }))
        .await;
    let error = wire.no("host.agent", json!({ "agent_id": "docs" })).await;
    let message = "'docs' is the name or the id of more than one agent: \
                   'build' (id 'docs'), 'docs' (id 'x')";
    assert_eq!(
        error,
        json!({ "code": -32603, "message": message, "data": { "reason": "ambiguous_id" } })
    );
    for (word, id) in [("build", "docs"), ("x", "x")] {
        let found = wire.ok("host.agent", json!({ "agent_id": word })).await;
        assert_eq!(found["id"], id);
    }
    // The wire of external agents knows them by their ids alone.
    let status = json!({ "agent_id": "docs", "status": "running" });
    let changed = wire.ok("host.set_status", status).await;
    assert_eq!(changed["name"], "build");
}

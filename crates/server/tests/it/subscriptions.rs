//! What a reader of events may choose: brief rows, kinds besides the public ones, one agent.

use serde_json::{Value, json};

use crate::host::Host;
use crate::wire::Wire;

async fn ask(wire: &mut Wire, agent: &str, command: &str) -> Value {
    let params = json!({
        "action": "Run it", "agent_id": agent, "system_level": true, "tool": "Bash",
        "input": { "command": command }, "details": { "kind": "execute" },
    });
    wire.ok("host.request_approval", params).await["id"].take()
}

/// What a brief row leaves out, and that it did.
fn left_out(row: &Value) -> Value {
    let mut view = row["view"].clone();
    view.as_object_mut().unwrap().remove("warnings");
    json!([row.get("brief"), row.get("input"), row["details"], view])
}

#[tokio::test]
async fn brief_rows_leave_out_what_is_large_and_the_ask_by_its_id_has_it() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let mut whole = Wire::subscriber(&host).await;
    let mut brief = Wire::operator(&host).await;
    brief.ok("host.subscribe", json!({ "brief": true })).await;
    let long = format!("ls {}", "x".repeat(3_000));
    let large = ask(&mut wire, "a", &long).await;
    let small = ask(&mut wire, "a", "ls").await;
    let cut = json!([
        true, null, {},
        { "cut": true, "editable": true, "edits": [], "summary": format!("Bash: {}…", &long[..1018]) },
    ]);
    let kept = json!([
        null, { "command": "ls" }, { "kind": "execute" },
        {
            "command": "ls", "details_text": "{\n  \"kind\": \"execute\"\n}", "editable": true,
            "edits": [], "input_text": "{\n  \"command\": \"ls\"\n}", "summary": "Bash: ls",
            "title": "Run it",
        },
    ]);
    for (id, expected) in [(&large, &cut), (&small, &kept)] {
        let event = brief.event_of("approval.requested").await;
        assert_eq!(&event["payload"]["id"], id);
        assert_eq!(&left_out(&event["payload"]), expected);
        // Others are sent the same event whole.
        let event = whole.event_of("approval.requested").await;
        assert_eq!(event["payload"].get("brief"), None);
        assert!(event["payload"]["view"]["command"].is_string());
    }
    let snapshot = brief.ok("host.subscribe", json!({ "brief": true })).await;
    let rows = snapshot["approvals"].as_array().unwrap();
    assert_eq!(
        [left_out(&rows[0]), left_out(&rows[1])],
        [kept, cut.clone()]
    );
    let shown = snapshot["events"].as_array().unwrap();
    let requested = |event: &&Value| event["payload"]["id"] == large;
    let event = shown.iter().find(requested).unwrap();
    assert_eq!(left_out(&event["payload"]), cut);
    let row = brief
        .ok("host.approval", json!({ "approval_id": large }))
        .await;
    assert_eq!(row["view"]["command"], long);
    let denied = json!({ "approval_id": large, "resolution": "deny" });
    wire.ok("host.resolve_approval", denied).await;
    let event = brief.event_of("approval.resolved").await;
    assert_eq!(left_out(&event["payload"]), cut);
}

#[tokio::test]
async fn a_reader_gets_more_kinds_or_one_agent_alone() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    for agent in ["a", "b"] {
        wire.ok("host.register_agent", json!({ "id": agent, "name": agent }))
            .await;
        ask(&mut wire, agent, "ls").await;
    }
    let mut reader = Wire::operator(&host).await;
    let params = json!({ "agent_id": "b", "also": ["token.created"] });
    let snapshot = reader.ok("host.subscribe", params).await;
    assert_eq!(
        [
            &snapshot["agents"][0]["id"],
            &snapshot["approvals"][0]["agent_id"],
            &json!(snapshot["agents"].as_array().unwrap().len()),
            &json!(snapshot["approvals"].as_array().unwrap().len()),
        ],
        [&json!("b"), &json!("b"), &json!(1), &json!(1)]
    );
    ask(&mut wire, "a", "ls -a").await;
    ask(&mut wire, "b", "ls -b").await;
    let event = reader.event().await;
    assert_eq!(
        (&event["kind"], &event["payload"]["view"]["summary"]),
        (&json!("approval.requested"), &json!("Bash: ls -b"))
    );
    let mut all = Wire::operator(&host).await;
    let params = json!({ "also": ["token.created"] });
    all.ok("host.subscribe", params).await;
    wire.ok("host.create_token", json!({ "role": "observer" }))
        .await;
    ask(&mut wire, "a", "ls").await;
    assert_eq!(all.kinds(2).await, ["token.created", "approval.requested"]);
    let unknown = json!({ "also": ["token.made"] });
    let error = all.no("host.subscribe", unknown).await;
    assert_eq!(error["data"]["reason"], "unknown_event_kind");
    let unknown = json!({ "agent_id": "nobody" });
    let error = all.no("host.subscribe", unknown).await;
    assert_eq!(error["data"]["reason"], "unknown_agent");
}

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
async fn open_asks_of_a_brief_snapshot_have_what_a_list_shows() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    wire.ok("host.register_agent", json!({ "id": "a", "name": "fix" }))
        .await;
    let usual = ask(&mut wire, "a", "ls").await;
    let params = json!({
        "action": "Run it", "agent_id": "a", "tool": "Bash", "input": { "command": "ls" },
        "options": ["yes", "no"], "approving": ["yes"], "cwd": "/p", "system_level": true,
    });
    let unusual = wire.ok("host.request_approval", params).await["id"].take();
    let whole = Wire::operator(&host)
        .await
        .ok("host.subscribe", json!({}))
        .await;
    let snapshot = Wire::operator(&host)
        .await
        .ok("host.subscribe", json!({ "brief": true }))
        .await;
    // Each field that is there is that of the whole row.
    let listed = |index: usize, names: &[&str]| {
        let row = &whole["approvals"][index];
        let mut listed = json!({ "brief": true, "view": { "summary": row["view"]["summary"] } });
        for name in names {
            listed[name] = row[name].clone();
        }
        listed
    };
    let always = [
        "agent_id",
        "agent_name",
        "created_at",
        "id",
        "input_digest",
        "sequence",
        "tool",
    ];
    let more = [always.as_slice(), &["approving", "cwd", "options"]].concat();
    let expected = json!([listed(0, &more), listed(1, &always)]);
    assert_eq!(snapshot["approvals"], expected);
    assert_eq!(
        [&expected[0]["id"], &expected[1]["id"]],
        [&unusual, &usual],
        "newest first"
    );
    let events = snapshot["events"].as_array().unwrap();
    let asked = events
        .iter()
        .filter(|event| event["kind"] == "approval.requested");
    let asked: Vec<&Value> = asked.map(|event| &event["payload"]).collect();
    assert_eq!(json!(asked), expected);
}

#[tokio::test]
async fn a_brief_snapshot_of_a_thousand_asks_is_small() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    wire.ok(
        "host.register_agent",
        json!({ "id": "builder-1", "name": "builder-1" }),
    )
    .await;
    for number in 0..1_000 {
        let command = format!("cargo test --package member-{number}");
        let params = json!({
            "action": "Run the tests of one package", "agent_id": "builder-1", "tool": "Bash",
            "input": { "command": command, "description": "Run the tests of one package" },
            "cwd": "/home/somebody/projects/app", "system_level": true,
        });
        wire.ok("host.request_approval", params).await;
    }
    let snapshot = wire.ok("host.subscribe", json!({ "brief": true })).await;
    assert_eq!(snapshot["approvals"].as_array().unwrap().len(), 1_000);
    let bytes = snapshot.to_string().len();
    assert!(bytes <= 400_000, "{bytes} bytes");
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

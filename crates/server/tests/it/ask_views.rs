//! What people see of an ask: the same with every door.

use serde_json::{Value, json};

use crate::host::Host;
use crate::http::Rest;
use crate::wire::Wire;

async fn request(wire: &mut Wire, mut params: Value) -> Value {
    params["system_level"] = json!(true);
    params["action"] = json!("Change it");
    wire.ok("host.request_approval", params).await
}

/// An ask to edit a file, with what people see of it.
fn edit() -> (Value, Value) {
    let input = json!({ "all": true, "file_path": "/p/a", "new_string": "x\ny = 2", "old_string": "x\ny = 1" });
    let lines = json!([
        { "kind": "context", "text": "x" },
        {
            "kind": "removed", "text": "y = 1",
            "segments": [{ "changed": false, "text": "y = " }, { "changed": true, "text": "1" }],
        },
        {
            "kind": "added", "text": "y = 2",
            "segments": [{ "changed": false, "text": "y = " }, { "changed": true, "text": "2" }],
        },
    ]);
    let view = json!({
        "details_text": "kind: \"edit\"",
        "editable": true,
        "edits": [{
            "added": 1, "removed": 1, "path": "/p/a",
            "hunks": [{ "old_start": 1, "new_start": 1, "lines": lines }],
        }],
        "input_text": "{\n  \"all\": true,\n  \"file_path\": \"/p/a\",\n  \"new_string\": \"x\\ny = 2\",\n  \
                       \"old_string\": \"x\\ny = 1\"\n}",
        "rest_text": "all: true",
        "summary": "Edit: /p/a",
        "title": "Change it",
        "warnings": [],
    });
    let params =
        json!({ "tool": "Edit", "input": input, "details": { "kind": "edit", "rawInput": input } });
    (params, view)
}

#[tokio::test]
async fn every_door_shows_the_same_and_the_asker_is_shown_nothing() {
    let host = Host::start();
    let mut reader = Wire::subscriber(&host).await;
    let mut wire = Wire::operator(&host).await;
    let (params, view) = edit();
    let asked = request(&mut wire, params).await;
    assert_eq!(asked.get("view"), None);
    let id = asked["id"].as_str().unwrap();
    assert_eq!(
        reader.event_of("approval.requested").await["payload"]["view"],
        view
    );
    let by_id = json!({ "approval_id": id });
    assert_eq!(wire.ok("host.approval", by_id.clone()).await["view"], view);
    assert_eq!(wire.ok("host.approvals", json!({})).await[0]["view"], view);
    let snapshot = wire.ok("host.subscribe", json!({})).await;
    assert_eq!(snapshot["approvals"][0]["view"], view);
    let rest = Rest {
        address: &host.address,
        token: &host.token(),
    };
    let row = rest.get(&format!("/api/v1/approvals/{id}")).await.json();
    assert_eq!(row["view"], view);
    let waited = wire
        .ok(
            "host.wait_approval",
            json!({ "approval_id": id, "timeout_ms": 1 }),
        )
        .await;
    assert_eq!(waited.get("view"), None);
}

#[tokio::test]
async fn an_answer_is_shown_in_a_line_and_with_what_runs_instead() {
    let host = Host::start();
    let mut reader = Wire::subscriber(&host).await;
    let mut wire = Wire::operator(&host).await;
    let params = json!({ "tool": "Bash", "input": { "command": "cargo test" } });
    let id = request(&mut wire, params).await["id"].take();
    let line = json!({
        "cut": true, "editable": true, "edits": [], "warnings": [],
        "summary": "Bash: cargo test", "edited_summary": "Bash: cargo test -p core",
    });
    let answer = json!({
        "approval_id": id, "resolution": "approve",
        "edited_input": { "command": "cargo test -p core" },
    });
    let row = wire.ok("host.resolve_approval", answer).await;
    assert_eq!(row["view"], line);
    assert_eq!(
        reader.event_of("approval.resolved").await["payload"]["view"],
        line
    );
    let row = wire.ok("host.approval", json!({ "approval_id": id })).await;
    assert_eq!(
        row["view"],
        json!({
            "command": "cargo test", "editable": true, "edits": [], "warnings": [],
            "summary": "Bash: cargo test", "title": "Change it",
            "input_text": "{\n  \"command\": \"cargo test\"\n}",
            "edited_summary": "Bash: cargo test -p core",
            "edited_text": "{\n  \"command\": \"cargo test -p core\"\n}",
        })
    );
}

#[tokio::test]
async fn large_asks_do_not_make_a_list_many_times_as_large() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let text = "a line of text\n".repeat(100_000);
    for path in ["/p/a", "/p/b"] {
        let input = json!({ "file_path": path, "content": text });
        request(&mut wire, json!({ "tool": "Write", "input": input })).await;
    }
    let rows = wire.ok("host.approvals", json!({})).await;
    let rows = rows.as_array().unwrap();
    let cut: Vec<_> = rows.iter().map(|row| row["view"].get("cut")).collect();
    assert_eq!(cut, [Some(&json!(true)), Some(&json!(true))]);
    // The input is there, and the ask by itself has all of it.
    assert_eq!(rows[0]["input"]["content"], text);
    let by_id = json!({ "approval_id": rows[0]["id"] });
    let row = wire.ok("host.approval", by_id).await;
    assert_eq!(row["view"]["edits"][0]["added"], 100_000);
}

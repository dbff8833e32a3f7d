//! The log of requests: one access line for each, by which a refused caller and an ask can be found.

use countersign_testkit::doors::poll;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::host::Host;
use crate::http::{http, http_over};
use crate::wire::Wire;

/// The one access line with all of these, with the milliseconds replaced.
fn find_line(host: &Host, parts: &[&str]) -> String {
    let line = poll("an access line", || {
        let mut lines = host.log_lines();
        lines
            .retain(|line| line.contains("access") && parts.iter().all(|part| line.contains(part)));
        assert!(lines.len() < 2, "{lines:#?}");
        lines.pop()
    });
    let (before, after) = line.split_once("ms=").unwrap();
    let after = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
    format!("{}ms=#{after}", before.trim_start())
}

#[tokio::test]
async fn an_error_over_http_names_its_access_line() {
    let host = Host::start();
    let token = host.token();
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let path = "/api/v1/approvals/approval-x";
    let answer = http(&host.address, "GET", path, &headers, "").await;
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    let id = body["error"]["request_id"].as_str().unwrap();
    assert_eq!(answer.header("x-request-id"), Some(id));
    assert_eq!(
        find_line(&host, &[id]),
        format!(
            "INFO request{{request={id} method=\"GET /api/v1/approvals/{{id}}\" principal=\"script\" \
             approval=\"approval-x\"}}: access outcome=\"unknown_approval\" ms=# \
             error=\"unknown approval 'approval-x'\""
        )
    );
}

#[tokio::test]
async fn a_caller_that_is_refused_is_warned_of_with_the_reason() {
    let host = Host::start();
    let headers = [("authorization", "Bearer made-up")];
    let answer = http(&host.address, "GET", "/api/v1/agents", &headers, "").await;
    let id = answer.header("x-request-id").unwrap();
    assert_eq!(
        find_line(&host, &[id]),
        format!(
            "WARN request{{request={id} method=\"GET /api/v1/agents\"}}: access outcome=\"auth_failed\" ms=# \
             error=\"auth failed: token mismatch\""
        )
    );
    let headers = [("host", "evil.example")];
    let answer = http(&host.address, "GET", "/api/v1/agents", &headers, "").await;
    let id = answer.header("x-request-id").unwrap();
    assert!(find_line(&host, &[id]).starts_with("WARN"));
}

#[tokio::test]
async fn an_ask_that_was_refused_is_found_by_its_id() {
    let host = Host::start();
    let mut wire = Wire::subscriber(&host).await;
    let params = json!({ "action": "deploy", "system_level": true });
    let asked = wire.ok("host.request_approval", params).await;
    let id = asked["id"].as_str().unwrap();
    let opened = find_line(&host, &[id, "host.request_approval"]);
    assert!(
        opened.starts_with("DEBUG") && opened.ends_with("outcome=\"ok\" ms=# ask=\"pending\""),
        "{opened}"
    );
    let params = json!({ "approval_id": id, "resolution": "deny" });
    wire.ok("host.resolve_approval", params).await;
    let denied = find_line(&host, &[id, "host.resolve_approval"]);
    assert!(denied.contains("principal=\"script\""), "{denied}");
    // An operator finds it without having asked for more than the usual lines.
    assert!(
        denied.starts_with("INFO") && denied.ends_with("outcome=\"ok\" ms=# ask=\"denied\""),
        "{denied}"
    );
}

#[tokio::test]
async fn a_request_that_waits_for_somebody_is_not_slow() {
    let host = Host::start();
    let mut wire = Wire::subscriber(&host).await;
    let params = json!({ "action": "deploy", "system_level": true });
    let asked = wire.ok("host.request_approval", params).await;
    let params = json!({ "approval_id": asked["id"], "timeout_ms": 1_050 });
    wire.ok("host.wait_approval", params).await;
    let line = find_line(&host, &["host.wait_approval"]);
    assert!(line.starts_with("DEBUG"), "{line}");
}

#[tokio::test]
async fn a_frame_is_logged_with_its_method_and_cannot_forge_a_line() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let method = "x\nWARN request: access";
    wire.send(json!({ "jsonrpc": "2.0", "id": 1, "method": method }))
        .await;
    let reply: Value = serde_json::from_str(&wire.next_text().await).unwrap();
    let id = reply["error"]["data"]["request_id"].as_str().unwrap();
    let line = find_line(&host, &[id]);
    assert!(
        line.contains(r#"method="x\nWARN request: access""#),
        "{line}"
    );
    assert!(!host.log_lines().iter().any(|line| line.starts_with("WARN")));
}

#[tokio::test]
async fn tool_calls_and_hooks_have_their_lines() {
    let host = Host::start();
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                          "params": { "name": "list_agents", "arguments": {} } });
    let bearer = format!("Bearer {}", host.token());
    let headers = [
        ("accept", "application/json, text/event-stream"),
        ("authorization", bearer.as_str()),
    ];
    let answer = http(
        &host.address,
        "POST",
        "/mcp",
        &headers,
        &message.to_string(),
    )
    .await;
    let id = answer.header("x-request-id").unwrap();
    let line = find_line(&host, &[id, "tools/call list_agents"]);
    assert!(line.contains("principal=\"script\""), "{line}");

    let hook = json!({ "event": "idle", "session_id": "s" }).to_string();
    let socket = UnixStream::connect(host.socket()).await.unwrap();
    let path = "/api/v1/hooks/other";
    let answer = http_over(socket, "localhost", "POST", path, &[], &hook).await;
    let id = answer.header("x-request-id").unwrap();
    let line = find_line(&host, &[id]);
    assert!(
        line.contains("method=\"POST /api/v1/hooks/{tool}\"") && line.contains("invalid_params"),
        "{line}"
    );
}

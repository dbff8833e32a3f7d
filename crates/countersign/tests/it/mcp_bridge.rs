//! `countersign mcp`: what an agent says on standard input reaches the host, whichever host that is.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::Command;

use crate::agent::Agent;
use crate::host::{Host, PATIENCE};
use crate::managed::PROGRAM;
use crate::mcp::{call, result};
use crate::wire::Wire;

async fn bridged(host: &Host, operator: &mut Wire) -> Agent {
    let mut agent = Agent::connected(host, operator, "worker").await;
    agent.start_mcp(&host.socket()).await;
    agent
}

async fn exchange(agent: &mut Agent, message: Value) -> Value {
    agent.say_mcp(message).await;
    agent.hear_mcp().await
}

#[tokio::test]
async fn an_agent_is_known_by_its_process_and_is_given_its_tools() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut agent = bridged(&host, &mut operator).await;
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
                         "clientInfo": { "name": "test", "version": "1" } });
    let begin = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    let begun = exchange(&mut agent, begin).await;
    assert_eq!(
        begun["result"]["serverInfo"]["name"], "countersign",
        "{begun}"
    );
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    agent.say_mcp(initialized).await;
    let list = json!({ "jsonrpc": "2.0", "id": "list", "method": "tools/list" });
    let listed = exchange(&mut agent, list).await;
    assert_eq!(listed["id"], "list");
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 3);
    let notify = call(2, "notify_orchestrator", json!({ "message": "half done" }));
    let (is_error, words, _) = result(&mut exchange(&mut agent, notify).await);
    assert!(!is_error, "{words}");
    let events = operator.ok("host.events", json!({ "limit": 5 })).await;
    let told = events.as_array().unwrap().iter();
    let told = told.filter(|event| {
        event["kind"] == "agent.parent_notified" && event["payload"]["text"] == "half done"
    });
    assert_eq!(told.count(), 1, "{events}");
    assert_eq!(agent.end_mcp().await, 0);
}

/// Whoever starts the bridge is an agent from then on, with all that descends from it.
#[tokio::test]
async fn a_process_that_starts_it_is_an_agent_which_cannot_answer() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut outside = Agent::start(&host);
    outside.start_mcp(&host.socket()).await;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let listed = exchange(&mut outside, list).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 3);
    let wanted =
        json!({ "tool_name": "Bash", "input": { "command": "make" }, "tool_use_id": "t1" });
    outside.say_mcp(call(2, "request_permission", wanted)).await;
    let asked = pending(&mut operator, "host.approvals").await;
    let agents = operator.ok("host.agents", json!({})).await;
    let agent = &agents[0];
    assert_eq!(
        (&agent["kind"], &agent["id"]),
        (&json!("mcp-client"), &asked["agent_id"])
    );
    let refused = outside
        .run(&["approve", asked["id"].as_str().unwrap()])
        .await;
    assert_eq!(refused["code"], 10, "{refused}");
    let still = operator
        .ok("host.approval", json!({ "approval_id": asked["id"] }))
        .await;
    assert_eq!(still["status"], "pending");
}

#[tokio::test]
async fn a_person_who_tries_it_by_hand_is_given_nothing() {
    let host = Host::start();
    // A shell that reads what it runs from standard input is somebody's terminal.
    let mut shell = Command::new("bash")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = shell.stdin.take().unwrap();
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let socket = host.socket();
    let lines = format!("{PROGRAM} mcp --socket {}\n{list}\n", socket.display());
    to.write_all(lines.as_bytes()).await.unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(shell.stdout.take().unwrap());
    let reading = tokio::time::timeout(PATIENCE, out.read_line(&mut line));
    reading.await.unwrap().unwrap();
    let listed: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(listed["result"]["tools"], json!([]), "{listed}");
    drop(to);
    shell.wait().await.unwrap();
}

#[tokio::test]
async fn a_question_waits_across_a_restart_of_the_host() {
    let mut host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut agent = bridged(&host, &mut operator).await;
    agent
        .say_mcp(call(1, "ask_orchestrator", json!({ "question": "go on?" })))
        .await;
    let asked = pending(&mut operator, "host.questions").await;
    host.restart();
    let mut operator = Wire::operator(&host).await;
    let still = operator
        .ok("host.questions", json!({ "status": "pending" }))
        .await;
    assert_eq!(still[0]["id"], asked["id"]);
    let params = json!({ "question_id": asked["id"], "answer": "yes" });
    operator.ok("host.answer_question", params).await;
    let (is_error, _, data) = result(&mut agent.hear_mcp().await);
    assert_eq!((is_error, &data["answer"]), (false, &json!("yes")));
    let all = operator.ok("host.questions", json!({})).await;
    assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
}

#[tokio::test]
async fn a_permission_waits_across_a_restart_of_the_host() {
    let mut host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut agent = bridged(&host, &mut operator).await;
    let wanted =
        json!({ "tool_name": "Bash", "input": { "command": "make" }, "tool_use_id": "t1" });
    agent.say_mcp(call(1, "request_permission", wanted)).await;
    let asked = pending(&mut operator, "host.approvals").await;
    host.replace();
    let mut operator = Wire::operator(&host).await;
    let answer = json!({ "approval_id": asked["id"], "resolution": "approve" });
    operator.ok("host.resolve_approval", answer).await;
    let (_, told, _) = result(&mut agent.hear_mcp().await);
    let told: Value = serde_json::from_str(&told).unwrap();
    let expected = json!({ "behavior": "allow", "updatedInput": { "command": "make" } });
    assert_eq!(told, expected);
    let all = operator.ok("host.approvals", json!({ "limit": 10 })).await;
    assert_eq!(all.as_array().unwrap().len(), 1, "{all}");
}

async fn pending(operator: &mut Wire, list: &str) -> Value {
    loop {
        let mut open = operator.ok(list, json!({ "status": "pending" })).await;
        if !open[0].is_null() {
            return open[0].take();
        }
    }
}

#[tokio::test]
async fn what_is_cancelled_is_taken_back_and_not_answered() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut agent = bridged(&host, &mut operator).await;
    let wanted =
        json!({ "tool_name": "Bash", "input": { "command": "make" }, "tool_use_id": "t1" });
    agent.say_mcp(call(7, "request_permission", wanted)).await;
    let asked = pending(&mut operator, "host.approvals").await;
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    agent.say_mcp(cancelled).await;
    let wait = json!({ "approval_id": asked["id"], "timeout_ms": 30_000 });
    let ended = operator.ok("host.wait_approval", wait).await;
    assert_eq!(
        (&ended["state"], &ended["message"]),
        (&json!("cancelled"), &json!("its asker stopped waiting"))
    );
    let ping = json!({ "jsonrpc": "2.0", "id": 8, "method": "ping" });
    let next = exchange(&mut agent, ping).await;
    assert_eq!(next, json!({ "jsonrpc": "2.0", "id": 8, "result": {} }));
}

/// A host that is not ours, which sees what is posted and answers as a test wants.
struct FalseHost(UnixListener);

impl FalseHost {
    fn at(path: &Path) -> Self {
        drop(std::fs::remove_file(path));
        Self(UnixListener::bind(path).unwrap())
    }

    /// The next request: its key, and the connection to answer it on.
    async fn next(&self) -> (String, BufReader<UnixStream>) {
        let (stream, _) = self.0.accept().await.unwrap();
        let mut reader = BufReader::new(stream);
        let (mut key, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).await.unwrap();
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("Idempotency-Key: ") {
                value.clone_into(&mut key);
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).await.unwrap();
        (key, reader)
    }
}

#[tokio::test]
async fn what_may_have_been_done_is_repeated_only_where_that_does_no_harm() {
    let host = Host::start();
    let mut agent = Agent::start(&host);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let false_host = FalseHost::at(&socket);
    agent.start_mcp(&socket).await;
    agent.say_mcp(call(1, "send_to_agent", json!({}))).await;
    drop(false_host.next().await);
    let (is_error, words, _) = result(&mut agent.hear_mcp().await);
    assert!(
        is_error && words.contains("check with list_agents"),
        "{words}"
    );
    agent.say_mcp(call(2, "ask_orchestrator", json!({}))).await;
    let (first, connection) = false_host.next().await;
    drop(connection);
    let (second, mut connection) = false_host.next().await;
    assert_eq!(first, second);
    let answer = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"well"}]}}"#;
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        answer.len()
    );
    connection
        .write_all((head + answer).as_bytes())
        .await
        .unwrap();
    let (is_error, words, _) = result(&mut agent.hear_mcp().await);
    assert_eq!((is_error, words.as_str()), (false, "well"));
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_none() {
    let host = Host::start();
    let mut agent = Agent::start(&host);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s");
    let false_host = FalseHost::at(&socket);
    agent.start_mcp(&socket).await;
    agent.say_mcp(call(1, "kill_agent", json!({}))).await;
    let (_, mut connection) = false_host.next().await;
    let half = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
                1e\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":1\r\n";
    connection.write_all(half.as_bytes()).await.unwrap();
    drop(connection);
    let (is_error, words, _) = result(&mut agent.hear_mcp().await);
    assert!(is_error && words.contains("may or may not"), "{words}");
}

#[tokio::test]
async fn whoever_waits_is_told_so_now_and_then() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut agent = bridged(&host, &mut operator).await;
    let mut question = call(1, "ask_orchestrator", json!({ "question": "go on?" }));
    question["params"]["_meta"] = json!({ "progressToken": "p" });
    let progress = exchange(&mut agent, question).await;
    let expected = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
        "params": { "progressToken": "p", "progress": 1, "message": "waiting for an answer" } });
    assert_eq!(progress, expected);
}

#[tokio::test]
async fn the_protocol_without_sessions_works_too() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let mut agent = bridged(&host, &mut operator).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let discover = json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": { "_meta": meta } });
    let discovered = exchange(&mut agent, discover).await;
    let versions = discovered["result"]["supportedVersions"].to_string();
    assert!(versions.contains("2026-07-28"), "{discovered}");
    let mut notify = call(2, "notify_orchestrator", json!({ "message": "half done" }));
    notify["params"]["_meta"] = meta;
    let (is_error, words, _) = result(&mut exchange(&mut agent, notify).await);
    assert!(!is_error, "{words}");
}

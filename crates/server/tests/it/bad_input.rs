//! What clients should not send, and how little it costs the others.

use std::time::{Duration, Instant};

use countersign_testkit::doors::PATIENCE;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::host::Host;
use crate::http::{Rest, http};
use crate::wire::Wire;

/// The bound of a frame and of a body.
const FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;

#[tokio::test]
async fn a_frame_over_the_limit_ends_its_connection_alone() {
    let host = Host::start();
    let mut other = Wire::subscriber(&host).await;
    let mut wire = Wire::operator(&host).await;
    // The largest frame that is taken: the whole of it arrives, and only its content is refused.
    let blank =
        json!({ "id": 1, "method": "host.notify", "params": { "message": "" } }).to_string();
    let filler = "x".repeat(FRAME_BYTES_MAX - blank.len());
    wire.send_text(blank.replace("\"message\":\"\"", &format!("\"message\":\"{filler}\"")))
        .await;
    assert_eq!(wire.next().await["error"]["data"]["reason"], "too_large");
    // The head of a frame of one byte more is enough to end it.
    let mut head = vec![0x81, 0x80 | 127];
    head.extend(u64::try_from(FRAME_BYTES_MAX + 1).unwrap().to_be_bytes());
    head.extend([0; 4]);
    wire.send_raw(&head).await;
    assert_eq!(wire.closed().await, Some(1009));
    other
        .ok("host.notify", json!({ "message": "still here" }))
        .await;
    assert_eq!(other.event().await["message"], "still here");
}

#[tokio::test]
async fn a_binary_frame_ends_its_connection() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    wire.send_raw(&[0x82, 0x80, 0, 0, 0, 0]).await;
    assert_eq!(wire.closed().await, Some(1003));
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let host = Host::start();
    let bearer = format!("Bearer {}", host.token());
    let headers = [("authorization", bearer.as_str())];
    let body = json!({ "message": "x".repeat(FRAME_BYTES_MAX) }).to_string();
    let answer = http(&host.address, "POST", "/api/v1/events", &headers, &body).await;
    assert_eq!(answer.refusal(), (413, "too_large".to_owned()));
    let body = json!({ "payload": "x".repeat(4 * 1024 * 1024) }).to_string();
    let answer = http(&host.address, "POST", "/api/v1/events", &headers, &body).await;
    assert_eq!(answer.refusal(), (413, "too_large".to_owned()));
    for body in ["{", "{\"message\":5}", "\u{0}"] {
        let answer = http(&host.address, "POST", "/api/v1/events", &headers, body).await;
        assert_eq!(
            answer.refusal(),
            (400, "invalid_params".to_owned()),
            "{body}"
        );
    }
}

#[tokio::test]
async fn texts_over_their_limits_are_refused_by_name() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let (word, text) = ("w".repeat(513), "t".repeat(64 * 1024 + 1));
    let many: Vec<String> = (0..33).map(|number| number.to_string()).collect();
    let json = Value::from("j".repeat(4 * 1024 * 1024));
    let cases = [
        (
            "host.register_agent",
            json!({ "name": word }),
            "the agent's name is too large: the limit is 512",
        ),
        (
            "host.notify",
            json!({ "message": text }),
            "the message is too large: the limit is 65536",
        ),
        (
            "host.request_approval",
            json!({ "action": text }),
            "the action is too large: the limit is 65536",
        ),
        (
            "host.request_approval",
            json!({ "action": "x", "options": many }),
            "the list of options is too large: the limit is 32",
        ),
        (
            "host.request_approval",
            json!({ "action": "x", "details": json }),
            "the details is too large: the limit is 2097152",
        ),
        (
            "host.ask_question",
            json!({ "question": text }),
            "the question is too large: the limit is 65536",
        ),
    ];
    for (method, params, words) in cases {
        let error = wire.no(method, params).await;
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!(-32003), &json!(words))
        );
    }
}

#[tokio::test]
async fn json_that_is_nested_too_deeply_is_refused() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    wire.send_text("[".repeat(10_000)).await;
    assert_eq!(wire.next().await["error"]["code"], -32700);
    for (method, field) in [
        ("host.notify", "\"payload\""),
        ("host.request_approval", "\"action\":\"x\",\"details\""),
        ("host.request_approval", "\"action\":\"x\",\"input\""),
        ("host.request_approval", "\"action\":\"x\",\"a2ui\""),
        ("host.register_agent", "\"name\":\"x\",\"metadata\""),
        (
            "host.register_device",
            "\"name\":\"x\",\"platform\":\"x\",\"metadata\"",
        ),
    ] {
        for depth in [101, 10_000] {
            wire.send_text(format!(
                "{{\"id\":1,\"method\":\"{method}\",\"params\":{{{field}:{}}}}}",
                deep(depth)
            ))
            .await;
            let reply = wire.next().await;
            assert_eq!(
                reply["error"]["data"]["reason"], "too_large",
                "{method} {depth}: {reply}"
            );
        }
    }
    let token = host.token();
    let bearer = format!("Bearer {token}");
    let body = format!("{{\"payload\":{}}}", deep(10_000));
    let headers = [("authorization", bearer.as_str())];
    let answer = http(&host.address, "POST", "/api/v1/events", &headers, &body).await;
    assert!(matches!(answer.status, 400 | 413), "{answer:?}");
    // What is taken can be read again by any client.
    wire.send_text(format!(
        "{{\"id\":1,\"method\":\"host.notify\",\"params\":{{\"payload\":{}}}}}",
        deep(100)
    ))
    .await;
    wire.next().await;
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    assert_eq!(
        rest.get("/api/v1/events")
            .await
            .json()
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test]
async fn an_agent_that_floods_the_inbox_is_stopped_and_others_are_not() {
    const MAX: usize = 1_000;
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let flood = json!({ "action": "x", "agent_id": "flood", "system_level": true });
    for _ in 0..=MAX {
        wire.request("host.request_approval", flood.clone()).await;
    }
    let mut refused = Vec::new();
    for _ in 0..=MAX {
        let mut reply = wire.next().await;
        if reply.get("error").is_some() {
            refused.push(reply["error"].take());
        }
    }
    let expected = json!({
        "code": -32003, "message": "too many open asks of this agent: the limit is 1000",
        "data": { "reason": "too_many", "limit": MAX },
    });
    assert_eq!(refused, [expected]);
    let calm = json!({ "action": "x", "agent_id": "calm", "system_level": true });
    wire.ok("host.request_approval", calm).await;
    let status = wire.ok("host.status", json!({})).await;
    assert_eq!(status["pending_approvals"], MAX + 1);
}

#[tokio::test]
async fn many_waits_on_one_connection_hold_up_nothing_behind_them() {
    const WAITS: u64 = 1_000;
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let id = wire
        .ok(
            "host.request_approval",
            json!({ "action": "x", "system_level": true }),
        )
        .await["id"]
        .take();
    let params = json!({ "approval_id": id });
    for _ in 0..WAITS {
        wire.request("host.wait_approval", params.clone()).await;
    }
    wire.ok("host.agents", json!({})).await;
    let error = wire.no("host.wait_approval", params).await;
    assert_eq!(error["data"]["reason"], "too_many");
    wire.request(
        "host.resolve_approval",
        json!({ "approval_id": id, "resolution": "deny" }),
    )
    .await;
    for _ in 0..=WAITS {
        assert_eq!(wire.next().await["result"]["resolution"], "deny");
    }
}

#[tokio::test]
async fn half_open_connections_stop_nobody() {
    let host = Host::start();
    let mut idle = Vec::new();
    for number in 0..100 {
        let mut stream = TcpStream::connect(&host.address).await.unwrap();
        let begin: &[u8] = match number % 4 {
            0 => b"",
            1 => b"GET /api/v1/agen",
            2 => b"POST /api/v1/events HTTP/1.1\r\nhost: ",
            _ => b"\x16\x03\x01\x02\x00\x01",
        };
        stream.write_all(begin).await.unwrap();
        idle.push(stream);
    }
    let mut unauthenticated = Vec::new();
    for _ in 0..20 {
        unauthenticated.push(Wire::open(&host).await);
    }
    let begin = Instant::now();
    let mut wire = Wire::operator(&host).await;
    wire.ok("host.notify", json!({ "message": "m" })).await;
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn who_never_says_who_they_are_is_not_kept() {
    let host = Host::start();
    let mut half_open = TcpStream::connect(&host.address).await.unwrap();
    half_open.write_all(b"GET / HT").await.unwrap();
    let silent = Wire::open(&host).await;
    let mut rest = Vec::new();
    let (closed, read) = tokio::join!(silent.closed(), half_open.read_to_end(&mut rest));
    assert_eq!(closed, Some(1008));
    // Some words may come first; the end is what counts.
    drop(read);
}

#[tokio::test]
async fn a_client_that_vanishes_mid_request_leaves_the_host_well() {
    let host = Host::start();
    for _ in 0..20 {
        let mut wire = Wire::operator(&host).await;
        let id = wire
            .ok(
                "host.request_approval",
                json!({ "action": "x", "system_level": true }),
            )
            .await["id"]
            .take();
        wire.request("host.wait_approval", json!({ "approval_id": id }))
            .await;
        wire.request("host.subscribe", json!({})).await;
        drop(wire);
    }
    let mut wire = Wire::operator(&host).await;
    let begin = Instant::now();
    while wire.ok("host.status", json!({})).await["connections"] != 1 {
        assert!(begin.elapsed() < PATIENCE);
    }
}

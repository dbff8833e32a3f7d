//! How an answer came in and how long it took, on the record: the first from the host, the second from the screen.

use serde_json::{Value, json};

use crate::host::Host;
use crate::http::Rest;
use crate::wire::Wire;

/// A WebSocket of the host's own page: with a cookie, and without `session.auth`.
async fn page(host: &Host) -> Wire {
    let cookie = format!("countersign_session={}", host.token());
    let origin = format!("http://{}", host.address);
    let headers = [("cookie", cookie.as_str()), ("origin", origin.as_str())];
    Wire::upgrade(&host.address, "/rpc", &headers)
        .await
        .unwrap()
}

async fn ask(wire: &mut Wire) -> Value {
    let params = json!({ "action": "x", "system_level": true });
    wire.ok("host.request_approval", params).await["id"].take()
}

fn origin_of(row: &Value) -> (&Value, &Value) {
    (&row["door"], &row["considered_ms"])
}

#[tokio::test]
async fn the_host_knows_the_door_and_the_screen_how_long_it_took() {
    let host = Host::start();
    let token = host.token();
    let mut reader = Wire::subscriber(&host).await;
    let mut wire = Wire::operator(&host).await;
    let mut socket = Wire::unix(&host.socket()).await;
    let mut page = page(&host).await;
    let rest = Rest {
        address: &host.address,
        token: &token,
    };
    for (answering, door) in [
        (&mut page, "web"),
        (&mut socket, "socket"),
        (&mut wire, "websocket"),
    ] {
        let id = ask(answering).await;
        // A door that a client names is a field that the host wire does not know.
        let answer = json!({
            "approval_id": id, "resolution": "deny", "considered_ms": 1_500, "door": "hook",
        });
        let row = answering.ok("host.resolve_approval", answer).await;
        let expected = (&json!(door), &json!(1_500));
        assert_eq!(origin_of(&row), expected);
        let event = reader.event_of("approval.resolved").await;
        assert_eq!(origin_of(&event["payload"]), expected);
        let row = answering
            .ok("host.approval", json!({ "approval_id": id }))
            .await;
        assert_eq!(origin_of(&row), expected);
    }
    let id = ask(&mut wire).await;
    let path = format!("/api/v1/approvals/{}/resolution", id.as_str().unwrap());
    let answer = rest
        .send("POST", &path, json!({ "resolution": "approve" }))
        .await;
    assert_eq!(origin_of(&answer.json()), (&json!("rest"), &Value::Null));
    let named = json!({ "resolution": "approve", "door": "web" });
    assert_eq!(rest.send("POST", &path, named).await.status, 400);
}

#[tokio::test]
async fn questions_have_it_too_and_it_outlives_the_host() {
    let mut host = Host::start();
    let mut reader = Wire::subscriber(&host).await;
    let mut page = page(&host).await;
    let asked = page
        .ok("host.ask_question", json!({ "question": "Which?" }))
        .await;
    let by_id = json!({ "question_id": asked["id"] });
    let answer = json!({ "question_id": asked["id"], "answer": "this", "considered_ms": 20 });
    let row = page.ok("host.answer_question", answer).await;
    let expected = (&json!("web"), &json!(20));
    assert_eq!(origin_of(&row), expected);
    let event = reader.event_of("question.ended").await;
    assert_eq!(origin_of(&event["payload"]), expected);
    host.restart();
    let mut wire = Wire::operator(&host).await;
    let row = wire.ok("host.question", by_id).await;
    assert_eq!(origin_of(&row), expected);
}

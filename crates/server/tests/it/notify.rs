//! Notifications at the doors: operators set them up, agents and observers do not.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::host::Host;
use crate::wire::Wire;

/// The browser of RFC 8291.
fn subscription() -> Value {
    json!({
        "endpoint": "https://push.example/abc",
        "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "auth": "BTBZMqHH6r4Tts7J_aSIgg",
        "device": "phone",
    })
}

/// Every method about notifications, with parameters that it takes.
fn methods() -> [(&'static str, Value); 5] {
    [
        ("host.presence", json!({ "focused": true })),
        ("host.notify_status", json!({})),
        ("host.notify_test", json!({})),
        ("host.push_subscribe", subscription()),
        ("host.push_unsubscribe", json!({ "id": "push-1" })),
    ]
}

#[tokio::test]
async fn only_operators_set_up_notifications() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let params = json!({ "role": "observer" });
    let token = operator.ok("host.create_token", params).await;
    let mut observer = Wire::connect(&host, token["token"].as_str().unwrap()).await;
    let mut agent = Agent::connected(&host, &mut operator, "coder").await;
    for (method, params) in methods() {
        let error = observer.no(method, params.clone()).await;
        assert_eq!(
            error["data"]["reason"], "observer_cannot_change",
            "{method}"
        );
        let error = agent.no(method, params).await;
        assert_eq!(error["data"]["reason"], "agent_not_allowed", "{method}");
    }
}

#[tokio::test]
async fn a_browser_subscribes_once_and_stays_after_a_restart() {
    let mut host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let key = wire.ok("host.notify_status", json!({})).await["push_key"].take();
    assert_eq!(key.as_str().map(str::len), Some(87), "{key}");
    let id = wire.ok("host.push_subscribe", subscription()).await["id"].take();
    let again = wire.ok("host.push_subscribe", subscription()).await["id"].take();
    assert_eq!(id, again);
    host.restart();
    let mut wire = Wire::operator(&host).await;
    let channels = wire.ok("host.notify_status", json!({})).await["channels"].take();
    let name = format!("phone ({})", id.as_str().unwrap());
    assert_eq!(channels, json!([{ "name": name, "kind": "push" }]));
    wire.ok("host.push_unsubscribe", json!({ "id": id })).await;
    let gone = wire.no("host.push_unsubscribe", json!({ "id": id })).await;
    assert_eq!(gone["data"]["reason"], "unknown_device");
    let channels = wire.ok("host.notify_status", json!({})).await["channels"].take();
    assert_eq!(channels, json!([]));
}

#[tokio::test]
async fn what_no_browser_sends_is_refused() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    for (field, value, message) in [
        (
            "endpoint",
            "http://127.0.0.1:1/x",
            "the endpoint must begin with `https://`",
        ),
        (
            "endpoint",
            "x",
            "the endpoint is not usable: `x` is not an address like `https://ntfy.example`",
        ),
        (
            "p256dh",
            "AAAA",
            "`p256dh` is not the public key of a browser",
        ),
        ("auth", "AAAA", "`auth` is not the secret of a browser"),
    ] {
        let mut params = subscription();
        params[field] = json!(value);
        let error = wire.no("host.push_subscribe", params).await;
        assert_eq!(error["message"], message);
        assert_eq!(error["data"]["reason"], "invalid_params");
    }
    let long = json!({ "focused": true, "subject": "x".repeat(201) });
    let error = wire.no("host.presence", long).await;
    assert_eq!(error["message"], "`subject` is longer than 200 bytes");
}

/// What a connection is sent when an ask is open on these other screens.
fn viewers(rows: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": "host.viewers", "params": { "viewers": rows } })
}

#[tokio::test]
async fn operators_are_told_what_is_open_on_other_screens() {
    let host = Host::start();
    let mut first = Wire::operator(&host).await;
    let params = json!({ "role": "operator", "name": "desk" });
    let token = first.ok("host.create_token", params).await;
    let mut second = Wire::connect(&host, token["token"].as_str().unwrap()).await;
    let shows = |subject: Option<&str>| json!({ "focused": true, "subject": subject });
    first.ok("host.presence", shows(None)).await;
    second.ok("host.presence", shows(Some("approval-1"))).await;
    let desk = json!({ "subject": "approval-1", "name": "desk", "door": "websocket" });
    assert_eq!(first.next().await, viewers(&json!([desk])));
    // The first screen opens another one: that tells the second, and itself nothing.
    first.ok("host.presence", shows(Some("approval-2"))).await;
    let told = second.next().await;
    assert_eq!(told["params"]["viewers"][0]["subject"], "approval-2");
    second.ok("host.presence", shows(Some("approval-2"))).await;
    let desk = json!({ "subject": "approval-2", "name": "desk", "door": "websocket" });
    assert_eq!(first.next().await, viewers(&json!([desk])));
    second.ok("host.presence", shows(None)).await;
    assert_eq!(first.next().await, viewers(&json!([])));
    // With a connection goes what was open on it.
    second.ok("host.presence", shows(Some("approval-2"))).await;
    assert_eq!(first.next().await, viewers(&json!([desk])));
    drop(second);
    assert_eq!(first.next().await, viewers(&json!([])));
    let events = json!({ "after": 0, "limit": 1000 });
    let kinds = first.ok("host.events", events).await.to_string();
    assert!(
        !kinds.contains("presence") && !kinds.contains("viewers"),
        "{kinds}"
    );
}

#[tokio::test]
async fn agents_observers_and_the_silent_are_not_told_what_is_open() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let params = json!({ "role": "observer" });
    let token = operator.ok("host.create_token", params).await;
    let mut observer = Wire::connect(&host, token["token"].as_str().unwrap()).await;
    let mut agent = Agent::connected(&host, &mut operator, "coder").await;
    // A client of the host wire that never said what it shows.
    let mut silent = Wire::operator(&host).await;
    let mut told = Wire::operator(&host).await;
    let shows = json!({ "focused": true, "subject": "approval-1" });
    observer.no("host.presence", shows.clone()).await;
    agent.no("host.presence", shows.clone()).await;
    told.ok("host.presence", json!({ "focused": true })).await;
    operator.ok("host.presence", shows).await;
    assert_eq!(told.next().await["method"], "host.viewers");
    // Whatever would have been sent to these would come before the second reply.
    for _ in 0..2 {
        silent.ok("host.status", json!({})).await;
        observer.ok("host.status", json!({})).await;
        agent.no("host.presence", json!({ "focused": true })).await;
    }
}

#[tokio::test]
async fn who_becomes_an_observer_is_told_no_more() {
    let host = Host::start();
    let mut operator = Wire::operator(&host).await;
    let params = json!({ "role": "observer" });
    let token = operator.ok("host.create_token", params).await;
    let mut second = Wire::operator(&host).await;
    second.ok("host.presence", json!({ "focused": true })).await;
    let auth = json!({ "token": token["token"] });
    second.ok("session.auth", auth).await;
    let mut told = Wire::operator(&host).await;
    told.ok("host.presence", json!({ "focused": true })).await;
    let shows = json!({ "focused": true, "subject": "approval-1" });
    operator.ok("host.presence", shows).await;
    assert_eq!(told.next().await["method"], "host.viewers");
    for _ in 0..2 {
        second.ok("host.status", json!({})).await;
    }
}

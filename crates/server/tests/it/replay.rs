//! Events after a cursor: everything once, in order, from the log and then live.

use serde_json::{Value, json};

use crate::host::Host;
use crate::wire::Wire;

async fn notify(wire: &mut Wire, from: usize, to: usize) {
    for number in from..to {
        wire.ok("host.notify", json!({ "message": number.to_string() }))
            .await;
    }
}

async fn messages(wire: &mut Wire, count: usize) -> Vec<String> {
    let mut messages = Vec::new();
    for _ in 0..count {
        messages.push(wire.event().await["message"].as_str().unwrap().to_owned());
    }
    messages
}

fn numbers(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|number| number.to_string()).collect()
}

#[tokio::test]
async fn a_subscriber_with_a_cursor_misses_nothing_and_sees_nothing_twice() {
    let mut host = Host::start();
    let mut sender = Wire::operator(&host).await;
    notify(&mut sender, 0, 20).await;
    let events = sender.ok("host.events", json!({ "limit": 10 })).await;
    let cursor = events[9]["sequence"].clone();
    assert_eq!(events[9]["message"], "10");
    let mut reader = Wire::operator(&host).await;
    // It subscribes while others go on talking.
    let (read, ()) = tokio::join!(
        async {
            reader
                .ok("host.subscribe", json!({ "after": cursor }))
                .await;
            messages(&mut reader, 49).await
        },
        notify(&mut sender, 20, 60)
    );
    assert_eq!(read, numbers(11, 60));

    host.restart();
    let mut sender = Wire::operator(&host).await;
    let mut reader = Wire::operator(&host).await;
    let (read, ()) = tokio::join!(
        async {
            reader
                .ok("host.subscribe", json!({ "after": cursor }))
                .await;
            messages(&mut reader, 59).await
        },
        notify(&mut sender, 60, 70)
    );
    assert_eq!(read, numbers(11, 70));
}

#[tokio::test]
async fn the_snapshots_sequence_is_the_cursor_that_goes_on_from_it() {
    let host = Host::start();
    let mut sender = Wire::operator(&host).await;
    notify(&mut sender, 0, 3).await;
    let mut first = Wire::operator(&host).await;
    let sequence = first.ok("host.subscribe", json!({})).await["event_sequence"].take();
    drop(first);
    notify(&mut sender, 3, 5).await;
    let mut second = Wire::operator(&host).await;
    second
        .ok("host.subscribe", json!({ "after": sequence }))
        .await;
    notify(&mut sender, 5, 6).await;
    assert_eq!(messages(&mut second, 3).await, numbers(3, 6));
}

#[tokio::test]
async fn a_cursor_beyond_the_log_goes_on_from_its_end() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    notify(&mut wire, 0, 1).await;
    wire.ok("host.subscribe", json!({ "after": u64::MAX }))
        .await;
    notify(&mut wire, 1, 3).await;
    assert_eq!(messages(&mut wire, 2).await, numbers(1, 3));
}

#[tokio::test]
async fn subscribing_again_replaces_the_earlier_subscription() {
    let host = Host::start();
    let mut wire = Wire::subscriber(&host).await;
    wire.ok("host.subscribe", json!({})).await;
    notify(&mut wire, 0, 3).await;
    assert_eq!(messages(&mut wire, 3).await, numbers(0, 3));
    wire.ok("host.subscribe", json!({ "after": 0 })).await;
    assert_eq!(messages(&mut wire, 3).await, numbers(0, 3));
}

#[tokio::test]
async fn internal_events_reach_only_those_who_name_them() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let params = json!({ "after": 0, "kinds": ["host.started", "build.done"] });
    wire.ok("host.subscribe", params).await;
    wire.ok("host.notify", json!({ "kind": "build.begun" }))
        .await;
    wire.ok("host.notify", json!({ "kind": "build.done" }))
        .await;
    assert_eq!(wire.kinds(2).await, ["host.started", "build.done"]);
    let listed = wire
        .ok("host.events", json!({ "kinds": ["host.started"] }))
        .await;
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let listed = wire.ok("host.events", json!({})).await;
    let kinds: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|event| &event["kind"])
        .collect();
    assert_eq!(kinds, ["build.done", "build.begun"]);
}

#[tokio::test]
async fn events_can_be_read_from_both_ends() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    notify(&mut wire, 0, 10).await;
    wire.ok("host.notify", json!({ "agent_id": "a", "message": "mine" }))
        .await;
    let all = wire.ok("host.events", json!({})).await;
    let sequence = |message: usize| all[10 - message]["sequence"].clone();
    let cases: [(Value, Vec<&str>); 5] = [
        (json!({ "after": sequence(6) }), vec!["7", "8", "9", "mine"]),
        (json!({ "after": sequence(2), "limit": 2 }), vec!["3", "4"]),
        (json!({ "before": sequence(2) }), vec!["1", "0"]),
        (
            json!({ "after": sequence(2), "before": sequence(5) }),
            vec!["3", "4"],
        ),
        (json!({ "agent_id": "a" }), vec!["mine"]),
    ];
    for (params, expected) in cases {
        let events = wire.ok("host.events", params.clone()).await;
        let listed: Vec<_> = events
            .as_array()
            .unwrap()
            .iter()
            .map(|event| &event["message"])
            .collect();
        assert_eq!(listed, expected, "{params}");
    }
}

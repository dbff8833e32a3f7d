//! Messages that wait for an agent: each reaches it once, or is withdrawn, whenever that is tried and
//! whenever the host is killed.

use serde_json::{Value, json};

use crate::managed::script;
use crate::scene::{Scene, rested, told};
use crate::wire::Wire;

const MESSAGES: u64 = 12;

/// An agent that works for a moment, and messages for its next turns. Each says its number.
async fn begin(scene: &Scene, wire: &mut Wire, first: &Value) -> Value {
    let id = scene.spawn(wire, "ann", first).await;
    for number in 2..2 + MESSAGES {
        let message = script(&json!([{ "say": format!("said-{number};") }]));
        let params = json!({ "agent_id": id, "message": message });
        wire.ok("host.prompt_agent", params).await;
    }
    id
}

async fn withdraw(wire: &mut Wire, id: &Value, number: u64) -> bool {
    let params = json!({ "agent_id": id, "number": number });
    let reply = wire.reply("host.withdraw_message", params).await;
    if reply["error"].is_null() {
        assert_eq!(reply["result"]["number"], number, "{reply}");
        return true;
    }
    assert_eq!(
        reply["error"]["data"]["reason"], "cannot_withdraw",
        "{reply}"
    );
    false
}

#[tokio::test]
async fn a_message_is_withdrawn_or_reaches_its_agent_and_never_both() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let mut other = Wire::operator(&scene.host).await;
    let id = begin(&scene, &mut wire, &json!([{ "sleep_ms": 200 }])).await;
    // Turns end while this is tried; from both ends, so that some come too late.
    let mut withdrawn = Vec::new();
    for step in 0..MESSAGES / 2 {
        let (newest, oldest) = (1 + MESSAGES - step, 2 + step);
        let (first, second) = tokio::join!(
            withdraw(&mut wire, &id, newest),
            withdraw(&mut other, &id, oldest)
        );
        withdrawn.extend(first.then_some(newest));
        withdrawn.extend(second.then_some(oldest));
    }
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    for number in 2..2 + MESSAGES {
        let times = said.matches(&format!("said-{number};")).count();
        let expected = usize::from(!withdrawn.contains(&number));
        assert_eq!(times, expected, "{number}: {withdrawn:?} {said}");
    }
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn what_was_withdrawn_stays_so_after_the_host_was_killed() {
    let mut scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let go = scene.path("go");
    let first = json!([{ "run": format!("until [ -e {go} ]; do sleep 0.02; done") }]);
    let id = begin(&scene, &mut wire, &first).await;
    assert!(withdraw(&mut wire, &id, 3).await);
    scene.host.kill();
    scene.host.start_disarmed();
    let mut wire = Wire::operator(&scene.host).await;
    assert!(!withdraw(&mut wire, &id, 3).await);
    assert!(withdraw(&mut wire, &id, 5).await);
    let params = json!({ "agent_id": id });
    let waiting = wire.ok("host.queued_messages", params).await;
    let numbers: Vec<_> = waiting
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["number"].as_u64().unwrap())
        .collect();
    let left: Vec<u64> = (2..2 + MESSAGES)
        .filter(|number| ![3, 5].contains(number))
        .collect();
    assert_eq!(numbers, left);
    std::fs::write(&go, "").unwrap();
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    for number in 2..2 + MESSAGES {
        let was_said = said.contains(&format!("said-{number};"));
        assert_eq!(was_said, left.contains(&number), "{number}: {said}");
    }
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn observers_read_what_waits_and_withdraw_nothing() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let id = begin(&scene, &mut wire, &json!([{ "sleep_ms": 600_000 }])).await;
    let token = wire
        .ok("host.create_token", json!({ "role": "observer" }))
        .await;
    let mut observer = Wire::connect(&scene.host, token["token"].as_str().unwrap()).await;
    let params = json!({ "agent_id": id });
    let waiting = observer.ok("host.queued_messages", params).await;
    assert_eq!(waiting[0]["withdrawable"], false, "{waiting}");
    let params = json!({ "agent_id": id, "number": 2 });
    let error = observer.no("host.withdraw_message", params).await;
    assert_eq!(error["data"]["reason"], "observer_cannot_change");
    scene.end_all(&mut wire).await;
}

//! Death at any instant: hosts and agents are killed while agents ask, run commands and talk.
//! Nothing survives, nothing stays open, nothing runs twice, and people are told what may have run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::PATIENCE;
use crate::scene::{Scene, asks, rested, terminal};
use crate::wire::Wire;

/// How long nothing happens before a host is taken to be past its crash point.
const QUIET: Duration = Duration::from_millis(1_500);

/// How many hosts are killed at some moment unless `COUNTERSIGN_AGENT_KILLS` says so.
const RANDOM_KILLS: u64 = 24;

/// Ann asks and is never answered; Bea runs commands, the last of which leaves a daemon and stays;
/// Cid runs one by himself, talks a lot and exits.
fn cast(scene: &Scene) -> [(&'static str, Value); 3] {
    let first = scene.adds("bea-1");
    let left = "(setsid sleep 1000 > /dev/null 2>&1 &)";
    let second = format!("{}; {left}; sleep 1000", scene.adds("bea-2"));
    let by_himself = scene.adds("cid-1");
    let on_allow = json!([{ "run": by_himself }]);
    [
        (
            "bea",
            json!([
                asks("b1", &first, &json!([terminal(&first)])),
                terminal(&second)
            ]),
        ),
        (
            "cid",
            json!([
                asks("c1", &by_himself, &on_allow),
                { "updates": { "count": 400, "bytes": 100 } },
                { "exit": 3 }
            ]),
        ),
        (
            "ann",
            json!([{ "say": "hello" }, asks("a1", &scene.adds("ann-1"), &json!(["silence"]))]),
        ),
    ]
}

/// Starts the cast and allows whatever anybody but Ann asks, until the host is gone. A host that
/// does nothing any more is killed; says whether the host did that itself.
async fn play(scene: &mut Scene) -> bool {
    let mut wire = Wire::subscriber(&scene.host).await;
    for (name, steps) in cast(scene) {
        let params = scene.spawn_params(name, &steps);
        if wire.try_reply("host.spawn_agent", params).await.is_none() {
            break;
        }
    }
    loop {
        match tokio::time::timeout(QUIET, wire.try_event()).await {
            Ok(Some(event)) => allow(&mut wire, &event).await,
            Ok(None) => return true,
            Err(_) => {
                scene.host.kill();
                return false;
            }
        }
    }
}

async fn allow(wire: &mut Wire, event: &Value) {
    let ask = &event["payload"];
    let anns = ask["action"].as_str().unwrap_or_default().contains("ann-1");
    if event["kind"] == "approval.requested" && !anns {
        let params = json!({ "approval_id": ask["id"], "resolution": "approve" });
        wire.try_reply("host.resolve_approval", params).await;
    }
}

/// What must hold as soon as the next host is ready.
async fn check(scene: &Scene, at: &str) {
    assert_eq!(scene.described(), Vec::<String>::new(), "{at}: survived");
    let mut wire = Wire::operator(&scene.host).await;
    let asks = wire.ok("host.approvals", json!({ "limit": 500 })).await;
    let asks = asks.as_array().unwrap();
    for ask in asks {
        assert_ne!(ask["state"], "pending", "{at}: left open: {ask}");
        let told = ask["delivery"].as_str().unwrap_or_default();
        assert!(
            ["delivered", "withdrawn", "unknown"].contains(&told),
            "{at}: {ask}"
        );
    }
    if ["answer_owed:1", "answer_written:1", "wish_served:1"].contains(&at) {
        let doubt = |ask: &&Value| ask["state"] == "allowed" && ask["delivery"] == "unknown";
        assert_ne!(asks.iter().find(doubt), None, "{at}: {asks:?}");
    }
    nothing_ran_twice(scene, asks, at);
    let agents = wire.ok("host.agents", json!({})).await;
    for agent in agents.as_array().unwrap() {
        says_what_may_have_run(agent, asks, at);
        resumes(&mut wire, agent, at).await;
    }
    scene.end_all(&mut wire).await;
}

/// Nothing ran that nobody allowed, and what was allowed ran once or not at all.
fn nothing_ran_twice(scene: &Scene, asks: &[Value], at: &str) {
    let mut ran: BTreeMap<String, usize> = BTreeMap::new();
    for word in scene.effects() {
        *ran.entry(word).or_default() += 1;
    }
    for (word, times) in ran {
        let allowed = asks.iter().filter(|ask| {
            let action = ask["action"].as_str().unwrap_or_default();
            ask["state"] == "allowed" && action.contains(&word)
        });
        assert!(times <= allowed.count(), "{at}: {word} ran {times} times");
    }
}

/// None of the cast ends a turn, so whatever was allowed may have run when its agent ended.
fn says_what_may_have_run(agent: &Value, asks: &[Value], at: &str) {
    let managed = &agent["managed"];
    let state = agent["state"].as_str().unwrap();
    assert!(["stopped", "error"].contains(&state), "{at}: {agent}");
    assert_eq!(managed.get("turn"), None, "{at}: {agent}");
    let words = managed["message"].as_str().unwrap_or_default();
    for ask in asks.iter().filter(|ask| ask["agent_id"] == agent["id"]) {
        let action = ask["action"].as_str().unwrap();
        let shown: String = action.chars().take(200).collect();
        let named = words.contains("may already have run") && words.contains(&shown);
        assert_eq!(named, ask["state"] == "allowed", "{at}: {words}: {ask}");
        if ask["state"] != "allowed" {
            assert_eq!(ask["state"], "cancelled", "{at}: {ask}");
        }
    }
}

/// It goes on with its session, or begins if it never had one.
async fn resumes(wire: &mut Wire, agent: &Value, at: &str) {
    let id = &agent["id"];
    let resumed = wire
        .ok("host.resume_agent", json!({ "agent_id": id }))
        .await;
    let before = agent["managed"]["run"].as_u64().unwrap();
    assert_eq!(resumed["managed"]["run"], before + 1, "{at}: {resumed}");
    let begin = std::time::Instant::now();
    loop {
        let agents = wire.ok("host.agents", json!({})).await;
        let all = agents.as_array().unwrap();
        let now = all.iter().find(|agent| agent["id"] == *id).unwrap();
        match now["state"].as_str().unwrap() {
            "starting" => {}
            "running" | "idle" | "awaiting_permission" => return,
            _ => panic!("{at}: not resumed: {now}"),
        }
        assert!(begin.elapsed() < PATIENCE, "{at}: {now}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Kills a host at a pass of a point; says whether it came that far.
async fn kill_at(point: &str, pass: usize) -> bool {
    let at = format!("{point}:{pass}");
    let mut scene = Scene::begin(&[("COUNTERSIGN_CRASH_AT", &at)]);
    let crashed = play(&mut scene).await;
    if crashed {
        scene.host.restart_after_crash();
    } else {
        scene.host.start_disarmed();
    }
    check(&scene, &at).await;
    crashed
}

#[tokio::test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "only builds with debug assertions have crash points"
)]
async fn a_host_killed_anywhere_in_the_life_of_its_agents_leaves_nothing() {
    for point in countersign_testkit::crash::AGENT_CRASH_POINTS {
        assert!(kill_at(point, 1).await, "{point} was never reached");
    }
}

#[tokio::test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "only builds with debug assertions have crash points"
)]
async fn a_host_killed_there_a_second_time_leaves_nothing() {
    for point in countersign_testkit::crash::AGENT_CRASH_POINTS {
        kill_at(point, 2).await;
    }
}

#[tokio::test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "only builds with debug assertions have crash points"
)]
async fn whoever_is_asked_again_is_told_that_it_may_already_have_run() {
    let mut scene = Scene::begin(&[("COUNTERSIGN_CRASH_AT", "answer_written:1")]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let steps = json!([asks("a1", "make deploy", &json!([]))]);
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    let first = wire.event_of("approval.requested").await["payload"].take();
    let params = json!({ "approval_id": first["id"], "resolution": "approve" });
    wire.try_reply("host.resolve_approval", params).await;
    scene.host.restart_after_crash();
    let mut wire = Wire::subscriber(&scene.host).await;
    let message = crate::managed::script(&steps);
    let params = json!({ "agent_id": id, "message": message });
    wire.ok("host.prompt_agent", params).await;
    let again = wire.event_of("approval.requested").await["payload"].take();
    assert_eq!(
        (&first["repeats"], &again["repeats"]),
        (&Value::Null, &first["id"])
    );
    scene.end_all(&mut wire).await;
}

/// Kills a host some time after its agents were wanted.
async fn kill_after(time: Duration) {
    let mut scene = Scene::begin(&[]);
    if tokio::time::timeout(time, play(&mut scene)).await.is_err() {
        scene.host.kill();
    }
    scene.host.start_disarmed();
    check(&scene, &format!("after {} ms", time.as_millis())).await;
}

#[tokio::test]
async fn a_host_killed_at_some_moment_leaves_nothing() {
    let kills = std::env::var("COUNTERSIGN_AGENT_KILLS");
    let kills = kills.map_or(RANDOM_KILLS, |kills| kills.parse().unwrap());
    for round in 0..kills {
        // Spread over all of what the cast does, differently each time.
        kill_after(Duration::from_millis(round * 61 % 701)).await;
    }
}

#[tokio::test]
async fn an_agent_that_is_killed_leaves_nothing_and_is_gone_on_with() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let left = "(setsid sleep 1000 > /dev/null 2>&1 &)";
    let command = format!("{}; {left}; sleep 1000", scene.adds("once"));
    let steps = json!([asks("a1", &command, &json!([terminal(&command)]))]);
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    crate::scene::answer_next(&mut wire, "approve").await;
    crate::host::poll("the command to run", || {
        (!scene.effects().is_empty()).then_some(())
    });
    // Not the command, nor what it left, but the agent itself.
    let agents = scene.processes();
    let own = agents
        .iter()
        .min()
        .and_then(|pid| rustix::process::Pid::from_raw(*pid));
    rustix::process::kill_process(own.unwrap(), rustix::process::Signal::KILL).unwrap();
    let agent = rested(&mut wire, &id).await;
    let words = agent["managed"]["message"].as_str().unwrap();
    assert_eq!(agent["state"], "error");
    assert!(
        words.starts_with("its process was ended by SIGKILL in the middle of a turn")
            && words.contains("may already have run")
            && words.contains(&command),
        "{words}"
    );
    assert_eq!(scene.described(), Vec::<String>::new());
    resumes(&mut wire, &agent, "after its death").await;
    scene.end_all(&mut wire).await;
    assert_eq!(scene.effects(), ["once"]);
}

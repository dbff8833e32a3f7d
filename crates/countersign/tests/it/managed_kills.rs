//! Death at any instant: hosts and agents are killed while agents ask, run commands and talk. Agents
//! outlive their host and go on with the next; nothing runs twice; whoever ends says what may have run.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
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

/// What must hold with the next host: whoever had begun goes on to the end of the script as if nothing
/// had been, everybody else ended in words, and `down --all` leaves nothing.
async fn check(scene: &Scene, at: &str) {
    let mut wire = Wire::operator(&scene.host).await;
    let agents = finished(scene, &mut wire, at).await;
    let asks = wire.ok("host.approvals", json!({ "limit": 500 })).await;
    let asks = asks.as_array().unwrap();
    let mut expected: Vec<&str> = Vec::new();
    for agent in &agents {
        let own: Vec<Value> = asks
            .iter()
            .filter(|ask| ask["agent_id"] == agent["id"])
            .map(|ask| json!([ask["state"], ask["delivery"]]))
            .collect();
        let name = agent["name"].as_str().unwrap();
        let ended = never_began(agent);
        assert_eq!(
            own,
            if ended { vec![] } else { asked_by(name) },
            "{at}: {agent}"
        );
        expected.extend(if ended { &[] } else { effects_of(name) });
    }
    let mut effects = scene.effects();
    effects.sort_unstable();
    assert_eq!(effects, expected, "{at}");
    for agent in agents.iter().filter(|agent| is_over(agent)) {
        resumes(&mut wire, agent, at).await;
    }
    let ended = crate::host::command(scene.host.home())
        .args(["down", "--all"])
        .output();
    assert!(ended.unwrap().status.success(), "{at}: down");
    assert_eq!(scene.described(), Vec::<String>::new(), "{at}: survived");
}

/// Allows whatever anybody but Ann asks until each of the cast did all it does, or ended; gives their
/// rows by name.
async fn finished(scene: &Scene, wire: &mut Wire, at: &str) -> Vec<Value> {
    let begin = std::time::Instant::now();
    loop {
        let asks = wire.ok("host.approvals", json!({ "limit": 500 })).await;
        for ask in asks.as_array().unwrap() {
            if ask["state"] == "pending" {
                allow(
                    wire,
                    &json!({ "kind": "approval.requested", "payload": ask }),
                )
                .await;
            }
        }
        let settled = asks.as_array().unwrap().iter().all(is_settled);
        let agents = wire.ok("host.agents", json!({})).await;
        let mut agents = agents.as_array().unwrap().clone();
        if settled && agents.iter().all(|agent| is_finished(agent, scene)) {
            agents.sort_by_key(|agent| agent["name"].to_string());
            return agents;
        }
        assert!(begin.elapsed() < PATIENCE, "{at}: {agents:?} {asks}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether nothing more is to be said about an ask, or it is Ann's.
fn is_settled(ask: &Value) -> bool {
    let anns = ask["action"].as_str().unwrap_or_default().contains("ann-1");
    let told = ask["delivery"].as_str();
    (anns && ask["state"] == "pending") || told.is_some_and(|told| told != "attempted")
}

fn is_finished(agent: &Value, scene: &Scene) -> bool {
    match agent["name"].as_str().unwrap() {
        _ if is_over(agent) => true,
        "ann" => agent["state"] == "awaiting_permission",
        "bea" => scene.effects().contains(&"bea-2".to_owned()),
        _ => false,
    }
}

fn is_over(agent: &Value) -> bool {
    ["stopped", "error", "done"].contains(&agent["state"].as_str().unwrap())
}

/// Whether its host was killed before it was started, and it says so. Whoever ended otherwise says what
/// may already have run.
fn never_began(agent: &Value) -> bool {
    let words = agent["managed"]["message"].as_str().unwrap_or_default();
    if agent["state"] == "stopped" {
        assert_eq!(words, "the host that ran it ended", "{agent}");
        assert_eq!(agent["managed"].get("session"), None, "{agent}");
        return true;
    }
    if is_over(agent) {
        let begin = "its process ended with code 1 in the middle of a turn; allowed in this turn, \
                     and may already have run: echo cid-1 ";
        assert!(words.starts_with(begin), "{agent}");
    }
    false
}

/// Everything that one of the cast asks, the newest first, with what became of it.
fn asked_by(name: &str) -> Vec<Value> {
    match name {
        "ann" => vec![json!(["pending", null])],
        "bea" => vec![json!(["allowed", "delivered"]); 2],
        _ => vec![json!(["allowed", "delivered"])],
    }
}

/// Everything that one of the cast does, each once.
fn effects_of(name: &str) -> &'static [&'static str] {
    match name {
        "ann" => &[],
        "bea" => &["bea-1", "bea-2"],
        _ => &["cid-1"],
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
async fn agents_outlive_a_host_that_is_killed_anywhere_in_their_life() {
    for point in countersign_testkit::crash::AGENT_CRASH_POINTS {
        assert!(kill_at(point, 1).await, "{point} was never reached");
    }
}

#[tokio::test]
#[cfg_attr(
    not(debug_assertions),
    ignore = "only builds with debug assertions have crash points"
)]
async fn agents_outlive_a_host_that_is_killed_there_a_second_time() {
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
    let steps = json!([asks("a1", "make deploy", &json!(["silence"]))]);
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    let first = wire.event_of("approval.requested").await["payload"].take();
    let params = json!({ "approval_id": first["id"], "resolution": "approve" });
    wire.try_reply("host.resolve_approval", params).await;
    scene.host.await_crash();
    // With its runner nobody is left who knows.
    for runner in scene.runners() {
        kill_process(Pid::from_raw(runner).unwrap(), Signal::KILL).unwrap();
    }
    scene.host.start_disarmed();
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
async fn agents_outlive_a_host_that_is_killed_at_some_moment() {
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
    let own = agents.iter().min().and_then(|pid| Pid::from_raw(*pid));
    kill_process(own.unwrap(), Signal::KILL).unwrap();
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

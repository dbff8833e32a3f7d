//! Terminals of an agent on the real binary: whatever a command prints or leaves, the host stands.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};

use crate::host::{PATIENCE, command, poll};
use crate::http::Rest;
use crate::scene::{Scene, rested, told};
use crate::wire::Wire;

/// Everything may run here: these stories are about what comes of it.
const RULES: &str = "allow = [\"Bash\", \"Edit(**)\", \"Read(**)\"]\n";

/// Plays one turn, and gives what the agent said of it. It is still there afterwards.
pub(crate) async fn play(scene: &Scene, wire: &mut Wire, steps: &Value) -> (Value, String) {
    let id = scene.spawn(wire, "ann", steps).await;
    allow_all(wire, &id).await;
    let said = told(wire, &id).await;
    (id, said)
}

/// Allows whatever the rules leave to a person until the agent rests.
pub(crate) async fn allow_all(wire: &mut Wire, id: &Value) {
    loop {
        let event = wire.event().await;
        if event["kind"] == "approval.requested" {
            let params = json!({ "approval_id": event["payload"]["id"], "resolution": "approve" });
            // A rule may have been faster.
            wire.reply("host.resolve_approval", params).await;
        }
        if event["kind"] == "turn.ended" {
            rested(wire, id).await;
            return;
        }
    }
}

/// Has a new agent run these commands and then wait for ever, and returns when it waits.
async fn start_command(scene: &Scene, wire: &mut Wire, commands: &str) -> Value {
    let ready = scene.path("ready");
    let command = format!("{commands}; touch {ready}; sleep 1000");
    let steps = json!([{ "terminal": { "command": command } }]);
    let id = scene.spawn(wire, "ann", &steps).await;
    let asked = wire.event_of("approval.requested").await;
    let params = json!({ "approval_id": asked["payload"]["id"], "resolution": "approve" });
    // A rule may have been faster.
    wire.reply("host.resolve_approval", params).await;
    poll("the command to run", || {
        fs::exists(&ready).unwrap().then_some(())
    });
    id
}

#[tokio::test]
async fn a_command_that_prints_a_gigabyte_costs_the_host_only_its_bound() {
    let scene = Scene::begin_with_rules(RULES);
    let mut wire = Wire::subscriber(&scene.host).await;
    let before = scene.host.resident();
    let command = "head -c 1073741824 /dev/zero | tr '\\0' x; echo; echo the end";
    let steps = json!([{ "terminal": { "command": command, "output_byte_limit": 1000 } }]);
    let (_, said) = play(&scene, &mut wire, &steps).await;
    assert!(
        said.contains(r#"terminal/wait_for_exit: {"exitCode":0,"signal":null}"#)
            && said.contains(r#"the end\n","truncated":true,"#),
        "{said}"
    );
    assert!(said.len() < 3_000, "{} bytes", said.len());
    let more = scene.host.resident().saturating_sub(before);
    assert!(more < 64 * 1024 * 1024, "{more} bytes more");
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn people_read_a_terminal_also_after_its_agent_and_its_host_ended() {
    let mut scene = Scene::begin_with_rules(RULES);
    let mut wire = Wire::subscriber(&scene.host).await;
    let steps = json!([{ "terminal": { "command": "printf 'a\\033[1mb'; exit 7" } }]);
    let (id, _) = play(&scene, &mut wire, &steps).await;
    let listed = wire.ok("host.terminals", json!({ "agent_id": id })).await;
    let row = &listed[0];
    assert_eq!(
        (&row["exit_code"], &row["bytes"], &row["first_offset"]),
        (&json!(7), &json!(6), &json!(0)),
        "{listed}"
    );
    let place = json!({ "agent_id": id, "terminal_id": row["id"], "wait": true });
    let output = wire.ok("host.terminal_output", place.clone()).await;
    let expected = json!({
        "data": "YRtbMW1i", "from": 0, "next": 6, "ended": true, "skipped": 0,
    });
    assert_eq!(output, expected);
    let token = scene.host.token();
    let rest = Rest {
        address: &scene.host.address,
        token: &token,
    };
    let path = format!(
        "/api/v1/agents/{}/terminals/{}/output?after=1",
        id.as_str().unwrap(),
        row["id"].as_str().unwrap()
    );
    let mut expected = expected;
    expected["data"] = json!("G1sxbWI=");
    expected["from"] = json!(1);
    assert_eq!(rest.get(&path).await.json(), expected);

    scene.end_all(&mut wire).await;
    let params = json!({ "agent_id": id });
    let again = wire.ok("host.terminals", params.clone()).await;
    assert_eq!(again, listed);
    assert_eq!(rest.get(&path).await.json(), expected);
    scene.host.kill();
    scene.host.start_disarmed();
    let mut wire = Wire::operator(&scene.host).await;
    assert_eq!(wire.ok("host.terminals", params.clone()).await, listed);
    let output = wire.ok("host.terminal_output", place.clone()).await;
    assert_eq!(output["data"], "YRtbMW1i");
    let line = format!("ann/{}", row["id"].as_str().unwrap());
    let printed = run_command(&scene, &["terminal", &line]);
    assert_eq!(printed, "a\\u{1b}[1mb");
    let list = run_command(&scene, &["terminal", "ann"]);
    assert!(list.contains("exit 7") && list.contains("printf"), "{list}");
    // With the record before it, what it printed is erased.
    let head = wire.ok("host.status", json!({})).await["event_sequence"].take();
    wire.ok("host.prune_events", json!({ "before_sequence": head }))
        .await;
    assert_eq!(wire.ok("host.terminals", params).await, json!([]));
    let error = wire.no("host.terminal_output", place).await;
    assert_eq!(error["data"]["reason"], "unreadable_terminal");
}

fn run_command(scene: &Scene, words: &[&str]) -> String {
    let ran = command(scene.host.home()).args(words).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[tokio::test]
async fn a_runner_that_ends_without_a_host_leaves_what_its_terminals_wrote() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("rules.toml"), RULES).unwrap();
    let mut scene = Scene::begin_in(home, &[("COUNTERSIGN_RUNNER_PATIENCE_MS", "2000")]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = start_command(&scene, &mut wire, "echo begun").await;
    scene.host.kill();
    poll("the runner to give up", || {
        scene.runners().is_empty().then_some(())
    });
    scene.host.start_disarmed();
    let mut wire = Wire::operator(&scene.host).await;
    rested(&mut wire, &id).await;
    let listed = wire.ok("host.terminals", json!({ "agent_id": id })).await;
    assert_eq!(listed[0]["signal"], "SIGKILL", "{listed}");
    let place = json!({ "agent_id": id, "terminal_id": listed[0]["id"] });
    let output = wire.ok("host.terminal_output", place).await;
    let expected = json!({
        "data": "YmVndW4K", "from": 0, "next": 6, "ended": true, "skipped": 0,
    });
    assert_eq!(output, expected);
}

#[tokio::test]
async fn a_host_killed_when_a_run_is_over_loses_no_output_of_its_terminals() {
    let mut scene = Scene::begin_with_rules(RULES);
    let mut wire = Wire::subscriber(&scene.host).await;
    let steps = json!([{ "terminal": { "command": "echo kept" } }]);
    let (id, _) = play(&scene, &mut wire, &steps).await;
    scene.host.kill();
    scene.host.start_armed("run_over:1");
    let mut wire = Wire::operator(&scene.host).await;
    wire.request("host.kill_agent", json!({ "agent_id": id }))
        .await;
    scene.host.restart_after_crash();
    let mut wire = Wire::operator(&scene.host).await;
    rested(&mut wire, &id).await;
    let listed = wire.ok("host.terminals", json!({ "agent_id": id })).await;
    assert_eq!(listed[0]["bytes"], 5, "{listed}");
}

#[tokio::test]
async fn invalid_utf8_and_what_comes_after_it_survive() {
    let scene = Scene::begin_with_rules(RULES);
    let mut wire = Wire::subscriber(&scene.host).await;
    let command = r"printf 'a\377\376b\n'; printf 'c\303\n'; exit 7";
    let steps = json!([{ "terminal": { "command": command } }]);
    let (_, said) = play(&scene, &mut wire, &steps).await;
    let output = "a\u{fffd}\u{fffd}b\\nc\u{fffd}\\n";
    assert!(
        said.contains(r#"{"exitCode":7,"signal":null}"#) && said.contains(output),
        "{said}"
    );
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_command_that_leaves_a_daemon_exits_at_once_and_its_release_ends_the_daemon() {
    let scene = Scene::begin_with_rules(RULES);
    let mut wire = Wire::subscriber(&scene.host).await;
    let pid = scene.path("pid");
    // It holds the pipe of the terminal.
    let daemon = format!("(setsid sh -c 'echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 1000' &)");
    let command = format!("{daemon}; until [ -e {pid} ]; do sleep 0.01; done; echo started");
    let begin = Instant::now();
    let steps = json!([{ "terminal": { "command": command, "keep": true } }]);
    let (id, said) = play(&scene, &mut wire, &steps).await;
    assert!(said.contains("started\\n"), "{said}");
    assert!(begin.elapsed() < PATIENCE);
    let left: i32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    assert!(
        scene.processes().contains(&left),
        "it lives while its terminal does"
    );
    let call = json!({ "method": "terminal/release", "params": { "terminalId": "term-1" } });
    let message = crate::managed::script(&json!([{ "call": call }]));
    let params = json!({ "agent_id": id, "message": message });
    wire.ok("host.prompt_agent", params).await;
    rested(&mut wire, &id).await;
    poll("the daemon to end", || {
        (!scene.processes().contains(&left)).then_some(())
    });
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed_with_everything_it_started() {
    let scene = Scene::begin_with_rules(RULES);
    let mut wire = Wire::subscriber(&scene.host).await;
    let command = "trap '' TERM HUP INT; (trap '' TERM; sleep 1000) & sleep 1000";
    let steps = json!([{ "terminal": { "command": command, "kill": true } }]);
    let (_, said) = play(&scene, &mut wire, &steps).await;
    let end = r#"terminal/wait_for_exit: {"exitCode":null,"signal":"SIGKILL"}"#;
    assert!(said.contains(end), "{said}");
    assert_eq!(scene.processes().len(), 1, "{:?}", scene.described());
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn an_agent_that_is_ended_takes_its_stubborn_commands_along() {
    let scene = Scene::begin_with_rules(RULES);
    let mut wire = Wire::subscriber(&scene.host).await;
    let commands = "trap '' TERM HUP INT; (setsid sleep 1000 &)";
    let id = start_command(&scene, &mut wire, commands).await;
    wire.ok("host.kill_agent", json!({ "agent_id": id })).await;
    rested(&mut wire, &id).await;
    assert_eq!(scene.described(), Vec::<String>::new());
}

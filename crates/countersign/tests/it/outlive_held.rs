//! A host that stands still: its agents are held back instead of anything growing, and once it goes on
//! it hears everything they said.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::host::poll;
use crate::scene::{Scene, rested, told};
use crate::wire::Wire;

/// What an agent says while its host stands still, in lines of some thousand bytes.
const UPDATES: u64 = 3_000;
const UPDATE_BYTES: usize = 8_000;
/// Kept for a host that is there and does not take it: the longest line, and what is held in memory.
const KEPT_BYTES: u64 = (16 * 1024 + 256) * 1024;
/// What lies in a pipe, in a socket, in between, and is counted twice by what a shell wrote before.
const UNDER_WAY_BYTES: u64 = 1024 * 1024;
/// An agent that wrote nothing for so long is held back.
const STILL: Duration = Duration::from_millis(500);
/// A build for tests is larger than what people run, whose bound is 5 MB.
const PRIVATE_BYTES_MAX: u64 = 6 * 1024 * 1024;

/// The agent's process, and its runner.
fn find_pids(scene: &Scene) -> (i32, i32) {
    let agent = poll("the agent", || scene.processes().first().copied());
    let stat = std::fs::read_to_string(format!("/proc/{agent}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let parent = fields.split_ascii_whitespace().nth(1).unwrap();
    (agent, parent.parse().unwrap())
}

/// A number behind a name, as the kernel lists them.
fn find_number(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.unwrap().trim().trim_end_matches(" kB");
    number.parse().unwrap()
}

fn written(pid: i32) -> u64 {
    find_number(&format!("/proc/{pid}/io"), "wchar:")
}

fn private(pid: i32) -> u64 {
    let file = format!("/proc/{pid}/smaps_rollup");
    let names = ["Private_Clean:", "Private_Dirty:"];
    names
        .map(|name| find_number(&file, name) * 1024)
        .iter()
        .sum()
}

/// What a runner keeps in a file.
fn spill(scene: &Scene) -> Option<PathBuf> {
    let runners = std::fs::read_dir(scene.host.home().join("runners")).unwrap();
    let files = runners.map(|entry| entry.unwrap().path().join("spill"));
    let mut there = files.filter(|file| file.exists());
    there.next()
}

/// Waits until an agent writes no more, and says how much it wrote.
fn await_still(agent: i32) -> u64 {
    let (mut before, mut since) = (written(agent), Instant::now());
    poll("the agent to be held back", || {
        let now = written(agent);
        if now != before {
            (before, since) = (now, Instant::now());
        }
        (since.elapsed() > STILL).then_some(now)
    })
}

fn flood() -> Value {
    json!({ "updates": { "count": UPDATES, "bytes": UPDATE_BYTES } })
}

fn flooded() -> String {
    let text = "x".repeat(UPDATE_BYTES);
    let lines = (0..UPDATES).map(|number| format!("{number} {text}\n"));
    lines.collect()
}

#[tokio::test]
async fn a_host_that_stands_still_holds_its_agent_back_and_then_hears_all_of_it() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::operator(&scene.host).await;
    let steps = json!([
        { "run": "touch here; while [ ! -e go ]; do sleep 0.02; done" }, flood(), { "say": "over" },
    ]);
    let id = scene.spawn(&mut wire, "loud", &steps).await;
    let here = scene.folder().join("here");
    poll("the agent to begin", || here.exists().then_some(()));
    let (agent, runner) = find_pids(&scene);
    let before = written(agent);
    kill_process(scene.host.pid(), Signal::STOP).unwrap();
    std::fs::write(scene.folder().join("go"), "").unwrap();
    poll("the agent to flood", || {
        (written(agent) > before + KEPT_BYTES).then_some(())
    });
    let wrote = await_still(agent) - before;
    let kept = spill(&scene).unwrap().metadata().unwrap().len();
    let memory = private(runner);
    kill_process(scene.host.pid(), Signal::CONT).unwrap();
    assert!(
        wrote < KEPT_BYTES + UNDER_WAY_BYTES,
        "{wrote} bytes were written"
    );
    assert!(
        kept < KEPT_BYTES + UNDER_WAY_BYTES,
        "{kept} bytes are in a file"
    );
    assert!(memory < PRIVATE_BYTES_MAX, "the runner has {memory} bytes");
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    let expected = format!("ran: {}over", flooded());
    assert!(
        said == expected,
        "{} bytes instead of {}",
        said.len(),
        expected.len()
    );
    assert_eq!(spill(&scene), None);
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_runner_stays_small_however_often_its_agent_asks() {
    let scene = Scene::begin_with_rules("allow = [\"Bash(git status:*)\"]\n");
    let mut wire = Wire::operator(&scene.host).await;
    let id = scene.spawn(&mut wire, "ann", &json!([])).await;
    rested(&mut wire, &id).await;
    let (_, runner) = find_pids(&scene);
    let idle = private(runner);
    let steps = json!([{ "ask_many": {
        "count": 400, "command": "git status {n}", "ledger": "ledger", "at_once": 4,
    } }]);
    let message = crate::managed::script(&steps);
    let params = json!({ "agent_id": id, "message": message });
    wire.ok("host.prompt_agent", params).await;
    rested(&mut wire, &id).await;
    let asked = private(runner);
    assert!(
        idle.max(asked) < PRIVATE_BYTES_MAX,
        "{idle} bytes, then {asked}"
    );
    scene.end_all(&mut wire).await;
}

//! Hostile agents, clumsy people and bad machines around runners: nothing is allowed by them, nothing
//! is left running, and no host is kept from starting.

mod callers;
mod forgeries;
mod places;

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::host::{command, poll};
use crate::scene::{Scene, asks};
use crate::wire::Wire;

/// The folder of an agent's runner, and its process.
fn runner_of(scene: &Scene, agent: &Value) -> (PathBuf, Pid) {
    let prefix = format!("{}-", agent.as_str().unwrap());
    poll("the runner", || {
        let mut folders = folders(scene.host.home()).into_iter();
        let folder = folders.find(|path| name(path).starts_with(&prefix))?;
        let text = fs::read_to_string(folder.join("runner")).ok()?;
        let key: Value = serde_json::from_str(&text).unwrap();
        let pid = i32::try_from(key["pid"].as_i64()?).unwrap();
        Some((folder, Pid::from_raw(pid)?))
    })
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Folders of runners in a home.
fn folders(home: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(home.join("runners")).unwrap();
    let paths = listed.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_dir()).collect()
}

/// Sockets of runners in a home.
fn sockets(home: &Path) -> Vec<PathBuf> {
    let places = [home.join("run/runners"), home.join("runners")];
    let listed = places.iter().filter_map(|place| fs::read_dir(place).ok());
    let paths = listed.flatten().map(|entry| entry.unwrap().path());
    let is_socket = |path: &PathBuf| path.extension().is_some_and(|end| end == "sock");
    paths.filter(is_socket).collect()
}

/// Everything that runners left in a home.
fn left(home: &Path) -> Vec<PathBuf> {
    [folders(home), sockets(home)].concat()
}

fn lives(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

fn kill(pid: Pid) {
    kill_process(pid, Signal::KILL).unwrap();
    poll("a process to end", || (!lives(pid)).then_some(()));
}

/// An agent whose ask for a command is open; it runs the command once it may.
async fn asking(scene: &Scene, wire: &mut Wire, agent: &str) -> (Value, Value) {
    let line = scene.adds(agent);
    let steps = json!([asks("a1", &line, &json!([{ "run": line }]))]);
    let id = scene.spawn(wire, agent, &steps).await;
    let ask = crate::scene::next_ask(wire).await;
    (id, ask["id"].clone())
}

/// A process number that was written to a file.
fn noted(path: &str) -> Pid {
    poll("a process to be there", || {
        let text = fs::read_to_string(path).ok()?;
        Pid::from_raw(text.strip_suffix('\n')?.parse().ok()?)
    })
}

/// A command that runs a script apart from whoever starts it: in a session of its own, not its child,
/// and with nothing of its environment if `clears`.
fn apart(script: &str, clears: bool) -> String {
    let clear = if clears { "env -i PATH=$PATH " } else { "" };
    format!("{clear}setsid -f sh -c '(sh {script} > /dev/null 2>&1 &)'")
}

/// Whether processes are held here that clear their environment, detach and kill their runner. Where
/// nothing does, SECURITY.md says so.
async fn holds_detached(wire: &mut Wire) -> bool {
    let status = wire.ok("host.status", json!({})).await;
    status["containment"]["holds_detached"] == true
}

async fn approve(wire: &mut Wire, ask: &Value) -> Value {
    let params = json!({ "approval_id": ask, "resolution": "approve" });
    wire.reply("host.resolve_approval", params).await
}

async fn row(wire: &mut Wire, agent: &Value) -> Value {
    let agents = wire.ok("host.agents", json!({})).await;
    let mut rows = agents.as_array().unwrap().iter();
    rows.find(|row| row["id"] == *agent).unwrap().clone()
}

/// What a command of the binary came to in a home: its code and what it said.
fn say(home: &Path, words: &[&str]) -> (Option<i32>, String) {
    let output = command(home).args(words).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

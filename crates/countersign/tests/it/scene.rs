//! A host with agents of its own, played by the scripted agent, and everything they leave behind.
//!
//! Whatever a scene starts carries its mark, so that a test sees what survived by its own means
//! and not by the host's. Nothing of a scene outlives it.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host::{Host, poll};
use crate::managed::{PROGRAM, script};
use crate::wire::Wire;

const MARK: &str = "SCENE_MARK";

pub(crate) struct Scene {
    pub(crate) host: Host,
    folder: TempDir,
    mark: String,
}

impl Scene {
    pub(crate) fn begin(environment: &[(&'static str, &str)]) -> Self {
        Self::begin_in(tempfile::tempdir().unwrap(), environment)
    }

    /// With rules that hold from the beginning.
    pub(crate) fn begin_with_rules(rules: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("rules.toml"), rules).unwrap();
        Self::begin_in(home, &[])
    }

    /// In a home that was prepared.
    pub(crate) fn begin_in(home: TempDir, environment: &[(&'static str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().file_name().unwrap().to_string_lossy();
        Self {
            mark: format!("{MARK}={mark}"),
            host: Host::start_in(home, environment),
            folder,
        }
    }

    /// In a home that was prepared, with nothing of this process's environment.
    pub(crate) fn begin_apart(home: TempDir) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().file_name().unwrap().to_string_lossy();
        Self {
            mark: format!("{MARK}={mark}"),
            host: Host::start_apart(home, &[]),
            folder,
        }
    }

    /// The folder that its agents work in, as the kernel names it.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder().join(name).to_str().unwrap().to_owned()
    }

    /// What whatever the scene starts has in its environment.
    pub(crate) fn mark(&self) -> &str {
        self.mark.split_once('=').unwrap().1
    }

    /// What a command adds to when it runs, so that running twice shows.
    pub(crate) fn adds(&self, word: &str) -> String {
        format!("echo {word} >> {}", self.path("effects"))
    }

    /// The words that were added, in their order.
    pub(crate) fn effects(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder().join("effects")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What an agent is started with that does these steps.
    pub(crate) fn spawn_params(&self, name: &str, steps: &Value) -> Value {
        let (variable, mark) = self.mark.split_once('=').unwrap();
        json!({
            "name": name, "command": [PROGRAM, "demo", "agent"], "cwd": self.folder(),
            "prompt": script(steps),
            "env": [{ "name": "SCRIPTED_AGENT_STATE", "value": self.folder() },
                    { "name": variable, "value": mark }],
        })
    }

    pub(crate) async fn spawn(&self, wire: &mut Wire, name: &str, steps: &Value) -> Value {
        let params = self.spawn_params(name, steps);
        wire.ok("host.spawn_agent", params).await["id"].take()
    }

    /// Processes of this scene's agents that live now.
    pub(crate) fn processes(&self) -> Vec<i32> {
        pids().filter(|pid| self.is_ours(*pid)).collect()
    }

    /// Runners of this scene's host that live now.
    pub(crate) fn runners(&self) -> Vec<i32> {
        let home = self.host.home().display().to_string();
        let is_runner = |line: &str| line.contains(" runner --folder ") && line.contains(&home);
        pids().filter(|pid| is_runner(&line_of(*pid))).collect()
    }

    fn is_ours(&self, pid: i32) -> bool {
        let place = Path::new("/proc").join(pid.to_string());
        let environment = std::fs::read(place.join("environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == self.mark.as_bytes())
    }

    /// Whoever the scene's agents are, with their command lines, for a test that fails.
    pub(crate) fn described(&self) -> Vec<String> {
        let words = |pid: i32| format!("{pid} {}", line_of(pid));
        self.processes().into_iter().map(words).collect()
    }

    /// Ends every agent that still runs, and waits until nothing of them is left.
    pub(crate) async fn end_all(&self, wire: &mut Wire) {
        let agents = wire.ok("host.agents", json!({})).await;
        for agent in agents.as_array().unwrap() {
            let id = &agent["id"];
            // One that has ended meanwhile cannot be ended again.
            let kill = json!({ "agent_id": id, "children": "keep" });
            wire.reply("host.kill_agent", kill).await;
            let params = json!({ "agent_id": id, "timeout_ms": 30_000 });
            let rested = wire.ok("host.wait_agents", params).await;
            assert_eq!(rested["reached"], true, "{rested}");
        }
        assert_eq!(self.described(), Vec::<String>::new());
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if self.host.is_alive() {
            self.host.kill();
        }
        poll("what a failed scene left to end", || {
            let left = self.processes();
            let pids = left.iter().filter_map(|pid| Pid::from_raw(*pid));
            // What cannot be ended has ended meanwhile.
            let ended = pids.filter(|pid| kill_process(*pid, Signal::KILL).is_ok());
            (ended.count() == 0 && left.is_empty()).then_some(())
        });
    }
}

fn pids() -> impl Iterator<Item = i32> {
    let listed = std::fs::read_dir("/proc").unwrap();
    listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The command line of a process; nothing for one that has ended.
pub(crate) fn line_of(pid: i32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// A step that asks for a command and goes on once it may.
pub(crate) fn asks(call: &str, command: &str, on_allow: &Value) -> Value {
    json!({ "ask": {
        "tool": { "call": call, "title": command, "kind": "execute", "input": { "command": command } },
        "on_allow": on_allow,
        "on_deny": [{ "say": format!("{call} was denied") }],
        "on_cancel": [{ "say": format!("{call} was cancelled") }],
    } })
}

/// A step that runs a command in a terminal of the host.
pub(crate) fn terminal(command: &str) -> Value {
    json!({ "terminal": { "command": command } })
}

/// What an agent said, all of it.
pub(crate) async fn told(wire: &mut Wire, id: &Value) -> String {
    let mut text = String::new();
    let mut after = Value::Null;
    loop {
        let params = json!({ "agent_id": id, "after": after, "limit": 500 });
        let page = wire.ok("host.transcript", params).await;
        let parts = page["parts"].as_array().unwrap().iter();
        for entry in parts.flat_map(|part| part["entries"].as_array().unwrap()) {
            if entry["type"] == "assistant" {
                text.push_str(entry["text"].as_str().unwrap());
            }
        }
        if page["more"] == false {
            return text;
        }
        after = page["next"].clone();
    }
}

/// Waits until an agent rests, and gives its row.
pub(crate) async fn rested(wire: &mut Wire, id: &Value) -> Value {
    let params = json!({ "agent_id": id, "timeout_ms": 30_000 });
    let mut found = wire.ok("host.wait_agents", params).await;
    assert_eq!(found["reached"], true, "{found}");
    found["agents"][0].take()
}

/// The next ask that the rules leave to a person.
pub(crate) async fn next_ask(wire: &mut Wire) -> Value {
    loop {
        let asked = wire.event_of("approval.requested").await;
        let params = json!({ "approval_id": asked["payload"]["id"] });
        let ask = wire.ok("host.approval", params).await;
        if ask["state"] == "pending" {
            return ask;
        }
    }
}

/// The next ask, answered.
pub(crate) async fn answer_next(wire: &mut Wire, resolution: &str) -> Value {
    let asked = next_ask(wire).await;
    let params = json!({ "approval_id": asked["id"], "resolution": resolution });
    wire.ok("host.resolve_approval", params).await;
    asked
}

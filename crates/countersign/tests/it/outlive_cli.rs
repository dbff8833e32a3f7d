//! The end and the change of a host as a person at a terminal meets it: agents go on, or end and are
//! named, and whoever waits comes back by themselves.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host::{Host, command, poll};
use crate::managed::{PROGRAM, script};
use crate::scene::{asks, terminal};
use crate::wire::Wire;

/// A home with hosts that are started and ended by its commands, and a folder for agents to work in.
/// Whatever the agents start carries its mark, and nothing of it outlives the test.
struct Desk {
    home: TempDir,
    folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// With a host that listens somewhere.
    fn up() -> Self {
        let desk = Self::new();
        let (code, said) = desk.text(&["up", "--detach", "--listen", "127.0.0.1:0"]);
        assert_eq!(code, Some(0), "{said}");
        desk
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = command(self.home.path());
        command.args(words).current_dir(self.folder.path());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.run(&[words, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    }

    /// The exit code and what was printed, data first.
    fn text(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = self.run(words);
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    }

    fn mark(&self) -> String {
        let name = self.folder.path().file_name().unwrap().to_string_lossy();
        format!("OUTLIVE_MARK={name}")
    }

    fn spawn(&self, name: &str, steps: &Value) {
        let line = format!("'{PROGRAM}' demo agent");
        let state = format!("SCRIPTED_AGENT_STATE={}", self.folder.path().display());
        let start = ["spawn", "--command", &line, "--name", name];
        let mark = self.mark();
        let prompt = script(steps);
        let rest = ["--env", &state, "--env", &mark, &prompt];
        let (code, said) = self.text(&[&start[..], &rest].concat());
        assert_eq!(code, Some(0), "{said}");
    }

    /// The ids of so many open asks, the oldest first.
    fn asked(&self, count: usize) -> Vec<String> {
        poll("the asks", || {
            let inbox = self.json(&["inbox"]);
            let open = inbox["approvals"].as_array()?;
            let id = |ask: &Value| ask["id"].as_str().unwrap().to_owned();
            (open.len() == count).then(|| open.iter().map(id).collect())
        })
    }

    fn pid(&self) -> i32 {
        let pid = self.json(&["status"])["pid"].as_i64().unwrap();
        i32::try_from(pid).unwrap()
    }

    /// A command that adds a word to a file, so that running twice shows.
    fn adds(&self, word: &str) -> String {
        let file = self.folder.path().join("effects");
        format!("echo {word} >> {}", file.display())
    }

    fn effects(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("effects")).unwrap_or_default()
    }

    /// Processes of the agents that live now, with their command lines.
    fn processes(&self) -> Vec<(i32, String)> {
        let mark = self.mark();
        let is_marked = |process: &Path| {
            let environment = std::fs::read(process.join("environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|variable| variable == mark.as_bytes())
        };
        processes(is_marked)
    }

    /// Runners of this home that live now.
    fn runners(&self) -> Vec<(i32, String)> {
        let home = self.home.path().to_string_lossy().into_owned();
        let mut found = processes(|_| true);
        found.retain(|(_, line)| line.contains(" runner --folder ") && line.contains(&home));
        found
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.run(&["down", "--all"]);
        for (pid, _) in self.processes().into_iter().chain(self.runners()) {
            // What cannot be ended has ended meanwhile.
            let _ended = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

fn processes(wanted: impl Fn(&Path) -> bool) -> Vec<(i32, String)> {
    let listed = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let named = listed.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, entry.path()))
    });
    let line = |(pid, path): (i32, PathBuf)| {
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (pid, line)
    };
    named.filter(|(_, path)| wanted(path)).map(line).collect()
}

const ALONE: &str = "1 agent keeps running without a host for up to 30 minutes: `countersign up` adopts them \
                     again, `countersign down --all` ends them\n";

#[test]
fn agents_stay_when_the_host_ends_and_the_next_one_goes_on_with_them() {
    let desk = Desk::up();
    let command = desk.adds("once");
    desk.spawn(
        "ann",
        &json!([asks("a1", &command, &json!([{ "run": command }]))]),
    );
    let open = desk.asked(1);
    let before = desk.processes();
    let (code, said) = desk.text(&["down"]);
    let listed = format!(
        "NAME  STATE                WAITS FOR\nann   awaiting_permission  Bash: {command}\n"
    );
    assert_eq!(
        (code, said),
        (Some(0), format!("{listed}the host stopped\n{ALONE}"))
    );
    assert_eq!(desk.text(&["status"]).0, Some(7));
    assert_eq!(
        (desk.processes(), desk.runners().len()),
        (before.clone(), 1)
    );
    let (code, said) = desk.text(&["down"]);
    assert!(
        code == Some(7) && said.starts_with("1 agent runs without a host: `countersign up`"),
        "{said}"
    );
    assert_eq!(desk.text(&["up", "--detach", "--no-listen"]).0, Some(0));
    assert_eq!((desk.asked(1), desk.processes()), (open.clone(), before));
    assert_eq!(desk.text(&["approve", &open[0]]).0, Some(0));
    assert_eq!(
        desk.text(&["wait", "ann"]),
        (Some(0), "ann is idle\n".into())
    );
    assert_eq!(desk.effects(), "once\n");
}

#[test]
fn every_agent_ends_with_the_host_when_told_so_and_is_named() {
    let desk = Desk::up();
    let left = format!(
        "{}; (setsid sleep 1000 > /dev/null 2>&1 &); sleep 1000",
        desk.adds("ran")
    );
    desk.spawn(
        "ann",
        &json!([asks("a1", &left, &json!([terminal(&left)]))]),
    );
    let open = desk.asked(1);
    assert_eq!(desk.text(&["approve", &open[0]]).0, Some(0));
    poll("the command to run", || {
        (desk.effects() == "ran\n").then_some(())
    });
    desk.spawn("bea", &json!([asks("b1", "true", &json!([]))]));
    desk.asked(1);
    let output = desk.run(&["down", "--all"]);
    let mut ended: Vec<_> = std::str::from_utf8(&output.stdout)
        .unwrap()
        .lines()
        .collect();
    ended.sort_unstable();
    assert_eq!(
        (output.status.code(), ended),
        (Some(0), vec!["ann ended", "bea ended"]),
        "{output:?}"
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.ends_with("the host and all its agents stopped\n"),
        "{said}"
    );
    assert_eq!((desk.processes(), desk.runners()), (vec![], vec![]));
    assert_eq!(desk.text(&["up", "--detach", "--no-listen"]).0, Some(0));
    let agents = desk.json(&["ls", "--all"])["agents"].take();
    let states: Vec<_> = agents
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["state"])
        .collect();
    assert_eq!(states, ["stopped", "stopped"], "{agents}");
    assert_eq!(desk.json(&["inbox"])["approvals"], json!([]));
}

#[test]
fn agents_that_a_killed_host_left_can_be_ended_without_one() {
    let desk = Desk::up();
    desk.spawn("ann", &json!([asks("a1", "make deploy", &json!([]))]));
    desk.asked(1);
    let pid = Pid::from_raw(desk.pid()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    poll("the end of the host", || {
        (desk.text(&["status"]).0 == Some(7)).then_some(())
    });
    assert_eq!(desk.runners().len(), 1);
    let doctor = desk.json(&["doctor"]);
    let checks = doctor["checks"].as_array().unwrap();
    let held = checks.iter().find(|check| check["what"] == "runners");
    assert_eq!(held.unwrap()["grade"], "warn", "{doctor}");
    assert_eq!(
        desk.text(&["down", "--all"]),
        (Some(0), "no host is running; ended 1 agent\n".into())
    );
    assert_eq!((desk.processes(), desk.runners()), (vec![], vec![]));
    assert_eq!(
        desk.text(&["down", "--all"]),
        (Some(0), "no host and no agent is running\n".into())
    );
    assert_eq!(desk.text(&["up", "--detach", "--no-listen"]).0, Some(0));
    let agent = desk.json(&["ls", "--all"])["agents"][0].take();
    let state = agent["state"].as_str().unwrap();
    assert!(["stopped", "error"].contains(&state), "{agent}");
    assert!(agent["managed"]["message"].is_string(), "{agent}");
}

/// A command that goes on until it is told to stop, or has its answer.
struct Waiter {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Waiter {
    fn begin(desk: &Desk, words: &[&str]) -> Self {
        let mut command = desk.command(words);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn until(&mut self, wanted: &str) {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        assert!(lines.any(|line| line == wanted), "{wanted}");
    }

    /// What it said besides its data, once it has ended or was ended.
    fn said(mut self) -> String {
        let mut said = String::new();
        let mut pipe = self.child.stderr.take().unwrap();
        pipe.read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // Both fail only for one that has ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

const CAME_BACK: &str = "lost the host; waiting for it\nreconnected to the host\n";

#[test]
fn a_host_is_replaced_while_agents_work_and_whoever_waits_comes_back() {
    let desk = Desk::up();
    let command = desk.adds("once");
    let on_allow = json!([{ "run": command }, { "say": "\ntwo\n" }]);
    desk.spawn(
        "ann",
        &json!([{ "say": "one\n" }, asks("a1", &command, &on_allow)]),
    );
    let open = desk.asked(1);
    let mut logs = Waiter::begin(&desk, &["logs", "-f", "ann"]);
    logs.until("| one");
    let mut events = Waiter::begin(&desk, &["events", "-f", "--json"]);
    let mut wait = Waiter::begin(&desk, &["wait", "ann"]);
    // Two of `logs`, one each of the others, and the one that asks.
    poll("them to be there", || {
        (desk.json(&["status"])["connections"] == 5).then_some(())
    });
    let before = desk.json(&["status"]);
    let agents = desk.processes();
    let (code, said) = desk.text(&["up", "--replace", "--detach"]);
    let after = desk.json(&["status"]);
    let address = after["listen"].as_str().unwrap();
    assert_eq!(
        (code, said),
        (
            Some(0),
            format!(
                "http://{address}\nthe previous host (version {}, pid {}) stopped\n\
                 the host is ready (pid {}); stop it with `countersign down`\n",
                env!("CARGO_PKG_VERSION"),
                before["pid"],
                after["pid"]
            )
        )
    );
    assert_eq!(before["listen"], after["listen"]);
    assert_ne!(before["pid"], after["pid"]);
    assert_eq!((desk.asked(1), desk.processes()), (open.clone(), agents));
    assert_eq!(desk.text(&["approve", &open[0]]).0, Some(0));
    logs.until("| two");
    wait.until("ann is idle");
    assert_eq!(desk.effects(), "once\n");
    let mut numbers = Vec::new();
    for line in events.lines.by_ref() {
        let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
        numbers.push(event["sequence"].as_u64().unwrap());
        if event["kind"] == "turn.ended" {
            break;
        }
    }
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(numbers, sorted, "an event came twice or out of order");
    for follower in [&mut logs.child, &mut events.child] {
        follower.kill().unwrap();
    }
    assert_eq!(
        [logs.said(), events.said(), wait.said()],
        [CAME_BACK, CAME_BACK, CAME_BACK]
    );
}

#[test]
fn what_keeps_a_new_host_from_starting_is_found_before_the_old_one_ends() {
    let desk = Desk::up();
    let pid = desk.pid();
    let (code, said) = desk.text(&["up", "--detach"]);
    assert!(
        code == Some(1) && said.contains("`countersign up --replace`"),
        "{said}"
    );
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let elsewhere = ["up", "--replace", "--detach", "--listen", &taken];
    let place = ["up", "--replace", "--detach"];
    let broken = [
        ("config.toml", "[agents]\nalone_minutes = 0\n"),
        ("rules.toml", "allow = [\n"),
    ];
    let mut refusals = vec![desk.text(&elsewhere)];
    drop(holder);
    for (name, text) in broken {
        let file = desk.home.path().join(name);
        std::fs::write(&file, text).unwrap();
        refusals.push(desk.text(&place));
        std::fs::remove_file(file).unwrap();
    }
    for (code, said) in refusals {
        assert!(
            code == Some(1) && said.contains("the running host was not changed"),
            "{said}"
        );
    }
    assert_eq!(desk.pid(), pid);
}

#[test]
fn where_no_host_runs_replacing_is_starting() {
    let desk = Desk::new();
    let (code, said) = desk.text(&["up", "--replace", "--detach", "--no-listen"]);
    assert!(
        code == Some(0) && said.contains("no host is running; starting one\n"),
        "{said}"
    );
}

#[test]
fn a_host_that_is_told_by_a_signal_leaves_its_agents_and_says_so() {
    let desk = Desk::new();
    let log = desk.home.path().join("stderr.log");
    let mut host = desk.command(&["up", "--no-listen"]);
    let host = host.stderr(std::fs::File::create(&log).unwrap());
    let mut host = host.spawn().unwrap();
    poll("the host", || {
        (desk.text(&["status"]).0 == Some(0)).then_some(())
    });
    desk.spawn("ann", &json!([asks("a1", "make deploy", &json!([]))]));
    let open = desk.asked(1);
    let pid = Pid::from_raw(i32::try_from(host.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(host.wait().unwrap().code(), Some(0));
    let said = std::fs::read_to_string(log).unwrap();
    assert!(
        said.ends_with(&format!("the host has ended\n{ALONE}")),
        "{said}"
    );
    assert_eq!(desk.runners().len(), 1);
    assert_eq!(desk.text(&["up", "--detach", "--no-listen"]).0, Some(0));
    assert_eq!(desk.asked(1), open);
}

#[tokio::test]
async fn a_host_does_not_end_for_words_it_does_not_know() {
    let mut host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let refused = wire
        .reply("host.shutdown", json!({ "agents": "perhaps" }))
        .await;
    assert_eq!(
        refused["error"]["data"]["reason"], "invalid_params",
        "{refused}"
    );
    assert!(host.is_alive());
    assert_eq!(
        wire.ok("host.shutdown", json!({ "agents": "end" })).await,
        json!({ "ok": true })
    );
    poll("its end", || (!host.is_alive()).then_some(()));
}

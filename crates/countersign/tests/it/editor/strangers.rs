//! Clients that others wrote, as they are: `acpx` and the SDKs of TypeScript and Python. The SDKs check
//! each line against the protocol's schema.
//!
//! Each does the same with every agent: a permission that is allowed and one that is denied in a first session, a
//! prompt and a cancelled prompt in a second one, and then the first session is loaded.

mod acpx;
mod real;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use countersign_testkit::real::AcpClient;
use serde_json::{Value, json};

use super::client::scripted;
use crate::host::command;
use crate::managed::{PROGRAM, script};
use crate::scene::{Scene, asks};

/// The programs of a client, or a line that says why it is left out.
fn found(client: AcpClient) -> Option<[PathBuf; 2]> {
    let found = client.find();
    if found.is_none() {
        let required = std::env::var_os("COUNTERSIGN_AGENTS_REQUIRED").is_some();
        assert!(!required, "{client:?} is not there: `make agents`");
        let mut stderr = std::io::stderr().lock();
        writeln!(
            stderr,
            "left out: {client:?} is not in the cache (`make agents`)"
        )
        .unwrap();
    }
    found
}

/// A program with the environment in which it finds the scene's host.
fn program(scene: &Scene, path: &Path) -> Command {
    let known = command(scene.host.home());
    let mut program = Command::new(path);
    for (name, value) in known.get_envs() {
        match value {
            Some(value) => program.env(name, value),
            None => program.env_remove(name),
        };
    }
    program.current_dir(scene.folder());
    program
}

fn ask_script(call: &str) -> String {
    script(&json!([asks(
        call,
        "make all",
        &json!([{ "say": "it ran" }])
    )]))
}

/// What a client is to do, and with which agent.
struct ClientStory {
    /// The agent's command line.
    agent: String,
    /// Allowed, denied, answered with words, and without an end.
    prompts: [String; 4],
    /// Makes the file `begun`, and has no end.
    running: String,
}

impl ClientStory {
    fn scripted(scene: &Scene) -> Self {
        let [_, agent] = scripted(scene);
        let prompts = [
            ask_script("c1"),
            ask_script("c2"),
            script(&json!([{ "say": "beside it" }])),
            script(&json!([{ "say": "working" }, { "sleep_ms": 60_000 }])),
        ];
        Self {
            agent: agent.to_owned(),
            prompts,
            running: script(&json!([{ "run": "touch begun" }, { "sleep_ms": 60_000 }])),
        }
    }

    /// For the drivers of the SDKs.
    fn document(&self, scene: &Scene) -> Value {
        let arguments = ["acp", "--command", &self.agent];
        json!({ "command": PROGRAM, "args": arguments, "cwd": scene.folder(), "prompts": self.prompts })
    }
}

/// What a client of an SDK saw.
struct SeenSession {
    /// What the agent said, before and after the session was loaded.
    said: [String; 2],
    asked: Vec<String>,
    stops: Vec<String>,
}

impl SeenSession {
    fn read(output: &Output) -> Self {
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().last().unwrap_or_default();
        let seen: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!(seen["version"], 1);
        // What they could not read or did not expect, they say there.
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(!complaints.contains("rror"), "{complaints}");
        let texts = |name: &str| -> Vec<String> {
            let texts = seen[name].as_array().unwrap().iter();
            texts.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let said = texts("said");
        let place = said.iter().position(|text| text == "load").unwrap();
        Self {
            said: [said[..place].concat(), said[place + 1..].concat()],
            asked: texts("asked"),
            stops: texts("stops"),
        }
    }
}

/// Has the client of an SDK do a story; nothing if it is not there.
fn run_sdk(client: AcpClient, scene: &Scene, story: &ClientStory) -> Option<SeenSession> {
    let [program_path, library] = found(client)?;
    let driver = match client {
        AcpClient::TypeScriptSdk => "sdk.mjs",
        _ => "sdk.py",
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/editor/strangers");
    let mut driven = program(scene, &program_path);
    driven.arg(folder.join(driver));
    if client == AcpClient::TypeScriptSdk {
        driven.arg(library);
    }
    driven.arg(story.document(scene).to_string());
    Some(SeenSession::read(&driven.output().unwrap()))
}

fn check_scripted(client: AcpClient) {
    let scene = Scene::begin(&[]);
    let Some(seen) = run_sdk(client, &scene, &ClientStory::scripted(&scene)) else {
        return;
    };
    let [before, after] = &seen.said;
    assert_eq!(before, "it ranc2 was deniedbeside itworking");
    assert_eq!(after, "it ranc2 was denied");
    assert_eq!(seen.asked, ["Bash: make all", "Bash: make all"]);
    let stops = ["end_turn", "end_turn", "end_turn", "cancelled"];
    assert_eq!(seen.stops, stops);
}

#[test]
fn the_client_of_the_typescript_sdk_runs_a_session() {
    check_scripted(AcpClient::TypeScriptSdk);
}

#[test]
fn the_client_of_the_python_sdk_runs_a_session() {
    check_scripted(AcpClient::PythonSdk);
}

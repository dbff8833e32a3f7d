//! Clients that others wrote, as they are: `acpx` and the SDKs of TypeScript and Python. The SDKs check
//! each line against the protocol's schema.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use countersign_testkit::real::AcpClient;
use serde_json::{Value, json};

use super::client::scripted;
use crate::host::command;
use crate::managed::{PROGRAM, script};
use crate::scene::{Scene, asks};

/// The programs of a client, or a line that says why it is left out.
fn found(client: AcpClient) -> Option<[std::path::PathBuf; 2]> {
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

/// What a client of an SDK is to do.
fn story(scene: &Scene) -> Value {
    let arguments = [&["acp"] as &[&str], &scripted(scene)].concat();
    let prompts = [
        ask_script("c1"),
        ask_script("c2"),
        script(&json!([{ "say": "beside it" }])),
        script(&json!([{ "say": "working" }, { "sleep_ms": 60_000 }])),
    ];
    json!({ "command": PROGRAM, "args": arguments, "cwd": scene.folder(), "prompts": prompts })
}

fn check(output: &Output) {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default();
    let seen: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{output:?}"));
    let said: Vec<&str> = seen["said"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let told = said.concat();
    let expected = "it ranc2 was deniedbeside itworkingloadit ranc2 was denied";
    assert_eq!(told, expected, "{output:?}");
    assert_eq!(seen["asked"], json!(["Bash: make all", "Bash: make all"]));
    assert_eq!(
        seen["stops"],
        json!(["end_turn", "end_turn", "end_turn", "cancelled"])
    );
    assert_eq!(seen["version"], 1);
    // What they could not read or did not expect, they say there.
    let complaints = String::from_utf8_lossy(&output.stderr);
    let is_quiet = !complaints.contains("rror");
    assert!(is_quiet, "{complaints}");
}

#[test]
fn the_client_of_the_typescript_sdk_runs_a_session() {
    let Some([node, library]) = found(AcpClient::TypeScriptSdk) else {
        return;
    };
    let scene = Scene::begin(&[]);
    let driver = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/it/editor/strangers/sdk.mjs"
    );
    let mut client = program(&scene, &node);
    client
        .arg(driver)
        .arg(library)
        .arg(story(&scene).to_string());
    check(&client.output().unwrap());
}

#[test]
fn the_client_of_the_python_sdk_runs_a_session() {
    let Some([python, _]) = found(AcpClient::PythonSdk) else {
        return;
    };
    let scene = Scene::begin(&[]);
    let driver = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/it/editor/strangers/sdk.py"
    );
    let mut client = program(&scene, &python);
    client.arg(driver).arg(story(&scene).to_string());
    check(&client.output().unwrap());
}

/// What `acpx` printed, and its exit code.
fn acpx(scene: &Scene, programs: &[std::path::PathBuf; 2], policy: &str) -> (Option<i32>, String) {
    let home = tempfile::tempdir().unwrap();
    let [flag, line] = scripted(scene);
    let agent = format!("'{PROGRAM}' acp {flag} \"{line}\"");
    let mut client = program(scene, &programs[0]);
    client
        .arg(&programs[1])
        .args([policy, "--timeout", "60", "--agent", &agent, "exec"])
        .arg(ask_script("c1"))
        .env("HOME", home.path());
    let output = client.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn acpx_allows_only_where_automatic_answers_are_trusted_and_denies_everywhere() {
    let Some(programs) = found(AcpClient::Acpx) else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let config = "[editor]\nautomatic = \"allow\"\n";
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    let scene = Scene::begin_in(home, &[]);
    let (code, text) = acpx(&scene, &programs, "--approve-all");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("it ran"), "{text}");
    let (code, text) = acpx(&scene, &programs, "--deny-all");
    assert_eq!(code, Some(5), "{text}");
    assert!(text.contains("c1 was denied"), "{text}");
}

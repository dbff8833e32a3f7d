//! What an agent leaves in its runner's folder, or takes from there.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{apart, asking, folders, holds_detached, kill, left, lives, noted, row, runner_of};
use crate::host::poll;
use crate::scene::{Scene, rested};
use crate::wire::Wire;

/// Last words as a runner would write them, save for what is said.
fn words(from: u64, said: &str, written: &Value) -> Vec<u8> {
    let head = json!({
        "from": from, "bytes": said.len(), "exit": { "code": 0, "signal": null }, "why": null,
        "log": "", "written": written, "claimed": [],
    });
    format!("{head}\n{said}").into_bytes()
}

fn put(path: &Path, bytes: &[u8]) {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).mode(0o600).open(path);
    file.as_mut().unwrap().write_all(bytes).unwrap();
}

/// Puts something in the place of last words.
fn forge(kind: usize, path: &Path) {
    let line = "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{}}\n";
    match kind {
        0 => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        1 => fs::create_dir(path).unwrap(),
        2 => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        3 => put(path, b"garbage"),
        4 => put(path, &words(u64::MAX - 4, line, &json!([]))),
        _ => put(path, &words(0, line, &json!([[{ "line": 1 }, "allow"]]))),
    }
}

#[tokio::test]
async fn whatever_lies_in_the_place_of_last_words_keeps_no_host_from_starting() {
    let mut scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let mut agents = Vec::new();
    for kind in 0..6 {
        let (id, ask) = asking(&scene, &mut wire, &format!("agent{kind}")).await;
        agents.push((id, ask));
    }
    scene.host.kill();
    for (kind, (id, _)) in agents.iter().enumerate() {
        let (folder, runner) = runner_of(&scene, id);
        kill(runner);
        forge(kind, &folder.join("exit-report"));
    }
    scene.host.start_disarmed();
    let mut wire = Wire::subscriber(&scene.host).await;
    for (id, ask) in &agents {
        let agent = rested(&mut wire, id).await;
        let state = agent["state"].as_str().unwrap();
        assert!(["stopped", "error"].contains(&state), "{agent}");
        assert!(agent["managed"]["message"].is_string(), "{agent}");
        let params = json!({ "approval_id": ask });
        let ask = wire.ok("host.approval", params).await;
        assert_eq!(ask["state"], "cancelled", "{ask}");
    }
    assert_eq!(scene.described(), Vec::<String>::new());
    assert_eq!(scene.effects(), Vec::<String>::new());
    let home = scene.host.home();
    poll("their folders to be cleared", || {
        left(home).is_empty().then_some(())
    });
}

/// An agent with a process apart that, when it is told so, forges its last words and kills its runner.
async fn forger(scene: &Scene, wire: &mut Wire) -> Value {
    let clears = holds_detached(wire).await;
    let (pid, go, act) = (scene.path("pid"), scene.path("go"), scene.path("act"));
    let script = format!("echo $$ > {pid}\nuntil [ -e {go} ]; do sleep 0.01; done\n. {act}\n");
    fs::write(scene.path("forger"), script).unwrap();
    let line = apart(&scene.path("forger"), clears);
    let steps = json!([{ "run": line }, { "run": "sleep 1000" }]);
    scene.spawn(wire, "ann", &steps).await
}

/// What it does then.
fn act(scene: &Scene, agent: &Value) {
    let (folder, runner) = runner_of(scene, agent);
    fs::write(
        scene.path("words"),
        words(0, "", &json!([[{ "line": 1 }, "allow"]])),
    )
    .unwrap();
    let act = format!(
        "umask 077\ncp {} {}/exit-report\nkill -9 {}\nexec sleep 1000\n",
        scene.path("words"),
        folder.display(),
        runner.as_raw_nonzero()
    );
    fs::write(scene.path("act"), act).unwrap();
}

#[tokio::test]
async fn an_agent_that_kills_its_runner_is_swept_whatever_it_says_of_its_end() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = forger(&scene, &mut wire).await;
    let escaped = noted(&scene.path("pid"));
    act(&scene, &id);
    fs::write(scene.path("go"), "").unwrap();
    let agent = rested(&mut wire, &id).await;
    assert_eq!(agent["state"], "error", "{agent}");
    assert!(!lives(escaped), "it outlived its agent");
    assert_eq!(scene.described(), Vec::<String>::new());
    let home = scene.host.home();
    poll("its folder to be cleared", || {
        left(home).is_empty().then_some(())
    });
}

#[tokio::test]
async fn an_agent_that_kills_its_runner_while_no_host_is_there_is_swept_by_the_next() {
    let mut scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = forger(&scene, &mut wire).await;
    let escaped = noted(&scene.path("pid"));
    act(&scene, &id);
    let (_, runner) = runner_of(&scene, &id);
    scene.host.kill();
    fs::write(scene.path("go"), "").unwrap();
    poll("the runner to end", || (!lives(runner)).then_some(()));
    scene.host.start_disarmed();
    let mut wire = Wire::subscriber(&scene.host).await;
    let agent = rested(&mut wire, &id).await;
    assert_eq!(agent["state"], "error", "{agent}");
    assert!(!lives(escaped), "it outlived its agent");
    assert_eq!(scene.described(), Vec::<String>::new());
}

#[tokio::test]
async fn an_agent_without_a_record_is_ended_with_the_others() {
    let mut scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let (id, _) = asking(&scene, &mut wire, "ann").await;
    let (folder, runner) = runner_of(&scene, &id);
    scene.host.kill();
    fs::remove_file(folder.join("record.json")).unwrap();
    let home = scene.host.home();
    let ended = "no host is running; ended 1 agent\n";
    assert_eq!(
        super::say(home, &["down", "--all"]),
        (Some(0), ended.to_owned())
    );
    assert!(!lives(runner));
    assert_eq!(scene.described(), Vec::<String>::new());
    scene.host.start_disarmed();
    let mut wire = Wire::subscriber(&scene.host).await;
    assert_eq!(row(&mut wire, &id).await["state"], "stopped");
    assert_eq!(folders(scene.host.home()), Vec::<std::path::PathBuf>::new());
}

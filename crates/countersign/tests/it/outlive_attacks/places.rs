//! Files that are copied, folders that vanish, runners that stand still, and hosts that never come.

use std::fs;
use std::process::Command;

use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::{apart, approve, asking, folders, left, lives, noted, row, runner_of, say, sockets};
use crate::host::{command, poll};
use crate::scene::{Scene, rested};
use crate::wire::Wire;

#[tokio::test]
async fn a_host_on_copied_files_leaves_the_agents_to_the_one_that_runs_them() {
    let scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let (id, ask) = asking(&scene, &mut wire, "ann").await;
    let (_, runner) = runner_of(&scene, &id);
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("copy");
    let copied = Command::new("cp")
        .arg("-a")
        .args([scene.host.home(), &copy])
        .output();
    assert!(copied.unwrap().status.success());
    let (code, said) = say(&copy, &["up", "--detach", "--no-listen"]);
    assert_eq!(code, Some(0), "{said}");
    let listed = command(&copy)
        .args(["ls", "--all", "--json"])
        .output()
        .unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["agents"][0]["state"], "stopped", "{listed}");
    let (code, said) = say(&copy, &["down", "--all"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = say(&copy, &["down", "--all"]);
    let none = "no host and no agent is running\n";
    assert_eq!((code, said), (Some(0), none.to_owned()));
    assert!(lives(runner));
    let reply = approve(&mut wire, &ask).await;
    assert!(reply.get("result").is_some(), "{reply}");
    assert_eq!(rested(&mut wire, &id).await["state"], "idle");
    assert_eq!(scene.effects(), ["ann"]);
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn runners_are_found_again_after_the_folder_of_their_sockets_vanished() {
    let mut scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let (id, ask) = asking(&scene, &mut wire, "ann").await;
    scene.host.kill();
    fs::remove_dir_all(scene.host.home().join("run")).unwrap();
    scene.host.start_disarmed();
    let mut wire = Wire::subscriber(&scene.host).await;
    assert_eq!(row(&mut wire, &id).await["state"], "awaiting_permission");
    let reply = approve(&mut wire, &ask).await;
    assert!(reply.get("result").is_some(), "{reply}");
    assert_eq!(rested(&mut wire, &id).await["state"], "idle");
    assert_eq!(scene.effects(), ["ann"]);
    scene.end_all(&mut wire).await;
    let home = scene.host.home();
    poll("its folder to be cleared", || {
        left(home).is_empty().then_some(())
    });
}

#[tokio::test]
async fn an_agent_whose_runner_stands_still_is_ended_in_words() {
    let mut scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let (id, ask) = asking(&scene, &mut wire, "ann").await;
    let (_, runner) = runner_of(&scene, &id);
    kill_process(runner, Signal::STOP).unwrap();
    scene.host.restart();
    let mut wire = Wire::subscriber(&scene.host).await;
    let agent = rested(&mut wire, &id).await;
    let message = agent["managed"]["message"].as_str().unwrap();
    assert!(message.contains("it does not answer"), "{agent}");
    assert_eq!(agent["state"], "stopped", "{agent}");
    let params = json!({ "approval_id": ask });
    let ask = wire.ok("host.approval", params).await;
    assert_eq!(ask["state"], "cancelled", "{ask}");
    assert!(!lives(runner));
    assert_eq!(scene.described(), Vec::<String>::new());
    assert_eq!(scene.effects(), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_left_of_an_agent_for_which_no_host_came() {
    let mut scene = Scene::begin(&[("COUNTERSIGN_RUNNER_PATIENCE_MS", "3000")]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let pid = scene.path("pid");
    fs::write(
        scene.path("daemon"),
        format!("echo $$ > {pid}; exec sleep 1000"),
    )
    .unwrap();
    let line = apart(&scene.path("daemon"), true);
    let steps = json!([{ "say": "before" }, { "run": line }, { "run": "sleep 1000" }]);
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    let daemon = noted(&pid);
    let (folder, runner) = runner_of(&scene, &id);
    scene.host.kill();
    poll("the runner to give up", || (!lives(runner)).then_some(()));
    assert!(!lives(daemon));
    assert_eq!(scene.described(), Vec::<String>::new());
    assert_eq!(sockets(scene.host.home()), Vec::<std::path::PathBuf>::new());
    assert_eq!(folders(scene.host.home()), [folder]);
    scene.host.start_disarmed();
    let mut wire = Wire::subscriber(&scene.host).await;
    let agent = rested(&mut wire, &id).await;
    let message = agent["managed"]["message"].as_str().unwrap();
    assert!(message.contains("no host came for 3 seconds"), "{message}");
    assert_eq!(crate::scene::told(&mut wire, &id).await, "beforeran: ");
    let home = scene.host.home();
    poll("its folder to be cleared", || {
        left(home).is_empty().then_some(())
    });
}

#[tokio::test]
async fn a_host_that_may_open_too_few_files_ends_nobody() {
    let mut scene = Scene::begin(&[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let (id, ask) = asking(&scene, &mut wire, "ann").await;
    scene.host.kill();
    let up = command(scene.host.home());
    let mut bounded = Command::new("sh");
    bounded
        .args(["-c", "ulimit -n 50; exec \"$@\"", "sh"])
        .arg(up.get_program())
        .args(["up", "--no-listen"])
        .env("COUNTERSIGN_HOME", scene.host.home());
    let ended = bounded.output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    let words = "1 agents were left running, and with 50 open files";
    assert!(!ended.status.success() && said.contains(words), "{said}");
    scene.host.start_disarmed();
    let mut wire = Wire::subscriber(&scene.host).await;
    let reply = approve(&mut wire, &ask).await;
    assert!(reply.get("result").is_some(), "{reply}");
    assert_eq!(rested(&mut wire, &id).await["state"], "idle");
    assert_eq!(scene.effects(), ["ann"]);
    scene.end_all(&mut wire).await;
}

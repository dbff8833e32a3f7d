//! Files outside of a sandbox's roots, on the real binary: a program that opens one waits in its system call, and
//! what somebody decides is what it gets.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::host::{DEFAULT_SANDBOX, poll};
use crate::scene::{Scene, answer_next, next_ask, rested, told};
use crate::wire::Wire;

/// A folder that is in no root, with a file.
struct OutsideFolder {
    folder: TempDir,
}

impl OutsideFolder {
    fn create() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::write(folder.path().join("file"), "as it was\n").unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn word(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The names in it.
    fn list(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

/// A scene whose agents may run every command, with these other rules.
fn begin(rules: &[String], config: &str) -> Scene {
    let home = tempfile::tempdir().unwrap();
    let rules: Vec<_> = rules.iter().map(|rule| format!(", {rule:?}")).collect();
    let rules = format!("allow = [\"Bash\"{}]\n", rules.concat());
    fs::write(home.path().join("rules.toml"), rules).unwrap();
    fs::write(home.path().join("config.toml"), config).unwrap();
    Scene::begin_in(home, &[DEFAULT_SANDBOX])
}

/// Says how a command ended and why.
fn tried(line: &str) -> Value {
    json!({ "run": format!("if {{ {line}; }} 2>&1; then echo DONE; else echo STOPPED; fi") })
}

/// What came of each `tried` line, in its order.
fn outcomes(said: &str) -> Vec<&str> {
    said.split(|letter: char| !letter.is_ascii_uppercase())
        .filter(|word| ["DONE", "STOPPED"].contains(word))
        .collect()
}

fn wait_for(path: &str) {
    poll("a file of the agent", || {
        Path::new(path).exists().then_some(())
    });
}

async fn resolve(wire: &mut Wire, ask: &Value, resolution: &str) {
    let params = json!({ "approval_id": ask["id"], "resolution": resolution });
    wire.ok("host.resolve_approval", params).await;
}

/// Waits until the runner was told of a decision.
async fn until_delivered(wire: &mut Wire, ask: &Value) {
    let params = json!({ "approval_id": ask["id"] });
    while wire.ok("host.approval", params.clone()).await["delivery"] != "delivered" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_person_decides_about_files_and_folders_outside() {
    let outside = OutsideFolder::create();
    let scene = begin(&[], "");
    let (file, new, folder) = (
        outside.word("file"),
        outside.word("new"),
        outside.word("made"),
    );
    let terminal = json!({ "terminal": {
        "command": "sh", "args": ["-c", format!("umask 027; echo made > {new}")],
    } });
    let steps = json!([
        tried(&format!("printf more | tee -a {file}")),
        terminal,
        tried(&format!("mkdir -m 750 {folder}")),
        tried(&format!("echo lost > {file}")),
    ]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    let ask = answer_next(&mut wire, "approve").await;
    assert_eq!(
        (&ask["tool"], &ask["input"], &ask["details"]),
        (
            &json!("Write"),
            &json!({ "file_path": file }),
            &json!({ "held_by": "sandbox", "process": format!("tee -a {file}") })
        ),
        "{ask}"
    );
    assert_eq!(
        ask["action"],
        json!(format!("Write {file} (held by the sandbox)"))
    );
    // What rules and people see of the command is another ask.
    let ask = answer_next(&mut wire, "approve").await;
    assert_eq!(ask["tool"], "Bash", "{ask}");
    let ask = answer_next(&mut wire, "approve").await;
    assert_eq!(ask["input"], json!({ "file_path": new }), "{ask}");
    let ask = answer_next(&mut wire, "approve").await;
    assert_eq!(
        ask["action"],
        json!(format!("Make the folder {folder} (held by the sandbox)"))
    );
    answer_next(&mut wire, "deny").await;
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    assert_eq!(outcomes(&said), ["DONE", "DONE", "STOPPED"], "{said}");
    assert!(said.contains("Permission denied"), "{said}");
    assert_eq!(outside.read("file"), "as it was\nmore");
    assert_eq!(outside.read("new"), "made\n");
    let mode = |name: &str| {
        fs::metadata(outside.path(name))
            .unwrap()
            .permissions()
            .mode()
    };
    assert_eq!([mode("new"), mode("made")], [0o100_640, 0o040_750]);
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_rule_decides_without_a_person_and_what_cannot_be_judged_fails_at_once() {
    let outside = OutsideFolder::create();
    let allowed = outside.word("allowed");
    let scene = begin(&[format!("Edit(/{allowed})")], "");
    let fifo = outside.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
    let folder = scene.folder();
    fs::create_dir_all(folder.join(".git/hooks")).unwrap();
    let database = scene.host.home().join("countersign.db");
    let lines = [
        (format!("echo x > {allowed}"), "DONE"),
        (format!("echo more >> {allowed}"), "DONE"),
        (format!("echo x > {}", fifo.display()), "STOPPED"),
        (format!("echo x > {}", outside.word("")), "STOPPED"),
        (format!("mkdir {}", outside.word("")), "STOPPED"),
        (format!("echo x > {}", outside.word("none/x")), "STOPPED"),
        (format!("set -C; echo x > {allowed}"), "STOPPED"),
        (format!("echo x > {}", database.display()), "STOPPED"),
        ("echo x > .git/hooks/pre-commit".to_owned(), "STOPPED"),
        ("echo x > /dev/null".to_owned(), "DONE"),
        ("echo x > /proc/sys/kernel/hostname".to_owned(), "STOPPED"),
        ("echo x > inside && echo y > /tmp/own".to_owned(), "DONE"),
    ];
    let steps: Vec<_> = lines.iter().map(|(line, _)| tried(line)).collect();
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = scene.spawn(&mut wire, "ann", &json!(steps)).await;
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    let expected: Vec<_> = lines.iter().map(|(_, outcome)| *outcome).collect();
    assert_eq!(outcomes(&said), expected, "{said}");
    assert_eq!(outside.read("allowed"), "x\nmore\n");
    assert_eq!(outside.list(), ["allowed", "file", "pipe"]);
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn an_allow_that_comes_too_late_counts_for_the_next_try_once() {
    let outside = OutsideFolder::create();
    let scene = begin(&[], "[sandbox.work]\nhold = \"1s\"\n");
    let file = outside.word("file");
    let (first, go) = (scene.path("first"), scene.path("go"));
    let steps = json!([
        tried(&format!("echo one >> {file}")),
        { "run": format!("echo > {first}; until test -e {go}; do sleep 0.05; done") },
        tried(&format!("echo two >> {file}")),
        tried(&format!("echo three >> {file}")),
    ]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    let ask = next_ask(&mut wire).await;
    wait_for(&first);
    resolve(&mut wire, &ask, "approve").await;
    until_delivered(&mut wire, &ask).await;
    fs::write(&go, "").unwrap();
    let again = answer_next(&mut wire, "deny").await;
    assert_ne!(again["id"], ask["id"]);
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    assert_eq!(outcomes(&said), ["STOPPED", "DONE", "STOPPED"], "{said}");
    assert!(said.contains("timed out"), "{said}");
    assert_eq!(outside.read("file"), "as it was\ntwo\n");
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn the_next_host_answers_what_waits_when_a_host_is_killed() {
    let outside = OutsideFolder::create();
    let mut scene = begin(&[], "");
    let (file, new) = (outside.word("file"), outside.word("new"));
    let steps = json!([
        tried(&format!("echo more >> {file}")),
        tried(&format!("echo x > {new}")),
    ]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    let ask = next_ask(&mut wire).await;
    drop(wire);
    scene.host.restart();
    let mut wire = Wire::subscriber(&scene.host).await;
    resolve(&mut wire, &ask, "approve").await;
    let second = answer_next(&mut wire, "deny").await;
    assert_eq!(second["input"], json!({ "file_path": new }), "{second}");
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    assert_eq!(outcomes(&said), ["DONE", "STOPPED"], "{said}");
    assert_eq!(outside.read("file"), "as it was\nmore\n");
    assert_eq!(outside.list(), ["file"]);
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn nothing_is_written_and_nothing_left_when_a_runner_is_killed() {
    let outside = OutsideFolder::create();
    let scene = begin(&[], "");
    let file = outside.word("file");
    let steps = json!([tried(&format!("(echo x > {file}); echo y > {file}")),]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    next_ask(&mut wire).await;
    let [runner] = scene.runners()[..] else {
        panic!("{:?}", scene.runners())
    };
    kill_process(Pid::from_raw(runner).unwrap(), Signal::KILL).unwrap();
    poll("the processes of the agent to end", || {
        scene.processes().is_empty().then_some(())
    });
    rested(&mut wire, &id).await;
    assert_eq!(outside.read("file"), "as it was\n");
    scene.end_all(&mut wire).await;
}

#[tokio::test]
async fn a_flood_of_opens_becomes_a_few_asks() {
    let outside = OutsideFolder::create();
    let scene = begin(&[], "");
    let folder = outside.word("");
    let flood = format!(
        "for n in $(seq 60); do (echo x > {folder}$n; echo ended >> ended) & done; wait; wc -l < ended"
    );
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = scene
        .spawn(&mut wire, "ann", &json!([{ "run": flood }]))
        .await;
    let mut asks = Vec::new();
    while asks.len() < 32 {
        asks.push(next_ask(&mut wire).await);
    }
    // All others have failed; what is inside of the roots does not wait for them.
    let ended = scene.path("ended");
    poll("the rest to fail", || {
        let text = fs::read_to_string(&ended).unwrap_or_default();
        (text.lines().count() == 28).then_some(())
    });
    for ask in &asks {
        resolve(&mut wire, ask, "deny").await;
    }
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    assert!(said.contains("ran: 60"), "{said}");
    assert_eq!(outside.list(), ["file"]);
    let params = json!({ "status": "resolved", "agent_id": id });
    let all = wire.ok("host.approvals", params).await;
    let writes = all.as_array().unwrap().iter();
    let writes = writes.filter(|ask| ask["tool"] == "Write");
    assert_eq!(writes.count(), 32);
    scene.end_all(&mut wire).await;
}

/// The link is in a root, so the agent can change it; the folder of the other file is not.
#[tokio::test]
async fn a_link_that_is_swapped_while_it_is_judged_changes_nothing() {
    let outside = OutsideFolder::create();
    fs::write(outside.path("other"), "other\n").unwrap();
    let scene = begin(&[], "");
    let (go, swapped) = (scene.path("go"), scene.path("swapped"));
    let (file, other) = (outside.word("file"), outside.word("other"));
    let line = format!(
        "ln -s {file} link; ln -s {} folder; \
         (until test -e {go}; do sleep 0.05; done; ln -sfn {other} link; echo > {swapped}) & \
         echo more >> link; wait",
        outside.word("")
    );
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = scene.spawn(&mut wire, "ann", &json!([tried(&line)])).await;
    let ask = next_ask(&mut wire).await;
    assert_eq!(ask["input"], json!({ "file_path": file }), "{ask}");
    fs::write(&go, "").unwrap();
    wait_for(&swapped);
    resolve(&mut wire, &ask, "approve").await;
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    assert_eq!(outcomes(&said), ["DONE"], "{said}");
    assert_eq!(
        (outside.read("file"), outside.read("other")),
        ("as it was\nmore\n".to_owned(), "other\n".to_owned())
    );
    scene.end_all(&mut wire).await;
}

/// Whoever else may write there could put another file in the place of the one that was judged.
#[tokio::test]
async fn a_file_that_is_replaced_while_it_is_judged_is_not_opened() {
    let outside = OutsideFolder::create();
    fs::write(outside.path("other"), "other\n").unwrap();
    let scene = begin(&[], "");
    let (file, new) = (outside.word("file"), outside.word("new"));
    let steps = json!([
        tried(&format!("echo more >> {file}")),
        tried(&format!("echo more >> {new}")),
    ]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = scene.spawn(&mut wire, "ann", &steps).await;
    let ask = next_ask(&mut wire).await;
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(outside.path("other"), &file).unwrap();
    resolve(&mut wire, &ask, "approve").await;
    let ask = next_ask(&mut wire).await;
    std::os::unix::fs::symlink(outside.path("other"), &new).unwrap();
    resolve(&mut wire, &ask, "approve").await;
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    assert_eq!(outcomes(&said), ["STOPPED", "STOPPED"], "{said}");
    assert_eq!(outside.read("other"), "other\n");
    scene.end_all(&mut wire).await;
}

/// Commands whose text once led the rules to another conclusion than the shell, where every rule allows them.
#[tokio::test]
async fn commands_that_fooled_the_rules_write_nothing_outside_that_a_person_denied() {
    let outside = OutsideFolder::create();
    let folder = outside.word("");
    let scene = begin(&["Edit(**)".to_owned(), "Read(**)".to_owned()], "");
    let lines = [
        format!("rm -f {folder}*"),
        format!("ln -s {folder} l && rm -f l/file"),
        format!("echo x > file && tar -cf t.tar file && tar -C {folder} -xf t.tar"),
        format!("grep -- . file > {folder}file"),
        format!("sort -o {folder}file file"),
        format!("sed -i s/a/b/ {folder}file"),
        format!("find {folder} -name file -delete"),
        format!("cp -r . {folder}copy"),
        format!("git -C {folder} init -q"),
        format!("awk 'BEGIN {{ print > \"{folder}file\" }}'"),
    ];
    let steps: Vec<_> = lines.iter().map(|line| tried(line)).collect();
    let mut wire = Wire::subscriber(&scene.host).await;
    let id = scene.spawn(&mut wire, "ann", &json!(steps)).await;
    loop {
        let event = wire.event().await;
        match event["kind"].as_str() {
            Some("approval.requested") => {
                let params = json!({ "approval_id": event["payload"]["id"], "resolution": "deny" });
                // A rule may have been faster.
                wire.reply("host.resolve_approval", params).await;
            }
            Some("turn.ended") => break,
            _ => {}
        }
    }
    rested(&mut wire, &id).await;
    let said = told(&mut wire, &id).await;
    let expected: Vec<_> = lines.iter().map(|_| "STOPPED").collect();
    assert_eq!(outcomes(&said), expected, "{said}");
    assert_eq!(outside.list(), ["file"]);
    assert_eq!(outside.read("file"), "as it was\n");
    scene.end_all(&mut wire).await;
}

//! Files of the record that are removed, replaced or cut short under a running host: no answer is
//! acknowledged that the next host would not know, and what was acknowledged can be rescued.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use serde_json::{Value, json};

use crate::host::{Host, command, poll};
use crate::http::{Rest, http};
use crate::scene::{Scene as Stage, asks, next_ask, rested, told};
use crate::wire::Wire;

/// A host with one ask that was allowed and one that is open and waited for by a script.
struct Scene {
    host: Host,
    ask: Child,
    open: String,
    /// How many events were acknowledged before anything was lost.
    events: u64,
}

fn run(home: &Path, words: &[&str]) -> Output {
    command(home).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn status(host: &Host) -> Value {
    let mut wire = Wire::unix(&host.socket()).await;
    wire.ok("host.status", json!({})).await
}

impl Scene {
    async fn new() -> Self {
        let host = Host::start();
        // Once the record is lost, no token is made any more.
        host.token();
        let mut wire = Wire::unix(&host.socket()).await;
        let params = json!({ "action": "first", "system_level": true });
        let id = wire.ok("host.request_approval", params).await["id"].take();
        let params = json!({ "approval_id": id, "resolution": "approve" });
        wire.ok("host.resolve_approval", params).await;
        let ask = command(host.home())
            .args(["ask", "second", "--key", "second"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let open = poll("the ask", || {
            let inbox = run(host.home(), &["inbox", "--json"]);
            let inbox: Value = serde_json::from_slice(&inbox.stdout).unwrap();
            inbox["approvals"][0]["id"].as_str().map(str::to_owned)
        });
        let events = status(&host).await["event_sequence"].as_u64().unwrap();
        Self {
            host,
            ask,
            open,
            events,
        }
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.host.home().join(format!("countersign.db{suffix}"))
    }

    fn run(&self, words: &[&str]) -> Output {
        run(self.host.home(), words)
    }

    /// Nothing is acknowledged, allowed or made any more, and every screen says why.
    async fn assert_everything_is_refused(&mut self) {
        let answered = self.run(&["approve", &self.open]);
        assert_ne!(answered.status.code(), Some(0), "{answered:?}");
        let mut wire = Wire::unix(&self.host.socket()).await;
        let id = self.open.as_str();
        for (method, params) in [
            (
                "host.resolve_approval",
                json!({ "approval_id": id, "resolution": "approve" }),
            ),
            (
                "host.request_approval",
                json!({ "action": "x", "system_level": true }),
            ),
            ("host.ask_question", json!({ "question": "?" })),
            ("host.notify", json!({ "message": "m" })),
            ("host.create_token", json!({ "role": "operator" })),
            ("host.register_agent", json!({ "name": "a" })),
            (
                "host.spawn_agent",
                json!({ "name": "scripted", "command": ["true"], "cwd": "/tmp" }),
            ),
            ("host.stop_all", json!({})),
        ] {
            let error = wire.no(method, params).await;
            assert_eq!(
                error["data"]["reason"], "store_unavailable",
                "{method}: {error}"
            );
        }
        assert_ne!(self.run(&["ask", "third"]).status.code(), Some(0));
        assert_eq!(self.ask.try_wait().unwrap(), None, "the script waits on");
        self.assert_told_everywhere().await;
    }

    async fn assert_told_everywhere(&self) {
        let hint = "countersign audit rescue";
        let seen = status(&self.host).await;
        assert_eq!(seen["record_lost"], true);
        assert!(
            seen["store_error"].as_str().unwrap().contains(hint),
            "{seen}"
        );
        let doctor = self.run(&["doctor"]);
        assert_eq!(doctor.status.code(), Some(1));
        assert!(text(&doctor.stdout).contains(hint), "{doctor:?}");
        assert!(text(&self.run(&["status"]).stdout).contains("RECORD LOST"));
        let inbox = self.run(&["inbox"]);
        assert!(text(&inbox.stderr).contains(hint), "{inbox:?}");
        let mut watch = Wire::unix(&self.host.socket()).await;
        let snapshot = watch.reply("host.subscribe", json!({})).await;
        assert!(snapshot.to_string().contains(hint), "{snapshot}");
        let rest = Rest {
            address: &self.host.address,
            token: &self.host.token(),
        };
        let path = format!("/api/v1/approvals/{}/resolution", self.open);
        let answer = rest
            .send("POST", &path, json!({ "resolution": "approve" }))
            .await;
        assert_eq!(answer.refusal(), (503, "store_unavailable".to_owned()));
        assert!(answer.body.contains(hint), "{}", answer.body);
        let read = rest.get("/api/v1/status").await;
        assert_eq!(
            (read.status, read.header("countersign-record")),
            (200, Some("lost"))
        );
        let health = http(&self.host.address, "GET", "/healthz", &[], "").await;
        assert_eq!(health.status, 503);
    }

    /// Rescues, puts the file in place as the command says, and finds everything that was acknowledged.
    async fn restore_rescued_record(mut self) {
        let target = self.host.home().join("rescued.db");
        let words = ["audit", "rescue", target.to_str().unwrap()];
        let rescued = self.run(&[&words[..], &["--json"]].concat());
        assert_eq!(rescued.status.code(), Some(0), "{rescued:?}");
        let rescued: Value = serde_json::from_slice(&rescued.stdout).unwrap();
        assert_eq!(rescued["events"], self.events, "{rescued}");
        let again = self.run(&words);
        assert_ne!(again.status.code(), Some(0), "nothing is overwritten");
        self.host.stop();
        for suffix in ["", "-wal", "-shm"] {
            drop(fs::remove_file(self.path(suffix)));
        }
        fs::rename(&target, self.path("")).unwrap();
        let head = rescued["head"].as_str().unwrap();
        let verified = self.run(&["audit", "verify", "--head", head]);
        assert_eq!(verified.status.code(), Some(0), "{verified:?}");
        self.host.start_again();
        let mut wire = Wire::unix(&self.host.socket()).await;
        let rows = wire.ok("host.approvals", json!({})).await;
        let states: Vec<_> = rows
            .as_array()
            .unwrap()
            .iter()
            .map(|row| &row["state"])
            .collect();
        assert_eq!(states, ["pending", "allowed"]);
        // The script found the next host by itself, and still waits for its one ask.
        let params = json!({ "approval_id": self.open, "resolution": "approve" });
        wire.ok("host.resolve_approval", params).await;
        let ended = poll("the script", || self.ask.try_wait().unwrap());
        assert_eq!(ended.code(), Some(0));
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Fails only if it has ended already.
        drop(self.ask.kill());
        drop(self.ask.wait());
    }
}

#[tokio::test]
async fn removed_record_acknowledges_nothing_and_is_rescued() {
    let mut scene = Scene::new().await;
    // As `rm countersign.db*` does.
    for suffix in ["", "-wal", "-shm", ".lock"] {
        fs::remove_file(scene.path(suffix)).unwrap();
    }
    scene.assert_everything_is_refused().await;
    scene.restore_rescued_record().await;
}

#[tokio::test]
async fn record_under_another_file_acknowledges_nothing_and_is_rescued() {
    let mut scene = Scene::new().await;
    let other = Host::start();
    let taken = scene.host.home().join("other.db");
    fs::copy(other.home().join("countersign.db"), &taken).unwrap();
    fs::rename(&taken, scene.path("")).unwrap();
    scene.assert_everything_is_refused().await;
    scene.restore_rescued_record().await;
}

#[tokio::test]
async fn each_lost_file_beside_the_database_is_found_out_and_rescued() {
    for suffix in ["-wal", "-shm"] {
        let mut scene = Scene::new().await;
        fs::remove_file(scene.path(suffix)).unwrap();
        scene.assert_everything_is_refused().await;
        scene.restore_rescued_record().await;
    }
}

#[tokio::test]
async fn replaced_write_ahead_log_is_found_out_and_rescued() {
    let mut scene = Scene::new().await;
    let copy = scene.host.home().join("copy");
    fs::copy(scene.path("-wal"), &copy).unwrap();
    fs::rename(&copy, scene.path("-wal")).unwrap();
    scene.assert_everything_is_refused().await;
    scene.restore_rescued_record().await;
}

#[tokio::test]
async fn cut_write_ahead_log_is_found_out_and_rescued() {
    for part in [0, 2] {
        let mut scene = Scene::new().await;
        let log = fs::OpenOptions::new()
            .write(true)
            .open(scene.path("-wal"))
            .unwrap();
        let length = log.metadata().unwrap().len();
        log.set_len(length * part / 3).unwrap();
        scene.assert_everything_is_refused().await;
        scene.restore_rescued_record().await;
    }
}

#[tokio::test]
async fn only_operators_rescue_and_only_what_is_lost() {
    let host = Host::start();
    let mut wire = Wire::operator(&host).await;
    let target = host.home().join("rescued.db");
    let params = json!({ "path": target.to_str().unwrap() });
    let error = wire.no("host.rescue_record", params.clone()).await;
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("nothing is lost"),
        "{error}"
    );
    let observer = wire
        .ok("host.create_token", json!({ "role": "observer" }))
        .await;
    let mut observer = Wire::connect(&host, observer["token"].as_str().unwrap()).await;
    let error = observer.no("host.rescue_record", params).await;
    assert_eq!(error["data"]["reason"], "observer_cannot_change");
    for wrong in [
        "rescued.db",
        host.home().join("countersign.db").to_str().unwrap(),
    ] {
        let error = wire
            .no("host.rescue_record", json!({ "path": wrong }))
            .await;
        assert_eq!(error["data"]["reason"], "invalid_params");
    }
    assert!(!target.exists());
}

/// An agent that waits for its answer gets none from a host whose record is lost, and gets it from the next.
#[tokio::test]
async fn agent_is_told_nothing_until_the_record_is_back() {
    let mut stage = Stage::begin(&[]);
    let mut wire = Wire::subscriber(&stage.host).await;
    let steps = json!([asks("c1", "ls", &json!([{ "say": "it was allowed" }]))]);
    let agent = stage.spawn(&mut wire, "builder", &steps).await;
    let ask = next_ask(&mut wire).await["id"].take();
    let home = stage.host.home().to_owned();
    let file = |suffix: &str| home.join(format!("countersign.db{suffix}"));
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(file(suffix)).unwrap();
    }
    let params = json!({ "approval_id": ask, "resolution": "approve" });
    let error = wire.no("host.resolve_approval", params.clone()).await;
    assert_eq!(error["data"]["reason"], "store_unavailable");
    let row = wire.ok("host.agents", json!({})).await;
    assert_eq!(row[0]["state"], "awaiting_permission", "{row}");
    let target = home.join("rescued.db");
    let rescued = run(&home, &["audit", "rescue", target.to_str().unwrap()]);
    assert_eq!(rescued.status.code(), Some(0), "{rescued:?}");
    stage.host.stop();
    fs::rename(&target, file("")).unwrap();
    stage.host.start_again();
    let mut wire = Wire::subscriber(&stage.host).await;
    wire.ok("host.resolve_approval", params).await;
    rested(&mut wire, &agent).await;
    assert_eq!(told(&mut wire, &agent).await, "it was allowed");
    stage.end_all(&mut wire).await;
}

/// A rule would allow it, and allowing it would be recorded nowhere.
#[tokio::test]
async fn rules_allow_nothing_without_a_record() {
    let stage = Stage::begin_with_rules("allow = [\"Bash(ls)\"]\n");
    let mut wire = Wire::operator(&stage.host).await;
    let params = json!({
        "action": "x", "tool": "Bash", "input": { "command": "ls" }, "cwd": "/tmp", "system_level": true,
    });
    let allowed = wire.ok("host.request_approval", params.clone()).await;
    assert_eq!(allowed["state"], "allowed", "{allowed}");
    fs::remove_file(stage.host.home().join("countersign.db-wal")).unwrap();
    let error = wire.no("host.request_approval", params).await;
    assert_eq!(error["data"]["reason"], "store_unavailable");
    let words = [
        "ask",
        "x",
        "--tool",
        "Bash",
        "--input",
        r#"{"command":"ls"}"#,
        "--cwd",
        "/tmp",
    ];
    assert_eq!(run(stage.host.home(), &words).status.code(), Some(1));
}

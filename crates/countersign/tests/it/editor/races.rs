//! Permissions that editor, command line and REST answer at the same instant: each ends once.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::Editor;
use crate::http::Rest;
use crate::scene::Scene;
use crate::wire::Wire;

const ROUNDS: usize = 200;

/// About what the command line takes until it answers.
const HEAD_START: Duration = Duration::from_millis(25);

#[tokio::test]
async fn a_raced_permission_ends_once() {
    let home = tempfile::tempdir().unwrap();
    let config = "[editor]\nautomatic = \"allow\"\n";
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    let scene = Scene::begin_in(home, &[]);
    let mut wire = Wire::subscriber(&scene.host).await;
    let token = scene.host.token();
    let rest = Rest {
        address: &scene.host.address,
        token: &token,
    };
    let mut editor = Editor::start(&scene);
    let session = editor.open(&scene);
    let many = json!({ "count": ROUNDS, "command": "echo {n}", "ledger": "ledger" });
    let prompt = editor.prompt(&session, &json!([{ "ask_many": many }]));
    // The editor plays in a thread of its own, as fast as it can.
    let editor = std::thread::spawn(move || {
        let mut requests = Vec::new();
        let mut cancelled = BTreeSet::new();
        loop {
            let message = editor.take("a request or the end", |message| {
                message["method"] == "session/request_permission"
                    || message["method"] == "$/cancel_request"
                    || message["id"] == prompt
            });
            if message["method"] == "$/cancel_request" {
                cancelled.insert(message["params"]["requestId"].as_u64().unwrap());
            } else if message["method"].is_null() {
                return (requests, cancelled, message);
            } else {
                requests.push(message["id"].as_u64().unwrap());
                if requests.len() % 2 == 0 {
                    std::thread::sleep(HEAD_START);
                }
                editor.choose_at_once(&message, "allow-once");
            }
        }
    });
    let mut ended = BTreeSet::new();
    let mut asked = 0;
    while ended.len() < ROUNDS {
        let event = wire.event().await;
        let id = event["payload"]["id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        match event["kind"].as_str() {
            Some("approval.requested") => {
                asked += 1;
                let path = format!("/api/v1/approvals/{id}/resolution");
                let mut deny = crate::host::command(scene.host.home());
                deny.args(["deny", &id])
                    .stdout(Stdio::null())
                    .stderr(Stdio::null());
                let mut deny = deny.spawn().unwrap();
                // A program takes a while to start. In every second round the others give it that time.
                if asked % 2 == 0 {
                    tokio::time::sleep(HEAD_START).await;
                }
                let body = json!({ "resolution": "approve" });
                rest.send("POST", &path, body).await;
                deny.wait().unwrap();
            }
            Some("approval.resolved") => assert!(ended.insert(id), "ended twice: {event}"),
            _ => {}
        }
    }
    let (requests, cancelled, end) = editor.join().unwrap();
    assert_eq!(asked, ROUNDS);
    assert_eq!(end["result"]["stopReason"], "end_turn");
    let distinct: BTreeSet<u64> = requests.iter().copied().collect();
    assert_eq!(distinct.len(), requests.len(), "no request comes twice");
    assert!(cancelled.is_subset(&distinct));
    // A line for each answer, and one for answers that the agent had not asked for.
    let ledger = std::fs::read_to_string(scene.folder().join("ledger")).unwrap();
    let mut lines: Vec<&str> = ledger.lines().collect();
    assert_eq!(lines.pop(), Some("unasked 0"));
    let answered: BTreeSet<&str> = lines
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!((lines.len(), answered.len()), (ROUNDS, ROUNDS));
    let all = Wire::operator(&scene.host)
        .await
        .ok("host.approvals", json!({ "status": "all", "limit": 1000 }))
        .await;
    let open: Vec<&Value> = all
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["state"] == "pending")
        .collect();
    assert_eq!(open, Vec::<&Value>::new());
}

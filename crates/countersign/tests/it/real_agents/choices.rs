//! Questions with choices, which real agents ask people: answered by command, over REST and in `watch`.

use std::path::Path;
use std::process::Command;

use countersign_testkit::real::RealAgent;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::stage::{Stage, WAIT};
use super::told::script;
use crate::host::poll;

/// A rule that allows the tool answers nothing.
const RULES: &str = "allow = [\"AskUserQuestion\"]\n";

fn choices(labels: [&str; 2]) -> Value {
    let choices =
        labels.map(|label| json!({ "label": label, "description": format!("use {label}") }));
    json!(choices)
}

/// A step in which the agent asks people two things.
fn asks() -> Value {
    let store = json!({ "question": "Which store?", "header": "Store", "multiSelect": false,
        "options": choices(["SQLite", "Postgres"]) });
    let caches = json!({ "question": "Which caches?", "header": "Caches", "multiSelect": true,
        "options": choices(["Redis", "Memory"]) });
    json!({ "tool": "AskUserQuestion", "input": { "questions": [store, caches] } })
}

/// What is shown of it: each question, its choices, and whether it takes several.
fn shown(ask: &Value) -> Value {
    let questions = ask["questions"].as_array().unwrap().iter();
    let shown: Vec<Value> = questions
        .map(|one| {
            let labels: Vec<&Value> = one["choices"].as_array().unwrap().iter().collect();
            let labels: Vec<&Value> = labels.iter().map(|choice| &choice["label"]).collect();
            json!([one["question"], labels, one["several"], one["free_text"]])
        })
        .collect();
    json!(shown)
}

fn expected() -> Value {
    json!([
        ["Which store?", ["SQLite", "Postgres"], false, true],
        ["Which caches?", ["Redis", "Memory"], true, true],
    ])
}

async fn is_answered_by_command(kind: RealAgent) {
    let Some(mut stage) = Stage::set_with(kind, RULES).await else {
        return;
    };
    let actor = stage.spawn("ann", &script(&json!([asks()])));
    let ask = stage.ask(&actor).await;
    assert_eq!(shown(&ask), expected(), "{ask}");
    assert_eq!(stage.row(&actor).await["state"], "awaiting_permission");
    let id = ask["id"].as_str().unwrap();
    let refused = stage.run(&["approve", id]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("has questions") && said.contains("2  Postgres: use Postgres"),
        "{said}"
    );
    stage.ok(&[
        "answer",
        id,
        "--question",
        "2=1,2",
        "--question",
        "1=a file of my own",
    ]);
    let end = stage.turn_ended(&actor, 1).await;
    assert_eq!(end["reason"], "end_turn", "{end}");
    // Neither text is in the script, so the model has both from the answer.
    assert!(stage.model_received("a file of my own"));
    assert!(stage.model_received("Redis, Memory"));
    let row = stage.settled(&ask).await;
    let record = (&row["state"], &row["resolved_by"]["role"], &row["delivery"]);
    assert_eq!(
        record,
        (&json!("allowed"), &json!("operator"), &json!("delivered"))
    );
    stage.end(&actor).await;
}

#[tokio::test]
async fn natively_it_is_answered_by_command() {
    is_answered_by_command(RealAgent::ClaudeCode).await;
}

#[tokio::test]
async fn over_acp_it_is_answered_by_command() {
    is_answered_by_command(RealAgent::Claude).await;
}

#[tokio::test]
async fn it_is_answered_over_rest_and_in_watch_and_can_be_denied() {
    let Some(mut stage) = Stage::set_with(RealAgent::ClaudeCode, RULES).await else {
        return;
    };
    let actor = stage.spawn("ann", &script(&json!([asks(), asks(), asks()])));
    let ask = stage.ask(&actor).await;
    let answers = json!({ "resolution": "approve", "answers": ["over the web", ["Redis"]] });
    let status = resolve_over_rest(&stage, &ask, &json!({ "resolution": "approve" })).await;
    assert_eq!(status, "400");
    assert_eq!(resolve_over_rest(&stage, &ask, &answers).await, "200");
    let ask = stage.ask(&actor).await;
    answer_in_watch(stage.host.home(), ["on the screen", "2"]);
    let id = ask["id"].as_str().unwrap();
    let is_end = |event: &Value| {
        event["kind"] == "approval.resolved" && event["payload"].to_string().contains(id)
    };
    stage.event(is_end).await;
    close_watch(stage.host.home());
    let ended = stage.settled(&ask).await;
    let given = json!({ "Which store?": "on the screen", "Which caches?": "Memory" });
    assert_eq!(ended["edited_input"]["answers"], given, "{ended}");
    let ask = stage.ask(&actor).await;
    stage.deny(&ask, &["-m", "decide yourself"]).await;
    stage.turn_ended(&actor, 1).await;
    stage.ok(&["wait", "ann", "--timeout", WAIT]);
    for answer in ["over the web", "on the screen", "decide yourself"] {
        assert!(stage.model_received(answer), "{answer}");
    }
    stage.end(&actor).await;
}

/// The status with which an answer is taken or refused.
async fn resolve_over_rest(stage: &Stage, ask: &Value, body: &Value) -> String {
    let (address, token) = (&stage.host.address, stage.host.token());
    let (id, body) = (ask["id"].as_str().unwrap(), body.to_string());
    let request = format!(
        "POST /api/v1/approvals/{id}/resolution HTTP/1.1\r\nhost: {address}\r\n\
         authorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().to_owned()
}

/// Answers the selected ask in a terminal, key by key.
fn answer_in_watch(home: &Path, answers: [&str; 2]) {
    let socket = home.join("tmux.sock");
    let tmux = |arguments: &[&str]| {
        let ran = Command::new("tmux")
            .arg("-S")
            .arg(&socket)
            .args(arguments)
            .output();
        String::from_utf8(ran.unwrap().stdout).unwrap()
    };
    let watch = format!(
        "COUNTERSIGN_HOME='{}' '{}' watch",
        home.display(),
        env!("CARGO_BIN_EXE_countersign")
    );
    tmux(&[
        "-f",
        "/dev/null",
        "new-session",
        "-d",
        "-x",
        "120",
        "-y",
        "200",
        &watch,
    ]);
    let screen = || tmux(&["capture-pane", "-p"]);
    let shows = |text: &str| {
        poll(text, || screen().contains(text).then_some(()));
    };
    shows("asks you: Which store?");
    // Keys do not count right after the ask appeared, which the screen says.
    poll("the prompt", || {
        tmux(&["send-keys", "r"]);
        let answered = || screen().lines().any(|line| line.contains("question 1:"));
        poll("an answer to the key", || {
            (answered() || screen().contains("key ignored")).then_some(())
        });
        answered().then_some(())
    });
    for (number, answer) in answers.iter().enumerate() {
        shows(&format!("question {}:", number + 1));
        // A key that was sent once too often would be a part of the text.
        tmux(&["send-keys", "BSpace", "BSpace", "BSpace", "BSpace"]);
        tmux(&["send-keys", "-l", answer]);
        tmux(&["send-keys", "Enter"]);
    }
}

fn close_watch(home: &Path) {
    let socket = home.join("tmux.sock");
    let mut tmux = Command::new("tmux");
    tmux.arg("-S").arg(socket).arg("kill-server");
    assert!(tmux.status().unwrap().success());
}

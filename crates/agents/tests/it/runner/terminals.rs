//! Terminals that a runner has for its agent.

use std::path::Path;

use serde_json::{Value, json};

use super::client::{Host, Running, exited};

pub(crate) fn create(key: u64, command: &str, cwd: &Path) -> Value {
    let call = json!({
        "call": "create", "key": key, "command": command, "cwd": cwd, "env": [],
        "output_bytes_max": 1_000,
    });
    json!({"type": "shell", "id": key, "call": call})
}

fn call(id: u64, name: &str, terminal: &str) -> Value {
    let call = json!({"call": name, "terminal": terminal});
    json!({"type": "shell", "id": id, "call": call})
}

/// Asks again until there is a line.
pub(crate) async fn first_line(host: &mut Host, terminal: &str) -> String {
    loop {
        host.say(call(99, "output", terminal)).await;
        let (head, body) = host.hear().await;
        let text = String::from_utf8(body).unwrap();
        if head["type"] == "shell"
            && let Some((line, _)) = text.split_once('\n')
        {
            return line.to_owned();
        }
    }
}

fn done(id: u64, done: &Value) -> Value {
    json!({"type": "shell", "id": id, "result": {"Ok": done}})
}

#[tokio::test]
async fn terminals_go_on_from_host_to_host() {
    let running = Running::start();
    let (mut host, _) = running.shell("cat").await;
    let command = "echo ran >>ran; echo up; read line <go; cat ran; exit 5";
    let fifo = running.dir.path().join("go");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let started = create(1, command, running.dir.path());
    host.say(started.clone()).await;
    let created = done(1, &json!({"done": "created", "terminal": "term-1"}));
    assert_eq!(host.hear_kind("shell").await, created);
    host.say(call(2, "wait_for_exit", "term-1")).await;
    drop(host);
    let (mut next, _) = running.host_at(0, &[]).await;
    next.say(started).await;
    assert_eq!(next.hear_kind("shell").await, created);
    next.say(call(3, "wait_for_exit", "term-1")).await;
    assert_eq!(first_line(&mut next, "term-1").await, "up");
    let write = tokio::task::spawn_blocking(move || std::fs::write(fifo, "go\n"));
    let end = json!({"done": "exited", "exit": {"code": 5, "signal": null}});
    assert_eq!(next.hear_kind("shell").await, done(3, &end));
    write.await.unwrap().unwrap();
    next.say(call(4, "output", "term-1")).await;
    let (head, body) = next.hear().await;
    let output = json!({"done": "output", "truncated": false, "exit": {"code": 5, "signal": null}});
    assert_eq!((head, body), (done(4, &output), b"up\nran\n".to_vec()));
    next.say(call(5, "release", "term-1")).await;
    assert_eq!(
        next.hear_kind("shell").await,
        done(5, &json!({"done": "done"}))
    );
    next.say(call(6, "output", "term-1")).await;
    let absent = json!({"Err": {"error": "not_found", "message": "term-1"}});
    let expected = json!({"type": "shell", "id": 6, "result": absent});
    assert_eq!(next.hear_kind("shell").await, expected);
    assert_eq!(next.stop(60_000).await, exited(0));
}

//! Agents do not drive runners.

use std::path::Path;

use serde_json::json;

use super::client::{Host, Running, until};
use crate::support::is_alive;

const SOCKET: &str = "COUNTERSIGN_TEST_SOCKET";
const ANSWER: &str = "COUNTERSIGN_TEST_ANSWER";

/// Not a test: a program that calls a runner and writes down what it is told.
#[tokio::test]
#[ignore = "a part of the tests below"]
async fn peer() {
    let (Ok(socket), Ok(answer)) = (std::env::var(SOCKET), std::env::var(ANSWER)) else {
        return;
    };
    let mut host = Host {
        stream: tokio::net::UnixStream::connect(socket).await.unwrap(),
    };
    // It may have been refused before it said anything.
    let hello = json!({"type": "hello", "oldest": 1, "newest": 1, "heard": 0, "open": []});
    host.try_to_say(hello).await;
    let told = host.hear().await.0;
    std::fs::write(format!("{answer}.part"), told.to_string()).unwrap();
    std::fs::rename(format!("{answer}.part"), answer).unwrap();
}

/// Shell text that calls.
fn call(socket: &Path, answer: &Path) -> String {
    format!(
        "env -i {SOCKET}={} {ANSWER}={} {} --exact runner::peers::peer --ignored",
        socket.display(),
        answer.display(),
        std::env::current_exe().unwrap().display(),
    )
}

#[tokio::test]
async fn a_process_of_an_agent_is_refused_whatever_it_does() {
    let running = Running::start();
    let other = Running::start();
    let socket = &running.record.sockets[0];
    let (mut host, agent) = running
        .shell("while read line; do eval \"$line\"; done")
        .await;
    let (mut stranger, _) = other
        .shell("while read line; do eval \"$line\"; done")
        .await;
    let mut turn = 0;
    for from_other in [false, true] {
        for detach in ["", "setsid "] {
            turn += 1;
            let answer = running.dir.path().join(format!("answer{turn}"));
            let call = call(socket, &answer);
            // In the second case its parent ends at once.
            let line = match detach {
                "" => format!("{call} >/dev/null 2>&1\n"),
                _ => format!("({detach}{call} </dev/null >/dev/null 2>&1 &)\n"),
            };
            let agents = if from_other { &mut stranger } else { &mut host };
            agents
                .write(json!({"own": ["prompt", turn]}), "unspecified", &line)
                .await;
            until(|| answer.exists()).await;
            let told = std::fs::read_to_string(&answer).unwrap();
            let words = "an agent does not drive a runner";
            let refused = json!({"type": "refused", "why": words});
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&told).unwrap(),
                refused
            );
        }
    }
    assert!(is_alive(agent));
    // The same program is served when no agent runs it.
    let answer = running.dir.path().join("answer");
    let ran = tokio::process::Command::new("sh")
        .args(["-c", &call(socket, &answer)])
        .stdout(std::process::Stdio::null())
        .status();
    assert!(ran.await.unwrap().success());
    let told = std::fs::read_to_string(&answer).unwrap();
    assert!(told.contains("\"hello\""), "{told}");
}

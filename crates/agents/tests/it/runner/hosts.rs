//! Hosts that come and go.

use serde_json::json;

use super::client::{Host, Running, exited, launch, os};
use crate::support::is_alive;

#[tokio::test]
async fn an_agent_is_started_heard_told_and_ended() {
    let running = Running::start();
    let (mut host, agent) = running
        .shell("echo log >&2; read a; echo got $a; cat")
        .await;
    host.write(json!({"own": ["prompt", 1]}), "served", "hello\n")
        .await;
    let written = json!({
        "type": "written", "id": {"own": ["prompt", 1]}, "kind": "served", "outcome": "written",
    });
    assert_eq!(host.hear_kind("written").await, written);
    assert_eq!(host.output(10).await, b"got hello\n");
    assert_eq!(host.stop(60_000).await, exited(0));
    assert!(!is_alive(agent));
    host.say(json!({"type": "bye"})).await;
    let (record, (status, dir)) = (running.record.clone(), running.wait().await);
    assert!(status.success());
    assert!(!record.folder.exists() && !record.sockets[0].exists());
    drop(dir);
}

#[tokio::test]
async fn a_name_is_written_once_whoever_repeats_it() {
    let running = Running::start();
    let (mut host, agent) = running.shell("cat").await;
    host.write(json!({"line": 7}), "allow", "one\n").await;
    host.hear_kind("written").await;
    let (mut next, greeted) = running.host_at(0, &[]).await;
    let hello = json!({"type": "hello", "version": 1, "agent": agent, "log": ""});
    assert_eq!(greeted, hello);
    next.write(json!({"line": 7}), "deny", "two\n").await;
    next.write(json!({"line": 8}), "deny", "three\n").await;
    let written = |line: u64, kind: &str| {
        json!({
            "type": "written", "id": {"line": line}, "kind": kind, "outcome": "written",
        })
    };
    assert_eq!(next.hear_kind("written").await, written(7, "allow"));
    assert_eq!(next.hear_kind("written").await, written(8, "deny"));
    next.say(json!({"type": "claim", "id": 1, "name": {"line": 9}}))
        .await;
    next.say(json!({"type": "claim", "id": 2, "name": {"line": 9}}))
        .await;
    let claimed = |id: u64, fresh: bool| json!({"type": "claimed", "id": id, "fresh": fresh});
    assert_eq!(next.hear_kind("claimed").await, claimed(1, true));
    assert_eq!(next.hear_kind("claimed").await, claimed(2, false));
    next.say(json!({"type": "stop", "grace_ms": 60_000})).await;
    let (mut last, _) = running.host_at(0, &[]).await;
    assert_eq!(last.output(10).await, b"one\nthree\n");
    assert_eq!(last.hear_kind("exited").await, exited(0));
    // The first was left when the second came.
    while host.hear_next().await.is_some() {}
}

#[tokio::test]
async fn a_host_of_another_version_is_refused_and_displaces_nobody() {
    let running = Running::start();
    let (mut host, _) = running.shell("cat").await;
    let mut stranger = Host {
        stream: running.connect().await,
    };
    let hello = json!({"type": "hello", "oldest": 5, "newest": 9, "heard": 0, "open": []});
    stranger.say(hello).await;
    let words = "the host speaks versions 5 to 9 of the link, and the runner 1 to 4";
    let refused = json!({"type": "refused", "why": words});
    assert_eq!(stranger.hear().await.0, refused);
    let (_, refused) = running.host_at(1, &[]).await;
    let words = "the host heard up to 1, and what is kept begins at 0 and ends at 0";
    assert_eq!(refused, json!({"type": "refused", "why": words}));
    assert_eq!(host.stop(60_000).await, exited(0));
}

#[tokio::test]
async fn a_second_launch_gives_what_the_first_came_to() {
    let running = Running::start();
    let (mut host, agent) = running.shell("cat").await;
    let mut next = running.host().await;
    assert_eq!(next.launch(&running.dir, "exit 9").await, agent);
    drop(next);
    let failing = Running::start();
    let mut absent = launch(&failing.dir, "");
    absent["program"] = os("no-such-agent");
    for _ in 0..2 {
        let mut host = failing.host().await;
        host.say(absent.clone()).await;
        let words = "there is no program `no-such-agent`; install it, put its folder on PATH, or \
                     give its whole path";
        let refused = json!({"type": "not_launched", "why": words});
        assert_eq!(host.hear().await.0, refused);
    }
    while host.hear_next().await.is_some() {}
}

#[tokio::test]
async fn a_program_that_cannot_start_says_what_to_do() {
    for (field, value, why) in [
        (
            "program",
            os("/etc/passwd"),
            "no permission to run `/etc/passwd`; make it executable or choose another program",
        ),
        (
            "cwd",
            json!("/no/such/folder"),
            "cannot start `sh` in `/no/such/folder`, which is not a folder that can be entered",
        ),
    ] {
        let running = Running::start();
        let mut request = launch(&running.dir, "");
        request[field] = value;
        let mut host = running.host().await;
        host.say(request).await;
        let refused = json!({"type": "not_launched", "why": why});
        assert_eq!(host.hear().await.0, refused);
    }
}

#[tokio::test]
async fn a_socket_that_vanished_is_made_again() {
    let running = Running::start();
    let (host, agent) = running.shell("cat").await;
    drop(host);
    std::fs::remove_dir_all(running.dir.path().join("a")).unwrap();
    let (mut next, greeted) = running.host_at(0, &[]).await;
    assert_eq!(greeted["agent"], json!(agent));
    assert_eq!(next.stop(60_000).await, exited(0));
    // Where the first cannot be had the next is.
    std::fs::remove_dir_all(running.dir.path().join("a")).unwrap();
    std::fs::write(running.dir.path().join("a"), "").unwrap();
    let (mut last, _) = running.host_at(0, &[]).await;
    assert_eq!(last.hear_kind("exited").await, exited(0));
}

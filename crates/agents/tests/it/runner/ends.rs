//! How runners and agents end.

use countersign_agents::KeptTerminals;
use countersign_agents::adapter::{WriteId, WriteKind};
use countersign_agents::runner::{ExitReport, read_exit_report};
use rustix::process::Signal;
use serde_json::json;

use super::client::{LONG_MS, Running, exited, marks, until};
use crate::support::{code, daemonise, is_alive, key_of, trees};

#[tokio::test]
async fn without_a_host_a_runner_ends_its_agent_and_leaves_last_words() {
    let running = Running::start_with(1_000, marks());
    let (mut host, agent) = running
        .shell("echo one; echo two; echo log >&2; cat; exit 3")
        .await;
    assert_eq!(host.output(8).await, b"one\ntwo\n");
    host.write(json!({"line": 4}), "allow", "three\n").await;
    host.output(6).await;
    host.say(json!({"type": "committed", "through": 4, "open": [4]}))
        .await;
    host.say(json!({"type": "claim", "id": 1, "name": {"line": 8}}))
        .await;
    host.hear_kind("claimed").await;
    drop(host);
    let sockets = running.record.sockets.clone();
    let (status, dir) = running.wait().await;
    assert!(status.success() && !is_alive(agent));
    assert!(!sockets[0].exists());
    let expected = ExitReport {
        from: 4,
        output: b"two\nthree\n".to_vec(),
        exit: code(3),
        why: Some("no host came for 1 second".to_owned()),
        log: "log\n".to_owned(),
        written: vec![(WriteId::Line(4), WriteKind::Allow)],
        terminals: KeptTerminals::default(),
    };
    let found = read_exit_report(&dir.path().join("run")).unwrap();
    assert_eq!(found, Some(expected));
}

#[tokio::test]
async fn a_runner_that_is_never_told_what_to_start_leaves_nothing() {
    let running = Running::start_with(300, marks());
    let record = running.record.clone();
    drop(running.connect().await);
    let (status, dir) = running.wait().await;
    assert!(status.success());
    assert!(!record.folder.exists() && !record.sockets[0].exists());
    drop(dir);
}

#[tokio::test]
async fn an_agent_that_ended_alone_is_told_of_to_the_next_host() {
    let running = Running::start();
    let (mut host, agent) = running.shell("read a; echo bye; exit 4").await;
    host.write(json!({"own": ["prompt", 1]}), "unspecified", "go\n")
        .await;
    host.hear_kind("written").await;
    drop(host);
    until(|| !is_alive(agent)).await;
    let mut next = running.host().await;
    assert_eq!(next.output(4).await, b"bye\n");
    assert_eq!(next.hear_kind("exited").await, exited(4));
}

#[tokio::test]
async fn a_runner_that_is_told_to_end_leaves_last_words() {
    let running = Running::start();
    let (mut host, agent) = running.shell("echo up; cat").await;
    assert_eq!(host.output(3).await, b"up\n");
    running.signal(Signal::HUP);
    running.signal(Signal::TERM);
    while host.hear_next().await.is_some() {}
    let (_, dir) = running.wait().await;
    assert!(!is_alive(agent));
    let expected = ExitReport {
        from: 0,
        output: b"up\n".to_vec(),
        exit: code(0),
        why: Some("the runner was told to end".to_owned()),
        log: String::new(),
        written: Vec::new(),
        terminals: KeptTerminals::default(),
    };
    let found = read_exit_report(&dir.path().join("run")).unwrap();
    assert_eq!(found, Some(expected));
}

#[tokio::test]
async fn last_words_of_somebody_else_are_not_believed() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(read_exit_report(dir.path()).unwrap(), None);
    let file = dir.path().join("exit-report");
    std::fs::write(&file, "{}\n").unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&file, open).unwrap();
    let error = read_exit_report(dir.path()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the exit report of a runner can be reached by others"
    );
}

#[tokio::test]
async fn a_killed_runner_takes_its_agent_and_terminals_along() {
    let running = Running::start();
    let (mut host, agent) = running
        .shell("trap '' TERM HUP; echo up; while :; do sleep 1; done")
        .await;
    assert_eq!(host.line().await, "up");
    let create = super::terminals::create(1, "echo $$; exec sleep 1000", running.dir.path());
    host.say(create).await;
    host.hear_kind("shell").await;
    let terminal = super::terminals::first_line(&mut host, "term-1").await;
    let terminal = key_of(terminal.parse().unwrap());
    running.signal(Signal::KILL);
    until(|| !is_alive(agent) && !is_alive(terminal)).await;
    let tree = running.record.tree.clone();
    tree.sweep(Some(running.key)).await.unwrap();
}

#[tokio::test]
async fn a_daemon_that_left_its_environment_and_parents_behind_is_ended() {
    for tree in trees("runner") {
        let running = Running::start_with(LONG_MS, tree.record());
        let script = daemonise("fifo", "env -i PATH=/usr/bin:/bin");
        let (mut host, agent) = running.shell(&format!("{script}; cat")).await;
        let daemon = key_of(host.line().await.parse().unwrap());
        assert!(is_alive(daemon));
        assert_eq!(host.stop(60_000).await, exited(0));
        assert!(!is_alive(daemon) && !is_alive(agent));
    }
}

#[tokio::test]
async fn what_an_agent_left_running_ends_with_it() {
    let running = Running::start();
    let script = daemonise("fifo", "env -i PATH=/usr/bin:/bin");
    let script = format!("{script}; read line; exit 6");
    let (mut host, _) = running.shell(&script).await;
    let daemon = key_of(host.line().await.parse().unwrap());
    host.write(json!({"own": ["prompt", 1]}), "unspecified", "go\n")
        .await;
    assert_eq!(host.hear_kind("exited").await, exited(6));
    assert!(!is_alive(daemon));
}

#[tokio::test]
async fn stopping_closes_the_input_then_asks_then_kills() {
    let killed =
        json!({"type": "exited", "exit": {"code": null, "signal": "SIGKILL"}, "why": null});
    for (script, grace_ms, expected) in [
        ("echo up; cat; exit 5", 60_000, exited(5)),
        (
            "trap 'exit 6' TERM; echo up; while :; do sleep 0.01; done",
            2_000,
            exited(6),
        ),
        (
            "trap '' TERM; echo up; while :; do sleep 0.01; done",
            300,
            killed,
        ),
    ] {
        let running = Running::start();
        let (mut host, _) = running.shell(script).await;
        assert_eq!(host.line().await, "up");
        assert_eq!(host.stop(grace_ms).await, expected);
    }
}

#[tokio::test]
async fn orphans_do_not_stay_as_zombies() {
    let running = Running::start();
    let script = "for n in 1 2 3 4 5 6 7 8; do (sh -c 'sleep 0.05' &); done; echo up; cat";
    let (mut host, agent) = running.shell(script).await;
    assert_eq!(host.line().await, "up");
    let pid = running.key.pid;
    until(|| children(pid) == [agent.pid]).await;
    assert_eq!(host.stop(60_000).await, exited(0));
}

fn children(pid: u32) -> Vec<u32> {
    let stats = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let child: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat
                .rsplit_once(')')?
                .1
                .split_whitespace()
                .nth(1)?
                .to_owned();
            (parent == pid.to_string()).then_some(child)
        });
    stats.collect()
}

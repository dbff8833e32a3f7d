//! Starting runners, where a shell stands for the runner, and driving real ones.

mod real;

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use countersign_agents::runner::{
    LinkError, RunnerRecord, RunnerStartError, RunnerStartSpec, connect, end_orphan, find_orphans,
    remove_run_files, start,
};
use countersign_agents::{ContainmentMethod, TreeRecord};
use countersign_core::event::ProcessKey;
use tempfile::TempDir;

use crate::support::{guarded, is_alive, key_of};

fn record(dir: &Path, mark: &str) -> RunnerRecord {
    RunnerRecord {
        tree: TreeRecord {
            containment: ContainmentMethod::Marks { why: String::new() },
            mark: mark.to_owned(),
        },
        folder: dir.join("runners").join(mark),
        sockets: vec![dir.join(format!("{mark}.sock"))],
        patience_ms: 1_000,
        protocol: countersign_core::event::Protocol::Acp,
    }
}

/// Its folder is `$1`.
fn shell(record: &RunnerRecord, script: &str) -> RunnerStartSpec {
    let command = ["/bin/sh", "-c", script].map(OsString::from);
    RunnerStartSpec {
        command: command.into(),
        record: record.clone(),
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_json::from_slice(&fs::read(path).expect("a file")).expect("its content")
}

pub(crate) async fn wait_until_reaped(key: ProcessKey) {
    let stat = format!("/proc/{}/stat", key.pid);
    guarded(async {
        while fs::exists(&stat).is_ok_and(|there| there) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_runner_is_started_alone_found_and_ended() {
    let dir = TempDir::new().expect("a folder");
    let record = record(dir.path(), "lone");
    let script = "env >$1/env; cut -d' ' -f6 /proc/$$/stat >$1/session; sleep 1000 & \
                  echo $! >$1/child; echo listening; wait";
    let runner = guarded(start(&shell(&record, script))).await;
    let key = runner.expect("a runner").key();
    assert_eq!(key, key_of(key.pid));
    assert_eq!(
        read::<RunnerRecord>(&record.folder.join("record.json")),
        record
    );
    assert_eq!(read::<ProcessKey>(&record.folder.join("runner")), key);
    let mode = fs::metadata(&record.folder)
        .expect("its folder")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    let session = fs::read_to_string(record.folder.join("session")).expect("its session");
    assert_eq!(session.trim(), key.pid.to_string());
    let env = fs::read_to_string(record.folder.join("env")).expect("its environment");
    let known = ["PATH", "HOME", "LANG", "TMPDIR", "COUNTERSIGN_LOG"];
    let of_shell = ["PWD", "SHLVL", "_", "OLDPWD"];
    let names = env.lines().filter_map(|line| Some(line.split_once('=')?.0));
    let strange: Vec<_> = names
        .filter(|name| !known.contains(name) && !of_shell.contains(name))
        .collect();
    assert_eq!(strange, Vec::<&str>::new());

    let runners = dir.path().join("runners");
    assert_eq!(find_orphans(&runners), [(record.clone(), key)]);
    let child = fs::read_to_string(record.folder.join("child")).expect("its child");
    let child = key_of(child.trim().parse().expect("a number"));
    let ended = guarded(end_orphan(&record, None)).await;
    assert_eq!(ended.expect("all ended"), 2);
    assert!(!is_alive(key) && !is_alive(child));
    wait_until_reaped(key).await;
    assert_eq!(find_orphans(&runners), []);
    let link = guarded(connect(&record, key, 0, Vec::new())).await;
    assert!(matches!(link, Err(LinkError::Gone)));
    drop(UnixListener::bind(&record.sockets[0]).expect("a socket"));
    remove_run_files(&record);
    assert!(!record.folder.exists() && !record.sockets[0].exists());
    assert!(runners.exists());
}

#[tokio::test]
async fn a_runner_that_ends_at_once_says_why() {
    let dir = TempDir::new().expect("a folder");
    let record = record(dir.path(), "brief");
    let script = "echo 'there is no room' >&2; exit 1";
    let error = guarded(start(&shell(&record, script))).await;
    let error = error.expect_err("no runner");
    let words = "the agent's runner did not begin: there is no room";
    assert_eq!(error.to_string(), words);
    remove_run_files(&record);
    assert!(!record.folder.exists());
}

#[tokio::test]
async fn a_runner_that_fails_says_why_on_its_own() {
    let dir = TempDir::new().expect("a folder");
    let record = record(dir.path(), "failing");
    let script = "echo 'failed: there is no socket'; exec sleep 1000";
    let error = guarded(start(&shell(&record, script))).await;
    let words = "the agent's runner did not begin: there is no socket";
    assert_eq!(error.expect_err("no runner").to_string(), words);
}

#[tokio::test]
async fn a_runner_that_says_something_else_is_ended() {
    let dir = TempDir::new().expect("a folder");
    let record = record(dir.path(), "odd");
    let error = guarded(start(&shell(&record, "echo something; exec sleep 1000"))).await;
    assert!(matches!(error, Err(RunnerStartError::Useless { .. })));
    wait_until_reaped(read(&record.folder.join("runner"))).await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let dir = TempDir::new().expect("a folder");
    let record = record(dir.path(), "absent");
    let spec = RunnerStartSpec {
        command: vec!["/absent/runner".into()],
        record,
    };
    let error = guarded(start(&spec)).await.expect_err("no runner");
    let words = "could not start the agent's runner `/absent/runner`";
    assert_eq!(error.to_string(), words);
}

#[tokio::test]
async fn a_folder_that_others_may_reach_is_refused() {
    let dir = TempDir::new().expect("a folder");
    let record = record(dir.path(), "open");
    fs::create_dir_all(&record.folder).expect("its folder");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&record.folder, mode).expect("its mode");
    let error = guarded(start(&shell(&record, "echo listening"))).await;
    assert!(matches!(error, Err(RunnerStartError::Folder { .. })));
}

#[tokio::test]
async fn only_the_folder_of_the_very_run_is_removed() {
    let dir = TempDir::new().expect("a folder");
    let mine = record(dir.path(), "mine");
    let script = "echo listening; exec sleep 1000";
    guarded(start(&shell(&mine, script)))
        .await
        .expect("a runner");
    let mut other = record(dir.path(), "other");
    other.folder.clone_from(&mine.folder);
    other.sockets = vec![mine.folder.join("record.json")];
    remove_run_files(&other);
    assert!(mine.folder.join("record.json").exists());
    guarded(end_orphan(&mine, None)).await.expect("all ended");
    remove_run_files(&mine);
    assert!(!mine.folder.exists());
    remove_run_files(&mine);
}

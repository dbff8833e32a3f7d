//! A host that is killed at any commit point: what was confirmed holds, what was not may or may
//! not have happened but is whole, and a grant for one use never fires twice.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use countersign_core::event::{ApprovalOutcome, Effect};
use countersign_daemon::ApprovalQuery;

use crate::fixture::{ann, draft, once, open, outcome, request};

const FOLDER: &str = "COUNTERSIGN_TEST_FOLDER";
const ROUNDS: usize = 4;

/// What the child does: each round makes a grant for one use, uses it, and tries to use it again;
/// and makes one for good. What was confirmed to it, it writes down.
#[tokio::test]
#[ignore = "the body of a child process"]
async fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let (service, _stopped) = open(folder).await;
    let mut told = std::fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join("told"))
        .unwrap();
    for round in 0..ROUNDS {
        let command = format!("make once{round}");
        let rule = format!("Bash({command})");
        service.add_grant(ann(), once(&rule)).await.unwrap();
        write_line(&mut told, &format!("once {round}\n"));
        for _ in 0..2 {
            let asked = service.request_approval(request("bot", &command));
            let asked = asked.await.unwrap();
            if outcome(&asked) == "Allowed by rules" {
                write_line(&mut told, &format!("used {round}\n"));
            }
        }
        let rule = format!("Bash(make ever{round})");
        let ever = draft(Effect::Allow, &rule);
        service.add_grant(ann(), ever).await.unwrap();
        write_line(&mut told, &format!("ever {round}\n"));
    }
    service.stop().await;
}

/// Writes a line with one call: the process may be killed between two.
fn write_line(file: &mut std::fs::File, line: &str) {
    file.write_all(line.as_bytes()).unwrap();
}

/// A host can only be killed as a process of its own.
fn run_child(folder: &Path, crash_at: &str) -> ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--ignored"])
        .env(FOLDER, folder)
        .env("COUNTERSIGN_CRASH_AT", crash_at)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap()
}

/// What the child was told before it ended.
fn told(folder: &Path) -> Vec<(String, usize)> {
    let text = std::fs::read_to_string(folder.join("told")).unwrap_or_default();
    let lines = text.lines().map(|line| {
        let (what, round) = line.split_once(' ').unwrap();
        (what.to_owned(), round.parse().unwrap())
    });
    lines.collect()
}

async fn check(folder: &Path, crash_at: &str) {
    let (service, mut stopped) = open(folder).await;
    let told = told(folder);
    for round in 0..ROUNDS {
        let was = |what: &str| told.contains(&(what.to_owned(), round));
        let ever = service
            .request_approval(request("bot", &format!("make ever{round}")))
            .await
            .unwrap();
        if was("ever") {
            assert_eq!(outcome(&ever), "Allowed by rules", "{crash_at}: forgotten");
        }
        for _ in 0..2 {
            let again = request("bot", &format!("make once{round}"));
            service.request_approval(again).await.unwrap();
        }
    }
    let all = ApprovalQuery {
        limit: usize::MAX >> 1,
        ..ApprovalQuery::default()
    };
    let mut allowed: Vec<String> = Vec::new();
    for approval in service.approvals(&ann(), all).await.unwrap() {
        let text = approval.ask.input.as_ref().unwrap().text().to_owned();
        let ended = approval.ended.as_ref();
        if text.contains("once")
            && ended.is_some_and(|end| end.ending.outcome == ApprovalOutcome::Allowed)
        {
            allowed.push(text);
        }
    }
    let distinct: BTreeSet<_> = allowed.iter().collect();
    assert_eq!(distinct.len(), allowed.len(), "{crash_at}: fired twice");
    for (what, round) in &told {
        if what == "once" || what == "used" {
            let command = format!("once{round}\"");
            assert!(
                allowed.iter().any(|text| text.contains(&command)),
                "{crash_at}: a confirmed grant never fired"
            );
        }
    }
    service.stop().await;
    stopped.wait().await;
}

#[tokio::test]
async fn a_killed_host_keeps_its_word_about_grants() {
    let mut killed = 0;
    for point in countersign_daemon::CRASH_POINTS {
        for pass in [1, 2, 5, 9, 14] {
            let folder = tempfile::tempdir().unwrap();
            let crash_at = format!("{point}:{pass}");
            let status = run_child(folder.path(), &crash_at);
            killed += usize::from(!status.success());
            check(folder.path(), &crash_at).await;
        }
    }
    assert!(killed > 20, "only {killed} hosts were killed");
}

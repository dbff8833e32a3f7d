//! A writer killed at any instant has kept every append it was told of, and no half of one.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use countersign_core::{CommitChanges, Seq};
use countersign_store::verify;

use crate::file::Host;
use crate::fixture::{ask, ending, notified, opening};

const FILE: &str = "COUNTERSIGN_STORE_CRASH_FILE";

/// Events of one append of the writer.
const PER_APPEND: u64 = 4;

#[test]
fn killed_writer_keeps_every_acknowledged_append() {
    let host = Host::new();
    for acks in [1, 2, 3, 10, 40, 80] {
        let acknowledged = run_and_kill(&host.path, acks);
        let mut script = host.script();
        assert!(
            script.head >= acknowledged,
            "{} of {acknowledged} are there",
            script.head
        );
        assert_eq!(
            script.head.0 % PER_APPEND,
            0,
            "an append is whole or not at all"
        );
        let events = script.events();
        assert_eq!(events.len() as u64, script.head.0);
        let loaded = script.log.load().unwrap();
        assert_eq!(
            loaded.open_approvals.len() as u64,
            script.head.0 / PER_APPEND
        );
        drop(script);
        assert_eq!(verify(&host.path, None).unwrap().problems, []);
    }
}

/// Runs the writer below until it has acknowledged so many appends; says up to which event.
fn run_and_kill(path: &Path, acks: usize) -> Seq {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::writer", "--ignored", "--nocapture"])
        .env(FILE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let heads = lines.filter_map(|line| {
        line.unwrap()
            .strip_prefix("ack ")
            .map(|head| head.parse().unwrap())
    });
    let head = heads.take(acks).last().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    Seq(head)
}

/// Appends for ever. Does nothing unless the test above runs it.
#[test]
#[ignore = "the body of a child process"]
fn writer() {
    let Some(path) = std::env::var_os(FILE) else {
        return;
    };
    let (mut log, _history) = countersign_store::open(Path::new(&path)).unwrap();
    let mut head = countersign_store::EventLog::load(&mut log).unwrap().head.0;
    loop {
        let (one, kept) = opening(
            Seq(head + 1),
            ask(&format!("approval-{}", head + 1), Some("a")),
        );
        let (two, open) = opening(
            Seq(head + 2),
            ask(&format!("approval-{}", head + 2), Some("b")),
        );
        let (three, ended) = ending(Seq(head + 3), &open);
        let four = crate::fixture::committed(Seq(head + 4), notified(None, "four"));
        let changes = CommitChanges {
            approvals: vec![kept, ended],
            ..CommitChanges::default()
        };
        countersign_store::EventLog::append(&mut log, &[one, two, three, four], &changes).unwrap();
        head += PER_APPEND;
        let mut out = std::io::stdout().lock();
        writeln!(out, "\nack {head}").unwrap();
        out.flush().unwrap();
    }
}

//! What a file on a disk can suffer, and what a second host must not do to it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign_core::{CommitChanges, CommittedEvent, Seq};
use countersign_store::{
    EventHistory, EventLog, EventQuery, SqliteHistory, SqliteLog, StoreError, open,
};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::fixture::{Script, ask, committed, ending, notified, opening};

/// A file that has a host, and how to look at it from outside.
pub(crate) struct Host {
    pub(crate) folder: TempDir,
    pub(crate) path: PathBuf,
}

impl Host {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.db");
        Self { folder, path }
    }

    pub(crate) fn script(&self) -> Script {
        let (mut log, history) = open(&self.path).unwrap();
        let head = log.load().unwrap().head;
        Script {
            head,
            ..Script::new(Box::new(log), history)
        }
    }

    /// Changes the file behind the host's back.
    pub(crate) fn tamper(&self, sql: &str) {
        let conn =
            Connection::open_with_flags(&self.path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
        conn.execute_batch(sql).unwrap();
    }

    /// A number in the file, as another program reads it.
    pub(crate) fn query(&self, sql: &str) -> u64 {
        let access = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let conn = Connection::open_with_flags(&self.path, access).unwrap();
        let number: i64 = conn.query_row(sql, [], |row| row.get(0)).unwrap();
        number.cast_unsigned()
    }

    /// What lies on the disk, without what `SQLite` makes to look at it.
    pub(crate) fn bytes(&self) -> Vec<Vec<u8>> {
        let names = ["log.db", "log.db-wal"].map(|name| self.folder.path().join(name));
        let bytes = names.iter().map(|name| fs::read(name).unwrap_or_default());
        bytes.filter(|bytes| !bytes.is_empty()).collect()
    }

    fn refusal(&self) -> StoreError {
        let before = self.bytes();
        let error = open(&self.path).map(|_| ()).unwrap_err();
        assert!(self.bytes() == before, "a refused file is not touched");
        error
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn open_parts(host: &Host) -> (SqliteLog, Arc<SqliteHistory>) {
    open(&host.path).unwrap()
}

#[test]
fn reopened_log_goes_on() {
    let host = Host::new();
    let mut script = host.script();
    let open = script.open(ask("approval-1", Some("a")));
    let ended = script.settle(ask("approval-2", Some("a")));
    let (events, snapshot) = (script.events(), script.log.load().unwrap());
    drop(script);
    let mut script = host.script();
    assert_eq!(script.log.load().unwrap(), snapshot);
    assert_eq!(script.events(), events);
    assert_eq!(
        script.history.find_approval(&ended.ask.id).unwrap(),
        Some(ended)
    );
    script.end(&open);
    assert_eq!(script.events().len(), 4);
}

#[test]
fn file_and_folder_belong_to_their_owner() {
    let host = Host::new();
    let path = host.folder.path().join("deep/er/log.db");
    let (mut log, _history) = open(&path).unwrap();
    log.append(
        &[committed(Seq(1), notified(None, "one"))],
        &CommitChanges::default(),
    )
    .unwrap();
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for name in ["log.db", "log.db-wal", "log.db-shm", "log.db.lock"] {
        assert_eq!(mode(&path.with_file_name(name)), 0o600, "{name}");
    }
}

#[test]
fn second_host_is_refused() {
    let host = Host::new();
    let script = host.script();
    assert!(matches!(open(&host.path), Err(StoreError::InUse { .. })));
    drop(script);
    host.script();
}

#[test]
fn newer_file_is_refused_untouched() {
    let host = Host::new();
    host.script().tell(notified(None, "one"));
    host.tamper("PRAGMA user_version = 99");
    assert!(matches!(
        host.refusal(),
        StoreError::Newer { found: 99, .. }
    ));
    assert!(matches!(
        countersign_store::check_database(&host.path),
        Err(StoreError::Newer { found: 99, .. })
    ));
}

#[test]
fn newer_version_in_the_write_ahead_log_is_refused_untouched() {
    let host = Host::new();
    host.script().tell(notified(None, "one"));
    let conn = Connection::open_with_flags(&host.path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .unwrap();
    conn.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(conn);
    assert_eq!(host.bytes().len(), 2);
    assert!(matches!(
        host.refusal(),
        StoreError::Newer { found: 99, .. }
    ));
    assert!(matches!(
        countersign_store::check_database(&host.path),
        Err(StoreError::Newer { found: 99, .. })
    ));
}

#[test]
fn what_is_not_ours_is_refused_untouched() {
    let host = Host::new();
    fs::write(
        &host.path,
        "not a database, though long enough to be one ".repeat(100),
    )
    .unwrap();
    assert!(matches!(host.refusal(), StoreError::Damaged { .. }));
    fs::write(&host.path, "SQLite format 3\0").unwrap();
    assert!(matches!(host.refusal(), StoreError::Damaged { .. }));
    fs::remove_file(&host.path).unwrap();
    fs::File::create(&host.path).unwrap();
    host.tamper("CREATE TABLE theirs (x)");
    assert!(matches!(host.refusal(), StoreError::Damaged { .. }));
}

#[test]
fn truncated_file_is_damaged() {
    let host = Host::new();
    let mut script = host.script();
    for number in 0..50 {
        script.settle(ask(&format!("approval-{number}"), Some("a")));
    }
    drop(script);
    let whole = fs::read(&host.path).unwrap();
    fs::write(&host.path, &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(host.refusal(), StoreError::Damaged { .. }));
}

#[test]
fn log_without_its_newest_event_is_damaged() {
    let host = Host::new();
    let mut script = host.script();
    script.tell(notified(None, "one"));
    script.tell(notified(None, "two"));
    drop(script);
    host.tamper("DELETE FROM events WHERE seq = 2");
    assert!(matches!(open(&host.path), Err(StoreError::Damaged { .. })));
}

#[test]
fn open_ask_without_its_payload_is_damage() {
    let host = Host::new();
    let mut script = host.script();
    script.open(ask("approval-1", None));
    host.tamper("DELETE FROM payloads");
    assert!(matches!(script.log.load(), Err(StoreError::Damaged { .. })));
}

#[test]
fn end_of_another_ask_is_not_taken_for_its_own() {
    let host = Host::new();
    let mut script = host.script();
    let open = script.open(ask("approval-1", None));
    script.settle(ask("approval-2", None));
    // The end of the writer brings everything into the tables.
    drop(script);
    host.tamper("UPDATE approvals SET ended = 3 WHERE opened = 1");
    let (_log, history) = open_parts(&host);
    assert!(matches!(
        history.find_approval(&open.ask.id),
        Err(StoreError::Damaged { .. })
    ));
}

#[test]
fn read_only_file_is_refused() {
    let host = Host::new();
    host.script().tell(notified(None, "one"));
    fs::set_permissions(&host.path, fs::Permissions::from_mode(0o400)).unwrap();
    assert!(matches!(host.refusal(), StoreError::ReadOnly { .. }));
}

/// Appends while the disk refuses, and again once it does not.
fn fails_then_goes_on(refuse: (&str, i64), allow: (&str, i64), expected: fn(&StoreError) -> bool) {
    let host = Host::new();
    let (mut log, history) = open_parts(&host);
    let (one, approval) = opening(Seq(1), ask("approval-1", Some("a")));
    let changes = CommitChanges {
        approvals: vec![approval.clone()],
        ..CommitChanges::default()
    };
    log.append(std::slice::from_ref(&one), &changes).unwrap();
    let before = log.load().unwrap();

    log.set_pragma(refuse.0, refuse.1).unwrap();
    let (two, ended) = ending(Seq(2), &approval);
    let large = committed(Seq(3), notified(Some("new"), &"x".repeat(100_000)));
    let changes = CommitChanges {
        approvals: vec![ended],
        ..CommitChanges::default()
    };
    let error = log
        .append(&[two.clone(), large.clone()], &changes)
        .unwrap_err();
    assert!(expected(&error), "{error:?}");
    assert_eq!(log.load().unwrap(), before);
    let all = EventQuery {
        limit: 10,
        ..EventQuery::default()
    };
    assert_eq!(history.events(&all).unwrap(), std::slice::from_ref(&one));

    log.set_pragma(allow.0, allow.1).unwrap();
    log.append(&[two.clone(), large.clone()], &changes).unwrap();
    assert_eq!(history.events(&all).unwrap(), [one, two, large]);
    drop(log);
    assert_eq!(
        countersign_store::verify(&host.path, None)
            .unwrap()
            .problems,
        []
    );
}

#[test]
fn full_disk_loses_nothing_and_passes() {
    let full = |error: &StoreError| matches!(error, StoreError::Full { .. });
    fails_then_goes_on(("max_page_count", 1), ("max_page_count", 1_000_000), full);
}

#[test]
fn disk_that_cannot_be_written_loses_nothing_and_passes() {
    let read_only = |error: &StoreError| matches!(error, StoreError::ReadOnly { .. });
    fails_then_goes_on(("query_only", 1), ("query_only", 0), read_only);
}

#[test]
fn ids_are_found_before_and_after_they_are_indexed() {
    let host = Host::new();
    let mut script = host.script();
    let mut last = None;
    while script.head.0 < 17_000 {
        let (mut entries, mut changes) = (Vec::new(), CommitChanges::default());
        for seq in (script.head.0 + 1)..=(script.head.0 + 1_000) {
            let (entry, approval) = opening(
                Seq(seq),
                ask(&format!("approval-{:x}-{seq}", seq % 16), None),
            );
            entries.push(entry);
            changes.approvals.push(approval.clone());
            last = Some(approval);
        }
        script.append(&entries, &changes).unwrap();
    }
    let find = |id: &str| {
        script
            .history
            .find_approval(&countersign_core::ApprovalId::new(id))
            .unwrap()
    };
    assert_eq!(find("approval-1-1").unwrap().opened, Seq(1));
    assert_eq!(find("approval-8-17000"), last);
    assert_eq!(find("approval-8-1"), None);
    let prefix = |prefix: &str, limit| {
        let id_prefix = Some(prefix.to_owned());
        let query = countersign_store::ApprovalQuery {
            id_prefix,
            limit,
            ..Default::default()
        };
        let found = script.history.approvals(&query).unwrap();
        found
            .iter()
            .map(|approval| approval.opened.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(prefix("approval-8-170", 9), [17_000, 1_704]);
    assert_eq!(prefix("approval-8-", 3), [17_000, 16_984, 16_968]);
    assert_eq!(prefix("approval-8-", usize::MAX).len(), 1_063);
    // The end of the writer brings everything into the tables.
    drop(script);
    let conn = Connection::open_with_flags(&host.path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let indexed: i64 = conn
        .query_row("SELECT count(*) FROM approval_ids", [], |row| row.get(0))
        .unwrap();
    assert_eq!(indexed, 17_000);
}

#[test]
fn ids_are_found_in_every_run_of_the_index() {
    const RUN: u64 = 16_384;
    let host = Host::new();
    let mut script = host.script();
    for run in 0..3 {
        let (mut entries, mut changes) = (Vec::new(), CommitChanges::default());
        for seq in (run * RUN + 1)..=((run + 1) * RUN) {
            let (entry, approval) = opening(Seq(seq), ask(&format!("approval-{seq}"), None));
            entries.push(entry);
            changes.approvals.push(approval);
        }
        script.append(&entries, &changes).unwrap();
    }
    for seq in [1, RUN, RUN + 1, 2 * RUN + 1, 3 * RUN] {
        let id = countersign_core::ApprovalId::new(format!("approval-{seq}"));
        let found = script.history.find_approval(&id).unwrap();
        assert_eq!(found.map(|found| found.opened), Some(Seq(seq)));
    }
    let conn = Connection::open_with_flags(&host.path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let runs: i64 = conn
        .query_row("SELECT count(*) FROM id_runs", [], |row| row.get(0))
        .unwrap();
    assert_eq!(runs, 3);
}

#[test]
fn erased_words_leave_the_disk() {
    let host = Host::new();
    let mut script = host.script();
    let secret = "correct horse battery staple ".repeat(400);
    script.tell(notified(None, &secret));
    script.tell(notified(None, "kept"));
    script.redact(1).unwrap();
    for bytes in host.bytes() {
        assert!(!bytes.windows(13).any(|window| window == b"correct horse"));
    }
}

#[test]
fn erased_words_leave_the_disk_also_where_rows_were_moved() {
    let host = Host::new();
    let mut script = host.script();
    // Enough for the table to grow by pages, and by a level: rows are copied then.
    for number in 0..300 {
        let text = format!("secret {number:03} {}", "x".repeat(300));
        script.tell(notified(None, &text));
    }
    for number in 1..=300 {
        script.redact(number).unwrap();
    }
    for bytes in host.bytes() {
        let text = String::from_utf8_lossy(&bytes);
        let left: Vec<&str> = text.matches("secret ").collect();
        assert_eq!(left.len(), 0);
    }
}

#[test]
fn readers_see_whole_commits_only() {
    let host = Host::new();
    let (mut log, history) = open_parts(&host);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let query = EventQuery {
                        limit: usize::MAX,
                        ..EventQuery::default()
                    };
                    let seen = history.events(&query).unwrap();
                    assert_eq!(seen.len() % 3, 0);
                    assert!(
                        seen.iter()
                            .zip(1..)
                            .all(|(committed, seq)| committed.seq == Seq(seq))
                    );
                }
            });
        }
        for round in 0..60 {
            let entries: Vec<CommittedEvent> = (1..=3)
                .map(|n| committed(Seq(round * 3 + n), notified(Some("a"), "x")))
                .collect();
            log.append(&entries, &CommitChanges::default()).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

//! Appends that are written and cannot be confirmed.

use std::mem;

use countersign_core::event::HostStarted;
use countersign_core::{CommitChanges, CommittedEvent, Seq, Timestamp};

use super::log_copy::LogCopy;
use super::*;
use crate::{EventHistory as _, EventQuery, verify};

fn append(log: &mut SqliteLog, seq: u64) -> Result<(), StoreError> {
    let started = HostStarted {
        version: "1".to_owned(),
        pid: 1,
        lapses_at: Timestamp(0),
    };
    let entry = CommittedEvent {
        seq: Seq(seq),
        at: Timestamp(seq),
        event: started.into(),
        ask: None,
    };
    log.append(&[entry], &CommitChanges::default())
}

/// The disk refuses to give back what was written, and recovers.
#[test]
fn append_that_could_not_be_confirmed_counts_once_it_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let (mut log, history) = open(&path).unwrap();
    append(&mut log, 1).unwrap();
    // A directory can be opened and not read.
    let unreadable = LogCopy::open(folder.path(), 4096).unwrap();
    let readable = mem::replace(&mut log.log_copy, unreadable);
    let error = append(&mut log, 2).unwrap_err();
    assert!(matches!(error, StoreError::Unconfirmed { .. }), "{error:?}");
    // Until then nothing is known, and nothing is added to it.
    log.load().map(drop).unwrap_err();
    append(&mut log, 2).unwrap_err();
    append(&mut log, 3).unwrap_err();
    log.log_copy = readable;
    assert_eq!(log.load().unwrap().head, Seq(2));
    append(&mut log, 3).unwrap();
    let query = EventQuery {
        limit: 10,
        ..EventQuery::default()
    };
    let events = history.events(&query).unwrap();
    assert_eq!(
        events.iter().map(|event| event.seq.0).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    drop(log);
    assert_eq!(verify(&path, None).unwrap().problems, []);
}

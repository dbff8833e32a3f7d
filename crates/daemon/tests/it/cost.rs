//! Remembering costs one commit and one row, however much is remembered already.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use countersign_core::event::Effect;
use countersign_core::{CommitChanges, CommittedEvent, Snapshot};
use countersign_daemon::{EventLog, HostSettings, StoreError};

use crate::fixture::{ann, draft};

/// A log that counts the rows of grants it is told to write.
struct Counting {
    log: Box<dyn EventLog>,
    rows: Arc<Mutex<Vec<usize>>>,
}

impl EventLog for Counting {
    fn load(&mut self) -> Result<Snapshot, StoreError> {
        self.log.load()
    }

    fn append(
        &mut self,
        entries: &[CommittedEvent],
        changes: &CommitChanges,
    ) -> Result<(), StoreError> {
        self.rows
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(changes.grants.len());
        self.log.append(entries, changes)
    }
}

#[tokio::test]
async fn remembering_one_more_costs_one_commit_and_one_row() {
    const STORED: usize = 10_000;
    let (log, history) = countersign_store::memory::open_memory();
    let rows = Arc::new(Mutex::new(Vec::new()));
    let log = Counting {
        log: Box::new(log),
        rows: rows.clone(),
    };
    let (service, _stopped) =
        countersign_daemon::start(Box::new(log), history, HostSettings::new("test"))
            .await
            .unwrap();
    let add = async |n: usize| {
        let draft = draft(Effect::Allow, &format!("Bash(make t{n}:*)"));
        service.add_grant(ann(), draft).await.unwrap()
    };
    for n in 0..STORED {
        add(n).await;
    }
    let before = service.counters().commits.load(Ordering::Relaxed);
    rows.lock().unwrap().clear();
    add(STORED).await;
    let after = service.counters().commits.load(Ordering::Relaxed);
    assert_eq!(after - before, 1);
    assert_eq!(*rows.lock().unwrap(), [1]);
}

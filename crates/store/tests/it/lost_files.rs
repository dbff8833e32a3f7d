//! Files that are removed, replaced, cut short or overwritten under a running writer.

use std::fs;
use std::path::{Path, PathBuf};

use countersign_core::{CommitChanges, CommittedEvent, Seq};
use countersign_store::{
    EventHistory as _, EventLog as _, EventQuery, SqliteLog, StoreError, open, verify,
};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use crate::fixture::{committed, notified};

/// A writer, and a folder in which its files lie.
struct Scene {
    folder: TempDir,
    log: SqliteLog,
    head: Seq,
}

impl Scene {
    fn with_events(count: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (log, _history) = open(&folder.path().join("log.db")).unwrap();
        let mut scene = Self {
            folder,
            log,
            head: Seq(0),
        };
        for _ in 0..count {
            scene.append().unwrap();
        }
        scene
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.folder.path().join(format!("log.db{suffix}"))
    }

    fn append(&mut self) -> Result<(), StoreError> {
        let next = committed(self.head.next(), notified(None, &"word ".repeat(500)));
        self.log.append(&[next], &CommitChanges::default())?;
        self.head = self.head.next();
        Ok(())
    }

    /// What is said of which file, by the next append and by every look after it.
    fn loss(&mut self) -> (String, &'static str) {
        let first = lost(self.append().unwrap_err());
        assert_eq!(lost(self.append().unwrap_err()), first);
        assert_eq!(lost(self.log.check().unwrap_err()), first);
        first
    }

    /// Rescues, and gives how many events there are in the new file.
    fn rescue(&mut self) -> u64 {
        let target = self.folder.path().join("rescued.db");
        let rescued = self.log.rescue(&target).unwrap();
        let report = verify(&target, Some((rescued.head, rescued.head_hash.clone()))).unwrap();
        assert_eq!(report.problems, []);
        assert_eq!((report.events, report.head), (rescued.events, rescued.head));
        let left: Vec<_> = fs::read_dir(self.folder.path()).unwrap().collect();
        let drafts = left.into_iter().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().contains(".part")
        });
        assert_eq!(drafts.count(), 0);
        rescued.events
    }
}

fn lost(error: StoreError) -> (String, &'static str) {
    let StoreError::Lost { path, what } = error else {
        panic!("{error:?}");
    };
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    (name, what)
}

fn cut(path: &Path, length: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(length).unwrap();
}

#[test]
fn removed_files_are_found_out_and_rescued() {
    for (gone, expected) in [
        (&["", "-wal", "-shm"][..], "log.db"),
        (&[""], "log.db"),
        (&["-wal"], "log.db-wal"),
        (&["-shm"], "log.db-shm"),
        (&[".lock"], "log.db.lock"),
        (&["", "-wal", "-shm", ".lock"], "log.db"),
    ] {
        let mut scene = Scene::with_events(20);
        for suffix in gone {
            fs::remove_file(scene.path(suffix)).unwrap();
        }
        assert_eq!(
            scene.loss(),
            (expected.to_owned(), "was removed"),
            "{gone:?}"
        );
        assert_eq!(scene.rescue(), 20, "{gone:?}");
    }
}

#[test]
fn replaced_files_are_found_out_and_rescued() {
    for suffix in ["", "-wal", "-shm"] {
        let mut scene = Scene::with_events(20);
        let other = Scene::with_events(3);
        fs::copy(other.path(suffix), scene.path(".other")).unwrap();
        fs::rename(scene.path(".other"), scene.path(suffix)).unwrap();
        let expected = format!("log.db{suffix}");
        assert_eq!(scene.loss(), (expected, "was replaced by another file"));
        assert_eq!(scene.rescue(), 20, "{suffix}");
    }
}

#[test]
fn moved_folder_is_found_out() {
    let mut scene = Scene::with_events(3);
    let (data, away) = (scene.folder.path().to_owned(), tempfile::tempdir().unwrap());
    fs::rename(&data, away.path().join("data")).unwrap();
    assert_eq!(scene.loss(), ("log.db".to_owned(), "was removed"));
}

#[test]
fn write_ahead_log_that_was_cut_is_found_out_and_rescued() {
    let whole = fs::metadata(Scene::with_events(20).path("-wal"))
        .unwrap()
        .len();
    for length in [0, 1, 32, 5_000, whole / 2, whole - 4_120, whole - 1] {
        let mut scene = Scene::with_events(20);
        cut(&scene.path("-wal"), length);
        let expected = ("log.db-wal".to_owned(), "was cut short or overwritten");
        assert_eq!(scene.loss(), expected, "{length}");
        assert_eq!(scene.rescue(), 20, "{length}");
    }
}

/// A look before the next append would have seen it; this is what happens between the two.
#[test]
fn write_ahead_log_that_was_cut_and_grew_again_is_found_out() {
    let mut scene = Scene::with_events(20);
    let length = fs::metadata(scene.path("-wal")).unwrap().len();
    cut(&scene.path("-wal"), 8_000);
    cut(&scene.path("-wal"), length);
    let expected = ("log.db-wal".to_owned(), "was cut short or overwritten");
    assert_eq!(scene.loss(), expected);
    // The last append reached the log behind the gap, but was not acknowledged.
    assert_eq!(scene.rescue(), 20);
}

#[test]
fn write_ahead_log_that_was_overwritten_in_place_is_found_out() {
    let mut scene = Scene::with_events(20);
    let other = Scene::with_events(30);
    fs::copy(other.path("-wal"), scene.path("-wal")).unwrap();
    let expected = ("log.db-wal".to_owned(), "was cut short or overwritten");
    assert_eq!(scene.loss(), expected);
    assert_eq!(scene.rescue(), 20);
}

/// Events enough that some are only in the database and some only in the write-ahead log.
fn scene_with_checkpoint() -> Scene {
    let mut scene = Scene::with_events(200);
    checkpoint(&scene, "TRUNCATE");
    for _ in 0..3 {
        scene.append().unwrap();
    }
    scene
}

fn checkpoint(scene: &Scene, mode: &str) {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let other = Connection::open_with_flags(scene.path(""), flags).unwrap();
    other
        .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
        .unwrap();
}

#[test]
fn database_that_was_cut_or_overwritten_in_place_is_found_out() {
    let expected = ("log.db".to_owned(), "was cut short or overwritten");
    for length in [0, 4_096, 100_000] {
        let mut scene = scene_with_checkpoint();
        cut(&scene.path(""), length);
        assert_eq!(scene.loss(), expected, "{length}");
    }
    // An old copy of the same record, and another record.
    let mut scene = Scene::with_events(100);
    checkpoint(&scene, "TRUNCATE");
    fs::copy(scene.path(""), scene.path(".old")).unwrap();
    for _ in 0..100 {
        scene.append().unwrap();
    }
    checkpoint(&scene, "TRUNCATE");
    scene.append().unwrap();
    fs::copy(scene.path(".old"), scene.path("")).unwrap();
    assert_eq!(scene.loss(), expected);
    let mut scene = scene_with_checkpoint();
    let other = Scene::with_events(500);
    checkpoint(&other, "TRUNCATE");
    fs::copy(other.path(""), scene.path("")).unwrap();
    assert_eq!(scene.loss(), expected);
}

#[test]
fn database_that_was_only_touched_is_no_loss() {
    let mut scene = scene_with_checkpoint();
    let mode = fs::metadata(scene.path("")).unwrap().permissions();
    fs::set_permissions(scene.path(""), mode).unwrap();
    fs::hard_link(scene.path(""), scene.path(".link")).unwrap();
    scene.log.check().unwrap();
    scene.append().unwrap();
}

#[test]
fn checkpoints_of_our_own_and_of_others_are_no_loss() {
    let mut scene = Scene::with_events(5);
    for mode in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"] {
        for _ in 0..3 {
            checkpoint(&scene, mode);
            scene.log.check().unwrap();
            scene.append().unwrap();
            scene.append().unwrap();
        }
    }
    // Enough for several of our own, and for logs that begin again.
    let many: Vec<CommittedEvent> = (0..4_000)
        .map(|n| {
            let seq = Seq(scene.head.0 + 1 + n);
            committed(seq, notified(None, &"word ".repeat(800)))
        })
        .collect();
    for part in many.chunks(200) {
        scene.log.append(part, &CommitChanges::default()).unwrap();
    }
    scene.log.check().unwrap();
    drop(scene.log);
    let path = scene.folder.path().join("log.db");
    assert_eq!(verify(&path, None).unwrap().events, 5 + 24 + 4_000);
}

#[test]
fn nothing_is_rescued_onto_a_file_nor_without_a_loss() {
    let mut scene = Scene::with_events(3);
    let target = scene.folder.path().join("rescued.db");
    assert!(scene.log.rescue(&target).is_err());
    assert!(!target.exists());
    fs::remove_file(scene.path("")).unwrap();
    fs::write(&target, "somebody's").unwrap();
    assert!(scene.log.rescue(&target).is_err());
    assert_eq!(fs::read(&target).unwrap(), b"somebody's");
}

/// An operator puts another record in place while the host still runs, and then ends it.
#[test]
fn writer_that_lost_its_files_leaves_others_under_their_names_alone() {
    let scene = Scene::with_events(5);
    let other = Scene::with_events(7);
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(scene.path(suffix)).unwrap();
        fs::copy(other.path(suffix), scene.path(suffix)).unwrap();
    }
    drop(scene.log);
    let path = scene.folder.path().join("log.db");
    assert_eq!(verify(&path, None).unwrap().events, 7);
}

#[test]
fn writer_that_nobody_rescued_saves_what_it_has_when_it_ends() {
    let scene = Scene::with_events(5);
    for suffix in ["", "-wal", "-shm", ".lock"] {
        fs::remove_file(scene.path(suffix)).unwrap();
    }
    let saved = scene.path(".rescued");
    drop(scene.log);
    assert_eq!(verify(&saved, None).unwrap().events, 5);
    let mut scene = Scene::with_events(5);
    fs::remove_file(scene.path("")).unwrap();
    scene.rescue();
    let saved = scene.path(".rescued");
    drop(scene.log);
    assert!(!saved.exists(), "once is enough");
}

/// A reader that is opened after the loss would read another record.
#[test]
fn new_reader_does_not_read_another_file_under_the_same_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let (_log, history) = open(&path).unwrap();
    let other = Scene::with_events(3);
    for suffix in ["", "-wal", "-shm"] {
        let name = folder.path().join(format!("log.db{suffix}"));
        fs::remove_file(&name).unwrap();
        fs::copy(other.path(suffix), &name).unwrap();
    }
    let query = EventQuery {
        limit: 10,
        ..EventQuery::default()
    };
    let error = history.events(&query).unwrap_err();
    let expected = ("log.db".to_owned(), "was replaced by another file");
    assert_eq!(lost(error), expected);
}

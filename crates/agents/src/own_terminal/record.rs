//! The folder of a terminal: enough for any host to find it, or to clear away what it left.
//!
//! Invariant: what is removed has the very mark of the record.

use std::fs;
use std::path::{Path, PathBuf};

use countersign_core::event::ProcessKey;
use serde::{Deserialize, Serialize};

use super::OwnTerminalStatus;
use crate::procfs::is_alive;
use crate::runner::folder;
use crate::tree::{TreeError, sweep_own_terminal};

pub(super) const RECORD_FILE: &str = "record.json";
pub(super) const RUNNER_FILE: &str = "runner";
pub(super) const LOG_FILE: &str = "log";
/// How it stood when its program ended.
pub(super) const STATUS_FILE: &str = "ended.json";

/// There if its end is on the record of the host.
pub(super) const RECORDED_FILE: &str = "recorded";

/// Written before the runner is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnTerminalRecord {
    pub id: String,
    /// In the environment of everything that runs in it.
    pub mark: String,
    pub folder: PathBuf,
    /// Where it may listen, the best first.
    pub sockets: Vec<PathBuf>,
    /// The file that a host locks while it runs: whoever has that lock is a host.
    pub host_lock: Option<PathBuf>,
    /// What runs in it, for people.
    pub command: String,
    pub cwd: PathBuf,
}

impl OwnTerminalRecord {
    /// Whether its end is on the record.
    pub fn is_recorded(&self) -> bool {
        self.folder.join(RECORDED_FILE).exists()
    }
}

/// A terminal whose runner is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTerminal {
    pub record: OwnTerminalRecord,
    /// Nothing if the runner was killed.
    pub status: Option<OwnTerminalStatus>,
}

/// The terminals that an earlier host left: those whose runner lives, and those that are over.
pub fn find_left(folder: &Path) -> (Vec<(OwnTerminalRecord, ProcessKey)>, Vec<EndedTerminal>) {
    let (mut living, mut over) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let record = folder::read::<OwnTerminalRecord>(&path, RECORD_FILE);
        // A copied folder names the files and processes of another terminal, which are not to be
        // ended because of it.
        let Some(record) = record.filter(|record| record.folder == path) else {
            continue;
        };
        match folder::read::<ProcessKey>(&path, RUNNER_FILE).filter(|runner| is_alive(*runner)) {
            Some(runner) => living.push((record, runner)),
            None => over.push(EndedTerminal {
                status: folder::read(&path, STATUS_FILE),
                record,
            }),
        }
    }
    living.sort_by(|one, other| one.0.id.cmp(&other.0.id));
    (living, over)
}

/// Ends what a terminal left, its runner included, and removes its files.
pub async fn end_left_over(record: &OwnTerminalRecord) -> Result<usize, TreeError> {
    let runner = folder::read::<ProcessKey>(&record.folder, RUNNER_FILE);
    let ended = sweep_own_terminal(&record.mark, runner).await?;
    remove_files(record);
    Ok(ended)
}

pub(super) fn remove_files(record: &OwnTerminalRecord) {
    for socket in &record.sockets {
        drop(fs::remove_file(socket));
    }
    for name in [
        RECORD_FILE,
        RUNNER_FILE,
        LOG_FILE,
        STATUS_FILE,
        RECORDED_FILE,
    ] {
        drop(fs::remove_file(record.folder.join(name)));
    }
    drop(fs::remove_dir(&record.folder));
}

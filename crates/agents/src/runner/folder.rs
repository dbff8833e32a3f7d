//! The folder of a runner, as the host sees it.
//!
//! Invariants: it is for its user only; a file in it is there whole or not at all; only a folder that
//! holds the very record is removed.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use countersign_core::event::ProcessKey;
use countersign_core::limits;
use rustix::fs::OFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::runner_processes::list_runners;
use super::{FILES, LOG_FILE, RECORD_FILE, RUNNER_FILE, RunnerRecord, TMP_FOLDER};
use crate::procfs::is_alive;
use crate::tree::{ContainmentMethod, TreeRecord};

/// Makes the folder with the record in it.
pub(super) fn create(record: &RunnerRecord) -> io::Result<()> {
    create_private(&record.folder)?;
    write(&record.folder, RECORD_FILE, record)
}

/// Makes a folder that is for its user only, and refuses one that is not.
pub(crate) fn create_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    // Not followed: the folder may have been replaced by a link since it was made.
    let found = fs::symlink_metadata(folder)?;
    let ours = found.uid() == rustix::process::geteuid().as_raw();
    if !found.is_dir() || !ours || found.mode() & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is there already and others may reach it",
        ));
    }
    Ok(())
}

/// Notes which process it is, for whoever has no record of it but this folder.
pub(super) fn write_runner_key(record: &RunnerRecord, runner: ProcessKey) -> io::Result<()> {
    write(&record.folder, RUNNER_FILE, &runner)
}

/// Which process it was when it was started.
pub(super) fn read_runner_key(record: &RunnerRecord) -> Option<ProcessKey> {
    read(&record.folder, RUNNER_FILE)
}

/// Opens the log of the runner. It is a file and not the host's standard error: whoever reads that would
/// wait until the runner ends.
pub(super) fn open_log(record: &RunnerRecord) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    options.open(record.folder.join(LOG_FILE))
}

/// The end of what it wrote about itself.
pub(super) fn read_log(record: &RunnerRecord) -> String {
    read_log_end(&record.folder.join(LOG_FILE)).unwrap_or_default()
}

fn read_log_end(path: &Path) -> io::Result<String> {
    let mut file = open_regular(path)?;
    let end = file.seek(SeekFrom::End(0))?;
    let kept = limits::AGENT_LOG_LINE_BYTES_MAX as u64;
    file.seek(SeekFrom::Start(end.saturating_sub(kept)))?;
    let mut bytes = Vec::new();
    file.take(kept).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Removes the folder and the sockets of a run that is over. What cannot be removed stays, and is
/// said in the log.
pub fn remove_run_files(record: &RunnerRecord) {
    for socket in &record.sockets {
        // An agent of the same user may have put anything else in its place, and that stays.
        if fs::symlink_metadata(socket).is_ok_and(|found| found.file_type().is_socket()) {
            log_failure(socket, fs::remove_file(socket));
        }
    }
    match read::<RunnerRecord>(&record.folder, RECORD_FILE) {
        // The mark in it is random, so that an equal one is of this very run.
        Some(found) if found.tree == record.tree => {
            log_failure(&record.folder, fs::remove_dir_all(&record.folder));
        }
        Some(_) => {
            tracing::warn!(folder = ?record.folder, "a runner's folder holds another's record");
        }
        // It was never written, or the runner has begun to clear up itself.
        None => remove_known_files(&record.folder),
    }
}

/// Whatever else is there, the folder stays with it.
fn remove_known_files(folder: &Path) {
    let halves = [RECORD_FILE, RUNNER_FILE].map(|name| temporary(folder, name));
    for file in FILES.map(|name| folder.join(name)).iter().chain(&halves) {
        log_failure(file, fs::remove_file(file));
    }
    let tmp = folder.join(TMP_FOLDER);
    // Not followed if it is a link.
    log_failure(&tmp, fs::remove_dir_all(&tmp));
    log_failure(folder, fs::remove_dir(folder));
}

fn log_failure(path: &Path, removed: io::Result<()>) {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(?path, %error, "could not clear up after a runner");
        }
        _ => {}
    }
}

/// Whether a runner has its folder in another place than the one of all runners here: then it is
/// another host's, and this one has a copy of that host's files. Not, if its folder has gone.
pub fn belongs_to_another_host(record: &RunnerRecord, folder: &Path) -> bool {
    let parent = record.folder.parent().map(fs::canonicalize);
    match (parent, fs::canonicalize(folder)) {
        (Some(Ok(theirs)), Ok(ours)) => theirs != ours,
        _ => false,
    }
}

/// Runners that live, found in the folder of all runners, and by their command lines where an agent
/// took something from there.
pub fn find_orphans(folder: &Path) -> Vec<(RunnerRecord, ProcessKey)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut left: Vec<_> = entries
        .filter_map(|entry| {
            let record: RunnerRecord = read(&entry.path(), RECORD_FILE)?;
            let runner = read(&entry.path(), RUNNER_FILE)?;
            let ours = record.folder.file_name() == entry.path().file_name()
                && !belongs_to_another_host(&record, folder);
            (ours && is_alive(runner)).then_some((record, runner))
        })
        .collect();
    let known: HashSet<_> = left.iter().map(|(_, runner)| *runner).collect();
    // An agent can delete its runner's folder, but not the command line of the process.
    let others = list_runners().into_iter().filter(|(runner, path)| {
        path.parent() == Some(folder) && !known.contains(runner) && is_alive(*runner)
    });
    left.extend(others.map(|(runner, path)| {
        let record = read(&path, RECORD_FILE).filter(|record: &RunnerRecord| record.folder == path);
        (record.unwrap_or_else(|| record_without_file(path)), runner)
    }));
    left.sort_by(|(one, _), (other, _)| one.folder.cmp(&other.folder));
    left
}

/// What is known of a runner whose record is gone: what descends from it is its agent's.
fn record_without_file(folder: PathBuf) -> RunnerRecord {
    RunnerRecord {
        tree: TreeRecord {
            containment: ContainmentMethod::Marks {
                why: "its record is gone".to_owned(),
            },
            mark: "none".to_owned(),
        },
        folder,
        sockets: Vec::new(),
        patience_ms: limits::RUNNER_PATIENCE_MS,
        protocol: countersign_core::event::Protocol::default(),
    }
}

/// Clears away what runs that are over left in the folder of all runners and in the folders of their
/// sockets, save what those in `kept` have. Nobody may be starting a runner meanwhile.
pub fn clear_orphans(folder: &Path, sockets: &[PathBuf], kept: &[&RunnerRecord]) {
    for path in sockets.iter().flat_map(|place| list_sockets(place)) {
        if !is_kept(&path, kept) {
            log_failure(&path, fs::remove_file(&path));
        }
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        // Without the file no runner was started, or it has begun to clear up.
        let is_over = !read(&path, RUNNER_FILE).is_some_and(is_alive);
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && is_over && !is_kept(&path, kept) {
            remove_known_files(&path);
        }
    }
}

fn is_kept(path: &PathBuf, kept: &[&RunnerRecord]) -> bool {
    kept.iter()
        .any(|record| record.folder == *path || record.sockets.contains(path))
}

fn list_sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    sockets.map(|entry| entry.path()).collect()
}

/// Not flushed to the disk: after a loss of power there is no runner either.
pub(crate) fn write(folder: &Path, name: &str, value: &impl Serialize) -> io::Result<()> {
    // Renamed when it is whole: another host may be reading the folder at any moment.
    let half = temporary(folder, name);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
        .open(&half)?
        .write_all(&serde_json::to_vec(value)?)?;
    fs::rename(&half, folder.join(name))
}

fn temporary(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.half"))
}

/// Opens a file to read. An agent of the same user may have put anything in its place: a link is not
/// followed, and a pipe is not waited for.
pub(super) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is not a regular file",
        ))
    }
}

pub(crate) fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> Option<T> {
    let file = open_regular(&folder.join(name)).ok()?;
    let mut bytes = Vec::new();
    file.take(limits::RUNNER_RECORD_BYTES_MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    serde_json::from_slice(&bytes).ok()
}

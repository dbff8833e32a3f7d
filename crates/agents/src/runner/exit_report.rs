//! The exit report: what a runner that ends without a host leaves for the next one.
//!
//! It is one file: a line of JSON, then the agent's output that no host has committed.
//!
//! Invariants: the file is there whole or not at all, and one that others could have written is refused.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use countersign_core::limits;
use serde::{Deserialize, Serialize};

use super::backlog::OutputBacklog;
use super::folder::open_regular;
use crate::adapter::{ProcessExit, WriteId, WriteKind};
use crate::shells::KeptTerminals;

pub(super) const FILE: &str = "exit-report";
const UNFINISHED: &str = "exit-report.part";
const CHUNK: usize = 64 * 1024;

/// What a runner left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitReport {
    /// The number of the first byte of `output`: what came before it was committed.
    pub from: u64,
    /// What the agent said from there on, to its end.
    pub output: Vec<u8>,
    pub exit: ProcessExit,
    /// Why the runner ended it, if it did.
    pub why: Option<String>,
    /// The end of what the agent wrote for its log.
    pub log: String,
    /// What was written to the agent, and what each meant.
    pub written: Vec<(WriteId, WriteKind)>,
    /// What its terminals wrote last.
    pub terminals: KeptTerminals,
}

/// All but the bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ExitReportHeader {
    pub(super) from: u64,
    pub(super) bytes: u64,
    pub(super) exit: ProcessExit,
    pub(super) why: Option<String>,
    pub(super) log: String,
    pub(super) written: Vec<(WriteId, WriteKind)>,
    /// Missing in the report of an older runner.
    #[serde(default)]
    pub(super) terminals: KeptTerminals,
}

pub(super) fn write(
    folder: &Path,
    head: &ExitReportHeader,
    backlog: &OutputBacklog,
) -> io::Result<()> {
    let unfinished = folder.join(UNFINISHED);
    let written = write_to(&unfinished, head, backlog)
        .and_then(|()| fs::rename(&unfinished, folder.join(FILE)));
    if written.is_err() {
        drop(fs::remove_file(&unfinished));
    }
    written
}

fn write_to(path: &Path, head: &ExitReportHeader, backlog: &OutputBacklog) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    let mut line = serde_json::to_vec(head)?;
    line.push(b'\n');
    file.write_all(&line)?;
    let mut offset = head.from;
    loop {
        let chunk = backlog.read_from(offset, CHUNK)?;
        if chunk.is_empty() {
            // Before the rename, because the only other copy ends with this process.
            return file.sync_all();
        }
        file.write_all(&chunk)?;
        offset += chunk.len() as u64;
    }
}

/// Gives what the runner with this folder left; nothing if it left nothing. Refuses a file that
/// somebody else may have written.
pub fn read_exit_report(folder: &Path) -> io::Result<Option<ExitReport>> {
    match open_regular(&folder.join(FILE)) {
        Ok(file) => read_from(file).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_from(file: File) -> io::Result<ExitReport> {
    // Checked on the open file: the name could lead elsewhere a moment later.
    let found = file.metadata()?;
    let ours = found.uid() == rustix::process::geteuid().as_raw();
    if !ours || found.mode() & 0o077 != 0 {
        return Err(invalid(
            "the exit report of a runner can be reached by others",
        ));
    }
    if found.len() > limits::RUNNER_EXIT_REPORT_BYTES_MAX {
        return Err(invalid("the exit report of a runner is too long"));
    }
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    let head: ExitReportHeader = serde_json::from_slice(&line)?;
    let mut output = Vec::new();
    reader.read_to_end(&mut output)?;
    if output.len() as u64 != head.bytes || head.from.checked_add(head.bytes).is_none() {
        return Err(invalid("the exit report of a runner is incomplete"));
    }
    Ok(ExitReport {
        from: head.from,
        output,
        exit: head.exit,
        why: head.why,
        log: head.log,
        written: head.written,
        terminals: head.terminals,
    })
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

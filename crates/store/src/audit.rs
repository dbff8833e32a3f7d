//! The audit: proves the record whole, says what was erased, and writes it out.
//!
//! Invariants: nothing here writes; it works beside a running host; what was erased on the
//! record is no problem, and what is missing without a record is one.

use std::collections::BTreeSet;
use std::path::Path;

use countersign_core::event::{RecordPruned, RecordRedacted};
use countersign_core::{Seq, hex};
use rusqlite::{Connection, OptionalExtension as _, Row};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::StoreError;
use crate::chain::{self, ChainHash, EventHeader};
use crate::failure::SqliteFailure;
use crate::sqlite::open_for_audit;

/// Problems that are listed one by one. Beyond them the record is lost anyway.
const PROBLEMS_LISTED_MAX: usize = 1_000;

/// What an audit found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditReport {
    /// The stream the record belongs to.
    pub stream: String,
    /// How many events there are.
    pub events: u64,
    /// The oldest event that is there.
    pub first: Option<Seq>,
    /// The newest event; zero for an empty record.
    pub head: Seq,
    /// Its hash, in hexadecimal: what a later audit can be held against.
    pub head_hash: String,
    /// The oldest event that was kept when history was last pruned.
    pub pruned_before: Option<Seq>,
    /// Events whose payload was erased on the record.
    pub redacted: Vec<Seq>,
    /// Everything that does not hold. Empty means that the record is whole.
    pub problems: Vec<AuditProblem>,
}

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuditProblem {
    /// Events are missing.
    #[error("events are missing between {after} and {before}")]
    Gap {
        /// The last one before.
        after: Seq,
        /// The first one after.
        before: Seq,
    },
    /// An event does not follow from the one before it.
    #[error("event {seq} does not follow from the one before it")]
    HashMismatch {
        /// The event.
        seq: Seq,
    },
    /// A payload is not the one that was committed.
    #[error("the payload of event {seq} is not the one that was committed")]
    DigestMismatch {
        /// The event.
        seq: Seq,
    },
    /// A payload is gone, and no event says that it was erased.
    #[error("the payload of event {seq} is missing, and nothing on the record says why")]
    MissingPayload {
        /// The event.
        seq: Seq,
    },
    /// Old events are gone, and no event says that they were pruned.
    #[error("events before {before} are missing, and nothing on the record says why")]
    UnrecordedPrune {
        /// The oldest event that is there.
        before: Seq,
    },
    /// The newest events are gone: more were counted into the read models.
    #[error("the newest event is {newest}, but {counted} was committed")]
    HeadMoved {
        /// The newest event.
        newest: Seq,
        /// The one the read models count up to.
        counted: Seq,
    },
    /// The given head is newer than the record.
    #[error("the record does not reach event {seq}, which was its head before")]
    HeadNotReached {
        /// The given head.
        seq: Seq,
    },
    /// The given head was pruned or is missing, so that it cannot be compared.
    #[error("event {seq}, which was the head before, is no longer on the record")]
    HeadGone {
        /// The given head.
        seq: Seq,
    },
    /// The given head is another event than the record's.
    #[error("event {seq} is not the one that was the head before")]
    HeadMismatch {
        /// The given head.
        seq: Seq,
    },
    /// There are more than can be listed.
    #[error("there are {count} problems more")]
    More {
        /// How many.
        count: u64,
    },
}

/// Walks the whole chain, against a head kept elsewhere if one is given as number and hash.
///
/// A record that was cut off at its end is found only against such a head.
pub fn verify(path: &Path, head: Option<(Seq, String)>) -> Result<AuditReport, StoreError> {
    let conn = open_for_audit(path)?;
    walk(&conn, head).map_err(|failure| failure.into_error(path, "verifying the record"))
}

/// The same through a connection that is open.
pub(crate) fn walk(
    conn: &Connection,
    head: Option<(Seq, String)>,
) -> Result<AuditReport, SqliteFailure> {
    // One snapshot for the whole walk: a host may append or prune meanwhile, and half of the record
    // before and half after would look like damage.
    let transaction = conn.unchecked_transaction()?;
    let mut walk = ChainWalk::begin(&transaction, head)?;
    walk.events(&transaction)?;
    walk.finish(&transaction)
}

/// An event as the record has it.
struct ChainedEvent {
    seq: u64,
    at: u64,
    kind: String,
    version: u32,
    stream: String,
    digest: ChainHash,
    hash: ChainHash,
}

impl ChainedEvent {
    const SQL: &'static str = "
        SELECT e.seq, e.at, k.text, e.version, s.text, e.digest, e.hash, p.salt, p.body
        FROM events e LEFT JOIN payloads p ON p.seq = e.seq
            LEFT JOIN strings k ON k.code = e.kind LEFT JOIN strings s ON s.code = e.stream
        WHERE e.seq BETWEEN ?1 AND ?2 ORDER BY e.seq";

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get::<_, i64>(0)?.cast_unsigned(),
            at: row.get::<_, i64>(1)?.cast_unsigned(),
            // A code without a string is damage. Read as the empty text, it fails the hash check
            // and is reported there.
            kind: row.get::<_, Option<String>>(2)?.unwrap_or_default(),
            version: row.get(3)?,
            stream: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
            digest: row.get(5)?,
            hash: row.get(6)?,
        })
    }

    fn follows(&self, previous: &ChainHash) -> bool {
        let Self {
            seq, at, version, ..
        } = *self;
        let header = EventHeader {
            stream: &self.stream,
            seq,
            at,
            kind: &self.kind,
            version,
            digest: &self.digest,
        };
        chain::chain_hash(previous, &header) == self.hash
    }
}

/// Salt and body of the row, if they are there.
fn payload<'r>(row: &'r Row<'_>) -> rusqlite::Result<Option<(&'r [u8], &'r [u8])>> {
    let salt = row.get_ref(7)?.as_blob_or_null()?;
    Ok(salt.zip(row.get_ref(8)?.as_blob_or_null()?))
}

/// The state of a walk along the chain.
struct ChainWalk {
    report: AuditReport,
    previous: ChainHash,
    unlisted: u64,
    missing: BTreeSet<Seq>,
    erased: BTreeSet<Seq>,
    recorded_prune: Option<Seq>,
    wanted: Option<(Seq, String)>,
}

impl ChainWalk {
    fn begin(conn: &Connection, wanted: Option<(Seq, String)>) -> Result<Self, SqliteFailure> {
        let stream: String = meta(conn, "stream")?.unwrap_or_default();
        let pruned: Option<i64> = meta(conn, "pruned_seq")?;
        let boundary: Option<ChainHash> = meta(conn, "pruned_hash")?;
        // A pruned record begins at its boundary: the hash of the last removed event is kept in
        // place of the events.
        let (head, previous) = match pruned.zip(boundary) {
            Some((seq, hash)) => (Seq(seq.cast_unsigned()), hash),
            None => (Seq(0), chain::genesis(&stream)),
        };
        let report = AuditReport {
            stream,
            events: 0,
            first: None,
            head,
            head_hash: String::new(),
            pruned_before: pruned.map(|_| head.next()),
            redacted: Vec::new(),
            problems: Vec::new(),
        };
        let (missing, erased) = (BTreeSet::new(), BTreeSet::new());
        let mut walk = Self {
            report,
            previous,
            unlisted: 0,
            missing,
            erased,
            recorded_prune: None,
            wanted,
        };
        // The given head may be the last pruned event, whose hash is still known.
        walk.compare_head(head);
        Ok(walk)
    }

    fn events(&mut self, conn: &Connection) -> Result<(), SqliteFailure> {
        let mut statement = conn.prepare(ChainedEvent::SQL)?;
        let mut rows = statement.query([0, i64::MAX])?;
        while let Some(row) = rows.next()? {
            let link = ChainedEvent::read(row)?;
            self.step(&link, payload(row)?);
        }
        Ok(())
    }

    fn step(&mut self, link: &ChainedEvent, payload: Option<(&[u8], &[u8])>) {
        let seq = Seq(link.seq);
        // After a gap the hash proves nothing: the event it covers is not there.
        if seq != self.report.head.next() {
            self.problem(AuditProblem::Gap {
                after: self.report.head,
                before: seq,
            });
        } else if !link.follows(&self.previous) || link.stream != self.report.stream {
            self.problem(AuditProblem::HashMismatch { seq });
        }
        match payload {
            None => _ = self.missing.insert(seq),
            // Only a payload that is proved to be the committed one may excuse missing ones.
            Some((salt, body)) if chain::digest(salt, body) == link.digest => {
                self.note_erasure(link, body);
            }
            Some(_) => self.problem(AuditProblem::DigestMismatch { seq }),
        }
        self.report.events += 1;
        self.report.first.get_or_insert(seq);
        self.report.head = seq;
        // The walk continues with the hash as it is stored: otherwise one changed event would make
        // every event after it a problem.
        self.previous = link.hash;
        self.compare_head(seq);
    }

    /// Remembers what the record itself says is gone. Only what came before can be erased.
    fn note_erasure(&mut self, link: &ChainedEvent, body: &[u8]) {
        if link.kind == "record.redacted"
            && let Ok(record) = serde_json::from_slice::<RecordRedacted>(body)
            && record.seq.0 < link.seq
        {
            self.erased.insert(record.seq);
        }
        if link.kind == "record.pruned"
            && let Ok(record) = serde_json::from_slice::<RecordPruned>(body)
            && record.before.0 <= link.seq
        {
            self.recorded_prune = self.recorded_prune.max(Some(record.before));
        }
    }

    fn compare_head(&mut self, reached: Seq) {
        if let Some((seq, hash)) = &self.wanted
            && *seq == reached
        {
            let matches = hash.eq_ignore_ascii_case(&hex(&self.previous));
            self.wanted = None;
            if !matches {
                self.problem(AuditProblem::HeadMismatch { seq: reached });
            }
        }
    }

    fn finish(mut self, conn: &Connection) -> Result<AuditReport, SqliteFailure> {
        // An erasure is recorded after the event it erases, so only now is it known which were.
        for seq in std::mem::take(&mut self.missing) {
            if self.erased.contains(&seq) {
                self.report.redacted.push(seq);
            } else {
                self.problem(AuditProblem::MissingPayload { seq });
            }
        }
        let newest = self.report.head;
        if let Some(before) = self.report.pruned_before
            // `None` is the smallest: a prune that no event records is a problem as well.
            && self.recorded_prune < Some(before)
        {
            self.problem(AuditProblem::UnrecordedPrune { before });
        }
        let counted = Seq(meta::<i64>(conn, "head")?
            .unwrap_or_default()
            .cast_unsigned());
        if counted != newest {
            self.problem(AuditProblem::HeadMoved { newest, counted });
        }
        if let Some((seq, _)) = self.wanted {
            let gone = seq < newest;
            self.problem(if gone {
                AuditProblem::HeadGone { seq }
            } else {
                AuditProblem::HeadNotReached { seq }
            });
        }
        if self.unlisted > 0 {
            self.report.problems.push(AuditProblem::More {
                count: self.unlisted,
            });
        }
        self.report.head_hash = hex(&self.previous);
        Ok(self.report)
    }

    fn problem(&mut self, problem: AuditProblem) {
        if self.report.problems.len() < PROBLEMS_LISTED_MAX {
            self.report.problems.push(problem);
        } else {
            self.unlisted += 1;
        }
    }
}

fn meta<T: rusqlite::types::FromSql>(
    conn: &Connection,
    key: &str,
) -> Result<Option<T>, SqliteFailure> {
    let mut find = conn.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    Ok(find.query_row([key], |row| row.get(0)).optional()?)
}

/// One event as it is written out: enough to check it without the database.
#[derive(Debug, Serialize)]
pub struct ExportedEvent {
    /// Its place in the log.
    pub seq: u64,
    /// When it was decided, in microseconds since 1970, UTC.
    pub at: u64,
    /// Its kind.
    pub kind: String,
    /// The version of its shape.
    pub version: u32,
    /// The stream it belongs to.
    pub stream: String,
    /// SHA-256 of salt and payload, in hexadecimal.
    pub digest: String,
    /// Its place in the chain, in hexadecimal.
    pub hash: String,
    /// The salt, in hexadecimal; nothing if the payload was erased.
    pub salt: Option<String>,
    /// The payload; nothing if it was erased.
    pub payload: Option<Box<RawValue>>,
}

/// Hands out the events from `from` to `to`, both included, in order. Stops at the first error
/// of `write`, and gives it back.
pub fn export(
    path: &Path,
    from: Option<Seq>,
    to: Option<Seq>,
    write: &mut dyn FnMut(ExportedEvent) -> std::io::Result<()>,
) -> Result<(), StoreError> {
    let conn = open_for_audit(path)?;
    // Beyond what the database can count, a bound means as far as it can.
    let [from, to] = [from.unwrap_or(Seq(0)), to.unwrap_or(Seq(u64::MAX))]
        .map(|seq| i64::try_from(seq.0).unwrap_or(i64::MAX));
    export_rows(&conn, from, to, write).map_err(|failure| match failure {
        SqliteFailure::Io(error) => StoreError::Backend {
            doing: "writing the export",
            source: Box::new(error),
        },
        failure => failure.into_error(path, "exporting the record"),
    })
}

fn export_rows(
    conn: &Connection,
    from: i64,
    to: i64,
    write: &mut dyn FnMut(ExportedEvent) -> std::io::Result<()>,
) -> Result<(), SqliteFailure> {
    let mut statement = conn.prepare(ChainedEvent::SQL)?;
    let mut rows = statement.query([from, to])?;
    while let Some(row) = rows.next()? {
        let event = ChainedEvent::read(row)?;
        write(exported(event, payload(row)?)?)?;
    }
    Ok(())
}

fn exported(
    link: ChainedEvent,
    payload: Option<(&[u8], &[u8])>,
) -> Result<ExportedEvent, SqliteFailure> {
    let json = payload
        .map(|(_, body)| serde_json::from_slice(body))
        .transpose();
    let json = json.map_err(|error| {
        SqliteFailure::Damaged(format!(
            "the payload of event {} cannot be read: {error}",
            link.seq
        ))
    })?;
    Ok(ExportedEvent {
        seq: link.seq,
        at: link.at,
        kind: link.kind,
        version: link.version,
        stream: link.stream,
        digest: hex(&link.digest),
        hash: hex(&link.hash),
        salt: payload.map(|(salt, _)| hex(salt)),
        payload: json,
    })
}

//! Erasing: single payloads, or everything old. Headers and the boundary keep the chain whole.

use std::time::Duration;

use countersign_core::event::ApprovalResolved;
use countersign_core::{CommitChanges, Seq};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::rows::{self, to_sql_bound};
use super::search_index;
use super::string_index::segment_of;
use crate::chain::ChainHash;
use crate::failure::{AppendRefusal, SqliteFailure};

/// Whether the append erases anything.
pub(super) fn is_needed(changes: &CommitChanges) -> bool {
    !changes.redacted.is_empty() || changes.pruned_before.is_some()
}

/// Gives up what erased approvals hold, so that a key of theirs can be used in the same append.
pub(super) fn release_keys(
    conn: &Connection,
    changes: &CommitChanges,
) -> Result<(), SqliteFailure> {
    for seq in &changes.redacted {
        release_key(conn, seq.0.cast_signed())?;
    }
    if let Some(before) = changes.pruned_before {
        let old = "DELETE FROM approvals WHERE opened < ?1 AND ended IS NOT NULL";
        conn.execute(old, [to_sql_bound(before.0)])?;
    }
    Ok(())
}

/// An approval of which the ask or the end is erased is not found by its key any more.
fn release_key(conn: &Connection, erased: i64) -> Result<(), SqliteFailure> {
    let ended: Option<ApprovalResolved> = rows::payload(conn, erased, "approval.resolved")?;
    let opened = ended.map_or(erased, |resolved| to_sql_bound(resolved.opened.0));
    conn.execute(
        "UPDATE approvals SET asker = NULL, key = NULL WHERE opened = ?1 AND ended IS NOT NULL",
        [opened],
    )?;
    Ok(())
}

/// Erases what the changes say; `head` is the newest event, this append's own included.
pub(super) fn apply(
    conn: &Connection,
    changes: &CommitChanges,
    head: Seq,
) -> Result<(), SqliteFailure> {
    for seq in &changes.redacted {
        redact(conn, *seq, head)?;
    }
    match changes.pruned_before {
        Some(before) => prune(conn, before, head),
        None => Ok(()),
    }
}

/// Moves the erasure from the write-ahead log into the file, so that no old copy is left there.
pub(super) fn scrub(conn: &Connection) {
    match truncate_log(conn) {
        Ok(false) => {}
        Ok(true) => tracing::warn!(
            "a reader holds old pages: what was erased leaves the disk with the next checkpoint"
        ),
        Err(error) => {
            tracing::warn!(%error, "what was erased leaves the disk with the next checkpoint");
        }
    }
}

/// Whether a reader kept the log from being emptied.
fn truncate_log(conn: &Connection) -> rusqlite::Result<bool> {
    let timeout = conn.query_row("PRAGMA busy_timeout", [], |row| row.get::<_, u32>(0))?;
    // The writer waits here, and with it every ask: a reader that takes longer is left alone.
    conn.busy_timeout(Duration::from_millis(200))?;
    let busy = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    conn.busy_timeout(Duration::from_millis(timeout.into()))?;
    conn.execute_batch("PRAGMA secure_delete = FAST")?;
    busy
}

fn redact(conn: &Connection, seq: Seq, head: Seq) -> Result<(), SqliteFailure> {
    let number = seq.0.cast_signed();
    let kind: Option<String> = conn
        .prepare_cached("SELECT text FROM events JOIN strings ON code = kind WHERE seq = ?1")?
        .query_row([number], |row| row.get(0))
        .optional()?;
    let Some(kind) = kind else {
        // What was pruned is erased already; what never was cannot be.
        let pruned = seq > Seq(0) && seq <= head;
        return if pruned {
            Ok(())
        } else {
            Err(AppendRefusal::NotRecorded(seq).into())
        };
    };
    if kind.starts_with("record.") {
        return Err(AppendRefusal::RecordOfErasure(seq).into());
    }
    if oldest_open(conn, seq, seq.next())?.is_some() {
        return Err(AppendRefusal::StillOpen(seq).into());
    }
    // Once more, because an approval that ends in this append was still open when `release_keys`
    // ran.
    release_key(conn, number)?;
    // Before the payload goes, which says what words to take out.
    search_index::remove(conn, number)?;
    conn.execute("DELETE FROM payloads WHERE seq = ?1", [number])?;
    Ok(())
}

fn prune(conn: &Connection, before: Seq, head: Seq) -> Result<(), SqliteFailure> {
    if before > head {
        return Err(AppendRefusal::NotRecorded(before).into());
    }
    if let Some(open) = oldest_open(conn, Seq(0), before)? {
        return Err(AppendRefusal::StillOpen(open).into());
    }
    let before = before.0.cast_signed();
    let boundary: Option<ChainHash> = conn
        .query_row(
            "SELECT hash FROM events WHERE seq = ?1 - 1",
            [before],
            |row| row.get(0),
        )
        .optional()?;
    // No event just before it: everything older is gone already, and the boundary never moves back.
    let Some(hash) = boundary else { return Ok(()) };
    for sql in [
        "DELETE FROM payloads WHERE seq < ?1",
        "DELETE FROM events WHERE seq < ?1",
        "DELETE FROM approvals WHERE opened < ?1",
        "DELETE FROM approval_ids WHERE opened < ?1",
        "DELETE FROM id_runs WHERE run < ?1",
        "DELETE FROM questions WHERE opened < ?1",
    ] {
        conn.execute(sql, [before])?;
    }
    // The segment of `before` stays: the index may name a segment without a match, but must not
    // miss one.
    conn.execute(
        "DELETE FROM string_segments WHERE segment < ?1",
        [segment_of(before)],
    )?;
    search_index::begin_again(conn, before)?;
    conn.execute(
        "INSERT OR REPLACE INTO meta VALUES ('pruned_seq', ?1 - 1), ('pruned_hash', ?2)",
        params![before, hash],
    )?;
    Ok(())
}

/// The oldest event in `from..before` that opened something that is open.
fn oldest_open(conn: &Connection, from: Seq, before: Seq) -> Result<Option<Seq>, SqliteFailure> {
    let bounds = [from.0.cast_signed(), before.0.cast_signed()];
    let oldest = conn
        .prepare_cached(
            "SELECT min(opened) FROM (
                 SELECT opened FROM approvals INDEXED BY approvals_listed
                 WHERE ended IS NULL AND opened >= ?1 AND opened < ?2
                 UNION ALL
                 SELECT opened FROM questions INDEXED BY questions_open
                 WHERE ended IS NULL AND opened >= ?1 AND opened < ?2)",
        )?
        .query_row(bounds, |row| row.get::<_, Option<i64>>(0))?;
    Ok(oldest.map(|seq| Seq(seq.cast_unsigned())))
}

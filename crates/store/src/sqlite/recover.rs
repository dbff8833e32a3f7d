//! Bringing the read models up to date after a crash.
//!
//! The events of the last appends may be in the log while what they changed was only in the memory of
//! the host that ended. Applying them gives the same changes: state follows from events alone.

use countersign_core::{CommitChanges, Event, Seq, State};
use rusqlite::Connection;

use super::deferred_models::DeferredModels;
use super::rows::{self, from_sql_seq, from_sql_time};
use super::string_index::{InternedStrings, KindCodes};
use super::{ids, load, write_models};
use crate::failure::SqliteFailure;

/// Writes what the events after `base` changed, in one transaction.
pub(super) fn write_missing_models(
    conn: &Connection,
    strings: &mut InternedStrings,
    kinds: &KindCodes,
    base: Seq,
    head: Seq,
) -> Result<(), SqliteFailure> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let written = fold(conn, kinds, base).and_then(|changes| {
        write_models::write(conn, strings, &changes, base.next())?;
        note_models_written(conn, head)
    });
    match written {
        Ok(()) => Ok(conn.execute_batch("COMMIT")?),
        Err(failure) => {
            // Nothing was written that counts: the error says why the host does not start.
            drop(conn.execute_batch("ROLLBACK"));
            Err(failure)
        }
    }
}

/// Notes that the tables hold everything up to `head`.
pub(super) fn note_models_written(conn: &Connection, head: Seq) -> Result<(), SqliteFailure> {
    ids::index_new_ids(conn, head)?;
    conn.prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'models'")?
        .execute([head.0.cast_signed()])?;
    Ok(())
}

/// What the events after `base` change.
fn fold(conn: &Connection, kinds: &KindCodes, base: Seq) -> Result<CommitChanges, SqliteFailure> {
    let mut state = State::restore(load::snapshot(conn, base, &DeferredModels::new(base))?);
    let mut events = conn.prepare(
        "SELECT seq, at, kind, body FROM events LEFT JOIN payloads USING (seq) WHERE seq > ?1 ORDER BY seq",
    )?;
    let mut rows = events.query([base.0.cast_signed()])?;
    while let Some(row) = rows.next()? {
        let (seq, at): (i64, i64) = (row.get(0)?, row.get(1)?);
        let kind = kinds.names.get(&row.get(2)?);
        // What is erased is written with its own append, so that none of these can be.
        let body = row
            .get_ref(3)?
            .as_blob_or_null()
            .map_err(rusqlite::Error::from)?;
        let event = kind
            .zip(body)
            .and_then(|(kind, body)| Event::decode(kind, body));
        let event = event.ok_or_else(|| {
            SqliteFailure::Damaged(format!(
                "event {seq} has no payload, and what it changed is missing"
            ))
        })?;
        let event = rows::decode(seq, event)?;
        state.apply(from_sql_seq(seq), from_sql_time(at), &event);
    }
    Ok(state.take_changes())
}

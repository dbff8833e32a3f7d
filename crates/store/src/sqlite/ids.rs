//! Finding approvals by id.
//!
//! Ids are random: an index entry written with each ask would touch a page of its own and cost
//! as much as the ask. So entries are added many at a time, as a run that is sorted by itself; the
//! newest asks are looked through instead. A search looks into every run.

use countersign_core::Seq;
use rusqlite::Connection;

use super::meta;
use super::rows::{from_sql_seq, to_sql_bound};
use crate::failure::SqliteFailure;

/// Events after which the ids among them are indexed: at most so many rows are looked through.
const UNINDEXED_MAX: u64 = 16_384;

/// The newest event whose id is indexed if it has one.
pub(super) fn indexed_until(conn: &Connection) -> Result<Seq, SqliteFailure> {
    meta(conn, "ids_until").map(from_sql_seq)
}

/// Selects the asks with an indexed id that `condition` holds for. The runs come first in the join: each
/// is then searched by its sorted ids.
pub(super) fn select_indexed(condition: &str) -> String {
    format!("SELECT opened FROM id_runs CROSS JOIN approval_ids USING (run) WHERE {condition}")
}

/// Indexes the ids of the newest asks if there are enough of them.
pub(super) fn index_new_ids(conn: &Connection, head: Seq) -> Result<(), SqliteFailure> {
    let indexed = indexed_until(conn)?;
    if head.0 - indexed.0 < UNINDEXED_MAX {
        return Ok(());
    }
    let run = to_sql_bound(head.0);
    conn.execute("INSERT INTO id_runs VALUES (?1)", [run])?;
    conn.execute(
        "INSERT INTO approval_ids (run, id, opened)
         SELECT ?1, id, opened FROM approvals WHERE opened > ?2 ORDER BY id",
        [run, to_sql_bound(indexed.0)],
    )?;
    conn.execute("UPDATE meta SET value = ?1 WHERE key = 'ids_until'", [run])?;
    Ok(())
}

//! Finding approvals by id.
//!
//! Ids are random: an index entry written with each ask would touch a page of its own and cost
//! as much as the ask. So entries are added many at a time and in order, a page then taking
//! many; the newest asks are looked through instead.

use countersign_core::Seq;
use rusqlite::Connection;

use super::meta;
use super::rows::{bound, seq};
use crate::fault::Fault;

/// Events after which the ids among them are indexed: at most so many rows are looked through.
const UNINDEXED_MAX: u64 = 16_384;

/// The newest event whose id is indexed if it has one.
pub(super) fn indexed(conn: &Connection) -> Result<Seq, Fault> {
    meta(conn, "ids_until").map(seq)
}

/// Indexes the ids of the newest asks if there are enough of them, and says how far it got.
pub(super) fn index(conn: &Connection, head: Seq, indexed: Seq) -> Result<Seq, Fault> {
    if head.0 - indexed.0 < UNINDEXED_MAX {
        return Ok(indexed);
    }
    conn.execute(
        "INSERT INTO approval_ids (name, opened) SELECT id, opened FROM approvals WHERE opened > ?1 ORDER BY id",
        [bound(indexed.0)],
    )?;
    conn.execute(
        "UPDATE meta SET value = ?1 WHERE key = 'ids_until'",
        [bound(head.0)],
    )?;
    Ok(head)
}

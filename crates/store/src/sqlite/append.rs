//! Appending: events, chained, with the read models they led to, in one transaction.

use countersign_core::{Changes, Committed, Seq};
use rusqlite::{CachedStatement, Connection};

use super::words::Words;
use super::{SqliteLog, Tip, erase, ids, models};
use crate::chain::{self, Header, Salt};
use crate::fault::{Fault, Refusal};

impl SqliteLog {
    /// Commits, and says what the newest event is then. The caller rolls back after an error.
    pub(super) fn commit(
        &mut self,
        entries: &[Committed],
        changes: &Changes,
    ) -> Result<Tip, Fault> {
        check_order(self.tip.seq, entries)?;
        if erase::asked_by(changes) {
            self.conn.execute_batch("PRAGMA secure_delete = ON")?;
        }
        let first = self.tip.seq.next();
        let conn = &self.conn;
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut tip = write_events(conn, &mut self.words, &self.stream, self.tip, entries)?;
        erase::release(conn, changes)?;
        models::write(conn, &mut self.words, changes, first)?;
        tip.indexed = ids::index(conn, tip.seq, tip.indexed)?;
        erase::apply(conn, changes, tip.seq)?;
        conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(tip)
    }
}

fn check_order(head: Seq, entries: &[Committed]) -> Result<(), Refusal> {
    let mut head = head;
    for entry in entries {
        if entry.seq != head.next() {
            return Err(Refusal::OutOfOrder {
                head,
                found: entry.seq,
            });
        }
        head = entry.seq;
    }
    Ok(())
}

fn write_events(
    conn: &Connection,
    words: &mut Words,
    stream: &str,
    mut tip: Tip,
    entries: &[Committed],
) -> Result<Tip, Fault> {
    if entries.is_empty() {
        return Ok(tip);
    }
    let mut salts: Vec<Salt> = vec![Salt::default(); entries.len()];
    getrandom::fill(salts.as_flattened_mut())?;
    let stream_code = words.code(conn, stream)?;
    let mut insert = Inserts::prepare(conn)?;
    for (entry, salt) in entries.iter().zip(&salts) {
        let body = entry.event.encode()?;
        let kind = entry.event.kind();
        let digest = chain::digest(salt, &body);
        let header = Header {
            stream,
            seq: entry.seq.0,
            at: entry.at.0,
            kind,
            version: chain::VERSION,
            digest: &digest,
        };
        tip.hash = chain::link(&tip.hash, &header);
        tip.seq = entry.seq;
        let seq = entry.seq.0.cast_signed();
        let kind = words.code(conn, kind)?;
        words.mention(conn, kind, seq)?;
        let agent = match entry.event.agent() {
            Some(agent) => {
                let agent = words.code(conn, agent.as_str())?;
                words.mention(conn, agent, seq)?;
                Some(agent)
            }
            None => None,
        };
        insert.payload(seq, salt, &body)?;
        insert.event(
            &[seq, stream_code, kind, entry.at.0.cast_signed()],
            agent,
            &digest,
            &tip.hash,
        )?;
    }
    conn.prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'head'")?
        .execute([tip.seq.0.cast_signed()])?;
    Ok(tip)
}

/// The two statements of the hot path, bound by hand.
struct Inserts<'c> {
    event: CachedStatement<'c>,
    payload: CachedStatement<'c>,
}

impl<'c> Inserts<'c> {
    fn prepare(conn: &'c Connection) -> Result<Self, Fault> {
        let event = "INSERT INTO events (seq, stream, kind, at, agent, digest, hash, version)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let payload = "INSERT INTO payloads (seq, salt, body) VALUES (?1, ?2, ?3)";
        let mut event = conn.prepare_cached(event)?;
        event.raw_bind_parameter(8, chain::VERSION)?;
        Ok(Self {
            event,
            payload: conn.prepare_cached(payload)?,
        })
    }

    fn event(
        &mut self,
        numbers: &[i64; 4],
        agent: Option<i64>,
        digest: &chain::Hash,
        hash: &chain::Hash,
    ) -> Result<(), Fault> {
        for (number, column) in numbers.iter().zip(1..) {
            self.event.raw_bind_parameter::<usize, _>(column, number)?;
        }
        self.event.raw_bind_parameter(5, agent)?;
        self.event.raw_bind_parameter(6, digest)?;
        self.event.raw_bind_parameter(7, hash)?;
        self.event.raw_execute()?;
        Ok(())
    }

    fn payload(&mut self, seq: i64, salt: &Salt, body: &[u8]) -> Result<(), Fault> {
        self.payload.raw_bind_parameter(1, seq)?;
        self.payload.raw_bind_parameter(2, salt)?;
        self.payload.raw_bind_parameter(3, body)?;
        self.payload.raw_execute()?;
        Ok(())
    }
}

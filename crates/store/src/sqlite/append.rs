//! Appending: events, chained, with the read models they led to, in one transaction.

use std::ops::RangeInclusive;

use countersign_core::{CommitChanges, CommittedEvent, Seq};
use rusqlite::{CachedStatement, Connection};

use super::deferred_models::DeferredModels;
use super::search_index::{self, Unindexed};
use super::string_index::InternedStrings;
use super::{ChainTip, SqliteLog, erase, recover, write_models};
use crate::chain::{self, EventHeader, PayloadSalt};
use crate::failure::{AppendRefusal, SqliteFailure};

impl SqliteLog {
    /// Commits, and says what the newest event is then. The caller rolls back after an error.
    pub(super) fn commit(
        &mut self,
        entries: &[CommittedEvent],
        changes: &CommitChanges,
    ) -> Result<ChainTip, SqliteFailure> {
        check_order(self.tip.seq, entries)?;
        let unindexed = self.unindexed.with(entries);
        let indexes = unindexed.is_due(entries, changes);
        if indexes || erase::is_needed(changes) {
            // Overwrites whole pages too, instead of only unlinking them. Too slow for every append. The index
            // of words moves its pages about, and words that are erased later must not be left behind.
            self.conn.execute_batch("PRAGMA secure_delete = ON")?;
        }
        let models = self.models.get();
        let conn = &self.conn;
        // Takes the write lock first: if another program holds it, nothing has been computed or
        // written.
        conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let tip = write_events(conn, &mut self.strings, &self.stream, self.tip, entries)?;
        let writes_models = DeferredModels::must_be_written(changes) || models.is_full(tip.seq);
        if writes_models {
            let first = self.tip.seq.next();
            write_all_models(conn, &mut self.strings, &models, changes, first..=tip.seq)?;
        } else {
            // What no event says (checkpoints, documents of the notifier) cannot be found again
            // after a crash.
            write_models::write_underivable(conn, changes)?;
        }
        let unindexed = if indexes {
            search_index::index_some(conn, tip.seq, unindexed)?
        } else if erase::is_needed(changes) {
            Unindexed::after_erasure()
        } else {
            unindexed
        };
        conn.prepare_cached("COMMIT")?.execute([])?;
        if indexes {
            conn.execute_batch("PRAGMA secure_delete = FAST")?;
        }
        // Only now: what was rolled back must not be seen.
        self.unindexed = unindexed;
        drop(models);
        if writes_models {
            self.models.reset(tip.seq);
        } else {
            self.models.add(changes);
        }
        Ok(tip)
    }

    /// Writes all changes of the read models that are not in their tables yet.
    pub(super) fn write_deferred_models(&mut self) -> Result<(), SqliteFailure> {
        let models = self.models.get();
        if models.base == self.tip.seq {
            return Ok(());
        }
        self.conn.execute_batch("BEGIN IMMEDIATE")?;
        let changes = models.to_changes();
        write_models::write(&self.conn, &mut self.strings, &changes, models.base.next())?;
        recover::note_models_written(&self.conn, self.tip.seq)?;
        self.conn.execute_batch("COMMIT")?;
        self.models.reset(self.tip.seq);
        Ok(())
    }
}

fn write_all_models(
    conn: &Connection,
    strings: &mut InternedStrings,
    models: &DeferredModels,
    changes: &CommitChanges,
    appended: RangeInclusive<Seq>,
) -> Result<(), SqliteFailure> {
    let (first, head) = appended.into_inner();
    // First what is older than this append: it may change or erase some of it.
    write_models::write(conn, strings, &models.to_changes(), models.base.next())?;
    erase::release_keys(conn, changes)?;
    write_models::write(conn, strings, changes, first)?;
    recover::note_models_written(conn, head)?;
    // Last, because what ends in this append may be erased by it.
    erase::apply(conn, changes, head)
}

fn check_order(head: Seq, entries: &[CommittedEvent]) -> Result<(), AppendRefusal> {
    let mut head = head;
    for entry in entries {
        if entry.seq != head.next() {
            return Err(AppendRefusal::OutOfOrder {
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
    strings: &mut InternedStrings,
    stream: &str,
    mut tip: ChainTip,
    entries: &[CommittedEvent],
) -> Result<ChainTip, SqliteFailure> {
    if entries.is_empty() {
        return Ok(tip);
    }
    let mut salts: Vec<PayloadSalt> = vec![PayloadSalt::default(); entries.len()];
    // All at once: one system call per append instead of one per event.
    getrandom::fill(salts.as_flattened_mut())?;
    let stream_code = strings.intern(conn, stream)?;
    let mut insert = EventInserts::prepare(conn)?;
    for (entry, salt) in entries.iter().zip(&salts) {
        let body = entry.event.encode()?;
        let kind = entry.event.kind();
        let digest = chain::digest(salt, &body);
        let header = EventHeader {
            stream,
            seq: entry.seq.0,
            at: entry.at.0,
            kind,
            version: chain::VERSION,
            digest: &digest,
        };
        tip.hash = chain::chain_hash(&tip.hash, &header);
        tip.seq = entry.seq;
        let seq = entry.seq.0.cast_signed();
        let kind = strings.intern(conn, kind)?;
        strings.record_occurrence(conn, kind, seq)?;
        let agent = match entry.event.agent() {
            Some(agent) => {
                let agent = strings.intern(conn, agent.as_str())?;
                strings.record_occurrence(conn, agent, seq)?;
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
struct EventInserts<'c> {
    event: CachedStatement<'c>,
    payload: CachedStatement<'c>,
}

impl<'c> EventInserts<'c> {
    fn prepare(conn: &'c Connection) -> Result<Self, SqliteFailure> {
        let event = "INSERT INTO events (seq, stream, kind, at, agent, digest, hash, version)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let payload = "INSERT INTO payloads (seq, salt, body) VALUES (?1, ?2, ?3)";
        let mut event = conn.prepare_cached(event)?;
        // Once for all events: values stay bound from one execution to the next.
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
        digest: &chain::ChainHash,
        hash: &chain::ChainHash,
    ) -> Result<(), SqliteFailure> {
        for (number, column) in numbers.iter().zip(1..) {
            self.event.raw_bind_parameter::<usize, _>(column, number)?;
        }
        self.event.raw_bind_parameter(5, agent)?;
        self.event.raw_bind_parameter(6, digest)?;
        self.event.raw_bind_parameter(7, hash)?;
        self.event.raw_execute()?;
        Ok(())
    }

    fn payload(&mut self, seq: i64, salt: &PayloadSalt, body: &[u8]) -> Result<(), SqliteFailure> {
        self.payload.raw_bind_parameter(1, seq)?;
        self.payload.raw_bind_parameter(2, salt)?;
        self.payload.raw_bind_parameter(3, body)?;
        self.payload.raw_execute()?;
        Ok(())
    }
}

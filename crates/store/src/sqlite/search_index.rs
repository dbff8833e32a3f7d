//! The index of the words of transcripts: an FTS5 table without texts, filled from the log.
//!
//! It is written with appends that record transcripts, some text at a time, and so lags behind the log. Searches look
//! through what is not indexed yet. After a crash there is nothing to make good: the event up to which words are
//! indexed is committed with them.
//!
//! Invariants: the table holds the words of every transcript part up to that event whose payload is there, and of
//! nothing else; its content follows from the log alone; asks and answers neither read nor write it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::{ControlFlow, RangeInclusive};

use countersign_core::event::{TranscriptAdded, TranscriptEntry};
use countersign_core::limits::{SEARCH_INDEX_LAG_BYTES_MAX, SEARCH_INDEX_STEP_BYTES};
use countersign_core::{CommitChanges, CommittedEvent, Event, Seq, split_words};
use rusqlite::{Connection, Row, params};

use super::rows::{self, from_sql_seq, from_sql_time, to_sql_bound};
use super::string_index::{self, ScanDirection, SegmentFilter};
use super::{erase, meta};
use crate::failure::SqliteFailure;
use crate::search::{SearchCollector, SearchPage, SearchQuery};

const KIND: &str = "transcript.added";

/// Begins the word that stands for an agent. A private character, which is in no word of a text.
const AGENT_MARK: char = '\u{e000}';

/// Agents that a query of the index names. With more of them the parts that it proposes are filtered instead.
const AGENTS_NAMED_MAX: usize = 32;

/// Text of transcripts in the log that is not indexed yet, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unindexed(usize);

impl Unindexed {
    /// What a host finds. Its size is not known, so a part of it is indexed as soon as possible.
    pub(super) fn begin(conn: &Connection, head: Seq) -> Result<Self, SqliteFailure> {
        let is_behind = words_until(conn)? < head.0.cast_signed();
        Ok(Self(if is_behind {
            SEARCH_INDEX_STEP_BYTES
        } else {
            0
        }))
    }

    /// With an append.
    pub(super) fn with(self, entries: &[CommittedEvent]) -> Self {
        Self(self.0 + text_bytes(entries))
    }

    /// Whether this append is the one to index some text with. The person or agent who waits for an ask does not
    /// wait for that too, unless transcripts never come alone.
    pub(super) fn is_due(self, entries: &[CommittedEvent], changes: &CommitChanges) -> bool {
        let answers = !changes.approvals.is_empty() || !changes.answers.is_empty();
        let enough = if answers {
            SEARCH_INDEX_LAG_BYTES_MAX
        } else {
            SEARCH_INDEX_STEP_BYTES
        };
        self.0 >= enough && text_bytes(entries) > 0 && !erase::is_needed(changes)
    }

    /// After an append that erased something: then the index may begin again.
    pub(super) fn after_erasure() -> Self {
        Self(SEARCH_INDEX_STEP_BYTES)
    }
}

fn text_bytes(entries: &[CommittedEvent]) -> usize {
    let parts = entries.iter().filter_map(|entry| match &entry.event {
        Event::TranscriptAdded(part) => Some(&part.entries),
        _ => None,
    });
    parts.flatten().map(TranscriptEntry::weight).sum()
}

/// The newest event whose words are indexed.
fn words_until(conn: &Connection) -> Result<i64, SqliteFailure> {
    meta(conn, "words_until")
}

fn note_words_until(conn: &Connection, seq: i64) -> Result<(), SqliteFailure> {
    conn.prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'words_until'")?
        .execute([seq])?;
    Ok(())
}

/// Indexes some of the text that is not indexed, oldest first. Gives what is left, as far as it is known.
pub(super) fn index_some(
    conn: &Connection,
    head: Seq,
    unindexed: Unindexed,
) -> Result<Unindexed, SqliteFailure> {
    let head = head.0.cast_signed();
    let until = words_until(conn)?;
    let mut bytes = 0;
    let mut reached = head;
    visit_parts(conn, until + 1..=head, ScanDirection::Up, |row| {
        insert(conn, row.seq, row.agent, &row.part)?;
        bytes += row
            .part
            .entries
            .iter()
            .map(TranscriptEntry::weight)
            .sum::<usize>();
        if bytes < SEARCH_INDEX_STEP_BYTES {
            return Ok(ControlFlow::Continue(()));
        }
        reached = row.seq;
        Ok(ControlFlow::Break(()))
    })?;
    note_words_until(conn, reached)?;
    if reached == head {
        return Ok(Unindexed(0));
    }
    // More than a step, so that the next append with a transcript goes on.
    Ok(Unindexed(
        unindexed
            .0
            .saturating_sub(bytes)
            .max(SEARCH_INDEX_STEP_BYTES),
    ))
}

/// Takes the words of one event out, before its payload is erased.
pub(super) fn remove(conn: &Connection, seq: i64) -> Result<(), SqliteFailure> {
    if seq > words_until(conn)? {
        return Ok(());
    }
    visit_parts(conn, seq..=seq, ScanDirection::Up, |row| {
        // FTS5 keeps no text, so it has to be told what it indexed.
        conn.prepare_cached(
            "INSERT INTO transcript_words (transcript_words, rowid, words) VALUES ('delete', ?1, ?2)",
        )?
        .execute(params![row.seq, index_text(row.agent, &row.part)])?;
        Ok(ControlFlow::Break(()))
    })
}

/// Empties the index, when everything before an event is erased. What stays is indexed again, as if it were new:
/// taking single events out costs as much for each as indexing it, and prunes are rare and large.
pub(super) fn begin_again(conn: &Connection, before: i64) -> Result<(), SqliteFailure> {
    conn.execute(
        "INSERT INTO transcript_words (transcript_words) VALUES ('delete-all')",
        [],
    )?;
    note_words_until(conn, before - 1)
}

fn insert(
    conn: &Connection,
    seq: i64,
    agent: i64,
    part: &TranscriptAdded,
) -> Result<(), SqliteFailure> {
    conn.prepare_cached("INSERT INTO transcript_words (rowid, words) VALUES (?1, ?2)")?
        .execute(params![seq, index_text(agent, part)])?;
    Ok(())
}

/// What FTS5 is given for a part: each of its words once, and the agent.
fn index_text(agent: i64, part: &TranscriptAdded) -> String {
    let texts = part
        .entries
        .iter()
        .filter_map(TranscriptEntry::searched_text);
    let mut words = BTreeSet::new();
    for (_, text) in texts {
        words.extend(split_words(&text).map(|word| word.folded));
    }
    let mut text = agent_word(agent);
    for word in words {
        text.push(' ');
        text.push_str(&word);
    }
    text
}

fn agent_word(agent: i64) -> String {
    format!("{AGENT_MARK}{agent}")
}

/// A part of a transcript in the log.
struct PartRow {
    seq: i64,
    at: i64,
    /// The code of its agent.
    agent: i64,
    part: TranscriptAdded,
    bytes: usize,
}

/// Visits the parts between two events, both included, until `visit` breaks. Erased ones are left out.
fn visit_parts(
    conn: &Connection,
    range: RangeInclusive<i64>,
    direction: ScanDirection,
    mut visit: impl FnMut(PartRow) -> Result<ControlFlow<()>, SqliteFailure>,
) -> Result<(), SqliteFailure> {
    let Some(kind) = string_index::find_code(conn, KIND)? else {
        return Ok(());
    };
    let filter = SegmentFilter {
        any: None,
        required: Some(kind),
    };
    let order = match direction {
        ScanDirection::Up => "ASC",
        ScanDirection::Down => "DESC",
    };
    let sql = format!(
        "SELECT seq, at, agent, body FROM events JOIN payloads USING (seq)
         WHERE seq BETWEEN ?1 AND ?2 AND kind = ?3 ORDER BY seq {order}"
    );
    filter.visit(conn, range, direction, |first, last| {
        let mut scan = conn.prepare_cached(&sql)?;
        let mut rows = scan.query([first, last, kind])?;
        while let Some(row) = rows.next()? {
            if let Some(part) = read_part(row)?
                && visit(part)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// Nothing if the payload cannot be read: whoever reads the transcript is told, and an append or an erasure must not
/// fail for it.
fn read_part(row: &Row<'_>) -> Result<Option<PartRow>, SqliteFailure> {
    let body = rows::blob(row, 3)?;
    let Ok(part) = serde_json::from_slice(body) else {
        return Ok(None);
    };
    Ok(Some(PartRow {
        seq: row.get(0)?,
        at: row.get(1)?,
        agent: row.get(2)?,
        part,
        bytes: body.len(),
    }))
}

/// Looks through what is not indexed, and then through what the index proposes, newest first.
pub(super) fn search(conn: &Connection, query: &SearchQuery) -> Result<SearchPage, SqliteFailure> {
    let Some(agents) = agent_codes(conn, query)? else {
        return Ok(SearchPage::default());
    };
    let mut collector = SearchCollector::new(query);
    let before = query
        .before
        .map_or(i64::MAX, |before| to_sql_bound(before.0));
    let until = words_until(conn)?;
    let is_full = Cell::new(false);
    let mut take = |row: PartRow| {
        if !collector.wants(&row.part.agent) {
            return Ok(ControlFlow::Continue(()));
        }
        let (seq, at) = (from_sql_seq(row.seq), from_sql_time(row.at));
        let taken = collector.take(seq, at, &row.part, row.bytes);
        is_full.set(taken.is_break());
        Ok(taken)
    };
    visit_parts(conn, until + 1..=before - 1, ScanDirection::Down, &mut take)?;
    if !is_full.get() {
        let expression = match_expression(query, &agents);
        visit_proposed(conn, &expression, before.min(until + 1), &mut take)?;
    }
    Ok(collector.finish())
}

/// Visits the parts that the index proposes, newest first, until `visit` breaks.
fn visit_proposed(
    conn: &Connection,
    expression: &str,
    before: i64,
    mut visit: impl FnMut(PartRow) -> Result<ControlFlow<()>, SqliteFailure>,
) -> Result<(), SqliteFailure> {
    let mut propose = conn.prepare_cached(
        "SELECT rowid FROM transcript_words WHERE transcript_words MATCH ?1 AND rowid < ?2
         ORDER BY rowid DESC",
    )?;
    let mut find = conn.prepare_cached(
        "SELECT seq, at, agent, body FROM events JOIN payloads USING (seq) WHERE seq = ?1",
    )?;
    let mut proposed = propose.query(params![expression, before])?;
    while let Some(row) = proposed.next()? {
        let mut found = find.query([row.get::<_, i64>(0)?])?;
        let Some(row) = found.next()? else {
            continue;
        };
        if let Some(part) = read_part(row)?
            && visit(part)?.is_break()
        {
            break;
        }
    }
    Ok(())
}

/// The codes of the agents to which a query is bound, as far as the index is to be asked for them. `None` if the log
/// knows none of them.
fn agent_codes(conn: &Connection, query: &SearchQuery) -> Result<Option<Vec<i64>>, SqliteFailure> {
    let Some(agents) = &query.agents else {
        return Ok(Some(Vec::new()));
    };
    let mut codes = Vec::new();
    for agent in agents {
        codes.extend(string_index::find_code(conn, agent.as_str())?);
    }
    if codes.is_empty() {
        return Ok(None);
    }
    if codes.len() > AGENTS_NAMED_MAX {
        codes.clear();
    }
    Ok(Some(codes))
}

/// The query in the language of FTS5: words in quotes, all of them, and one of the agents.
fn match_expression(query: &SearchQuery, agents: &[i64]) -> String {
    let mut expression = String::new();
    for (word, completes) in query.words.words() {
        let and = if expression.is_empty() { "" } else { " AND " };
        // Words have letters and digits only, so none can end its quotes.
        let star = if completes { "*" } else { "" };
        let _ = write!(expression, "{and}\"{word}\"{star}");
    }
    let named: Vec<String> = agents
        .iter()
        .map(|agent| format!("\"{}\"", agent_word(*agent)))
        .collect();
    if !named.is_empty() {
        let _ = write!(expression, " AND ({})", named.join(" OR "));
    }
    expression
}

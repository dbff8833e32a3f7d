//! Reading beside the writer: events by number, approvals and questions by name and by place.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use countersign_core::limits::PAGE_BYTES_MAX;
use countersign_core::{
    AgentId, Approval, ApprovalId, Ask, Checkpoint, CommittedEvent, Event, Json, PrincipalKey,
    Question, QuestionId, Seq, Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Params, Row, ToSql, params};

use super::rows::{self, QUESTION, QuestionRow, from_sql_time, to_sql_bound};
use super::string_index::{self, KindCodes, ScanDirection, SegmentFilter};
use super::{SqliteHistory, load, read_approvals, search_index};
use crate::failure::SqliteFailure;
use crate::{
    ApprovalQuery, EventHistory, EventQuery, QuestionQuery, SearchPage, SearchQuery, StatusFilter,
    StoreError,
};

impl EventHistory for SqliteHistory {
    fn events(&self, query: &EventQuery) -> Result<Vec<CommittedEvent>, StoreError> {
        self.read(|conn| events(conn, &self.kinds, query))
    }

    fn find_approval(&self, id: &ApprovalId) -> Result<Option<Approval>, StoreError> {
        self.read_models(|conn, models| read_approvals::find(conn, models, id))
    }

    fn find_keyed_approval(
        &self,
        principal: &PrincipalKey,
        key: &str,
    ) -> Result<Option<Approval>, StoreError> {
        self.read_models(|conn, models| read_approvals::find_keyed(conn, models, principal, key))
    }

    fn approvals(&self, query: &ApprovalQuery) -> Result<Vec<Approval>, StoreError> {
        self.read_models(|conn, models| read_approvals::list(conn, models, query))
    }

    fn attempted_answers(&self, after: Option<Seq>) -> Result<Vec<Approval>, StoreError> {
        self.read_models(|conn, models| {
            read_approvals::attempted(conn, models, after, PAGE_BYTES_MAX)
        })
    }

    fn find_checkpoint(&self, agent: &AgentId) -> Result<Option<Checkpoint>, StoreError> {
        self.read(|conn| load::find_checkpoint(conn, agent))
    }

    fn notify_documents(&self) -> Result<Vec<(String, Json)>, StoreError> {
        self.read(load::notify_documents)
    }

    fn first_event_since(&self, at: Timestamp) -> Result<Option<Seq>, StoreError> {
        self.read(|conn| {
            // In the order of numbers, so that all before it are older even if the clock was set back.
            let mut find =
                conn.prepare_cached("SELECT seq FROM events WHERE at >= ?1 ORDER BY seq LIMIT 1")?;
            let found = find
                .query_row([to_sql_bound(at.0)], |row| row.get(0))
                .optional()?;
            Ok(found.map(rows::from_sql_seq))
        })
    }

    fn find_question(&self, id: &QuestionId) -> Result<Option<Question>, StoreError> {
        self.read(|conn| find_question(conn, "id = ?1", [id.as_str()]))
    }

    fn find_keyed_question(
        &self,
        principal: &PrincipalKey,
        key: &str,
    ) -> Result<Option<Question>, StoreError> {
        self.read(|conn| find_question(conn, "asker = ?1 AND key = ?2", [principal.as_str(), key]))
    }

    fn questions(&self, query: &QuestionQuery) -> Result<Vec<Question>, StoreError> {
        self.read(|conn| questions(conn, query))
    }

    fn search(&self, query: &SearchQuery) -> Result<SearchPage, StoreError> {
        self.read(|conn| search_index::search(conn, query))
    }
}

fn find_question(
    conn: &Connection,
    condition: &str,
    params: impl Params,
) -> Result<Option<Question>, SqliteFailure> {
    let sql = format!("SELECT {QUESTION} FROM questions WHERE {condition}");
    let row = conn
        .prepare_cached(&sql)?
        .query_row(params, QuestionRow::read)
        .optional()?;
    row.map_or(Ok(None), |row| row.complete(conn))
}

fn events(
    conn: &Connection,
    kinds: &KindCodes,
    query: &EventQuery,
) -> Result<Vec<CommittedEvent>, SqliteFailure> {
    let first = query
        .after
        .map_or(0, |after| to_sql_bound(after.0).saturating_add(1));
    let last = query
        .before
        .map_or(i64::MAX, |before| to_sql_bound(before.0).saturating_sub(1));
    let mut filter = SegmentFilter::default();
    if let Some(wanted) = &query.kinds {
        // Kinds that nobody writes leave an empty list, which matches nothing; `None` would match
        // all.
        filter.any = Some(
            wanted
                .iter()
                .filter_map(|kind| kinds.codes.get(kind.as_str()).copied())
                .collect(),
        );
    }
    if let Some(agent) = &query.agent {
        let Some(code) = string_index::find_code(conn, agent.as_str())? else {
            return Ok(Vec::new());
        };
        filter.required = Some(code);
    }
    let direction = if query.newest {
        ScanDirection::Down
    } else {
        ScanDirection::Up
    };
    let mut page = EventPage {
        conn,
        kinds,
        direction,
        limit: query.limit,
        bytes: 0,
        asks: HashMap::new(),
        found: Vec::new(),
    };
    filter.visit(conn, first..=last, direction, |first, last| {
        page.take(&filter, first, last)
    })?;
    page.finish()
}

/// A page of events while it is filled.
struct EventPage<'a> {
    conn: &'a Connection,
    kinds: &'a KindCodes,
    direction: ScanDirection,
    limit: usize,
    /// What was read for this page so far.
    bytes: usize,
    /// Asks that were decoded for this page already.
    asks: HashMap<Seq, Arc<Ask>>,
    found: Vec<CommittedEvent>,
}

impl EventPage<'_> {
    /// Takes what matches between two numbers, both included.
    fn take(
        &mut self,
        filter: &SegmentFilter,
        first: i64,
        last: i64,
    ) -> Result<ControlFlow<()>, SqliteFailure> {
        let sql = match self.direction {
            ScanDirection::Up => {
                "SELECT seq, at, kind, agent FROM events WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq"
            }
            ScanDirection::Down => {
                "SELECT seq, at, kind, agent FROM events WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq DESC"
            }
        };
        let mut scan = self.conn.prepare_cached(sql)?;
        let mut rows = scan.query([first, last])?;
        while self.found.len() < self.limit && self.bytes < PAGE_BYTES_MAX {
            let Some(row) = rows.next()? else {
                return Ok(ControlFlow::Continue(()));
            };
            let kind = row.get(2)?;
            if !filter.passes(kind, row.get(3)?) {
                continue;
            }
            if let Some(event) = self.decode(row.get(0)?, kind)? {
                self.found.push(CommittedEvent {
                    seq: rows::from_sql_seq(row.get(0)?),
                    at: from_sql_time(row.get(1)?),
                    event,
                    ask: None,
                });
            }
        }
        Ok(ControlFlow::Break(()))
    }

    /// The event; nothing if it was erased, or if a later version wrote it.
    fn decode(&mut self, number: i64, kind: i64) -> Result<Option<Event>, SqliteFailure> {
        let Some(kind) = self.kinds.names.get(&kind) else {
            return Ok(None);
        };
        let mut find = self
            .conn
            .prepare_cached("SELECT body FROM payloads WHERE seq = ?1")?;
        let decoded = find
            .query_row([number], |row| {
                let body = rows::blob(row, 0)?;
                Ok((body.len(), Event::decode(kind, body)))
            })
            .optional()?;
        self.bytes += decoded.as_ref().map_or(0, |(bytes, _)| *bytes);
        let Some(decoded) = decoded.and_then(|(_, event)| event) else {
            return Ok(None);
        };
        let event = rows::decode(number, decoded)?;
        if let Event::ApprovalRequested(requested) = &event {
            self.asks
                .insert(rows::from_sql_seq(number), requested.ask.clone());
        }
        Ok(Some(event))
    }

    /// Puts the events in order, and the asks beside the ends.
    fn finish(mut self) -> Result<Vec<CommittedEvent>, SqliteFailure> {
        for committed in &mut self.found {
            let Some(opened) = committed.event.opened() else {
                continue;
            };
            committed.ask = match self.asks.get(&opened) {
                Some(ask) => Some(ask.clone()),
                None => rows::ask(self.conn, to_sql_bound(opened.0))?,
            };
        }
        if self.direction == ScanDirection::Down {
            self.found.reverse();
        }
        Ok(self.found)
    }
}

fn questions(conn: &Connection, query: &QuestionQuery) -> Result<Vec<Question>, SqliteFailure> {
    let Some(filter) = agent_filter(conn, query.agent.as_ref())? else {
        return Ok(Vec::new());
    };
    let mut list = RowList::new(query.limit);
    let mut fill = |rest: &str, params: &[&dyn ToSql]| {
        let sql = format!("SELECT {QUESTION} FROM questions {rest} DESC");
        list.fill(conn, &sql, params, |row| {
            let row = QuestionRow::read(row)?;
            let wanted = (filter.required.is_none() || row.agent == filter.required)
                && has_status(query.status, row.ended);
            if wanted { row.complete(conn) } else { Ok(None) }
        })
    };
    if let Some(prefix) = query
        .id_prefix
        .as_deref()
        .filter(|prefix| !prefix.is_empty())
    {
        // The sign keeps the planner from walking the whole table in order.
        let by_id = "WHERE id >= ?1 AND id < ?2 ORDER BY +opened";
        _ = fill(by_id, params![prefix, successor(prefix)])?;
    } else if query.status == Some(StatusFilter::Pending) {
        _ = fill(
            "INDEXED BY questions_open WHERE ended IS NULL ORDER BY opened",
            params![],
        )?;
    } else {
        filter.visit(conn, 0..=i64::MAX, ScanDirection::Down, |first, last| {
            fill(
                "WHERE opened BETWEEN ?1 AND ?2 ORDER BY opened",
                params![first, last],
            )
        })?;
    }
    Ok(list.found)
}

/// A list while it is filled.
pub(super) struct RowList<T> {
    limit: usize,
    bytes: usize,
    pub(super) found: Vec<T>,
}

/// Something whose rows are counted in bytes.
pub(super) trait PayloadSize {
    fn bytes(&self) -> usize;
}

impl PayloadSize for Approval {
    fn bytes(&self) -> usize {
        self.ask.bytes()
    }
}

impl PayloadSize for Question {
    fn bytes(&self) -> usize {
        self.text.text.len()
    }
}

impl<T: PayloadSize> RowList<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: 0,
            found: Vec::new(),
        }
    }

    pub(super) fn fill(
        &mut self,
        conn: &Connection,
        sql: &str,
        params: &[&dyn ToSql],
        mut take: impl FnMut(&Row<'_>) -> Result<Option<T>, SqliteFailure>,
    ) -> Result<ControlFlow<()>, SqliteFailure> {
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query(params)?;
        while self.found.len() < self.limit && self.bytes < PAGE_BYTES_MAX {
            let Some(row) = rows.next()? else {
                return Ok(ControlFlow::Continue(()));
            };
            if let Some(found) = take(row)? {
                self.bytes += found.bytes();
                self.found.push(found);
            }
        }
        Ok(ControlFlow::Break(()))
    }
}

/// Matches the segments in which the agent occurs. Nothing if it occurs nowhere in the log.
pub(super) fn agent_filter(
    conn: &Connection,
    agent: Option<&AgentId>,
) -> Result<Option<SegmentFilter>, SqliteFailure> {
    let Some(agent) = agent else {
        return Ok(Some(SegmentFilter::default()));
    };
    let code = string_index::find_code(conn, agent.as_str())?;
    Ok(code.map(|code| SegmentFilter {
        any: None,
        required: Some(code),
    }))
}

pub(super) fn has_status(wanted: Option<StatusFilter>, ended: Option<i64>) -> bool {
    match wanted {
        None => true,
        Some(StatusFilter::Pending) => ended.is_none(),
        Some(StatusFilter::Ended) => ended.is_some(),
    }
}

/// The least text above everything that begins with `prefix`.
pub(super) fn successor(prefix: &str) -> String {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            text.push(next);
            return text;
        }
    }
    // Nothing lies above the last character but more of it, which no id of ours has.
    format!("{prefix}{}", char::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successor_lies_just_above_the_prefix() {
        assert_eq!(successor("approval-0f"), "approval-0g");
        assert_eq!(successor("a\u{d7ff}"), "a\u{e000}");
        assert_eq!(successor("a\u{10ffff}"), "b");
    }
}

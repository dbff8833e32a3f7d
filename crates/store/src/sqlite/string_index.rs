//! Interned strings, and the index that says in which segments of the log each occurs.
//!
//! An index entry per event and agent would cost more than the event. Instead the index holds, for
//! each segment of 1024 events, the kinds and agents that occur in it. A search reads only the
//! segments in which everything it looks for occurs.

use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, RangeInclusive};
use std::sync::Arc;

use countersign_core::Event;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::failure::SqliteFailure;

/// Codes cached before the cache is emptied: more agents than are ever busy at one time.
const CACHED_CODES_MAX: usize = 8_192;

const SEGMENT_BITS: u32 = 10;

pub(super) fn segment_of(seq: i64) -> i64 {
    seq >> SEGMENT_BITS
}

/// The first and the last event number of a segment.
fn segment_bounds(segment: i64) -> (i64, i64) {
    (segment << SEGMENT_BITS, ((segment + 1) << SEGMENT_BITS) - 1)
}

/// The writer's cache of codes. Everything in it is in the tables too, or about to be.
pub(super) struct InternedStrings {
    codes: HashMap<Arc<str>, i64>,
    segment: i64,
    recorded: HashSet<i64>,
}

impl InternedStrings {
    /// Interns every kind this version writes.
    pub(super) fn new(conn: &Connection) -> Result<Self, SqliteFailure> {
        let mut interned = Self {
            codes: HashMap::new(),
            // No event is in this segment, so the first event that is written begins a new one.
            segment: -1,
            recorded: HashSet::new(),
        };
        for kind in Event::KINDS {
            interned.intern(conn, kind)?;
        }
        Ok(interned)
    }

    /// The code of a string, which is added if the log has not used it before.
    pub(super) fn intern(&mut self, conn: &Connection, string: &str) -> Result<i64, SqliteFailure> {
        if let Some(code) = self.codes.get(string) {
            return Ok(*code);
        }
        let code = match find_code(conn, string)? {
            Some(code) => code,
            None => conn
                .prepare_cached("INSERT INTO strings (text) VALUES (?1) RETURNING code")?
                .query_row([string], |row| row.get(0))?,
        };
        if self.codes.len() >= CACHED_CODES_MAX {
            self.codes.clear();
        }
        self.codes.insert(string.into(), code);
        Ok(code)
    }

    /// Records that the string occurs in the segment of the event.
    pub(super) fn record_occurrence(
        &mut self,
        conn: &Connection,
        string: i64,
        seq: i64,
    ) -> Result<(), SqliteFailure> {
        let segment = segment_of(seq);
        if segment != self.segment {
            self.segment = segment;
            self.recorded.clear();
        }
        if self.recorded.insert(string) {
            // After a restart or a rollback the row may be there although the cache is empty.
            let mut note =
                conn.prepare_cached("INSERT OR IGNORE INTO string_segments VALUES (?1, ?2)")?;
            note.execute([string, segment])?;
        }
        Ok(())
    }

    /// For after a rollback, when the caches may hold codes that were never committed.
    pub(super) fn clear_caches(&mut self) {
        self.codes.clear();
        self.recorded.clear();
    }
}

/// The codes of the event kinds this version knows.
#[derive(Default)]
pub(super) struct KindCodes {
    pub(super) codes: HashMap<&'static str, i64>,
    pub(super) names: HashMap<i64, &'static str>,
}

impl KindCodes {
    /// Kinds without a code are left out. There are none once a writer has opened the file.
    pub(super) fn load(conn: &Connection) -> Result<Self, SqliteFailure> {
        let mut kinds = Self::default();
        for kind in Event::KINDS {
            if let Some(code) = find_code(conn, kind)? {
                kinds.codes.insert(kind, code);
                kinds.names.insert(code, kind);
            }
        }
        Ok(kinds)
    }
}

/// The code of a string, if the log ever used it.
pub(super) fn find_code(conn: &Connection, string: &str) -> Result<Option<i64>, SqliteFailure> {
    let mut find = conn.prepare_cached("SELECT code FROM strings WHERE text = ?1")?;
    Ok(find.query_row([string], |row| row.get(0)).optional()?)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ScanDirection {
    Up,
    Down,
}

/// The codes that must occur in a segment: at least one of `any`, and `required`. `None` filters nothing.
#[derive(Default)]
pub(super) struct SegmentFilter {
    pub(super) any: Option<Vec<i64>>,
    pub(super) required: Option<i64>,
}

impl SegmentFilter {
    /// Visits the parts of `range` that can contain a match, until `visit` breaks.
    pub(super) fn visit(
        &self,
        conn: &Connection,
        range: RangeInclusive<i64>,
        direction: ScanDirection,
        mut visit: impl FnMut(i64, i64) -> Result<ControlFlow<()>, SqliteFailure>,
    ) -> Result<(), SqliteFailure> {
        let (first, last) = range.into_inner();
        if self.any.is_none() && self.required.is_none() {
            return visit(first, last).map(|_| ());
        }
        let (mut from, step) = match direction {
            ScanDirection::Up => (segment_of(first), 1),
            ScanDirection::Down => (segment_of(last), -1),
        };
        while let Some(segment) = self.next(conn, from, direction)? {
            let (low, high) = segment_bounds(segment);
            if high < first || low > last || visit(low.max(first), high.min(last))?.is_break() {
                break;
            }
            from = segment + step;
        }
        Ok(())
    }

    /// Whether an event of this kind and agent matches.
    pub(super) fn passes(&self, kind: i64, agent: Option<i64>) -> bool {
        self.any.as_ref().is_none_or(|any| any.contains(&kind))
            && (self.required.is_none() || self.required == agent)
    }

    /// The nearest segment in which all codes occur, `from` included.
    fn next(
        &self,
        conn: &Connection,
        from: i64,
        direction: ScanDirection,
    ) -> Result<Option<i64>, SqliteFailure> {
        let mut segment = from;
        loop {
            let Some(first) = self.next_of_any(conn, segment, direction)? else {
                return Ok(None);
            };
            let Some(both) = self.next_of_required(conn, first, direction)? else {
                return Ok(None);
            };
            // Each side may skip ahead of the other; the segment counts once both agree on it.
            if both == first {
                return Ok(Some(both));
            }
            segment = both;
        }
    }

    fn next_of_any(
        &self,
        conn: &Connection,
        from: i64,
        direction: ScanDirection,
    ) -> Result<Option<i64>, SqliteFailure> {
        let Some(any) = &self.any else {
            return Ok(Some(from));
        };
        let mut nearest: Option<i64> = None;
        for string in any {
            let Some(segment) = nearest_segment(conn, *string, from, direction)? else {
                continue;
            };
            if segment == from {
                return Ok(Some(from));
            }
            nearest = Some(nearest.map_or(segment, |nearest| match direction {
                ScanDirection::Up => nearest.min(segment),
                ScanDirection::Down => nearest.max(segment),
            }));
        }
        Ok(nearest)
    }

    fn next_of_required(
        &self,
        conn: &Connection,
        from: i64,
        direction: ScanDirection,
    ) -> Result<Option<i64>, SqliteFailure> {
        self.required.map_or(Ok(Some(from)), |string| {
            nearest_segment(conn, string, from, direction)
        })
    }
}

fn nearest_segment(
    conn: &Connection,
    string: i64,
    from: i64,
    direction: ScanDirection,
) -> Result<Option<i64>, SqliteFailure> {
    let sql = match direction {
        ScanDirection::Up => {
            "SELECT segment FROM string_segments WHERE string = ?1 AND segment >= ?2 ORDER BY segment LIMIT 1"
        }
        ScanDirection::Down => {
            "SELECT segment FROM string_segments WHERE string = ?1 AND segment <= ?2 ORDER BY segment DESC LIMIT 1"
        }
    };
    Ok(conn
        .prepare_cached(sql)?
        .query_row(params![string, from], |row| row.get(0))
        .optional()?)
}

//! Words of the log as small numbers, and which stretch of the log mentions which.
//!
//! An index entry per event and agent would cost more than the event. Instead each stretch of
//! 1024 events notes once which kinds and agents occur in it; a search skips from stretch to
//! stretch and looks through those alone.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use countersign_core::Event;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::fault::Fault;

/// Words remembered before the memory is emptied: more agents than are ever busy at one time.
const REMEMBERED_MAX: usize = 8_192;

const STRETCH_BITS: u32 = 10;

/// The stretch an event lies in.
pub(super) fn stretch_of(seq: i64) -> i64 {
    seq >> STRETCH_BITS
}

/// The first and the last number of a stretch.
fn bounds_of(stretch: i64) -> (i64, i64) {
    (stretch << STRETCH_BITS, ((stretch + 1) << STRETCH_BITS) - 1)
}

/// The writer's memory of words. Everything in it is in the tables too, or about to be.
pub(super) struct Words {
    codes: HashMap<Arc<str>, i64>,
    stretch: i64,
    mentioned: HashSet<i64>,
}

impl Words {
    /// Sees to it that every kind this version writes has a number.
    pub(super) fn new(conn: &Connection) -> Result<Self, Fault> {
        let mut words = Self {
            codes: HashMap::new(),
            stretch: -1,
            mentioned: HashSet::new(),
        };
        for kind in Event::KINDS {
            words.code(conn, kind)?;
        }
        Ok(words)
    }

    /// The number of a word, new if need be.
    pub(super) fn code(&mut self, conn: &Connection, word: &str) -> Result<i64, Fault> {
        if let Some(code) = self.codes.get(word) {
            return Ok(*code);
        }
        let code = match find(conn, word)? {
            Some(code) => code,
            None => conn
                .prepare_cached("INSERT INTO words (text) VALUES (?1) RETURNING code")?
                .query_row([word], |row| row.get(0))?,
        };
        if self.codes.len() >= REMEMBERED_MAX {
            self.codes.clear();
        }
        self.codes.insert(word.into(), code);
        Ok(code)
    }

    /// Notes that the event mentions the word.
    pub(super) fn mention(&mut self, conn: &Connection, word: i64, seq: i64) -> Result<(), Fault> {
        let stretch = stretch_of(seq);
        if stretch != self.stretch {
            self.stretch = stretch;
            self.mentioned.clear();
        }
        if self.mentioned.insert(word) {
            let mut note = conn.prepare_cached("INSERT OR IGNORE INTO mentions VALUES (?1, ?2)")?;
            note.execute([word, stretch])?;
        }
        Ok(())
    }

    /// Drops what may have been rolled back.
    pub(super) fn forget(&mut self) {
        self.codes.clear();
        self.mentioned.clear();
    }
}

/// The kinds this version knows.
#[derive(Default)]
pub(super) struct Kinds {
    pub(super) codes: HashMap<&'static str, i64>,
    pub(super) names: HashMap<i64, &'static str>,
}

impl Kinds {
    /// Those that have a number, which is all of them once a writer was there.
    pub(super) fn load(conn: &Connection) -> Result<Self, Fault> {
        let mut kinds = Self::default();
        for kind in Event::KINDS {
            if let Some(code) = find(conn, kind)? {
                kinds.codes.insert(kind, code);
                kinds.names.insert(code, kind);
            }
        }
        Ok(kinds)
    }
}

/// The number of a word, if the log ever used it.
pub(super) fn find(conn: &Connection, word: &str) -> Result<Option<i64>, Fault> {
    let mut find = conn.prepare_cached("SELECT code FROM words WHERE text = ?1")?;
    Ok(find.query_row([word], |row| row.get(0)).optional()?)
}

/// Which way a search goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

/// The words a stretch must mention: one of `any`, and `all`. `None` asks for nothing.
#[derive(Default)]
pub(super) struct Sieve {
    pub(super) any: Option<Vec<i64>>,
    pub(super) all: Option<i64>,
}

impl Sieve {
    /// Visits the parts of `first..=last` that can hold what is looked for, until it was found.
    pub(super) fn visit(
        &self,
        conn: &Connection,
        (first, last): (i64, i64),
        direction: Direction,
        mut visit: impl FnMut(i64, i64) -> Result<ControlFlow<()>, Fault>,
    ) -> Result<(), Fault> {
        if self.any.is_none() && self.all.is_none() {
            return visit(first, last).map(|_| ());
        }
        let (mut from, step) = match direction {
            Direction::Up => (stretch_of(first), 1),
            Direction::Down => (stretch_of(last), -1),
        };
        while let Some(stretch) = self.next(conn, from, direction)? {
            let (low, high) = bounds_of(stretch);
            if high < first || low > last || visit(low.max(first), high.min(last))?.is_break() {
                break;
            }
            from = stretch + step;
        }
        Ok(())
    }

    /// Whether an event of this kind and agent passes.
    pub(super) fn passes(&self, kind: i64, agent: Option<i64>) -> bool {
        self.any.as_ref().is_none_or(|any| any.contains(&kind))
            && (self.all.is_none() || self.all == agent)
    }

    /// The nearest stretch that passes, `from` included.
    fn next(
        &self,
        conn: &Connection,
        from: i64,
        direction: Direction,
    ) -> Result<Option<i64>, Fault> {
        let mut stretch = from;
        loop {
            let Some(first) = self.next_of_any(conn, stretch, direction)? else {
                return Ok(None);
            };
            let Some(both) = self.next_of_all(conn, first, direction)? else {
                return Ok(None);
            };
            if both == first {
                return Ok(Some(both));
            }
            stretch = both;
        }
    }

    fn next_of_any(
        &self,
        conn: &Connection,
        from: i64,
        direction: Direction,
    ) -> Result<Option<i64>, Fault> {
        let Some(any) = &self.any else {
            return Ok(Some(from));
        };
        let mut nearest: Option<i64> = None;
        for word in any {
            let Some(stretch) = nearest_mention(conn, *word, from, direction)? else {
                continue;
            };
            if stretch == from {
                return Ok(Some(from));
            }
            nearest = Some(nearest.map_or(stretch, |nearest| match direction {
                Direction::Up => nearest.min(stretch),
                Direction::Down => nearest.max(stretch),
            }));
        }
        Ok(nearest)
    }

    fn next_of_all(
        &self,
        conn: &Connection,
        from: i64,
        direction: Direction,
    ) -> Result<Option<i64>, Fault> {
        self.all.map_or(Ok(Some(from)), |word| {
            nearest_mention(conn, word, from, direction)
        })
    }
}

fn nearest_mention(
    conn: &Connection,
    word: i64,
    from: i64,
    direction: Direction,
) -> Result<Option<i64>, Fault> {
    let sql = match direction {
        Direction::Up => {
            "SELECT stretch FROM mentions WHERE word = ?1 AND stretch >= ?2 ORDER BY stretch LIMIT 1"
        }
        Direction::Down => {
            "SELECT stretch FROM mentions WHERE word = ?1 AND stretch <= ?2 ORDER BY stretch DESC LIMIT 1"
        }
    };
    Ok(conn
        .prepare_cached(sql)?
        .query_row(params![word, from], |row| row.get(0))
        .optional()?)
}

//! Between rows and the vocabulary. An approval is a thin row, the payload of the event that
//! opened it, and the payload of the one that ended it.

use std::sync::Arc;

use countersign_core::event::{
    AnswerDelivery, ApprovalRequested, ApprovalResolved, QuestionAsked,
    QuestionEnded as QuestionEndedEvent,
};
use countersign_core::{
    AnswerChange, Approval, ApprovalEnd, Ask, ClientId, Question, QuestionEnd, Seq, Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::de::DeserializeOwned;

use crate::failure::SqliteFailure;

/// A time as the database has it. Times are not compared there unless they are bounds.
pub(super) fn to_sql_time(time: Timestamp) -> i64 {
    time.0.cast_signed()
}

/// A caller's bound: beyond what the database can count means as far as it can.
pub(super) fn to_sql_bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn from_sql_seq(number: i64) -> Seq {
    Seq(number.cast_unsigned())
}

pub(super) fn from_sql_time(number: i64) -> Timestamp {
    Timestamp(number.cast_unsigned())
}

/// Written for good: a number keeps its meaning.
pub(super) fn delivery_code(delivery: AnswerDelivery) -> i64 {
    match delivery {
        AnswerDelivery::Waiting => 0,
        AnswerDelivery::Attempted => 1,
        AnswerDelivery::Delivered => 2,
        AnswerDelivery::Withdrawn => 3,
        AnswerDelivery::Unknown => 4,
    }
}

fn parse_delivery(code: i64) -> Result<AnswerDelivery, SqliteFailure> {
    Ok(match code {
        0 => AnswerDelivery::Waiting,
        1 => AnswerDelivery::Attempted,
        2 => AnswerDelivery::Delivered,
        3 => AnswerDelivery::Withdrawn,
        4 => AnswerDelivery::Unknown,
        _ => {
            return Err(SqliteFailure::Damaged(format!(
                "there is no delivery {code}"
            )));
        }
    })
}

/// The columns of [`ApprovalRow`], in its order.
pub(super) const APPROVAL: &str =
    "opened, id, agent, client, lapses_at, ended, delivery, deliveries, dismissed";

/// What the table itself knows of an approval.
pub(super) struct ApprovalRow {
    pub(super) opened: i64,
    id: String,
    pub(super) agent: Option<i64>,
    client: Option<String>,
    lapses_at: Option<i64>,
    pub(super) ended: Option<i64>,
    delivery: i64,
    deliveries: u32,
    pub(super) dismissed: bool,
}

impl ApprovalRow {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            opened: row.get(0)?,
            id: row.get(1)?,
            agent: row.get(2)?,
            client: row.get(3)?,
            lapses_at: row.get(4)?,
            ended: row.get(5)?,
            delivery: row.get(6)?,
            deliveries: row.get(7)?,
            dismissed: row.get(8)?,
        })
    }

    /// The event that opened it.
    pub(super) fn opened_seq(&self) -> Seq {
        from_sql_seq(self.opened)
    }

    pub(super) fn set_answer(&mut self, change: &AnswerChange) {
        self.delivery = delivery_code(change.delivery);
        self.deliveries = change.deliveries.unwrap_or(self.deliveries);
    }

    pub(super) fn is_attempted(&self) -> bool {
        self.delivery == delivery_code(AnswerDelivery::Attempted)
    }

    /// The whole approval; nothing if its ask or its end was erased.
    pub(super) fn complete(self, conn: &Connection) -> Result<Option<Approval>, SqliteFailure> {
        let Some((created_at, requested)) = timed_payload::<ApprovalRequested>(conn, self.opened)?
        else {
            return Ok(None);
        };
        if requested.ask.id.as_str() != self.id {
            return Err(SqliteFailure::Damaged(format!(
                "event {} did not open approval `{}`",
                self.opened, self.id
            )));
        }
        let ended = match self.ended {
            None => None,
            Some(number) => match self.ending(conn, number)? {
                None => return Ok(None),
                ended => ended,
            },
        };
        Ok(Some(Approval {
            ask: requested.ask,
            opened: from_sql_seq(self.opened),
            created_at,
            client: self.client.map(ClientId::new),
            lapses_at: self.lapses_at.map(from_sql_time),
            ended,
            delivery: parse_delivery(self.delivery)?,
            deliveries: self.deliveries,
            dismissed: self.dismissed,
        }))
    }

    fn ending(&self, conn: &Connection, number: i64) -> Result<Option<ApprovalEnd>, SqliteFailure> {
        let Some((at, resolved)) = timed_payload::<ApprovalResolved>(conn, number)? else {
            return Ok(None);
        };
        if resolved.approval.as_str() != self.id {
            return Err(SqliteFailure::Damaged(format!(
                "event {number} did not end approval `{}`",
                self.id
            )));
        }
        Ok(Some(ApprovalEnd {
            ending: resolved.ending,
            seq: from_sql_seq(number),
            at,
        }))
    }

    /// What to say when something open has lost its ask.
    pub(super) fn lost(number: i64) -> SqliteFailure {
        SqliteFailure::Damaged(format!(
            "something open has lost event {number}, which says what was asked"
        ))
    }
}

/// The columns of [`QuestionRow`], in its order.
pub(super) const QUESTION: &str = "opened, id, agent, ended, escalated";

/// What the table itself knows of a question.
pub(super) struct QuestionRow {
    pub(super) opened: i64,
    id: String,
    pub(super) agent: Option<i64>,
    pub(super) ended: Option<i64>,
    escalated: bool,
}

impl QuestionRow {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            opened: row.get(0)?,
            id: row.get(1)?,
            agent: row.get(2)?,
            ended: row.get(3)?,
            escalated: row.get(4)?,
        })
    }

    /// The whole question; nothing if its text or its end was erased.
    pub(super) fn complete(self, conn: &Connection) -> Result<Option<Question>, SqliteFailure> {
        let Some((created_at, asked)) = timed_payload::<QuestionAsked>(conn, self.opened)? else {
            return Ok(None);
        };
        if asked.question.id.as_str() != self.id {
            return Err(SqliteFailure::Damaged(format!(
                "event {} did not open question `{}`",
                self.opened, self.id
            )));
        }
        let ended = match self.ended {
            None => None,
            Some(number) => match timed_payload::<QuestionEndedEvent>(conn, number)? {
                None => return Ok(None),
                Some((at, ended)) => Some(QuestionEnd {
                    ending: ended.ending,
                    seq: from_sql_seq(number),
                    at,
                }),
            },
        };
        Ok(Some(Question {
            text: asked.question,
            opened: from_sql_seq(self.opened),
            created_at,
            escalated: self.escalated,
            ended,
        }))
    }
}

/// When an event happened, and its payload; nothing if that was erased.
fn timed_payload<T: DeserializeOwned>(
    conn: &Connection,
    number: i64,
) -> Result<Option<(Timestamp, T)>, SqliteFailure> {
    let mut find = conn
        .prepare_cached("SELECT at, body FROM events JOIN payloads USING (seq) WHERE seq = ?1")?;
    let mut rows = find.query([number])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let body = decode(number, serde_json::from_slice(blob(row, 1)?))?;
    Ok(Some((from_sql_time(row.get(0)?), body)))
}

/// The payload of an event of this kind; nothing if it is of another or was erased.
pub(super) fn payload<T: DeserializeOwned>(
    conn: &Connection,
    number: i64,
    kind: &str,
) -> Result<Option<T>, SqliteFailure> {
    let mut find = conn.prepare_cached(
        "SELECT body FROM events JOIN payloads USING (seq) JOIN strings ON code = kind
         WHERE seq = ?1 AND text = ?2",
    )?;
    let found = find.query_row(params![number, kind], |row| {
        Ok(serde_json::from_slice(blob(row, 0)?))
    });
    found
        .optional()?
        .map(|read| decode(number, read))
        .transpose()
}

/// The ask an event opened; nothing if it was erased.
pub(super) fn ask(conn: &Connection, number: i64) -> Result<Option<Arc<Ask>>, SqliteFailure> {
    let requested: Option<ApprovalRequested> = payload(conn, number, "approval.requested")?;
    Ok(requested.map(|requested| requested.ask))
}

/// The bytes of a column, without a copy.
pub(super) fn blob<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r [u8]> {
    Ok(row.get_ref(column)?.as_blob()?)
}

/// A payload that does not read as what it was written as is damage.
pub(super) fn decode<T>(
    number: i64,
    read: Result<T, serde_json::Error>,
) -> Result<T, SqliteFailure> {
    read.map_err(|error| {
        SqliteFailure::Damaged(format!(
            "the payload of event {number} cannot be read: {error}"
        ))
    })
}

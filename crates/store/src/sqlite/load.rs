//! Loading what memory must hold. Its cost depends on what is open, not on history.

use std::cmp::Reverse;
use std::sync::Arc;

use countersign_core::event::{Device, ProcessKey};
use countersign_core::limits::{RECENT_ENDED_BYTES_KEPT, RECENT_ENDED_KEPT};
use countersign_core::{
    AccessToken, Agent, AgentId, Approval, Checkpoint, ClientId, GrantState, Json, ManagedAgent,
    PrincipalKey, ProcessMark, Question, Seq, Snapshot, TokenId,
};
use rusqlite::{Connection, Row};
use serde::de::DeserializeOwned;

use super::deferred_models::DeferredModels;
use super::read_approvals;
use super::rows::{self, APPROVAL, ApprovalRow, QUESTION, QuestionRow, from_sql_time};
use crate::failure::SqliteFailure;

/// What the tables hold, brought up to date by what is not in them yet.
pub(super) fn snapshot(
    conn: &Connection,
    head: Seq,
    models: &DeferredModels,
) -> Result<Snapshot, SqliteFailure> {
    let mut snapshot = Snapshot {
        head,
        agents: all(conn, "SELECT * FROM agents ORDER BY id", agent)?,
        open_approvals: open_approvals(conn, models)?,
        recent_approvals: recent_approvals(conn, models)?,
        undelivered: undelivered(conn, models)?,
        open_questions: open_questions(conn)?,
        devices: all(conn, "SELECT * FROM devices ORDER BY id", |row| {
            json::<Arc<Device>>(row, 1)
        })?,
        tokens: all(conn, "SELECT * FROM tokens ORDER BY id", token)?,
        marks: all(conn, "SELECT * FROM marks ORDER BY pid, start_time", mark)?,
        grants: all(conn, "SELECT * FROM grants ORDER BY id", grant)?,
        trusted: all(conn, "SELECT * FROM trusted_files ORDER BY path", |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?,
        checkpoints: all(conn, &format!("{CHECKPOINTS} ORDER BY agent"), checkpoint)?,
    };
    models.update_snapshot(&mut snapshot);
    Ok(snapshot)
}

fn all<T>(
    conn: &Connection,
    sql: &str,
    read: impl Fn(&Row<'_>) -> Result<T, SqliteFailure>,
) -> Result<Vec<T>, SqliteFailure> {
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn open_approvals(
    conn: &Connection,
    models: &DeferredModels,
) -> Result<Vec<Approval>, SqliteFailure> {
    // `INDEXED BY` is an error where the index does not fit, instead of a scan of all history.
    let sql = format!(
        "SELECT {APPROVAL} FROM approvals INDEXED BY approvals_listed WHERE ended IS NULL ORDER BY opened"
    );
    let mut open = Vec::new();
    for row in all(conn, &sql, |row| Ok(ApprovalRow::read(row)?))? {
        if let Some(row) = models.update_row(row) {
            // Without its text an open ask cannot be shown or answered, and leaving it out would
            // forget that somebody waits: the host does not start.
            let opened = row.opened;
            let approval = row.complete(conn)?;
            open.push(approval.ok_or_else(|| ApprovalRow::lost(opened))?);
        }
    }
    for approval in models.approvals().filter(|approval| approval.is_pending()) {
        // From the log as well, so that memory does not hide what is missing there.
        let opened = approval.opened.0.cast_signed();
        rows::ask(conn, opened)?.ok_or_else(|| ApprovalRow::lost(opened))?;
        open.push(approval.clone());
    }
    open.sort_by_key(|approval| approval.opened);
    Ok(open)
}

fn recent_approvals(
    conn: &Connection,
    models: &DeferredModels,
) -> Result<Vec<Approval>, SqliteFailure> {
    let mut recent: Vec<Approval> = models
        .approvals()
        .filter(|approval| approval.ended.is_some() && !approval.dismissed)
        .cloned()
        .collect();
    // All of them ended after those in the table.
    recent.sort_by_key(|approval| Reverse(approval.ended.as_ref().map(|ended| ended.seq)));
    recent.truncate(RECENT_ENDED_KEPT);
    let sql = format!(
        "SELECT {APPROVAL} FROM approvals INDEXED BY approvals_listed
         WHERE ended IS NOT NULL AND dismissed = 0 ORDER BY ended DESC"
    );
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut bytes: usize = recent.iter().map(|approval| approval.ask.bytes()).sum();
    while recent.len() < RECENT_ENDED_KEPT
        && bytes < RECENT_ENDED_BYTES_KEPT
        && let Some(row) = rows.next()?
    {
        let row = models.update_row(ApprovalRow::read(row)?);
        let Some(row) = row.filter(|row| !row.dismissed) else {
            continue;
        };
        if let Some(approval) = row.complete(conn)? {
            bytes += approval.ask.bytes();
            recent.push(approval);
        }
    }
    recent.reverse();
    Ok(recent)
}

/// Only managed agents are told by the host itself; whoever asks over a connection comes back.
fn undelivered(conn: &Connection, models: &DeferredModels) -> Result<Vec<Approval>, SqliteFailure> {
    let mut found = read_approvals::attempted(conn, models, None, usize::MAX)?;
    found.retain(|approval| approval.ask.request.is_some());
    Ok(found)
}

fn open_questions(conn: &Connection) -> Result<Vec<Question>, SqliteFailure> {
    let sql = format!(
        "SELECT {QUESTION} FROM questions INDEXED BY questions_open WHERE ended IS NULL ORDER BY opened"
    );
    all(conn, &sql, |row| {
        let row = QuestionRow::read(row)?;
        let opened = row.opened;
        row.complete(conn)?.ok_or_else(|| ApprovalRow::lost(opened))
    })
}

fn agent(row: &Row<'_>) -> Result<Agent, SqliteFailure> {
    Ok(Agent {
        profile: json(row, 1)?,
        base: json(row, 2)?,
        current_task: row.get(3)?,
        owner: PrincipalKey::new(row.get::<_, String>(4)?),
        client: row.get::<_, Option<String>>(5)?.map(ClientId::new),
        lapses_at: row.get::<_, Option<i64>>(6)?.map(from_sql_time),
        registered_at: from_sql_time(row.get(7)?),
        updated_at: from_sql_time(row.get(8)?),
        bypass_until: row.get::<_, Option<i64>>(9)?.map(from_sql_time),
        managed: managed(row)?,
    })
}

fn managed(row: &Row<'_>) -> Result<Option<Arc<ManagedAgent>>, SqliteFailure> {
    match row.get_ref(10)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => json(row, 10).map(Some),
    }
}

fn token(row: &Row<'_>) -> Result<AccessToken, SqliteFailure> {
    Ok(AccessToken {
        id: TokenId::new(row.get::<_, String>(0)?),
        role: json(row, 1)?,
        name: row.get(2)?,
        hash: row.get(3)?,
        created_at: from_sql_time(row.get(4)?),
        expires_at: row.get::<_, Option<i64>>(5)?.map(from_sql_time),
        device: match row.get_ref(6)? {
            rusqlite::types::ValueRef::Null => None,
            _ => Some(json(row, 6)?),
        },
        last_seen: row.get::<_, Option<i64>>(7)?.map(from_sql_time),
    })
}

fn grant(row: &Row<'_>) -> Result<GrantState, SqliteFailure> {
    Ok(GrantState {
        grant: json(row, 1)?,
        created_at: from_sql_time(row.get(2)?),
        uses_left: row.get(3)?,
        fired: row.get::<_, i64>(4)?.cast_unsigned(),
        last_used: row.get::<_, Option<i64>>(5)?.map(from_sql_time),
    })
}

const CHECKPOINTS: &str = "SELECT agent, run, offset, state FROM checkpoints";

/// One agent's checkpoint.
pub(super) fn find_checkpoint(
    conn: &Connection,
    agent: &AgentId,
) -> Result<Option<Checkpoint>, SqliteFailure> {
    let mut find = conn.prepare_cached(&format!("{CHECKPOINTS} WHERE agent = ?1"))?;
    let mut rows = find.query([agent.as_str()])?;
    rows.next()?.map(checkpoint).transpose()
}

fn checkpoint(row: &Row<'_>) -> Result<Checkpoint, SqliteFailure> {
    Ok(Checkpoint {
        agent: AgentId::new(row.get::<_, String>(0)?),
        run: row.get(1)?,
        offset: row.get::<_, i64>(2)?.cast_unsigned(),
        state: json(row, 3)?,
    })
}

/// Everything that the notifier keeps, by name.
pub(super) fn notify_documents(conn: &Connection) -> Result<Vec<(String, Json)>, SqliteFailure> {
    all(
        conn,
        "SELECT name, body FROM notify_documents ORDER BY name",
        |row| Ok((row.get(0)?, json(row, 1)?)),
    )
}

fn mark(row: &Row<'_>) -> Result<ProcessMark, SqliteFailure> {
    let process = ProcessKey {
        pid: row.get(0)?,
        start_time: row.get::<_, i64>(1)?.cast_unsigned(),
    };
    Ok(ProcessMark {
        process,
        agent: AgentId::new(row.get::<_, String>(2)?),
    })
}

fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T, SqliteFailure> {
    let text = row
        .get_ref(column)?
        .as_str()
        .map_err(rusqlite::Error::from)?;
    serde_json::from_str(text)
        .map_err(|error| SqliteFailure::Damaged(format!("a row cannot be read: {error}")))
}

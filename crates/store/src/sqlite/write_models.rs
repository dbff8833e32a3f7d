//! Writing the read models: each thing in its last form.

use std::collections::BTreeMap;

use countersign_core::event::AnswerDelivery;
use countersign_core::{
    AccessToken, Agent, AgentId, AnswerChange, Approval, Checkpoint, ClientId, CommitChanges,
    GrantId, GrantState, Json, Question, Seq, TokenId,
};
use rusqlite::{CachedStatement, Connection, params};

use super::rows::{delivery_code, to_sql_time};
use super::string_index::InternedStrings;
use crate::failure::SqliteFailure;

/// Writes what changed. What was opened before the event `first` is in the tables already.
pub(super) fn write(
    conn: &Connection,
    strings: &mut InternedStrings,
    changes: &CommitChanges,
    first: Seq,
) -> Result<(), SqliteFailure> {
    write_approvals(conn, strings, changes, first)?;
    for opened in &changes.dismissed {
        let mut dismiss =
            conn.prepare_cached("UPDATE approvals SET dismissed = 1 WHERE opened = ?1")?;
        dismiss.execute([opened.0.cast_signed()])?;
    }
    write_questions(conn, strings, &changes.questions)?;
    write_agents(conn, &changes.agents)?;
    write_underivable(conn, changes)?;
    write_tokens(conn, &changes.tokens)?;
    write_grants(conn, &changes.grants)?;
    for (file, digest) in &changes.trusted {
        let mut put =
            conn.prepare_cached("INSERT OR REPLACE INTO trusted_files VALUES (?1, ?2)")?;
        put.execute([file, digest])?;
    }
    for device in &changes.devices {
        let mut put = conn.prepare_cached(
            "INSERT INTO devices (id, body) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET body = excluded.body",
        )?;
        put.execute(params![device.id.as_str(), serde_json::to_string(device)?])?;
    }
    write_marks(conn, changes)
}

/// Writes what follows from no event, and could not be found again after a crash: how far agents were
/// read, and the documents of the notifier.
pub(super) fn write_underivable(
    conn: &Connection,
    changes: &CommitChanges,
) -> Result<(), SqliteFailure> {
    write_checkpoints(conn, &changes.checkpoints)?;
    write_notify_documents(conn, &changes.notify_documents)
}

/// Approvals, each with what became of its answer in the same append.
fn write_approvals(
    conn: &Connection,
    strings: &mut InternedStrings,
    changes: &CommitChanges,
    first: Seq,
) -> Result<(), SqliteFailure> {
    let mut answers = AnswerChanges::fold(&changes.answers);
    if !changes.approvals.is_empty() {
        let mut update = conn.prepare_cached(UPDATE)?;
        let mut insert = conn.prepare_cached(INSERT)?;
        for approval in &changes.approvals {
            let (delivery, deliveries) = answers.take(approval);
            // What was opened before is there: inserting it would be tried in vain.
            if approval.opened < first {
                bind_changing(&mut update, approval, delivery, deliveries)?;
                if update.raw_execute()? > 0 {
                    continue;
                }
            }
            bind_changing(&mut insert, approval, delivery, deliveries)?;
            bind_lasting(&mut insert, approval, conn, strings)?;
            insert.raw_execute()?;
        }
    }
    for (opened, answer) in answers.0 {
        let mut update = conn.prepare_cached(
            "UPDATE approvals SET delivery = ?2, deliveries = coalesce(?3, deliveries) WHERE opened = ?1",
        )?;
        let delivery = delivery_code(answer.delivery);
        update.execute(params![opened.0.cast_signed(), delivery, answer.deliveries])?;
    }
    Ok(())
}

const UPDATE: &str = "UPDATE approvals SET client = ?2, lapses_at = ?3, ended = ?4, delivery = ?5,
    deliveries = ?6, dismissed = ?7 WHERE opened = ?1";

const INSERT: &str = "INSERT INTO approvals (opened, client, lapses_at, ended, delivery,
    deliveries, dismissed, id, agent, asker, key)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

/// What became of answers, the last word per approval.
struct AnswerChanges(BTreeMap<Seq, AnswerChange>);

impl AnswerChanges {
    fn fold(changes: &[AnswerChange]) -> Self {
        let mut answers = BTreeMap::new();
        for change in changes {
            let answer = answers.entry(change.opened).or_insert(*change);
            answer.delivery = change.delivery;
            answer.deliveries = change.deliveries.or(answer.deliveries);
        }
        Self(answers)
    }

    /// What the answer of an approval has come to. It is written with it, and not again.
    fn take(&mut self, approval: &Approval) -> (AnswerDelivery, u32) {
        let answer = self.0.remove(&approval.opened);
        answer.map_or((approval.delivery, approval.deliveries), |answer| {
            let deliveries = answer.deliveries.unwrap_or(approval.deliveries);
            (answer.delivery, deliveries)
        })
    }
}

fn bind_changing(
    statement: &mut CachedStatement<'_>,
    approval: &Approval,
    delivery: AnswerDelivery,
    deliveries: u32,
) -> Result<(), SqliteFailure> {
    statement.raw_bind_parameter(1, approval.opened.0.cast_signed())?;
    statement.raw_bind_parameter(2, approval.client.as_ref().map(ClientId::as_str))?;
    statement.raw_bind_parameter(3, approval.lapses_at.map(to_sql_time))?;
    statement.raw_bind_parameter(
        4,
        approval
            .ended
            .as_ref()
            .map(|ended| ended.seq.0.cast_signed()),
    )?;
    statement.raw_bind_parameter(5, delivery_code(delivery))?;
    statement.raw_bind_parameter(6, deliveries)?;
    statement.raw_bind_parameter(7, approval.dismissed)?;
    Ok(())
}

fn bind_lasting(
    statement: &mut CachedStatement<'_>,
    approval: &Approval,
    conn: &Connection,
    strings: &mut InternedStrings,
) -> Result<(), SqliteFailure> {
    let ask = &approval.ask;
    let agent = ask
        .agent
        .as_ref()
        .map(|agent| strings.intern(conn, agent.as_str()))
        .transpose()?;
    statement.raw_bind_parameter(8, ask.id.as_str())?;
    statement.raw_bind_parameter(9, agent)?;
    // Nobody looks for an asker without a key, so that the row does not repeat it then.
    statement.raw_bind_parameter(
        10,
        ask.idempotency_key.as_ref().map(|_| ask.by.key.as_str()),
    )?;
    statement.raw_bind_parameter(11, ask.idempotency_key.as_deref())?;
    Ok(())
}

fn write_questions(
    conn: &Connection,
    strings: &mut InternedStrings,
    questions: &[Question],
) -> Result<(), SqliteFailure> {
    for question in questions {
        let agent = question
            .text
            .agent
            .as_ref()
            .map(|agent| strings.intern(conn, agent.as_str()))
            .transpose()?;
        let mut put = conn.prepare_cached(
            "INSERT INTO questions (opened, id, agent, ended, asker, key, escalated)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (opened) DO UPDATE SET ended = excluded.ended, escalated = excluded.escalated",
        )?;
        let ended = question
            .ended
            .as_ref()
            .map(|ended| ended.seq.0.cast_signed());
        let key = question.text.key.as_deref();
        put.execute(params![
            question.opened.0.cast_signed(),
            question.text.id.as_str(),
            agent,
            ended,
            key.map(|_| question.text.by.key.as_str()),
            key,
            question.escalated,
        ])?;
    }
    Ok(())
}

fn write_agents(
    conn: &Connection,
    agents: &[(AgentId, Option<Agent>)],
) -> Result<(), SqliteFailure> {
    for (id, agent) in agents {
        let Some(agent) = agent else {
            conn.prepare_cached("DELETE FROM agents WHERE id = ?1")?
                .execute([id.as_str()])?;
            continue;
        };
        let mut put = conn.prepare_cached(
            "INSERT INTO agents (id, profile, base, current_task, owner, client, lapses_at, registered_at, updated_at, bypass_until, managed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT (id) DO UPDATE SET profile = excluded.profile, base = excluded.base,
                 current_task = excluded.current_task, owner = excluded.owner, client = excluded.client,
                 lapses_at = excluded.lapses_at, registered_at = excluded.registered_at,
                 updated_at = excluded.updated_at, bypass_until = excluded.bypass_until,
                 managed = excluded.managed",
        )?;
        put.execute(params![
            id.as_str(),
            serde_json::to_string(&agent.profile)?,
            serde_json::to_string(&agent.base)?,
            agent.current_task,
            agent.owner.as_str(),
            agent.client.as_ref().map(ClientId::as_str),
            agent.lapses_at.map(to_sql_time),
            to_sql_time(agent.registered_at),
            to_sql_time(agent.updated_at),
            agent.bypass_until.map(to_sql_time),
            agent
                .managed
                .as_ref()
                .map(serde_json::to_string)
                .transpose()?,
        ])?;
    }
    Ok(())
}

fn write_checkpoints(
    conn: &Connection,
    checkpoints: &[(AgentId, Option<Checkpoint>)],
) -> Result<(), SqliteFailure> {
    for (agent, checkpoint) in checkpoints {
        let Some(checkpoint) = checkpoint else {
            conn.prepare_cached("DELETE FROM checkpoints WHERE agent = ?1")?
                .execute([agent.as_str()])?;
            continue;
        };
        let mut put = conn.prepare_cached(
            "INSERT INTO checkpoints (agent, run, offset, state) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (agent) DO UPDATE SET run = excluded.run, offset = excluded.offset,
                 state = excluded.state",
        )?;
        put.execute(params![
            agent.as_str(),
            checkpoint.run,
            checkpoint.offset.cast_signed(),
            checkpoint.state.text(),
        ])?;
    }
    Ok(())
}

fn write_notify_documents(
    conn: &Connection,
    documents: &[(String, Option<Json>)],
) -> Result<(), SqliteFailure> {
    for (name, body) in documents {
        match body {
            Some(body) => conn
                .prepare_cached("INSERT OR REPLACE INTO notify_documents VALUES (?1, ?2)")?
                .execute([name, body.text()])?,
            None => conn
                .prepare_cached("DELETE FROM notify_documents WHERE name = ?1")?
                .execute([name])?,
        };
    }
    Ok(())
}

fn write_tokens(
    conn: &Connection,
    tokens: &[(TokenId, Option<AccessToken>)],
) -> Result<(), SqliteFailure> {
    for (id, token) in tokens {
        let Some(token) = token else {
            conn.prepare_cached("DELETE FROM tokens WHERE id = ?1")?
                .execute([id.as_str()])?;
            continue;
        };
        let mut put = conn.prepare_cached(
            "INSERT INTO tokens (id, role, name, hash, created_at, expires_at, device, last_seen)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT (id) DO UPDATE SET role = excluded.role, name = excluded.name, hash = excluded.hash,
                 created_at = excluded.created_at, expires_at = excluded.expires_at,
                 device = excluded.device, last_seen = excluded.last_seen",
        )?;
        put.execute(params![
            id.as_str(),
            serde_json::to_string(&token.role)?,
            token.name,
            token.hash,
            to_sql_time(token.created_at),
            token.expires_at.map(to_sql_time),
            token
                .device
                .as_ref()
                .map(serde_json::to_string)
                .transpose()?,
            token.last_seen.map(to_sql_time),
        ])?;
    }
    Ok(())
}

fn write_grants(
    conn: &Connection,
    grants: &[(GrantId, Option<GrantState>)],
) -> Result<(), SqliteFailure> {
    for (id, state) in grants {
        let Some(state) = state else {
            conn.prepare_cached("DELETE FROM grants WHERE id = ?1")?
                .execute([id.as_str()])?;
            continue;
        };
        // What a grant allows never changes, so its body is written once.
        let mut put = conn.prepare_cached(
            "INSERT INTO grants (id, body, created_at, uses_left, fired, last_used) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (id) DO UPDATE SET uses_left = excluded.uses_left, fired = excluded.fired,
                 last_used = excluded.last_used",
        )?;
        put.execute(params![
            id.as_str(),
            serde_json::to_string(&state.grant)?,
            to_sql_time(state.created_at),
            state.uses_left,
            state.fired.cast_signed(),
            state.last_used.map(to_sql_time),
        ])?;
    }
    Ok(())
}

fn write_marks(conn: &Connection, changes: &CommitChanges) -> Result<(), SqliteFailure> {
    for mark in &changes.marks_added {
        let mut put = conn.prepare_cached("INSERT OR REPLACE INTO marks VALUES (?1, ?2, ?3)")?;
        put.execute(params![
            mark.process.pid,
            mark.process.start_time.cast_signed(),
            mark.agent.as_str()
        ])?;
    }
    for process in &changes.marks_removed {
        let mut drop =
            conn.prepare_cached("DELETE FROM marks WHERE pid = ?1 AND start_time = ?2")?;
        drop.execute(params![process.pid, process.start_time.cast_signed()])?;
    }
    Ok(())
}

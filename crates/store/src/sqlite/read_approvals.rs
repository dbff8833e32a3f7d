//! Reading approvals: from the table, and from what is not in it yet.

use std::cmp::Reverse;

use countersign_core::event::AnswerDelivery;
use countersign_core::limits::PAGE_BYTES_MAX;
use countersign_core::{Approval, ApprovalId, PrincipalKey, Seq};
use rusqlite::{Connection, OptionalExtension as _, Params, ToSql, params};

use super::deferred_models::DeferredModels;
use super::ids;
use super::read::{RowList, agent_filter, has_status, successor};
use super::rows::{APPROVAL, ApprovalRow, to_sql_bound};
use super::string_index::ScanDirection;
use crate::failure::SqliteFailure;
use crate::{ApprovalQuery, StatusFilter};

/// The approval with this id.
pub(super) fn find(
    conn: &Connection,
    models: &DeferredModels,
    id: &ApprovalId,
) -> Result<Option<Approval>, SqliteFailure> {
    let mut deferred = models.approvals();
    if let Some(approval) = deferred.find(|approval| approval.ask.id == *id) {
        return Ok(Some(approval.clone()));
    }
    let indexed = format!("opened IN ({})", ids::select_indexed("id = ?1"));
    let found = find_where(conn, models, &indexed, [id.as_str()])?;
    if found.is_some() {
        return Ok(found);
    }
    // Ids get into their index only with the read models of many events; what is newer is found by
    // going through the few rows that came since.
    let newest = params![id.as_str(), to_sql_bound(ids::indexed_until(conn)?.0)];
    find_where(conn, models, "id = ?1 AND opened > ?2", newest)
}

/// The approval that a principal opened under a key of its own.
pub(super) fn find_keyed(
    conn: &Connection,
    models: &DeferredModels,
    principal: &PrincipalKey,
    key: &str,
) -> Result<Option<Approval>, SqliteFailure> {
    let mut deferred = models.approvals();
    if let Some(approval) = deferred.find(|approval| approval.answers_key(principal, key)) {
        return Ok(Some(approval.clone()));
    }
    let by_key = "asker = ?1 AND key = ?2";
    find_where(conn, models, by_key, [principal.as_str(), key])
}

/// The one approval in the table that a condition holds for.
fn find_where(
    conn: &Connection,
    models: &DeferredModels,
    condition: &str,
    params: impl Params,
) -> Result<Option<Approval>, SqliteFailure> {
    let sql = format!("SELECT {APPROVAL} FROM approvals WHERE {condition}");
    let row = conn
        .prepare_cached(&sql)?
        .query_row(params, ApprovalRow::read)
        .optional()?;
    let row = row.and_then(|row| models.update_row(row));
    row.map_or(Ok(None), |row| row.complete(conn))
}

/// Ended approvals whose answer was sent and may or may not have arrived, in the order in which they
/// were opened: those opened after an event, until they have so many bytes.
pub(super) fn attempted(
    conn: &Connection,
    models: &DeferredModels,
    after: Option<Seq>,
    bytes_max: usize,
) -> Result<Vec<Approval>, SqliteFailure> {
    let mut rows = attempted_rows(conn, models, after)?;
    // Two sorted lists are merged without completing every row first: the rest of the rows are not
    // read once there are enough bytes.
    rows.sort_by_key(|row| row.opened);
    let mut deferred: Vec<&Approval> = models
        .approvals()
        .filter(|approval| after.is_none_or(|after| approval.opened > after))
        .filter(|approval| approval.ended.is_some())
        .filter(|approval| approval.delivery == AnswerDelivery::Attempted)
        .collect();
    deferred.reverse();
    let mut deferred = deferred.into_iter().peekable();
    let (mut found, mut bytes) = (Vec::new(), 0);
    let mut rows = rows.into_iter().peekable();
    while bytes < bytes_max {
        let row_is_next = match (rows.peek(), deferred.peek()) {
            (Some(row), Some(approval)) => row.opened_seq() < approval.opened,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let next = if row_is_next {
            rows.next().map_or(Ok(None), |row| row.complete(conn))?
        } else {
            match deferred.next() {
                Some(approval) => Some(approval.clone()),
                None => break,
            }
        };
        if let Some(approval) = next {
            bytes += approval.ask.bytes();
            found.push(approval);
        }
    }
    Ok(found)
}

/// The rows of the table whose answer is on its way now, in no order.
fn attempted_rows(
    conn: &Connection,
    models: &DeferredModels,
    after: Option<Seq>,
) -> Result<Vec<ApprovalRow>, SqliteFailure> {
    let after = after.map_or(-1, |after| to_sql_bound(after.0));
    let sql = format!(
        "SELECT {APPROVAL} FROM approvals INDEXED BY approvals_attempted
         WHERE delivery = 1 AND ended IS NOT NULL AND opened > ?1"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let known: Vec<ApprovalRow> = statement
        .query_map([after], ApprovalRow::read)?
        .collect::<Result<_, _>>()?;
    let known_seqs: Vec<Seq> = known.iter().map(ApprovalRow::opened_seq).collect();
    let mut rows: Vec<ApprovalRow> = known
        .into_iter()
        .filter_map(|row| models.update_row(row))
        .filter(ApprovalRow::is_attempted)
        .collect();
    let sql = format!("SELECT {APPROVAL} FROM approvals WHERE opened = ?1 AND ended IS NOT NULL");
    let mut by_number = conn.prepare_cached(&sql)?;
    for opened in models.attempted_answers() {
        let number = to_sql_bound(opened.0);
        if number > after && !known_seqs.contains(&opened) {
            let row = by_number
                .query_row([number], ApprovalRow::read)
                .optional()?;
            rows.extend(row.and_then(|row| models.update_row(row)));
        }
    }
    Ok(rows)
}

/// Approvals, newest first.
pub(super) fn list(
    conn: &Connection,
    models: &DeferredModels,
    query: &ApprovalQuery,
) -> Result<Vec<Approval>, SqliteFailure> {
    let deferred = models
        .approvals()
        .filter(|approval| matches(query, approval));
    let mut found: Vec<Approval> = deferred.cloned().collect();
    found.extend(list_rows(conn, models, query)?);
    found.sort_by_key(|approval| Reverse(approval.opened));
    found.truncate(query.limit);
    // As a page of the table alone: the approval that fills it is its last.
    let mut bytes = 0;
    found.retain(|approval| {
        let has_room = bytes < PAGE_BYTES_MAX;
        bytes += approval.ask.bytes();
        has_room
    });
    Ok(found)
}

fn matches(query: &ApprovalQuery, approval: &Approval) -> bool {
    let prefix = query.id_prefix.as_deref().unwrap_or_default();
    let ended = approval
        .ended
        .as_ref()
        .map(|ended| to_sql_bound(ended.seq.0));
    (query.agent.is_none() || approval.ask.agent == query.agent)
        && query
            .opened_before
            .is_none_or(|before| approval.opened < before)
        && has_status(query.status, ended)
        && (query.dismissed || !approval.dismissed)
        && approval.ask.id.as_str().starts_with(prefix)
}

/// Those in the table that are not among the deferred ones.
fn list_rows(
    conn: &Connection,
    models: &DeferredModels,
    query: &ApprovalQuery,
) -> Result<Vec<Approval>, SqliteFailure> {
    let last = query
        .opened_before
        .map_or(i64::MAX, |before| to_sql_bound(before.0).saturating_sub(1));
    let Some(filter) = agent_filter(conn, query.agent.as_ref())? else {
        return Ok(Vec::new());
    };
    let mut list = RowList::new(query.limit);
    let mut fill = |rest: &str, params: &[&dyn ToSql]| {
        let sql = format!("SELECT {APPROVAL} FROM approvals {rest} DESC");
        list.fill(conn, &sql, params, |row| {
            let Some(row) = models.update_row(ApprovalRow::read(row)?) else {
                return Ok(None);
            };
            let wanted = (filter.required.is_none() || row.agent == filter.required)
                && row.opened <= last
                && has_status(query.status, row.ended)
                && (query.dismissed || !row.dismissed);
            if wanted { row.complete(conn) } else { Ok(None) }
        })
    };
    if let Some(prefix) = query
        .id_prefix
        .as_deref()
        .filter(|prefix| !prefix.is_empty())
    {
        let above = successor(prefix);
        let newest = params![prefix, above, to_sql_bound(ids::indexed_until(conn)?.0)];
        let newest = fill(
            "WHERE id >= ?1 AND id < ?2 AND opened > ?3 ORDER BY opened",
            newest,
        )?;
        // Ids are indexed in the order of events, so that all of the indexed asks are older.
        if newest.is_continue() {
            let indexed = ids::select_indexed("id >= ?1 AND id < ?2");
            _ = fill(
                &format!("WHERE opened IN ({indexed}) ORDER BY opened"),
                params![prefix, above],
            )?;
        }
    } else if query.status == Some(StatusFilter::Pending) {
        _ = fill(
            "INDEXED BY approvals_listed WHERE ended IS NULL AND opened <= ?1 ORDER BY opened",
            params![last],
        )?;
    } else {
        filter.visit(conn, 0..=last, ScanDirection::Down, |first, last| {
            fill(
                "WHERE opened BETWEEN ?1 AND ?2 ORDER BY opened",
                params![first, last],
            )
        })?;
    }
    Ok(list.found)
}

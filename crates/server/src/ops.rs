//! Operations: one implementation of each, between the parameters of a door and the service.
//!
//! Invariants: all doors call the same functions and so have the same results and errors. An
//! operation returns values of the domain. The door translates them last (`convert::IntoWire`), so
//! that no decision inside the process depends on a row of the wire.

pub(crate) mod agent_files;
pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod children;
pub(crate) mod devices;
pub(crate) mod editors;
pub(crate) mod events;
pub(crate) mod hook;
pub(crate) mod managed;
pub(crate) mod notify;
pub(crate) mod own_terminals;
pub(crate) mod parent;
pub(crate) mod questions;
mod remember;
pub(crate) mod rules;
pub(crate) mod search;
pub(crate) mod terminals;
pub(crate) mod tokens;

use std::sync::Arc;

use countersign_core::limits::PAGE_ROWS_MAX;
use countersign_core::{Caller, ClientId, Door, Principal};
use countersign_daemon::StatusFilter;
use countersign_protocol as wire;
use countersign_protocol::Reason;

use crate::api_error::ApiError;

type Result<T> = std::result::Result<T, ApiError>;

/// The caller of a request. `client` is the WebSocket connection, which owns what it opens.
pub(crate) fn caller(principal: &Arc<Principal>, client: Option<&ClientId>, door: Door) -> Caller {
    Caller {
        principal: principal.clone(),
        client: client.cloned(),
        door: Some(door),
    }
}

fn prefixed(prefix: &str, id: &str) -> String {
    if id.starts_with(prefix) {
        id.to_owned()
    } else {
        format!("{prefix}{id}")
    }
}

/// The one match of an abbreviated id; an error if there is none or more than one.
fn one_of<'a, T>(found: &'a [T], id: &str, what: &str, unknown: Reason) -> Result<&'a T> {
    match found {
        [one] => Ok(one),
        [] => Err(ApiError::plain(unknown, format!("unknown {what} '{id}'"))),
        _ => Err(ApiError::plain(
            Reason::AmbiguousId,
            format!("'{id}' matches more than one {what}: give more characters of the id"),
        )),
    }
}

fn status_filter(status: Option<wire::ListStatus>) -> Option<StatusFilter> {
    match status? {
        wire::ListStatus::Pending => Some(StatusFilter::Pending),
        wire::ListStatus::Resolved => Some(StatusFilter::Ended),
        wire::ListStatus::All => None,
    }
}

/// The number of rows in a page; more than the bound counts as the bound.
fn page_rows(limit: Option<u64>, default: usize) -> usize {
    limit.map_or(default, |limit| {
        usize::try_from(limit)
            .unwrap_or(usize::MAX)
            .min(PAGE_ROWS_MAX)
    })
}

//! Grants: rules with a leash that came from a decision, and whether they still count.
//!
//! Invariant: a grant never counts after its expiry or beyond its uses, swept or not, and never for
//! a name that an agent gave itself.

use std::sync::Arc;

use crate::event::Grant;
use crate::ids::{AgentId, Timestamp};

/// A grant and what became of it so far.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantState {
    pub grant: Arc<Grant>,
    /// When it was made.
    pub created_at: Timestamp,
    /// How many parts it may still allow; without a number, any.
    pub uses_left: Option<u32>,
    /// How many parts it has decided about.
    pub fired: u64,
    /// When it last decided about one.
    pub last_used: Option<Timestamp>,
}

impl GrantState {
    /// Whether its time is over.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.grant.expires_at.is_some_and(|end| now >= end)
    }

    /// Whether it may still allow so many parts.
    pub(crate) fn has_left(&self, times: u32) -> bool {
        // At least one, so that a grant that is used up never counts, whatever is asked of it.
        self.uses_left.is_none_or(|left| left >= times.max(1))
    }
}

/// Who asks and in which project, as far as the host knows: what a grant's scope is held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskerScope<'a> {
    pub agent: Option<&'a AgentId>,
    /// The project, by the name that stands for all its worktrees.
    pub project: Option<&'a str>,
}

//! When each device was last used. In memory only: a write for every request would cost more than the
//! request, and what is recorded once a day is enough after a restart.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use countersign_core::limits::TOKENS_MAX;
use countersign_core::{Timestamp, TokenId};

/// The last use of each device since the host started.
#[derive(Debug, Default)]
pub(crate) struct DeviceUses(RwLock<HashMap<TokenId, Timestamp>>);

impl DeviceUses {
    pub(crate) fn note(&self, token: &TokenId, now: Timestamp) {
        let mut uses = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Those of tokens that were withdrawn stay until there are too many.
        if uses.len() >= 2 * TOKENS_MAX && !uses.contains_key(token) {
            uses.clear();
        }
        match uses.get_mut(token) {
            Some(seen) => *seen = now,
            None => drop(uses.insert(token.clone(), now)),
        }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, HashMap<TokenId, Timestamp>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

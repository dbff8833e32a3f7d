//! What the hosts promised to the clients, kept outside of any host.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Something that a host acknowledged, so that it must be on the record.
#[derive(Clone, Debug)]
pub(super) enum Promise {
    Asked {
        n: u64,
        approval: String,
    },
    Answered {
        approval: String,
        resolution: String,
    },
    /// The asker was told how its ask ended.
    Told {
        approval: String,
        state: String,
        resolution: String,
        deliveries: u32,
    },
}

/// Filled by the clients, emptied by whoever checks.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    promises: Mutex<Vec<Promise>>,
    complaints: Mutex<Vec<String>>,
}

impl Ledger {
    pub(super) fn promise(&self, promise: Promise) {
        lock(&self.promises).push(promise);
    }

    /// Notes what a client saw that no host may do.
    pub(super) fn complain(&self, complaint: String) {
        lock(&self.complaints).push(complaint);
    }

    pub(super) fn take_promises(&self) -> Vec<Promise> {
        std::mem::take(&mut lock(&self.promises))
    }

    pub(super) fn take_complaints(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.complaints))
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

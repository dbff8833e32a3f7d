//! How many connections there is room for, and how many of them one process may have.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use countersign_core::limits::{CONNECTIONS_MAX, HOST_FILES_KEPT, UNIX_CONNECTIONS_MAX};

/// The bounds of connections. Those on the Unix socket are counted separately, so that a flood on
/// TCP does not lock a person out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    pub(crate) tcp: usize,
    pub(crate) unix: usize,
}

impl ConnectionLimits {
    /// What the limit of open files of this process leaves room for.
    pub(crate) fn of_process() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        // No limit at all is bounded by the constants below.
        let files = limit.and_then(|limit| usize::try_from(limit).ok());
        Self::for_files(files.unwrap_or(usize::MAX))
    }

    /// At least half of a low limit is left for the record, for agents, and for identifying
    /// callers. Of the rest a quarter is for the Unix socket.
    fn for_files(files: usize) -> Self {
        let rest = files - (files / 2).min(HOST_FILES_KEPT);
        let unix = (rest / 4).clamp(1, UNIX_CONNECTIONS_MAX);
        // Two, because each listener accepts one more connection before it waits for a permit.
        let tcp = rest.saturating_sub(unix + 2).clamp(1, CONNECTIONS_MAX);
        Self { tcp, unix }
    }
}

/// Connections on the Unix socket by process. One process gets at most a quarter of them, so that
/// `countersign status` still connects while it floods the socket.
pub(crate) struct ProcessShares {
    open: Mutex<HashMap<u32, usize>>,
    limit: usize,
}

impl ProcessShares {
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        Self {
            open: Mutex::default(),
            limit: (limits.unix / 4).max(1),
        }
    }

    /// Counts one more connection of a process; `None` if it has too many.
    pub(crate) fn take(self: &Arc<Self>, process: Option<u32>) -> Option<ProcessShare> {
        // Processes that the kernel does not name share the number 0, and with it one share.
        let process = process.unwrap_or_default();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(process).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        drop(open);
        Some(ProcessShare {
            shares: self.clone(),
            process,
        })
    }

    fn give_back(&self, process: u32) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&process) {
            *count -= 1;
            // Otherwise the map would grow with every process that ever connected.
            if *count == 0 {
                open.remove(&process);
            }
        }
    }
}

/// One connection of a process, until it is dropped.
pub(crate) struct ProcessShare {
    shares: Arc<ProcessShares>,
    process: u32,
}

impl Drop for ProcessShare {
    fn drop(&mut self) {
        self.shares.give_back(self.process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_share_and_gives_it_back() {
        let limits = ConnectionLimits { tcp: 1, unix: 8 };
        let shares = Arc::new(ProcessShares::new(limits));
        let first = shares.take(Some(1));
        let second = shares.take(Some(1));
        assert!(first.is_some() && second.is_some());
        assert!(shares.take(Some(1)).is_none());
        assert!(shares.take(Some(2)).is_some());
        assert!(shares.take(None).is_some());
        drop(first);
        assert!(shares.take(Some(1)).is_some());
        drop(second);
        assert!(shares.open.lock().unwrap().is_empty());
    }

    #[test]
    fn the_bounds_follow_the_limit_of_files() {
        for (files, tcp, unix) in [
            (0, 1, 1),
            (128, 46, 16),
            (1_024, 382, 128),
            (4_096, 1_534, 512),
            (20_000, CONNECTIONS_MAX, UNIX_CONNECTIONS_MAX),
            (usize::MAX, CONNECTIONS_MAX, UNIX_CONNECTIONS_MAX),
        ] {
            let expected = ConnectionLimits { tcp, unix };
            assert_eq!(ConnectionLimits::for_files(files), expected, "{files}");
        }
    }
}

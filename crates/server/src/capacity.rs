//! How many connections there is room for.

use countersign_core::limits::{CONNECTIONS_MAX, HOST_FILES_KEPT, UNIX_CONNECTIONS_MAX};

/// The bounds of connections. Those on the Unix socket are counted apart, so that nobody on TCP can lock a
/// person out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    pub(crate) tcp: usize,
    pub(crate) unix: usize,
}

impl ConnectionLimits {
    /// What the limit of open files of this process leaves room for.
    pub(crate) fn of_process() -> Self {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files = limit.and_then(|limit| usize::try_from(limit).ok());
        Self::for_files(files.unwrap_or(usize::MAX))
    }

    /// At least half of a low limit stays for the record, agents, and finding out who calls. Of the rest a
    /// quarter is for the Unix socket.
    fn for_files(files: usize) -> Self {
        let rest = files - (files / 2).min(HOST_FILES_KEPT);
        let unix = (rest / 4).clamp(1, UNIX_CONNECTIONS_MAX);
        // One more is accepted on each before it waits for room.
        let tcp = rest.saturating_sub(unix + 2).clamp(1, CONNECTIONS_MAX);
        Self { tcp, unix }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! What the host itself uses: processor, memory, disk.

use std::path::Path;
use std::sync::atomic::Ordering;

use countersign_daemon::{Service, procfs};
use countersign_protocol::HostFigures;

/// Nothing where the system does not say.
pub(crate) fn read_figures(service: &Service, database: &Path) -> Option<HostFigures> {
    let counters = service.counters();
    let usage = procfs::read_own_usage()?;
    Some(HostFigures {
        commits: counters.commits.load(Ordering::Relaxed),
        cpu_ms: usage.cpu_ms,
        database_bytes: database_bytes(database),
        events: counters.events.load(Ordering::Relaxed),
        memory_bytes: usage.memory_bytes,
    })
}

fn database_bytes(database: &Path) -> u64 {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    let sizes = [database, Path::new(&log)].map(std::fs::metadata);
    sizes.into_iter().flatten().map(|file| file.len()).sum()
}

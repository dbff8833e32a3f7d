//! Agents whose host is gone: found by what their runners left in the data folder, and ended.

use std::time::Duration;

use countersign_agents::runner::{RunnerRecord, end_orphan, find_orphans};
use countersign_core::event::ProcessKey;

use super::shutdown;
use crate::error::CliError;
use crate::paths::HostPaths;

/// How long runners that were told to go may take: they have nothing left to do.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// Runners that live, with what is needed to end them.
pub(super) fn find(paths: &HostPaths) -> Vec<(RunnerRecord, ProcessKey)> {
    find_orphans(&paths.runners)
}

/// Ends every agent that a host left; how many there were.
pub(super) async fn end_all(paths: &HostPaths) -> Result<usize, CliError> {
    let left = find(paths);
    for (record, runner) in &left {
        // By the key that was just found and not by the number alone, which may be another process by
        // now.
        end_orphan(record, Some(*runner)).await.map_err(|error| {
            CliError::failed(format!(
                "could not end an agent that runs without a host: {error}"
            ))
            .with_hint(format!(
                "its runner is process {}; see what it started with `ps --ppid`",
                runner.pid
            ))
        })?;
    }
    Ok(left.len())
}

/// Waits until runners that were told to go have gone.
pub(super) async fn wait_until_ended(runners: &[(RunnerRecord, ProcessKey)]) {
    // One that stays nevertheless is found and ended afterwards.
    drop(
        tokio::time::timeout(GONE_WITHIN, async {
            while runners.iter().any(|(_, key)| shutdown::is_running(key.pid)) {
                tokio::time::sleep(shutdown::GONE_POLL).await;
            }
        })
        .await,
    );
}

/// That they are there, and what to do.
pub(super) fn orphans_text(count: usize) -> String {
    let who = match count {
        1 => "1 agent runs".to_owned(),
        count => format!("{count} agents run"),
    };
    format!(
        "{who} without a host: `countersign up` adopts them again, `countersign down --all` \
         ends them"
    )
}

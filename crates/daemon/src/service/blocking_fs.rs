//! Looking at files for the rules: off the async threads, in bounded time, on a bounded number of
//! threads.
//!
//! Where an ask would run is its asker's word, and a folder there can be a mount that never answers.
//! Whoever looks at it may wait for ever; everybody else must not.

use std::time::Duration;

use crate::rulebook::Rulebook;

use super::Service;

/// Threads that look at files at one time. Those that never come back stay counted.
pub(super) const RULE_READERS_MAX: usize = 64;

/// How long a look may take: far longer than any disk needs.
const RULE_READ_TIME: Duration = Duration::from_secs(10);

impl Service {
    /// Runs a read of rule files on a blocking thread; nothing if it took too long or failed.
    pub(super) async fn read_rules<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Rulebook) -> T + Send + 'static,
    ) -> Option<T> {
        let seen = tokio::time::timeout(RULE_READ_TIME, async {
            let permit = self
                .shared
                .rule_readers
                .clone()
                .acquire_owned()
                .await
                .ok()?;
            let rulebook = self.shared.rulebook.clone();
            let looking = tokio::task::spawn_blocking(move || {
                let seen = look(&rulebook);
                // On the blocking thread: the permit counts threads, not callers that gave up.
                drop(permit);
                seen
            });
            looking.await.ok()
        });
        let seen = seen.await.ok().flatten();
        if seen.is_none() {
            tracing::error!("rule files could not be looked at");
        }
        seen
    }
}

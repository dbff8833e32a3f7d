//! Looking at files for the rules: off the async threads, in bounded time, on a bounded number of
//! threads.
//!
//! Where an ask would run is its asker's word, and a folder there can be a mount that never answers.
//! Whoever looks at it may wait for ever; everybody else must not.

use std::time::Duration;

use crate::rulebook::Rulebook;

use super::Service;

/// Threads that look at files at one time. Those that never come back stay counted.
pub(super) const LOOKS_MAX: usize = 64;

/// Looks that go on side by side while disks answer. Every thread that ever looked keeps memory of its
/// own, and more threads than processors only take turns.
pub(super) const LOOKS_AT_ONCE: usize = 4;

/// How long a look waits for others to end before it goes on beside them: they may never.
const TURN: Duration = Duration::from_millis(50);

/// How long a look may take: far longer than any disk needs.
const LOOK: Duration = Duration::from_secs(10);

/// Looking.
impl Service {
    /// What was seen; nothing if it took too long or failed.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Rulebook) -> T + Send + 'static,
    ) -> Option<T> {
        let seen = tokio::time::timeout(LOOK, async {
            let turns = self.shared.turns.clone().acquire_owned();
            let turn = tokio::time::timeout(TURN, turns).await;
            let room = self.shared.looks.clone().acquire_owned().await.ok()?;
            let rulebook = self.shared.rulebook.clone();
            let looking = tokio::task::spawn_blocking(move || {
                let seen = look(&rulebook);
                drop((room, turn));
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

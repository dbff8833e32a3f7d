//! Time: wall-clock instants, measured monotonically while the host runs.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use countersign_core::Timestamp;

/// Reads the wall clock once and a monotonic one from then on, so that a clock set back or
/// forward while the host runs neither expires nor prolongs anything.
#[derive(Clone, Copy, Debug)]
pub struct HostClock {
    wall: Timestamp,
    since: Instant,
}

impl HostClock {
    /// A clock that starts now.
    pub fn start() -> Self {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            wall: Timestamp(micros(wall)),
            since: Instant::now(),
        }
    }

    /// This instant.
    pub fn now(&self) -> Timestamp {
        // `Instant` does not count the time in which some systems are suspended; deadlines then
        // come late, never early.
        Timestamp(self.wall.0.saturating_add(micros(self.since.elapsed())))
    }

    /// When the clock was started.
    pub fn started_at(&self) -> Timestamp {
        self.wall
    }

    /// How long until `at`; zero if it has passed.
    pub fn until(&self, at: Timestamp) -> Duration {
        Duration::from_micros(at.0.saturating_sub(self.now().0))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

//! How fast the output of one agent is read. An agent that writes more waits in its own pipe, so
//! that reading it leaves the processors to everybody else.

use std::time::Duration;

use countersign_core::limits::{PACE_BYTES, PACE_LINES, PACE_MS};
use tokio::time::Instant;

/// See the module.
pub(super) struct OutputThrottle {
    since: Instant,
    lines: usize,
    bytes: usize,
}

impl OutputThrottle {
    pub(super) fn begin(now: Instant) -> Self {
        Self {
            since: now,
            lines: 0,
            bytes: 0,
        }
    }

    /// Counts a line. Gives the time until which nothing more is read, if it was too much at once.
    pub(super) fn count_line(&mut self, bytes: usize, now: Instant) -> Option<Instant> {
        self.lines += 1;
        self.bytes += bytes;
        if self.lines < PACE_LINES && self.bytes < PACE_BYTES {
            return None;
        }
        let rest = self.since + Duration::from_millis(PACE_MS);
        // From `now` if that is later: time in which the agent was silent is not saved up for a
        // burst.
        *self = Self::begin(rest.max(now));
        (rest > now).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_too_fast_waits() {
        let begin = Instant::now();
        let after = |paces: u64| begin + Duration::from_millis(paces * PACE_MS);
        let mut pace = OutputThrottle::begin(begin);
        for _ in 1..PACE_LINES {
            assert_eq!(pace.count_line(1, begin), None);
        }
        assert_eq!(pace.count_line(1, begin), Some(after(1)));
        assert_eq!(pace.count_line(PACE_BYTES, after(1)), Some(after(2)));
        assert_eq!(pace.count_line(PACE_BYTES, after(5)), None);
        assert_eq!(pace.count_line(PACE_BYTES, after(5)), Some(after(6)));
    }
}

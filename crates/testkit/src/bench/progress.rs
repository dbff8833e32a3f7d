//! How far producers and subscribers are, for pacing the one by the other and for knowing when all is delivered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counters of one run, each with one writer but for the sums.
#[derive(Debug)]
pub(super) struct Progress {
    began: Instant,
    pub(super) sent: AtomicU64,
    pub(super) acknowledged: AtomicU64,
    received: Vec<AtomicU64>,
    last_delivery_nanos: AtomicU64,
}

impl Progress {
    pub(super) fn new(subscribers: usize) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            sent: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            received: (0..subscribers).map(|_| AtomicU64::new(0)).collect(),
            last_delivery_nanos: AtomicU64::new(0),
        })
    }

    pub(super) fn set_received(&self, subscriber: usize, count: u64) {
        self.received[subscriber].store(count, Ordering::Relaxed);
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last_delivery_nanos.fetch_max(now, Ordering::Relaxed);
    }

    pub(super) fn deliveries(&self) -> u64 {
        let counts = self.received.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn slowest(&self) -> u64 {
        let counts = self.received.iter();
        counts
            .map(|count| count.load(Ordering::Relaxed))
            .min()
            .unwrap_or(u64::MAX)
    }

    pub(super) fn room(&self, lag_max: u64) -> u64 {
        let ahead = self
            .sent
            .load(Ordering::Relaxed)
            .saturating_sub(self.slowest());
        lag_max.saturating_sub(ahead)
    }

    pub(super) fn last_delivery(&self) -> Instant {
        self.began + Duration::from_nanos(self.last_delivery_nanos.load(Ordering::Relaxed))
    }
}

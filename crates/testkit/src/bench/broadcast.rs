//! Broadcast under load: producers that notify, subscribers that check every delivery, and what the host spent on it.
//!
//! Producers keep a bounded window in flight and stay at most `lag_max` ticks ahead of the slowest subscriber, so the
//! rate is one that the host sustains end to end, whether it delivers before or after it acknowledges.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::client::Connection;
use super::measure::{CpuTimes, Errors, to_number};
use super::producer;
use super::progress::Progress;
use super::report::{Metric, Row};
use super::tick::Seen;
use super::{DRAIN_MAX, Target, WARM_UP};

/// How often a producer that is too far ahead, or the end of a run, looks again.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) subscribers: usize,
    pub(super) producers: usize,
    /// Notifications in flight on each producer's connection.
    pub(super) window: u64,
    /// How far all producers together may be ahead of the slowest subscriber.
    pub(super) lag_max: u64,
    /// What is measured, after a warm-up that is not.
    pub(super) duration: Duration,
}

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) run: u64,
    /// Ticks that the host took, by producer.
    pub(super) acknowledged: Vec<u64>,
    pub(super) deliveries_per_s: f64,
    notifies_per_s: f64,
    lag: Duration,
    deliveries: u64,
    cpu: CpuTimes,
    flaws: Flaws,
    errors: Errors,
}

#[derive(Debug, Default)]
struct Flaws {
    lost: u64,
    repeated: u64,
    out_of_order: u64,
    overtaken: u64,
}

struct Subscriber {
    connection: Connection,
    progress: Arc<Progress>,
    index: usize,
    seen: Seen,
}

/// The middle of a run: when counting began and what there was by then.
struct Mark {
    at: Instant,
    acknowledged: u64,
    deliveries: u64,
    cpu: CpuTimes,
}

/// Runs the load once and waits, within bounds, until every subscriber has everything.
pub(super) async fn measure(target: &Target, load: Load) -> Result<Outcome> {
    let run = new_run()?;
    let progress = Progress::new(load.subscribers);
    let stop = CancellationToken::new();
    let subscribers = start_subscribers(target, load, run, &progress, &stop).await?;
    let producers = Connection::open_many(target, load.producers).await?;

    let from = Instant::now() + WARM_UP;
    let until = from + load.duration;
    let producers = producer::start(producers, load, run, &progress, until);
    tokio::time::sleep_until(from.into()).await;
    let mark = Mark::now(target, &progress)?;
    let (acknowledged, mut errors) = producer::finish(producers, load.producers).await;
    wait_for_delivery(&progress, acknowledged.iter().sum(), until + DRAIN_MAX).await;
    let cpu = CpuTimes::now(target)?.since(mark.cpu);
    stop.cancel();
    let flaws = finish_subscribers(subscribers, &acknowledged, &mut errors).await;

    let deliveries = progress.deliveries() - mark.deliveries;
    let notified = progress.acknowledged.load(Ordering::Relaxed) - mark.acknowledged;
    let last_delivery = progress.last_delivery();
    let took = last_delivery.saturating_duration_since(mark.at);
    Ok(Outcome {
        run,
        acknowledged,
        deliveries_per_s: to_number(deliveries) / took.max(load.duration).as_secs_f64(),
        notifies_per_s: to_number(notified) / load.duration.as_secs_f64(),
        lag: last_delivery.saturating_duration_since(until),
        deliveries,
        cpu,
        flaws,
        errors,
    })
}

impl Mark {
    fn now(target: &Target, progress: &Progress) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            acknowledged: progress.acknowledged.load(Ordering::Relaxed),
            deliveries: progress.deliveries(),
            cpu: CpuTimes::now(target)?,
        })
    }
}

impl Outcome {
    pub(super) fn to_row(&self, scenario: &str, case: String) -> Row {
        let mut row = Row::new(scenario, case);
        row.set(Metric::DeliveriesPerS, self.deliveries_per_s);
        row.set(Metric::NotifiesPerS, self.notifies_per_s);
        row.set(Metric::LagMs, self.lag.as_secs_f64() * 1000.0);
        row.set_cpu(self.cpu, self.deliveries);
        row.set(Metric::Lost, to_number(self.flaws.lost));
        row.set(Metric::Repeated, to_number(self.flaws.repeated));
        row.set(Metric::OutOfOrder, to_number(self.flaws.out_of_order));
        row.set(Metric::Overtaken, to_number(self.flaws.overtaken));
        row.set_errors(&self.errors);
        row
    }
}

/// Different for each run; milliseconds, so that it is exact in any JSON reader.
fn new_run() -> Result<u64> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(u64::try_from(since_epoch.as_millis())?)
}

type Subscribers = JoinSet<(Seen, Result<()>)>;

async fn start_subscribers(
    target: &Target,
    load: Load,
    run: u64,
    progress: &Arc<Progress>,
    stop: &CancellationToken,
) -> Result<Subscribers> {
    let mut running = JoinSet::new();
    for index in 0..load.subscribers {
        let mut connection = Connection::open(target).await?;
        connection.subscribe().await?;
        let mut subscriber = Subscriber {
            connection,
            progress: Arc::clone(progress),
            index,
            seen: Seen::new(run, load.producers),
        };
        let stop = stop.clone();
        running.spawn(async move {
            let ended = stop.run_until_cancelled(subscriber.watch()).await;
            (subscriber.seen, ended.unwrap_or(Ok(())))
        });
    }
    Ok(running)
}

impl Subscriber {
    /// Ends only by an error: a subscription has no end.
    async fn watch(&mut self) -> Result<()> {
        loop {
            let text = self.connection.receive().await?;
            let mut news = self.seen.observe(&text)?;
            while let Some(text) = self.connection.receive_ready()? {
                news |= self.seen.observe(&text)?;
            }
            if news {
                self.progress.set_received(self.index, self.seen.received());
            }
        }
    }
}

async fn finish_subscribers(
    mut running: Subscribers,
    acknowledged: &[u64],
    errors: &mut Errors,
) -> Flaws {
    let mut flaws = Flaws::default();
    while let Some(joined) = running.join_next().await {
        match joined {
            Ok((seen, ended)) => {
                flaws.add(&seen, acknowledged);
                errors.take(ended.context("a subscriber ended early"));
            }
            Err(error) => errors.note(&error.into()),
        }
    }
    flaws
}

impl Flaws {
    fn add(&mut self, seen: &Seen, acknowledged: &[u64]) {
        self.lost += seen.lost(acknowledged);
        self.repeated += seen.repeated;
        self.out_of_order += seen.out_of_order;
        self.overtaken += seen.overtaken;
    }
}

async fn wait_for_delivery(progress: &Progress, expected: u64, give_up_at: Instant) {
    while progress.slowest() < expected && Instant::now() < give_up_at {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

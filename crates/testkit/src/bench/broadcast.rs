//! Broadcast: a producer that notifies, subscribers that check every delivery, and what the host spent on it.
//!
//! The producer keeps at most `WINDOW` notifications in flight and stays at most `LAG_MAX` ahead of the slowest
//! subscriber, so the rate is one that the host sustains end to end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::measure::{CpuTimes, Errors, Process, to_megabytes, to_number};
use super::report::{Metric, Row, plural};
use super::seen::{KIND, SeenTicks, Tick};
use super::{DRAIN_MAX, Target, WARM_UP};
use crate::wire::{Connection, Frame};

const WINDOW: u64 = 64;
const LAG_MAX: u64 = 1024;
/// How often a producer that is too far ahead, or the end of a run, looks again.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

const SLOW_READER_SUBSCRIBERS: usize = 10;
/// Small, so that the host's own send buffer fills within a moment, but some segments of loopback long: with less,
/// the kernel sends a few kilobytes each 0.2 s even when the reader reads again.
const STUCK_RECEIVE_BYTES: usize = 1 << 18;
const CATCH_UP_RECEIVE_BYTES: usize = 1 << 20;
const CATCH_UP_MAX: Duration = Duration::from_mins(1);

/// Every notification to every subscriber.
pub(super) async fn fan_out(
    target: &Target,
    subscribers: usize,
    duration: Duration,
) -> Result<Row> {
    let broadcast = Broadcast::measure(target, subscribers, duration).await?;
    let mut row = Row::new("fan-out", plural(subscribers, "subscriber"));
    broadcast.describe(&mut row);
    Ok(row)
}

/// One subscriber that never reads: what it costs the others, what it costs the host, and what it gets once it reads.
pub(super) async fn slow_reader(target: &Target, duration: Duration) -> Result<Vec<Row>> {
    let mut alone_row = Row::new("slow-reader", "all read");
    let alone = beside_slow_reader(target, duration, &mut alone_row).await?;
    let stuck = target.subscribe().await?;
    stuck.set_receive_buffer(STUCK_RECEIVE_BYTES)?;
    let mut beside_row = Row::new("slow-reader", "one more never reads");
    let beside = beside_slow_reader(target, duration, &mut beside_row).await?;
    alone_row.set(Metric::RateRatio, 1.0);
    let ratio = beside.deliveries_per_s() / alone.deliveries_per_s();
    beside_row.set(Metric::RateRatio, ratio);
    catch_up(stuck, &beside, &mut beside_row).await?;
    Ok(vec![alone_row, beside_row])
}

async fn beside_slow_reader(
    target: &Target,
    duration: Duration,
    row: &mut Row,
) -> Result<Broadcast> {
    if let Some(memory) = target.server().map(Process::memory).transpose()? {
        row.set(Metric::RssBeforeMb, to_megabytes(memory.resident_bytes));
    }
    let broadcast = Broadcast::measure(target, SLOW_READER_SUBSCRIBERS, duration).await?;
    broadcast.describe(row);
    row.set_memory(target)?;
    Ok(broadcast)
}

/// Lets the stuck subscriber read, and reports what it got of what the host had taken.
async fn catch_up(mut stuck: Connection, broadcast: &Broadcast, row: &mut Row) -> Result<()> {
    stuck.set_receive_buffer(CATCH_UP_RECEIVE_BYTES)?;
    let expected = broadcast.acknowledged;
    let mut seen = SeenTicks::new(broadcast.run);
    let reading = read_until(&mut stuck, &mut seen, expected);
    let ended = tokio::time::timeout(CATCH_UP_MAX, reading).await;
    let ended = ended.unwrap_or_else(|_| Err(anyhow!("it took longer than {CATCH_UP_MAX:?}")));
    if let Err(error) = ended {
        row.notes
            .push(format!("the slow reader did not catch up: {error:#}"));
    }
    row.set_count(Metric::LateReceived, seen.received);
    row.set_count(Metric::LateLost, expected.saturating_sub(seen.received));
    row.set_count(Metric::LateRepeated, seen.repeated);
    row.set_count(Metric::LateOutOfOrder, seen.out_of_order);
    Ok(())
}

async fn read_until(
    connection: &mut Connection,
    seen: &mut SeenTicks,
    expected: u64,
) -> Result<()> {
    while seen.received < expected {
        seen.observe(&connection.receive().await?)?;
    }
    Ok(())
}

/// One run of the load.
struct Broadcast {
    run: u64,
    /// Ticks that the host took.
    acknowledged: u64,
    /// Deliveries that were counted, and how long they took.
    deliveries: u64,
    took: Duration,
    cpu: CpuTimes,
    lost: u64,
    repeated: u64,
    out_of_order: u64,
    errors: Errors,
}

impl Broadcast {
    /// Runs the load and waits, within bounds, until every subscriber has everything.
    async fn measure(target: &Target, subscribers: usize, duration: Duration) -> Result<Self> {
        let run = new_run()?;
        let progress = Arc::new(Progress::new(subscribers));
        let stop = CancellationToken::new();
        let watching = start_subscribers(target, run, &progress, &stop).await?;
        let producer = Producer {
            connection: target.connect().await?,
            progress: Arc::clone(&progress),
            run,
            next: 0,
            in_flight: 0,
            acknowledged: 0,
            errors: Errors::default(),
        };
        let from = Instant::now() + WARM_UP;
        let until = from + duration;
        let mut producing = JoinSet::new();
        producing.spawn(producer.run(until));
        tokio::time::sleep_until(from.into()).await;
        let (began, delivered) = (Instant::now(), progress.deliveries());
        let cpu = CpuTimes::now(target)?;
        let Producer {
            acknowledged,
            errors,
            ..
        } = producing.join_next().await.context("no producer ran")??;
        let give_up_at = until + DRAIN_MAX;
        while progress.slowest() < acknowledged && Instant::now() < give_up_at {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let cpu = CpuTimes::now(target)?.since(cpu);
        stop.cancel();
        let took = progress.last_delivery().saturating_duration_since(began);
        let mut broadcast = Self {
            run,
            acknowledged,
            deliveries: progress.deliveries() - delivered,
            took: took.max(duration),
            cpu,
            lost: 0,
            repeated: 0,
            out_of_order: 0,
            errors,
        };
        broadcast.finish_subscribers(watching).await;
        Ok(broadcast)
    }

    async fn finish_subscribers(&mut self, mut watching: Subscribers) {
        while let Some(joined) = watching.join_next().await {
            match joined {
                Ok((seen, ended)) => {
                    self.lost += self.acknowledged.saturating_sub(seen.received);
                    self.repeated += seen.repeated;
                    self.out_of_order += seen.out_of_order;
                    if let Err(error) = ended.context("a subscriber ended early") {
                        self.errors.note(&error);
                    }
                }
                Err(error) => self.errors.note(&error.into()),
            }
        }
    }

    fn deliveries_per_s(&self) -> f64 {
        to_number(self.deliveries) / self.took.as_secs_f64()
    }

    fn describe(&self, row: &mut Row) {
        row.set(Metric::DeliveriesPerS, self.deliveries_per_s());
        row.set_cpu(self.cpu, self.deliveries);
        row.set_count(Metric::Lost, self.lost);
        row.set_count(Metric::Repeated, self.repeated);
        row.set_count(Metric::OutOfOrder, self.out_of_order);
        row.set_errors(&self.errors);
    }
}

/// Different for each run; milliseconds, so that it is exact in any JSON reader.
fn new_run() -> Result<u64> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(u64::try_from(since_epoch.as_millis())?)
}

/// How far the subscribers are: paces the producer, and tells when everything is delivered.
struct Progress {
    received: Vec<AtomicU64>,
    last_delivery: Mutex<Instant>,
}

impl Progress {
    fn new(subscribers: usize) -> Self {
        Self {
            received: (0..subscribers).map(|_| AtomicU64::new(0)).collect(),
            last_delivery: Mutex::new(Instant::now()),
        }
    }

    fn set_received(&self, subscriber: usize, count: u64) {
        self.received[subscriber].store(count, Ordering::Relaxed);
        let last = self.last_delivery.lock();
        *last.unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last_delivery(&self) -> Instant {
        let last = self.last_delivery.lock();
        *last.unwrap_or_else(PoisonError::into_inner)
    }

    fn counts(&self) -> impl Iterator<Item = u64> {
        self.received
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
    }

    fn deliveries(&self) -> u64 {
        self.counts().sum()
    }

    fn slowest(&self) -> u64 {
        self.counts().min().unwrap_or(u64::MAX)
    }
}

type Subscribers = JoinSet<(SeenTicks, Result<()>)>;

async fn start_subscribers(
    target: &Target,
    run: u64,
    progress: &Arc<Progress>,
    stop: &CancellationToken,
) -> Result<Subscribers> {
    let mut watching = JoinSet::new();
    for index in 0..progress.received.len() {
        let mut subscriber = Subscriber {
            connection: target.subscribe().await?,
            progress: Arc::clone(progress),
            index,
            seen: SeenTicks::new(run),
        };
        let stop = stop.clone();
        watching.spawn(async move {
            let ended = stop.run_until_cancelled(subscriber.watch()).await;
            (subscriber.seen, ended.unwrap_or(Ok(())))
        });
    }
    Ok(watching)
}

struct Subscriber {
    connection: Connection,
    progress: Arc<Progress>,
    index: usize,
    seen: SeenTicks,
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
                self.progress.set_received(self.index, self.seen.received);
            }
        }
    }
}

struct Producer {
    connection: Connection,
    progress: Arc<Progress>,
    run: u64,
    next: usize,
    in_flight: u64,
    acknowledged: u64,
    errors: Errors,
}

#[derive(Serialize)]
struct NotifyParams {
    kind: &'static str,
    message: &'static str,
    payload: Tick,
}

impl Producer {
    async fn run(mut self, until: Instant) -> Self {
        let give_up_at = until + DRAIN_MAX;
        let ended = tokio::time::timeout_at(give_up_at.into(), self.drive(until)).await;
        let unanswered = self.in_flight;
        let ended = ended
            .unwrap_or_else(|_| Err(anyhow!("{unanswered} notifications were never answered")));
        if let Err(error) = ended.context("the producer ended early") {
            self.errors.note(&error);
        }
        self
    }

    async fn drive(&mut self, until: Instant) -> Result<()> {
        loop {
            if Instant::now() < until {
                self.refill().await?;
            } else if self.in_flight == 0 {
                return Ok(());
            }
            if self.in_flight == 0 {
                tokio::time::sleep(POLL_INTERVAL).await;
                continue;
            }
            let text = self.connection.receive().await?;
            self.settle(&text)?;
            while let Some(text) = self.connection.receive_ready()? {
                self.settle(&text)?;
            }
        }
    }

    async fn refill(&mut self) -> Result<()> {
        // A notification that was refused is never delivered, so it does not count as being ahead.
        let sent = self.acknowledged + self.in_flight;
        let ahead = sent.saturating_sub(self.progress.slowest());
        let room = LAG_MAX.saturating_sub(ahead).min(WINDOW - self.in_flight);
        for _ in 0..room {
            let tick = Tick {
                run: self.run,
                n: self.next,
            };
            let params = NotifyParams {
                kind: KIND,
                message: "tick",
                payload: tick,
            };
            self.connection.feed("host.notify", &params).await?;
            self.next += 1;
            self.in_flight += 1;
        }
        self.connection.flush().await
    }

    fn settle(&mut self, text: &str) -> Result<()> {
        let frame = Frame::parse(text)?;
        if frame.method.is_some() {
            return Ok(());
        }
        let left = self.in_flight.checked_sub(1);
        self.in_flight = left.context("got a reply to nothing that was sent")?;
        match frame.into_result() {
            Ok(_) => self.acknowledged += 1,
            Err(error) => self.errors.note(&error),
        }
        Ok(())
    }
}

//! Approval round trips: workers that each ask, approve their own ask, and begin again.
//!
//! A worker is a slot in the loop of its connection rather than a task, so that replies that came together are
//! answered together.
//! Invariant: a worker has exactly one request in flight until the budget is spent.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use tokio::task::JoinSet;

use super::measure::{CpuTimes, Errors, Latencies, Process, to_megabytes, to_ms, to_number};
use super::report::{Metric, Row, plural};
use super::{DRAIN_MAX, Target, WARM_UP};
use crate::wire::{Connection, Frame};

const HISTORY_CONNECTIONS: usize = 16;
const HISTORY_WORKERS_EACH: usize = 16;
pub(super) const HISTORY_APPROVALS: u64 = 100_000;
/// Ends a run against a host that has stopped; a slow one makes 100,000 in well under it.
const HISTORY_MAX: Duration = Duration::from_mins(30);
const SUBSCRIBES: usize = 5;
/// The longest list that a client can ask for at once.
const LISTED_APPROVALS: u64 = 1000;

/// Rate, latency and CPU of so many workers, each on a connection of its own.
pub(super) async fn round_trips(
    target: &Target,
    workers: usize,
    duration: Duration,
) -> Result<Row> {
    // Before the clock starts: hundreds of connections take longer to open than the warm-up lasts.
    let connections = open_connections(target, workers).await?;
    let from = Instant::now() + WARM_UP;
    let until = from + duration;
    let load = ApprovalLoad {
        budget: Budget::Until(until),
        counted: from..until,
        give_up_at: until + DRAIN_MAX,
    };
    let running = start(connections, 1, &load);
    tokio::time::sleep_until(from.into()).await;
    let before = CpuTimes::now(target)?;
    tokio::time::sleep_until(until.into()).await;
    let cpu = CpuTimes::now(target)?.since(before);
    let tally = finish(running).await;
    let workers_text = plural(workers, "worker");
    let case = format!("{workers_text}, {}", plural(workers, "connection"));
    let mut row = Row::new("round-trips", case);
    let count = tally.latencies.count();
    row.set(Metric::RatePerS, to_number(count) / duration.as_secs_f64());
    row.set_latencies_ms(&tally.latencies);
    row.set_cpu(cpu, count);
    row.set_errors(&tally.errors);
    Ok(row)
}

/// What many ended approvals cost the host in memory, and a new subscriber in time.
pub(super) async fn history(target: &Target) -> Result<Row> {
    let mut row = Row::new("history", format!("{HISTORY_APPROVALS} resolved approvals"));
    let began = Instant::now();
    let tally = make_resolved(target, HISTORY_APPROVALS).await?;
    let rate = to_number(tally.latencies.count()) / began.elapsed().as_secs_f64();
    row.set(Metric::RatePerS, rate);
    row.set_errors(&tally.errors);
    row.set_memory(target)?;
    let mut times = Vec::new();
    for _ in 0..SUBSCRIBES {
        let mut connection = target.connect().await?;
        let began = Instant::now();
        connection.call("host.subscribe", &json!({})).await?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    row.set(Metric::SubscribeMs, to_ms(times[SUBSCRIBES / 2]));
    let mut connection = target.connect().await?;
    let listed = json!({ "limit": LISTED_APPROVALS });
    connection.call("host.approvals", &listed).await?;
    if let Some(memory) = target.server().map(Process::memory).transpose()? {
        row.set(Metric::RssListedMb, to_megabytes(memory.resident_bytes));
    }
    Ok(row)
}

/// Asks for so many approvals and resolves each.
pub(super) async fn make_resolved(target: &Target, approvals: u64) -> Result<ApprovalTally> {
    let connections = open_connections(target, HISTORY_CONNECTIONS).await?;
    let began = Instant::now();
    let give_up_at = began + HISTORY_MAX;
    let load = ApprovalLoad {
        budget: Budget::Remaining(Arc::new(AtomicU64::new(approvals))),
        counted: began..give_up_at,
        give_up_at,
    };
    Ok(finish(start(connections, HISTORY_WORKERS_EACH, &load)).await)
}

/// The load that one connection carries.
#[derive(Debug, Clone)]
struct ApprovalLoad {
    budget: Budget,
    /// Round trips that end outside of it are not counted.
    counted: Range<Instant>,
    /// What is still unanswered then is an error.
    give_up_at: Instant,
}

/// When workers stop beginning round trips.
#[derive(Debug, Clone)]
enum Budget {
    Until(Instant),
    /// As many as are left, shared between connections.
    Remaining(Arc<AtomicU64>),
}

impl Budget {
    fn take(&self) -> bool {
        match self {
            Self::Until(end) => Instant::now() < *end,
            Self::Remaining(left) => left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    left.checked_sub(1)
                })
                .is_ok(),
        }
    }
}

/// What workers did.
#[derive(Debug, Default)]
pub(super) struct ApprovalTally {
    latencies: Latencies,
    errors: Errors,
}

async fn open_connections(target: &Target, count: usize) -> Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        connections.push(target.connect().await?);
    }
    Ok(connections)
}

fn start(
    connections: Vec<Connection>,
    workers_each: usize,
    load: &ApprovalLoad,
) -> JoinSet<ApprovalTally> {
    let mut running = JoinSet::new();
    for connection in connections {
        let approvals = ApprovalLoop {
            connection,
            load: load.clone(),
            in_flight: HashMap::with_capacity(workers_each),
            begun: 0,
            tally: ApprovalTally::default(),
        };
        running.spawn(approvals.run(workers_each));
    }
    running
}

/// What all of them did together; a broken connection is an error that is counted.
async fn finish(mut running: JoinSet<ApprovalTally>) -> ApprovalTally {
    let mut total = ApprovalTally::default();
    while let Some(joined) = running.join_next().await {
        match joined {
            Ok(tally) => {
                total.latencies.merge(&tally.latencies);
                total.errors.merge(tally.errors);
            }
            Err(error) => total.errors.note(&error.into()),
        }
    }
    total
}

struct ApprovalLoop {
    connection: Connection,
    load: ApprovalLoad,
    in_flight: HashMap<u64, Step>,
    begun: u64,
    tally: ApprovalTally,
}

#[derive(Clone, Copy)]
enum Step {
    Asking { began: Instant },
    Approving { began: Instant },
}

#[derive(Serialize)]
struct AskParams {
    action: &'static str,
    details: AskDetails,
}

#[derive(Serialize)]
struct AskDetails {
    command: &'static str,
    n: u64,
}

#[derive(Serialize)]
struct ApproveParams<'a> {
    approval_id: &'a str,
    resolution: &'static str,
}

#[derive(Deserialize)]
struct ApprovalRow<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    resolution: Option<Cow<'a, str>>,
}

impl ApprovalLoop {
    async fn run(mut self, workers: usize) -> ApprovalTally {
        let give_up_at = self.load.give_up_at.into();
        let driven = tokio::time::timeout_at(give_up_at, self.drive(workers)).await;
        let unanswered = self.in_flight.len();
        let driven =
            driven.unwrap_or_else(|_| Err(anyhow!("{unanswered} requests were never answered")));
        if let Err(error) = driven {
            self.tally.errors.note(&error);
        }
        self.tally
    }

    async fn drive(&mut self, workers: usize) -> Result<()> {
        for _ in 0..workers {
            self.begin().await?;
        }
        self.connection.flush().await?;
        while !self.in_flight.is_empty() {
            let text = self.connection.receive().await?;
            self.advance(&text).await?;
            while let Some(text) = self.connection.receive_ready()? {
                self.advance(&text).await?;
            }
            self.connection.flush().await?;
        }
        Ok(())
    }

    async fn begin(&mut self) -> Result<()> {
        if !self.load.budget.take() {
            return Ok(());
        }
        self.begun += 1;
        let params = AskParams {
            action: "bench",
            details: AskDetails {
                command: "cargo test",
                n: self.begun,
            },
        };
        let began = Instant::now();
        let id = self.connection.feed("host.request_approval", &params);
        self.in_flight.insert(id.await?, Step::Asking { began });
        Ok(())
    }

    /// A refusal ends that round trip and begins another; a frame that makes no sense ends the connection.
    async fn advance(&mut self, text: &str) -> Result<()> {
        let frame = Frame::parse(text)?;
        if frame.method.is_some() {
            return Ok(());
        }
        let step = frame.id.and_then(|id| self.in_flight.remove(&id));
        let step = step.context("got a reply to nothing that was asked")?;
        let outcome = match (step, frame.into_result()) {
            (Step::Asking { began }, Ok(row)) => return self.approve(row, began).await,
            (Step::Approving { began }, Ok(row)) => check_approved(row).map(|()| began),
            (_, Err(error)) => Err(error),
        };
        match outcome {
            Ok(began) => self.count(began),
            Err(error) => self.tally.errors.note(&error),
        }
        self.begin().await
    }

    async fn approve(&mut self, row: &RawValue, began: Instant) -> Result<()> {
        let row: ApprovalRow = serde_json::from_str(row.get())?;
        let params = ApproveParams {
            approval_id: &row.id,
            resolution: "approve",
        };
        let id = self.connection.feed("host.resolve_approval", &params);
        self.in_flight.insert(id.await?, Step::Approving { began });
        Ok(())
    }

    fn count(&mut self, began: Instant) {
        let now = Instant::now();
        if self.load.counted.contains(&now) {
            self.tally.latencies.record(now - began);
        }
    }
}

fn check_approved(row: &RawValue) -> Result<()> {
    let row: ApprovalRow = serde_json::from_str(row.get())?;
    let resolution = row.resolution.as_deref();
    if row.status != "resolved" || resolution != Some("approve") {
        bail!("`{}` is {} as {resolution:?}", row.id, row.status);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn only_an_approved_row_is_a_round_trip() {
        let approved = raw(r#"{"id":"a","status":"resolved","resolution":"approve","more":[1]}"#);
        check_approved(&approved).unwrap();
        let pending = raw(r#"{"id":"a","status":"pending"}"#);
        check_approved(&pending).unwrap_err();
        let denied = raw(r#"{"id":"a","status":"resolved","resolution":"deny"}"#);
        check_approved(&denied).unwrap_err();
    }

    #[test]
    fn a_counted_budget_is_spent_once() {
        let budget = Budget::Remaining(Arc::new(AtomicU64::new(2)));
        assert_eq!(
            [budget.take(), budget.take(), budget.take()],
            [true, true, false]
        );
    }
}

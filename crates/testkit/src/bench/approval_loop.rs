//! Approval round trips on one connection: some workers that each ask, approve their own ask, and begin again.
//!
//! A worker is a slot in the loop rather than a task, so that replies that came together are answered together.
//! Invariant: a worker has exactly one request in flight until the budget is spent.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use super::client::{Connection, Frame};
use super::measure::{Errors, Latencies};

/// When workers stop beginning round trips.
#[derive(Debug, Clone)]
pub(super) enum Budget {
    Until(Instant),
    /// As many as are left, shared between connections.
    Remaining(Arc<AtomicU64>),
}

/// What workers did. Only round trips that ended within the window are in `latencies`.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) latencies: Latencies,
    pub(super) errors: Errors,
}

/// The load that one connection carries.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) budget: Budget,
    /// Round trips that end outside of it are not counted.
    pub(super) counted: std::ops::Range<Instant>,
    /// What is still unanswered then is an error.
    pub(super) give_up_at: Instant,
}

struct ApprovalLoop {
    connection: Connection,
    load: Load,
    in_flight: HashMap<u64, Step>,
    begun: u64,
    tally: Tally,
}

#[derive(Clone, Copy)]
enum Step {
    Asking { began: Instant },
    Approving { began: Instant },
}

#[derive(Serialize)]
struct AskParams {
    action: &'static str,
    details: Details,
}

#[derive(Serialize)]
struct Details {
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

impl Tally {
    fn merge(&mut self, other: Self) {
        self.latencies.merge(other.latencies);
        self.errors.merge(other.errors);
    }
}

/// Spreads `workers` over the connections, as evenly as it goes, and starts them.
pub(super) fn start(connections: Vec<Connection>, workers: usize, load: &Load) -> JoinSet<Tally> {
    let mut running = JoinSet::new();
    let mut connections_left = connections.len();
    let mut workers_left = workers;
    for connection in connections {
        let share = workers_left.div_ceil(connections_left);
        running.spawn(run(connection, share, load.clone()));
        connections_left -= 1;
        workers_left -= share;
    }
    running
}

/// What all of them did together; never fails, since a broken connection is an error that is counted.
pub(super) async fn finish(mut running: JoinSet<Tally>) -> Tally {
    let mut total = Tally::default();
    while let Some(joined) = running.join_next().await {
        match joined {
            Ok(tally) => total.merge(tally),
            Err(error) => total.errors.note(&error.into()),
        }
    }
    total
}

async fn run(connection: Connection, workers: usize, load: Load) -> Tally {
    let give_up_at = load.give_up_at.into();
    let mut approvals = ApprovalLoop {
        connection,
        load,
        in_flight: HashMap::with_capacity(workers),
        begun: 0,
        tally: Tally::default(),
    };
    match tokio::time::timeout_at(give_up_at, approvals.drive(workers)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => approvals.tally.errors.note(&error),
        Err(_) => approvals.fail_unanswered(),
    }
    approvals.tally
}

impl ApprovalLoop {
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
            details: Details {
                command: "cargo test",
                n: self.begun,
            },
        };
        let began = Instant::now();
        let id = self
            .connection
            .feed("host.request_approval", &params)
            .await?;
        self.in_flight.insert(id, Step::Asking { began });
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
        let id = self
            .connection
            .feed("host.resolve_approval", &params)
            .await?;
        self.in_flight.insert(id, Step::Approving { began });
        Ok(())
    }

    fn count(&mut self, began: Instant) {
        let now = Instant::now();
        if self.load.counted.contains(&now) {
            self.tally.latencies.record(now - began);
        }
    }

    fn fail_unanswered(&mut self) {
        let unanswered = self.in_flight.len();
        self.tally
            .errors
            .note(&anyhow!("{unanswered} requests were never answered"));
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

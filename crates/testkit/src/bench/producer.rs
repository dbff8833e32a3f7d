//! Producers: connections that send numbered notifications as fast as the host and the subscribers take them.
//!
//! Invariant: a producer has at most `window` notifications in flight, and sends no more while all producers together
//! are `lag_max` ahead of the slowest subscriber.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use tokio::task::JoinSet;

use super::DRAIN_MAX;
use super::broadcast::{Load, POLL_INTERVAL};
use super::client::{Connection, Frame};
use super::measure::Errors;
use super::progress::Progress;
use super::tick::{KIND, Tick};

pub(super) struct Producer {
    connection: Connection,
    progress: Arc<Progress>,
    load: Load,
    run: u64,
    index: usize,
    sent: u64,
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

pub(super) fn start(
    connections: Vec<Connection>,
    load: Load,
    run: u64,
    progress: &Arc<Progress>,
    until: Instant,
) -> JoinSet<Producer> {
    let mut running = JoinSet::new();
    for (index, connection) in connections.into_iter().enumerate() {
        let producer = Producer {
            connection,
            progress: Arc::clone(progress),
            load,
            run,
            index,
            sent: 0,
            in_flight: 0,
            acknowledged: 0,
            errors: Errors::default(),
        };
        running.spawn(producer.run(until));
    }
    running
}

impl Producer {
    async fn run(mut self, until: Instant) -> Self {
        let give_up_at = until + DRAIN_MAX;
        let ended = tokio::time::timeout_at(give_up_at.into(), self.drive(until)).await;
        let ended = ended.unwrap_or_else(|_| {
            let unanswered = self.in_flight;
            Err(anyhow!("{unanswered} notifications were never answered"))
        });
        self.errors.take(ended.context("a producer ended early"));
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
        let room = self.progress.room(self.load.lag_max);
        let count = room.min(self.load.window - self.in_flight);
        self.progress.sent.fetch_add(count, Ordering::Relaxed);
        for _ in 0..count {
            let params = NotifyParams {
                kind: KIND,
                message: "tick",
                payload: self.tick(),
            };
            self.connection.feed("host.notify", &params).await?;
            self.sent += 1;
            self.in_flight += 1;
        }
        self.connection.flush().await
    }

    fn tick(&self) -> Tick {
        Tick {
            run: self.run,
            producer: self.index,
            n: self.sent,
        }
    }

    fn settle(&mut self, text: &str) -> Result<()> {
        let frame = Frame::parse(text)?;
        if frame.method.is_some() {
            return Ok(());
        }
        self.in_flight = self
            .in_flight
            .checked_sub(1)
            .context("got a reply to nothing that was sent")?;
        match frame.into_result() {
            Ok(_) => {
                self.acknowledged += 1;
                self.progress.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                // It will not be delivered, so it must not count as being ahead.
                self.progress.sent.fetch_sub(1, Ordering::Relaxed);
                self.errors.note(&error);
            }
        }
        Ok(())
    }
}

/// What each producer got acknowledged, by its index.
pub(super) async fn finish(mut running: JoinSet<Producer>, count: usize) -> (Vec<u64>, Errors) {
    let mut acknowledged = vec![0; count];
    let mut errors = Errors::default();
    while let Some(joined) = running.join_next().await {
        match joined {
            Ok(producer) => {
                acknowledged[producer.index] = producer.acknowledged;
                errors.merge(producer.errors);
            }
            Err(error) => errors.note(&error.into()),
        }
    }
    (acknowledged, errors)
}

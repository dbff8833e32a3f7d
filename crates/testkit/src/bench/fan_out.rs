//! Fan-out: every notification to every subscriber, checked, at several numbers of subscribers and producers.

use std::time::Duration;

use anyhow::Result;

use super::Target;
use super::broadcast::{self, Load};
use super::report::{Row, plural};

#[derive(Debug, Clone)]
pub struct Options {
    pub subscribers: Vec<usize>,
    /// One row for each pair with `subscribers`.
    pub producers: Vec<usize>,
    /// Notifications in flight on each producer's connection.
    pub window: u64,
    /// How far producers may be ahead of the slowest subscriber.
    pub lag_max: u64,
    pub duration: Duration,
}

pub async fn run(target: &Target, options: &Options) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for producers in &options.producers {
        for subscribers in &options.subscribers {
            let load = Load {
                subscribers: *subscribers,
                producers: *producers,
                window: options.window,
                lag_max: options.lag_max,
                duration: options.duration,
            };
            let outcome = broadcast::measure(target, load).await?;
            rows.push(outcome.to_row("fan-out", to_case(load)));
        }
    }
    Ok(rows)
}

fn to_case(load: Load) -> String {
    let subscribers = plural(load.subscribers, "subscriber");
    let producers = plural(load.producers, "producer");
    format!("{subscribers}, {producers}")
}

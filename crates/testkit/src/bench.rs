//! The load client: drives any host-wire server by URL and reports what it measured.
//!
//! Each scenario is one function `run(&Target, &Options) -> Vec<Row>` that needs nothing but the target, so it can be
//! called from a test, from the `bench` binary, or around a host that the caller started.
//! Only methods of the oldest age of the wire are used, so that old and new hosts meet the same load.
//! `hosts`, `yardstick`, `hook` and `agents` start hosts of our own; nothing else here does. `agents` and `hook` need a new host.

mod approval_loop;
mod broadcast;
mod client;
mod measure;
mod producer;
mod progress;
mod tick;

pub mod agents;
pub mod fan_out;
pub mod history;
pub mod hook;
pub mod hosts;
pub mod idle;
pub mod report;
pub mod round_trips;
pub mod slow_reader;
pub mod suite;
pub mod verdicts;
pub mod yardstick;

use std::time::Duration;

pub use client::{Call, Connection, Frame};
pub use measure::{Latencies, Memory, Process};

/// Run before counting begins, so that caches, connections and allocators are in their stride.
const WARM_UP: Duration = Duration::from_secs(1);
/// What is not answered or delivered this long after the load has stopped counts as lost.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// The server under load.
#[derive(Debug, Clone)]
pub struct Target {
    /// `ws://HOST:PORT/PATH`.
    pub url: String,
    /// Sent as `session.auth` before anything else; absent for a server without authentication.
    pub token: Option<String>,
    /// The server's process, for CPU time and memory; without it those metrics are left out.
    pub server_pid: Option<u32>,
}

impl Target {
    pub fn server(&self) -> Option<Process> {
        self.server_pid.map(Process::new)
    }
}

//! The load client: puts load on a host and reports what it measured.
//!
//! The scenarios of [`suite`] need nothing but the URL of a host. `hosts`, `hook`, `agents`, `editor`, `tui` and
//! `suite::run_all` start hosts of their own.

mod approvals;
mod broadcast;
mod flush;
mod hosts;
mod measure;
mod rounds;
mod seen;

pub mod agents;
pub mod editor;
pub mod hook;
pub mod report;
pub mod sandbox;
pub mod suite;
pub mod tui;
pub mod verdicts;

use std::time::Duration;

use anyhow::Result;

pub use hosts::serve_from_memory;
use measure::Process;

use crate::wire::Connection;

/// Run before counting begins, so that caches, connections and allocators are warm.
const WARM_UP: Duration = Duration::from_secs(1);
/// What is not answered or delivered this long after the load has stopped counts as lost.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// The server under load.
#[derive(Debug, Clone)]
pub struct Target {
    /// `ws://HOST:PORT/PATH`.
    pub url: String,
    /// Absent for a server without authentication.
    pub token: Option<String>,
    /// The server's process, for CPU time and memory; without it those metrics are left out.
    pub server_pid: Option<u32>,
}

impl Target {
    fn server(&self) -> Option<Process> {
        self.server_pid.map(Process::new)
    }

    async fn connect(&self) -> Result<Connection> {
        Connection::open(&self.url, self.token.as_deref()).await
    }

    /// A connection that gets `host.event`.
    async fn subscribe(&self) -> Result<Connection> {
        let mut connection = self.connect().await?;
        let params = serde_json::json!({});
        connection.call("host.subscribe", &params).await?;
        Ok(connection)
    }
}

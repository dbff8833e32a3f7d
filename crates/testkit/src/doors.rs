//! Clients of the doors, for suites that play against a host: the host wire, HTTP, MCP, and agents in processes of
//! their own; and what checks the lines that editors get.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

pub mod acp;
pub mod agent;
pub mod http;
pub mod mcp;
pub mod shape;
pub mod wire;

use std::path::Path;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up on it. Far more than it takes on a machine that builds at the
/// same time: a test that waits in vain fails late, and one that would succeed does not fail.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// A running host that a suite plays against: the built binary, or a server within the test's own process.
pub trait TestHost {
    /// `127.0.0.1:PORT`.
    fn address(&self) -> &str;

    /// Its scratch home, with the Unix socket `run/host.sock`.
    fn home(&self) -> &Path;

    /// A token for an operator called `script`, made once.
    fn token(&self) -> String;
}

/// Looks again and again until there is something to see, within bounds.
pub fn poll<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begin.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

//! The crash test: a host under load is killed again and again, and nothing may be lost.
//!
//! The clients live in this process and outlast every host. What a host acknowledged to one of them is a *promise*;
//! after each kill the file alone is read, and every promise must be in it, once. Readers must have seen what the
//! file holds, in its order. A host that starts again must show the same over the wire.
//! Deliberately absent: agents. A process that used an agent's token is that agent and could answer nothing.

mod answerer;
mod asker;
mod client;
mod host;
mod ledger;
mod load;
mod reader;
mod record;
mod report;
mod schedule;
mod trial;

use std::path::PathBuf;

use anyhow::Result;

pub use countersign_daemon::{AGENT_CRASH_POINTS, PARENT_MESSAGE_CRASH_POINTS};
pub use report::{Progress, Summary};
pub use schedule::Mode;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The binary whose hosts are killed. It must have debug assertions, or it has no crash points.
    pub countersign: PathBuf,
    /// How many hosts are killed under load.
    pub kills: usize,
    /// Where they are killed.
    pub mode: Mode,
    /// Fixes every choice of the test; the machine still times them.
    pub seed: u64,
}

/// Runs the plan. Fails with everything that was found wrong; the home is then kept to look at.
pub async fn run(plan: &Plan, mut progress: impl FnMut(&Progress)) -> Result<Summary> {
    let home = tempfile::tempdir()?;
    let outcome = Box::pin(trial::run(plan, home.path(), &mut progress)).await;
    outcome.map_err(|error| {
        let home = home.keep();
        error.context(format!(
            "seed {} failed; its home is kept in `{}`",
            plan.seed,
            home.display()
        ))
    })
}

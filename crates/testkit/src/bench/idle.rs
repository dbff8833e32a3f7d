//! Idle: the host's memory as it is, without any load.

use anyhow::{Result, ensure};

use super::Target;
use super::report::Row;

/// Refuses without the server's process id: there would be nothing to report.
pub fn run(target: &Target) -> Result<Vec<Row>> {
    ensure!(
        target.server_pid.is_some(),
        "the idle scenario needs the server's process id"
    );
    let mut row = Row::new("idle", "now");
    row.set_memory(target)?;
    Ok(vec![row])
}

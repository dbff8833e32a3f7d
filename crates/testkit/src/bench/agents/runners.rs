//! What memory each runner has for itself alone.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::crew::Crew;
use crate::bench::Target;
use crate::bench::measure::{Process, to_megabytes};
use crate::bench::report::{Metric, Row, plural};

/// What an agent says while its host stands still: more than is ever kept for it.
const FLOOD_UPDATES: u64 = 500_000;
/// An agent that said nothing for so long is held back.
const STILL: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_mins(1);

/// The runners of a host, by its home.
fn find(home: &Path) -> Result<Vec<u32>> {
    let home = home.to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // Processes end while they are looked at.
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        if line.contains("\0runner\0--folder\0") && line.contains(&home) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// What the largest runner has.
pub(super) fn largest(home: &Path, when: &str) -> Result<Row> {
    let runners = find(home)?;
    let mut most = 0;
    for runner in &runners {
        most = Process::new(*runner).private_bytes()?.max(most);
    }
    let case = format!("{}, {when}", plural(runners.len(), "runner"));
    let mut row = Row::new("agents, runners", case);
    row.set(Metric::PrivateMb, to_megabytes(most));
    Ok(row)
}

/// The host stands still while the first agent says more than anybody keeps.
pub(super) async fn held_back(home: &Path, target: &Target, crew: &mut Crew) -> Result<Row> {
    let host = target.server_pid.context("the host's process is known")?;
    let pid = i32::try_from(host).ok().and_then(Pid::from_raw);
    let pid = pid.context("a process has a number")?;
    let steps = json!([{ "updates": { "count": FLOOD_UPDATES, "bytes": 60 } }]);
    crew.one_does(0, &steps).await?;
    kill_process(pid, Signal::STOP)?;
    let still = wait_until_still(home);
    let row = largest(home, "held back");
    kill_process(pid, Signal::CONT)?;
    still?;
    crew.one_rests(0).await?;
    row
}

fn wait_until_still(home: &Path) -> Result<()> {
    let begin = Instant::now();
    let (mut kept, mut since) = (0, Instant::now());
    while since.elapsed() < STILL {
        ensure!(begin.elapsed() < PATIENCE, "the agent is not held back");
        std::thread::sleep(Duration::from_millis(50));
        let now = spilled(&home.join("runners"));
        if now != kept {
            (kept, since) = (now, Instant::now());
        }
    }
    Ok(())
}

/// How much runners keep in files.
fn spilled(runners: &Path) -> u64 {
    let folders = std::fs::read_dir(runners).into_iter().flatten().flatten();
    let files = folders.map(|folder| folder.path().join("spill").metadata());
    files.flatten().map(|file| file.len()).sum()
}

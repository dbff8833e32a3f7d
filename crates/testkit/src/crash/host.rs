//! The hosts that are killed: one after the other, in the same home.

use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::schedule::Kill;
use crate::host::{HostProcess, POLL, free_address, up};

const SIGKILL: i32 = 9;
/// Lines of a host's output that are shown when it ends by itself.
const LINES_SHOWN: usize = 20;

/// What became of a host that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Alive,
    Killed,
}

/// A host that runs, or has just been killed.
pub(super) struct CrashHost {
    process: HostProcess,
    errors: PathBuf,
}

impl CrashHost {
    pub(super) fn start(countersign: &Path, home: &Path, kill: Option<Kill>) -> Result<Self> {
        let errors = home.join("host.err");
        let address = free_address()?;
        let mut command = up(countersign, home, address);
        command
            .env("COUNTERSIGN_LOG", "warn")
            .env("COUNTERSIGN_EXPIRY_HOLD_MS", "100")
            .envs(kill.and_then(Kill::to_environment))
            .stderr(OpenOptions::new().create(true).append(true).open(&errors)?);
        let process = HostProcess::start(&mut command, address)?;
        Ok(Self { process, errors })
    }

    pub(super) fn url(&self) -> String {
        self.process.url()
    }

    /// Waits until the host is ready, or killed.
    pub(super) async fn ready(&mut self) -> Result<Phase> {
        let ended = self.process.ready().await?;
        self.check_end(ended)
    }

    /// How long ago it was started.
    pub(super) fn age(&self) -> Duration {
        self.process.began.elapsed()
    }

    /// Waits for the host to kill itself.
    pub(super) async fn killed_within(&mut self, limit: Duration) -> Result<Phase> {
        let began = Instant::now();
        loop {
            let ended = self.process.ended()?;
            let phase = self.check_end(ended)?;
            if phase == Phase::Killed || began.elapsed() >= limit {
                return Ok(phase);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    pub(super) fn kill(mut self) -> Result<()> {
        let status = self.process.kill()?;
        self.check_end(Some(status))?;
        Ok(())
    }

    /// A host that ended in any other way than by SIGKILL has failed.
    fn check_end(&self, ended: Option<ExitStatus>) -> Result<Phase> {
        let Some(status) = ended else {
            return Ok(Phase::Alive);
        };
        if status.signal() == Some(SIGKILL) {
            return Ok(Phase::Killed);
        }
        let printed = std::fs::read_to_string(&self.errors).unwrap_or_default();
        let lines: Vec<&str> = printed.lines().collect();
        let newest = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
        bail!("a host ended by itself, {status}:\n{}", newest.join("\n"))
    }
}

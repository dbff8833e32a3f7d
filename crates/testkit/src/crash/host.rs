//! The hosts that are killed: one after the other, in the same home.
//!
//! Invariant: every host started here is ended here, by its own process id.

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::random::Random;
use super::schedule::Kill;
use crate::tokens::create_token;

/// Far past what a start takes, even on a busy machine.
const READY_WITHIN: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(1);
/// Below the ports that the kernel gives to outgoing connections, so that none of those takes the host's.
const PORTS: std::ops::RangeInclusive<u64> = 12_000..=31_999;
const SIGKILL: i32 = 9;

/// What became of a host that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Alive,
    Killed,
}

/// Where hosts live.
pub(super) struct Home<'a> {
    pub(super) path: &'a Path,
    pub(super) countersign: &'a Path,
}

impl Home<'_> {
    pub(super) fn database(&self) -> PathBuf {
        self.path.join("countersign.db")
    }

    fn errors(&self) -> PathBuf {
        self.path.join("host.err")
    }

    /// What an operator would type to be sure of the record.
    pub(super) fn audit_verify(&self) -> Result<()> {
        let output = Command::new(self.countersign)
            .args(["audit", "verify"])
            .env("COUNTERSIGN_HOME", self.path)
            .stdin(Stdio::null())
            .output()?;
        ensure!(
            output.status.success(),
            "`countersign audit verify`: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// An operator's token, made as its user would.
    pub(super) fn token(&self) -> Result<String> {
        create_token(self.countersign, self.path)
    }
}

/// A host that runs, or has just been killed.
pub(super) struct Host {
    child: Child,
    pub(super) address: SocketAddr,
    began: Instant,
    errors: PathBuf,
}

impl Host {
    pub(super) fn start(home: &Home<'_>, kill: Option<Kill>, ports: &mut Random) -> Result<Self> {
        let address = free_address(ports)?;
        let errors = OpenOptions::new()
            .create(true)
            .append(true)
            .open(home.errors())?;
        let mut command = Command::new(home.countersign);
        command
            .args(["up", "--listen", &address.to_string()])
            .env("COUNTERSIGN_HOME", home.path)
            .env("COUNTERSIGN_LOG", "warn")
            .env("COUNTERSIGN_EXPIRY_HOLD_MS", "100")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors);
        if let Some(crash_at) = kill.and_then(Kill::to_environment) {
            command.env("COUNTERSIGN_CRASH_AT", crash_at);
        }
        let child = command
            .spawn()
            .with_context(|| format!("could not start `{}`", home.countersign.display()))?;
        Ok(Self {
            child,
            address,
            began: Instant::now(),
            errors: home.errors(),
        })
    }

    /// Waits until the host is ready, or killed.
    pub(super) async fn ready(&mut self) -> Result<Phase> {
        while !self.is_ready() {
            if self.poll()? == Phase::Killed {
                return Ok(Phase::Killed);
            }
            ensure!(
                self.began.elapsed() < READY_WITHIN,
                "a host was not ready within {READY_WITHIN:?}"
            );
            tokio::time::sleep(POLL).await;
        }
        Ok(Phase::Alive)
    }

    fn is_ready(&self) -> bool {
        TcpStream::connect(self.address).is_ok()
    }

    /// How long ago it was started.
    pub(super) fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits for the host to be killed by its own hand.
    pub(super) async fn killed_within(&mut self, limit: Duration) -> Result<Phase> {
        let began = Instant::now();
        while self.poll()? == Phase::Alive {
            if began.elapsed() >= limit {
                return Ok(Phase::Alive);
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(Phase::Killed)
    }

    fn poll(&mut self) -> Result<Phase> {
        match self.child.try_wait()? {
            None => Ok(Phase::Alive),
            Some(status) => self.check_end(status).map(|()| Phase::Killed),
        }
    }

    fn check_end(&self, status: ExitStatus) -> Result<()> {
        if status.signal() == Some(SIGKILL) {
            return Ok(());
        }
        let said = std::fs::read_to_string(&self.errors).unwrap_or_default();
        let newest: Vec<_> = said.lines().rev().take(20).collect();
        let newest: Vec<_> = newest.into_iter().rev().collect();
        bail!("a host ended by itself, {status}:\n{}", newest.join("\n"))
    }

    /// Ends the host as a power cut would.
    pub(super) fn kill(mut self) -> Result<()> {
        // It may have ended itself in this very moment.
        drop(self.child.kill());
        let status = self.child.wait()?;
        self.check_end(status)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn free_address(ports: &mut Random) -> Result<SocketAddr> {
    for _ in 0..100 {
        let port = u16::try_from(ports.within(PORTS))?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("no port is free")
}

/// So that two runs in one home cannot be mixed up, the folder must hold no record yet.
pub(super) fn refuse_used(home: &Home<'_>) -> Result<()> {
    ensure!(
        File::open(home.database()).is_err(),
        "`{}` holds a record already",
        home.path.display()
    );
    Ok(())
}

//! Hosts as child processes, for the bench and the crash test.
//!
//! Invariant: every host started here is ended here, by its own process id.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::random::Random;

/// Far longer than a start takes, even on a busy machine.
const READY_WITHIN: Duration = Duration::from_mins(1);
pub(crate) const POLL: Duration = Duration::from_millis(1);
/// Below the ports that the kernel gives to outgoing connections, so that none of those takes the host's.
const PORTS: std::ops::RangeInclusive<u64> = 12_000..=31_999;

/// A host that runs, or has just ended.
#[derive(Debug)]
pub(crate) struct HostProcess {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) began: Instant,
}

impl HostProcess {
    /// Starts a program that is to listen on `address`.
    pub(crate) fn start(command: &mut Command, address: SocketAddr) -> Result<Self> {
        let began = Instant::now();
        let child = command
            // What a sandbox costs is measured apart, with profiles that are named.
            .env("COUNTERSIGN_SANDBOX", "open")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("could not start {command:?}"))?;
        Ok(Self {
            child,
            address,
            began,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/", self.address)
    }

    /// Waits until the host accepts connections; its exit status if it ended before.
    pub(crate) async fn ready(&mut self) -> Result<Option<ExitStatus>> {
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.ended()? {
                return Ok(Some(status));
            }
            ensure!(
                self.began.elapsed() < READY_WITHIN,
                "a host was not ready within {READY_WITHIN:?}"
            );
            tokio::time::sleep(POLL).await;
        }
        Ok(None)
    }

    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Ends the host as a power cut would.
    pub(crate) fn kill(&mut self) -> Result<ExitStatus> {
        // It may have ended itself at this very moment.
        drop(self.child.kill());
        Ok(self.child.wait()?)
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        drop(self.kill());
    }
}

/// `countersign up` in a home, to which the caller may add.
pub(crate) fn up(countersign: &Path, home: &Path, address: SocketAddr) -> Command {
    let mut command = Command::new(countersign);
    command
        .args(["up", "--listen", &address.to_string()])
        .env("COUNTERSIGN_HOME", home);
    command
}

/// An address that nothing listens on at this moment.
pub(crate) fn free_address() -> Result<SocketAddr> {
    // Not seeded, so that two runs side by side do not try the same ports.
    let mut ports = Random::unseeded();
    for _ in 0..100 {
        let port = u16::try_from(ports.within(PORTS))?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("no port is free")
}

/// Makes an operator's token for the host whose home this is, as a user would.
pub(crate) fn create_token(countersign: &Path, home: &Path) -> Result<String> {
    let arguments = "token create --role operator --name script --expires 24h";
    Ok(run(countersign, home, arguments)?.trim().to_owned())
}

/// The output of a `countersign` command that must succeed.
pub(crate) fn run(countersign: &Path, home: &Path, arguments: &str) -> Result<String> {
    let output = Command::new(countersign)
        .args(arguments.split(' '))
        .env("COUNTERSIGN_HOME", home)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not run `countersign {arguments}`"))?;
    let stdout = String::from_utf8(output.stdout)?;
    ensure!(
        output.status.success(),
        "`countersign {arguments}`: {stdout}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(stdout)
}

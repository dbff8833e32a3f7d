//! Hosts to measure: the built binary on its database, and the same server on a store in memory.
//!
//! Invariant: every host started here is ended here, by its own process id.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use countersign_daemon::HostSettings;
use countersign_server::{Server, ServerOptions};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::Target;
use crate::tokens::create_token;

/// What the measured host keeps its record in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Store {
    /// The database, as users run it.
    Sqlite,
    /// Memory alone: the yardstick.
    Memory,
}

/// A host in a scratch home of its own.
#[derive(Debug)]
pub struct Host {
    child: Child,
    address: SocketAddr,
    home: TempDir,
    countersign: PathBuf,
    /// From the start of the process until it answered.
    pub started_in: Duration,
}

impl Host {
    /// Starts a host and waits until it is ready.
    pub fn start(store: Store, countersign: &Path) -> Result<Self> {
        Self::start_in(store, countersign, tempfile::tempdir()?)
    }

    /// Starts a host on what is in `home` already.
    pub fn start_in(store: Store, countersign: &Path, home: TempDir) -> Result<Self> {
        let address = free_address()?;
        let began = Instant::now();
        let mut command = match store {
            Store::Sqlite => up(countersign, address),
            Store::Memory => serve_memory(home.path(), address)?,
        };
        let child = command
            .env("COUNTERSIGN_HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("could not start a host")?;
        let mut host = Self {
            child,
            address,
            home,
            countersign: countersign.to_owned(),
            started_in: Duration::ZERO,
        };
        host.wait_until_ready(began)?;
        Ok(host)
    }

    fn wait_until_ready(&mut self, began: Instant) -> Result<()> {
        while TcpStream::connect(self.address).is_err() {
            ensure!(
                self.child.try_wait()?.is_none(),
                "the host ended while it was starting"
            );
            ensure!(
                began.elapsed() < Duration::from_mins(1),
                "the host was not ready in a minute"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        self.started_in = began.elapsed();
        Ok(())
    }

    /// The host as the load client sees it.
    pub fn target(&self) -> Result<Target> {
        let token = create_token(&self.countersign, self.home.path())?;
        Ok(Target {
            url: format!("ws://{}/", self.address),
            token: Some(token),
            server_pid: Some(self.child.id()),
        })
    }

    /// Ends the host and gives its home to a next one.
    pub fn end(mut self) -> Result<TempDir> {
        self.child.kill()?;
        self.child.wait()?;
        let home = std::mem::replace(&mut self.home, tempfile::tempdir()?);
        Ok(home)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have been ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn up(countersign: &Path, address: SocketAddr) -> Command {
    let mut command = Command::new(countersign);
    command
        .args(["up", "--listen", &address.to_string()])
        .stderr(Stdio::null());
    command
}

fn serve_memory(home: &Path, address: SocketAddr) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("serve-memory")
        .arg(home)
        .arg(address.to_string());
    Ok(command)
}

/// An address nobody listens on at this moment.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Serves from memory until the process is ended: the same loop and doors, without a disk.
pub async fn serve_from_memory(home: &Path, listen: SocketAddr) -> Result<()> {
    let (log, history) = countersign_store::memory::open_memory();
    let (service, mut stopped) =
        countersign_daemon::start(Box::new(log), history, HostSettings::new("memory")).await?;
    let run = home.join("run");
    // The command line trusts only a folder that is its user's alone.
    std::fs::DirBuilder::new().mode(0o700).create(&run)?;
    let options = ServerOptions {
        socket: run.join("host.sock"),
        listen: Some(listen),
        allow_hosts: Vec::new(),
        database: PathBuf::from("memory"),
        agents_alone_ms: countersign_core::limits::RUNNER_PATIENCE_MS,
        unnamed_callers: false,
    };
    let server = Server::open(options, service.clone(), CancellationToken::new()).await?;
    stopped.wait().await;
    drop(server);
    Ok(())
}

//! Hosts to measure: the built binary on its database, and the same server on a store in memory.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail};
use countersign_daemon::HostSettings;
use countersign_protocol::DecideConfirm;
use countersign_server::{Server, ServerOptions, WebOptions};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::Target;
use crate::host::{HostProcess, create_token, free_address, up};

/// What the measured host keeps its record in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Store {
    /// The database, as users run it.
    Sqlite,
    /// Memory alone, to compare with.
    Memory,
}

/// The two programs of one build of this tree.
#[derive(Debug, Clone)]
pub(super) struct HostBuild {
    pub(super) countersign: PathBuf,
    /// Serves from memory.
    bench: PathBuf,
}

impl HostBuild {
    /// The build that this program belongs to, with the given `countersign`.
    pub(super) fn current(countersign: &Path) -> Result<Self> {
        Ok(Self {
            countersign: countersign.to_owned(),
            bench: std::env::current_exe()?,
        })
    }

    /// The build whose programs are in `folder`.
    pub(super) fn in_folder(folder: &Path) -> Self {
        Self {
            countersign: folder.join("countersign"),
            bench: folder.join("bench"),
        }
    }
}

/// A host in a scratch home of its own.
pub(super) struct MeasuredHost {
    process: HostProcess,
    home: TempDir,
    countersign: PathBuf,
    /// From the start of the process until it accepted a connection.
    pub(super) started_in: Duration,
}

impl MeasuredHost {
    /// Starts a host and waits until it is ready.
    pub(super) async fn start(store: Store, build: &HostBuild) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let address = free_address()?;
        let command = match store {
            Store::Sqlite => up(&build.countersign, home.path(), address),
            Store::Memory => serve_memory(&build.bench, home.path(), address),
        };
        Self::wait_for(command, address, &build.countersign, home).await
    }

    /// Starts a host on the database that is in `home` already.
    pub(super) async fn start_in(countersign: &Path, home: TempDir) -> Result<Self> {
        let address = free_address()?;
        let command = up(countersign, home.path(), address);
        Self::wait_for(command, address, countersign, home).await
    }

    async fn wait_for(
        mut command: Command,
        address: SocketAddr,
        countersign: &Path,
        home: TempDir,
    ) -> Result<Self> {
        let mut process = HostProcess::start(command.stderr(Stdio::null()), address)?;
        if let Some(status) = process.ready().await? {
            bail!("the host ended while it was starting, {status}");
        }
        Ok(Self {
            started_in: process.began.elapsed(),
            process,
            home,
            countersign: countersign.to_owned(),
        })
    }

    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The host as the load client sees it.
    pub(super) fn target(&self) -> Result<Target> {
        Ok(Target {
            url: self.process.url(),
            token: Some(create_token(&self.countersign, self.home.path())?),
            server_pid: Some(self.process.pid()),
        })
    }

    /// Ends the host and gives its home to the next one.
    pub(super) fn end(mut self) -> Result<TempDir> {
        self.process.kill()?;
        Ok(self.home)
    }
}

fn serve_memory(bench: &Path, home: &Path, address: SocketAddr) -> Command {
    let mut command = Command::new(bench);
    command
        .arg("serve-memory")
        .arg(home)
        .arg(address.to_string());
    command
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
        web: WebOptions::default(),
        decide_confirm: DecideConfirm::Always,
        screen_files: None,
    };
    let server = Server::open(options, service.clone(), CancellationToken::new()).await?;
    stopped.wait().await;
    drop(server);
    Ok(())
}

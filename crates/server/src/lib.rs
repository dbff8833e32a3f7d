//! The doors: JSON-RPC over WebSocket, REST with SSE, MCP, and the few pages around them, on TCP and
//! on the Unix socket alike. Each translates the wire to [`Service`] and back.
//!
//! Invariants: nobody is served before it is known who they are; every queue and frame has a
//! bound; shutdown is one path, by one token.
#![forbid(unsafe_code)]

mod api_error;
mod auth;
mod capacity;
mod convert;
mod events;
mod listen;
mod login_tickets;
mod mcp;
mod metrics;
mod ops;
mod origin_guard;
mod peer;
mod recheck_caller;
mod request_length;
mod request_log;
mod rest;
mod rpc;
mod server_state;
mod session;
mod strict;
mod web;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use countersign_core::Caller;
use countersign_daemon::Service;
use tokio_util::sync::CancellationToken;

pub(crate) use server_state::ServerState;

/// Where and for whom the doors open.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The Unix socket; its folder must be the user's alone.
    pub socket: PathBuf,
    /// The TCP address, if there is to be one.
    pub listen: Option<SocketAddr>,
    /// Names besides the loopback ones under which requests may come, as through a tunnel.
    pub allow_hosts: Vec<String>,
    /// The database, to be named in the status.
    pub database: PathBuf,
    /// How long agents go on without a host, to be named in the status.
    pub agents_alone_ms: u64,
    /// Whether a token alone counts on TCP where the calling process cannot be named, as through a forwarded port.
    pub unnamed_callers: bool,
}

/// Why the doors could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ServerOpenError {
    /// The address is taken or not ours.
    #[error("could not listen on `{address}`")]
    Listen {
        /// The address or path.
        address: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Only loopback addresses are served.
    #[error(
        "`{0}` is not a loopback address: put a tunnel in front and name it with `--allow-host`"
    )]
    NotLoopback(SocketAddr),
    /// A host answers on the socket already.
    #[error("a host is already running on `{}`", .0.display())]
    AlreadyRunning(PathBuf),
    /// The service ended before the doors were open.
    #[error("the host ended while it was starting")]
    Ended,
}

/// Open doors.
pub struct Server {
    /// The TCP address that was bound.
    pub address: Option<SocketAddr>,
    shutdown: CancellationToken,
    tasks: tokio_util::task::TaskTracker,
    socket: PathBuf,
    agents_ended_by: Arc<OnceLock<Caller>>,
}

impl Server {
    /// Opens the doors. They are served until `shutdown` is cancelled.
    pub async fn open(
        options: ServerOptions,
        service: Service,
        shutdown: CancellationToken,
    ) -> Result<Self, ServerOpenError> {
        listen::open(options, service, shutdown).await
    }

    /// Waits until the doors are told to close, then until those inside have left or their time is
    /// over. Gives back who wanted the agents to end too, if somebody did: some may have been started
    /// while the last doors closed.
    pub async fn wait_closed(self) -> Option<Caller> {
        self.shutdown.cancelled().await;
        self.tasks.close();
        let limit = std::time::Duration::from_millis(countersign_core::limits::SHUTDOWN_MS);
        if tokio::time::timeout(limit, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("some connections did not end in time");
        }
        // Somebody may have removed it already.
        drop(std::fs::remove_file(&self.socket));
        self.agents_ended_by.get().cloned()
    }
}

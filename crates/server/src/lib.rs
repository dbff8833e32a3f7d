//! The doors: JSON-RPC over WebSocket, REST with SSE, MCP, and a few pages, on TCP and on the Unix
//! socket alike. Each translates the wire to [`Service`] and back.
//!
//! Invariants: no caller is served before it is identified; every queue and frame has a bound; one
//! token ends everything.
#![forbid(unsafe_code)]

mod api_error;
mod auth;
mod capacity;
mod convert;
mod events;
mod figures;
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
mod screen_files;
mod server_state;
mod session;
mod strict;
mod web;
mod web_assets;
mod web_options;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use countersign_core::Caller;
use countersign_daemon::Service;
use countersign_protocol::DecideConfirm;
use tokio_util::sync::CancellationToken;

pub use screen_files::{ScreenFiles, ScreenLayout};
pub(crate) use server_state::ServerState;
pub use web_options::{PublicUrl, WebOptions};

/// Where a server listens, and whom it accepts.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The Unix socket. No other user may have access to its directory.
    pub socket: PathBuf,
    /// The TCP address; `None` for the Unix socket alone.
    pub listen: Option<SocketAddr>,
    /// Names besides the loopback ones that requests may be addressed to, as through a tunnel.
    pub allow_hosts: Vec<String>,
    /// The database, as the status shows it.
    pub database: PathBuf,
    /// How long agents keep running without a host, as the status shows it.
    pub agents_alone_ms: u64,
    /// Whether a token alone is enough on TCP if the calling process cannot be identified, as
    /// through a forwarded port.
    pub unnamed_callers: bool,
    pub web: WebOptions,
    /// Which allows need a second act on a screen that answers, as the status shows it.
    pub decide_confirm: DecideConfirm,
    /// Where allowed proposals of agents about screens are kept; without it they are refused.
    pub screen_files: Option<Arc<dyn ScreenFiles>>,
}

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerOpenError {
    /// The address is in use, or does not belong to this machine.
    #[error("could not listen on `{address}`")]
    Listen {
        /// The address or path.
        address: String,
        #[source]
        source: io::Error,
    },
    /// Only loopback addresses are served.
    #[error(
        "`{0}` is not a loopback address: put a tunnel in front and name it with `--allow-host`"
    )]
    NotLoopback(SocketAddr),
    /// Another host answers on the Unix socket.
    #[error("a host is already running on `{}`", .0.display())]
    AlreadyRunning(PathBuf),
    /// The service ended before the server had started.
    #[error("the host ended while it was starting")]
    Ended,
}

/// A server that is running.
pub struct Server {
    /// The TCP address that was bound.
    pub address: Option<SocketAddr>,
    shutdown: CancellationToken,
    tasks: tokio_util::task::TaskTracker,
    socket: PathBuf,
    agents_ended_by: Arc<OnceLock<Caller>>,
}

impl Server {
    /// Starts to listen. Connections are served until `shutdown` is cancelled.
    pub async fn open(
        options: ServerOptions,
        service: Service,
        shutdown: CancellationToken,
    ) -> Result<Self, ServerOpenError> {
        listen::open(options, service, shutdown).await
    }

    /// Waits for the shutdown, and then until all connections have ended or their time is over.
    /// Returns the caller that wanted the agents to end too, if there was one: some may have been
    /// started while the last connections ended.
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

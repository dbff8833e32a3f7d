//! The host: everything that `up` runs until it is told to end.

use std::net::SocketAddr;

use crate::paths::Paths;

/// What the host needs to know before it starts.
pub(crate) struct HostOptions {
    /// Where its files are.
    pub(crate) paths: Paths,
    /// Where it listens for TCP; `None` for the Unix socket alone.
    pub(crate) listen: Option<SocketAddr>,
    /// Names besides loopback under which it may be reached.
    pub(crate) allow_hosts: Vec<String>,
}

/// Runs until it is told to end; calls `ready` once every door is open.
#[expect(
    clippy::unused_async,
    reason = "the host that waits here is not part of this crate yet"
)]
pub(crate) async fn run(options: HostOptions, ready: impl FnOnce()) -> anyhow::Result<()> {
    drop(ready);
    let HostOptions {
        paths,
        listen,
        allow_hosts,
    } = options;
    anyhow::bail!(
        "this build has no host (socket `{}`, listen {listen:?}, allowed hosts {allow_hosts:?})",
        paths.socket.display()
    )
}

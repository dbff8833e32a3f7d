//! The one way out of an agent's sandbox: programs connect to the listener in its network, and the runner dials.
//!
//! A name is asked about first and looked up afterwards, so that not even a question about it leaves the machine
//! before it was allowed. What it leads to is dialled as it was found; a name that leads only to this machine or to
//! a private network is asked about again, by its address.
//!
//! Invariants: nothing is dialled that neither the plan nor a host allowed; what was judged is what is dialled.

mod request;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use countersign_core::limits::{
    NETWORK_CONNECTIONS_MAX, NETWORK_DIAL_MS, NETWORK_HEAD_BYTES_MAX, NETWORK_HEAD_MS,
    RUNNER_LAUNCH_MS,
};
use countersign_sandbox::{AgentNetwork, NetworkNamespaces, receive_network};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Runner;
use super::holds::{HeldTarget, HoldOutcome};
use crate::stream::receive_once;
pub use request::{ConnectHost, ConnectTarget};
use request::{HttpRequest, Malformed, SOCKS_VERSION};

/// The network that an agent's other programs join, once there is one.
pub(crate) type SharedNetwork = Arc<OnceLock<NetworkNamespaces>>;

/// Serves the programs of one agent.
#[derive(Debug)]
pub(super) struct NetworkProxy {
    pub(super) runner: Arc<Runner>,
    /// Names that need no ask.
    pub(super) domains: Vec<String>,
    /// Ports of this machine that need none either.
    pub(super) local_ports: Vec<u16>,
    /// How long a connection waits for a word.
    pub(super) hold: Duration,
    pub(super) network: SharedNetwork,
}

impl NetworkProxy {
    /// Takes the listener that comes through `from`, and serves until the agent is gone.
    pub(super) async fn run(self, from: OwnedFd, gone: CancellationToken) {
        let wait = Duration::from_millis(RUNNER_LAUNCH_MS);
        let received = tokio::select! {
            received = timeout(wait, receive_once(from, |from| receive_network(from, self.local_ports.len()))) => received,
            () = gone.cancelled() => return,
        };
        let listeners = received
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .and_then(|made| self.take(made));
        let listeners = match listeners {
            Ok(listeners) => listeners,
            // Its programs have no network at all then.
            Err(error) => return tracing::warn!(%error, "the network of a sandbox was not made"),
        };
        let proxy = Arc::new(self);
        let room = Arc::new(Semaphore::new(NETWORK_CONNECTIONS_MAX));
        let accepting = listeners.into_iter().map(|(listener, leads_to)| {
            let accepted = proxy
                .clone()
                .accept(listener, leads_to, room.clone(), gone.clone());
            proxy
                .runner
                .tree
                .tasks()
                .spawn(gone.clone().run_until_cancelled_owned(accepted))
        });
        for accepted in accepting.collect::<Vec<_>>() {
            drop(accepted.await);
        }
    }

    fn take(&self, made: AgentNetwork) -> io::Result<Vec<(TcpListener, ListenerTarget)>> {
        let ports = self
            .local_ports
            .iter()
            .map(|port| ListenerTarget::Local(*port));
        let targets = [ListenerTarget::Wanted].into_iter().chain(ports);
        let listeners = [made.listener].into_iter().chain(made.local).zip(targets);
        let listeners = listeners.map(|(listener, target)| {
            listener.set_nonblocking(true)?;
            Ok((TcpListener::from_std(listener)?, target))
        });
        let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
        // Set once: an agent has one network.
        drop(self.network.set(made.namespaces));
        Ok(listeners)
    }

    async fn accept(
        self: Arc<Self>,
        listener: TcpListener,
        leads_to: ListenerTarget,
        room: Arc<Semaphore>,
        gone: CancellationToken,
    ) {
        loop {
            // Without room new connections wait in the queue of the kernel.
            let Ok(turn) = room.clone().acquire_owned().await else {
                return;
            };
            let Ok((stream, _)) = listener.accept().await else {
                // Out of descriptors, most likely: not to be tried again at once.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (proxy, gone) = (self.clone(), gone.clone());
            self.runner.tree.tasks().spawn(async move {
                let served = gone
                    .run_until_cancelled(proxy.serve(stream, leads_to))
                    .await;
                if let Some(Err(error)) = served {
                    tracing::debug!(%error, "a connection out of a sandbox ended");
                }
                drop(turn);
            });
        }
    }

    async fn serve(&self, stream: TcpStream, leads_to: ListenerTarget) -> io::Result<()> {
        match leads_to {
            ListenerTarget::Wanted => self.serve_wanted(stream).await,
            ListenerTarget::Local(port) => forward(stream, port).await,
        }
    }

    async fn serve_wanted(&self, mut stream: TcpStream) -> io::Result<()> {
        let wait = Duration::from_millis(NETWORK_HEAD_MS);
        let Ok(read) = timeout(wait, read_request(&mut stream)).await else {
            return Ok(());
        };
        let Some(wanted) = read? else {
            return Ok(());
        };
        let server = match self.connect(&wanted.target).await {
            Ok(server) => server,
            Err(refusal) => return stream.write_all(&wanted.refuse(refusal)).await,
        };
        self.copy(stream, server, wanted).await
    }

    async fn copy(
        &self,
        mut stream: TcpStream,
        mut server: TcpStream,
        wanted: WantedConnection,
    ) -> io::Result<()> {
        match wanted.speaks {
            SpokenProtocol::Tunnel => stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?,
            SpokenProtocol::Socks => stream.write_all(&socks_reply(0)).await?,
            SpokenProtocol::Forward => {}
        }
        server.write_all(&wanted.early).await?;
        copy_bidirectional(&mut stream, &mut server).await?;
        Ok(())
    }

    /// Dials a place, after it was judged.
    async fn connect(&self, target: &ConnectTarget) -> Result<TcpStream, ConnectRefusal> {
        let wait = Duration::from_millis(NETWORK_DIAL_MS);
        let addresses = match &target.host {
            ConnectHost::Address(address) => {
                self.judge(target).await?;
                vec![SocketAddr::new(*address, target.port)]
            }
            ConnectHost::Domain(name) => {
                if !self.is_listed(name) {
                    self.judge(target).await?;
                }
                let found = timeout(wait, lookup_host((name.as_str(), target.port))).await;
                let found = found.map_err(|_| ConnectRefusal::Unreachable)?;
                let found = found.map_err(|_| ConnectRefusal::Unreachable)?.collect();
                self.choose(found).await?
            }
        };
        for address in addresses {
            if let Ok(Ok(server)) = timeout(wait, TcpStream::connect(address)).await {
                return Ok(server);
            }
        }
        Err(ConnectRefusal::Unreachable)
    }

    /// What is dialled of what a name leads to.
    async fn choose(&self, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, ConnectRefusal> {
        let public: Vec<_> = found
            .iter()
            .copied()
            .filter(|address| is_public(address.ip()))
            .collect();
        // Private addresses beside public ones are left out: whoever owns a name may let it lead to
        // machines nearby.
        if !public.is_empty() {
            return Ok(public);
        }
        let first = found.first().ok_or(ConnectRefusal::Unreachable)?;
        let target = ConnectTarget {
            host: ConnectHost::Address(first.ip().to_canonical()),
            port: first.port(),
        };
        self.judge(&target).await?;
        // Only the one that was judged.
        Ok(vec![*first])
    }

    fn is_listed(&self, name: &str) -> bool {
        self.domains
            .iter()
            .any(|listed| match listed.strip_prefix("*.") {
                // The dot is part of the comparison: `*.example.org` must not stand for
                // `badexample.org`.
                Some(above) => name
                    .strip_suffix(above)
                    .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
                None => listed == name,
            })
    }

    /// Waits for a host's word.
    async fn judge(&self, target: &ConnectTarget) -> Result<(), ConnectRefusal> {
        let target = HeldTarget::Connect(target.clone());
        match self.runner.wait_for_word(target, self.hold).await {
            HoldOutcome::Allowed => Ok(()),
            HoldOutcome::Denied => Err(ConnectRefusal::Denied),
            HoldOutcome::NotDecided => Err(ConnectRefusal::NotDecided),
            HoldOutcome::TooMany => Err(ConnectRefusal::TooMany),
        }
    }
}

/// Where connections to a listener lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListenerTarget {
    /// To what the program says.
    Wanted,
    /// To this port of the machine.
    Local(u16),
}

/// If nobody listens there, the program finds its connection closed.
async fn forward(mut stream: TcpStream, port: u16) -> io::Result<()> {
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    copy_bidirectional(&mut stream, &mut server).await?;
    Ok(())
}

/// Whether an address belongs to somebody on the internet. Everything else is a machine or a service nearby.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_shared = first == 100 && (64..128).contains(&second);
    let is_special = first == 0
        || first >= 240
        || (first == 192 && second == 0 && third == 0)
        || (first == 198 && (18..20).contains(&second));
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || is_shared
        || is_special)
}

/// Only what is given out, without ways to write an IPv4 address in it.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_given_out = first & 0xe000 == 0x2000;
    let holds_v4 = first == 0x2002 || (first == 0x2001 && second == 0);
    let is_documentation = first == 0x2001 && second == 0xdb8;
    is_given_out && !holds_v4 && !is_documentation
}

/// Why a connection was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectRefusal {
    Denied,
    NotDecided,
    TooMany,
    Unreachable,
}

/// What a program wants.
#[derive(Debug)]
struct WantedConnection {
    target: ConnectTarget,
    speaks: SpokenProtocol,
    /// What the server gets first.
    early: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpokenProtocol {
    Tunnel,
    Forward,
    Socks,
}

impl WantedConnection {
    fn refuse(&self, refusal: ConnectRefusal) -> Vec<u8> {
        if self.speaks == SpokenProtocol::Socks {
            // The codes of RFC 1928, section 6: 2 is a refusal by rules, 4 an unreachable host, and
            // 1 any other failure.
            return socks_reply(match refusal {
                ConnectRefusal::Denied | ConnectRefusal::NotDecided => 2,
                ConnectRefusal::TooMany => 1,
                ConnectRefusal::Unreachable => 4,
            })
            .to_vec();
        }
        let (status, why) = match refusal {
            ConnectRefusal::Denied => ("403 Forbidden", "this connection was denied"),
            ConnectRefusal::NotDecided => (
                "504 Gateway Timeout",
                "nobody has decided about this connection yet; try again later",
            ),
            ConnectRefusal::TooMany => (
                "503 Service Unavailable",
                "too many connections wait for a decision",
            ),
            ConnectRefusal::Unreachable => ("502 Bad Gateway", "the server cannot be reached"),
        };
        http_reply(status, why)
    }
}

fn http_reply(status: &str, why: &str) -> Vec<u8> {
    let length = why.len() + 1;
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{why}\n"
    )
    .into_bytes()
}

/// A reply without the address that was dialled, which no program needs.
fn socks_reply(code: u8) -> [u8; 10] {
    [SOCKS_VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// Reads what a program wants. Nothing if it was told already that it is not understood, or went away.
async fn read_request(stream: &mut TcpStream) -> io::Result<Option<WantedConnection>> {
    let mut buffer = Vec::new();
    if !read_more(stream, &mut buffer).await? {
        return Ok(None);
    }
    if buffer[0] == SOCKS_VERSION {
        return read_socks(stream, buffer).await;
    }
    loop {
        match request::parse_http(&buffer) {
            Ok(Some((wanted, length))) => return Ok(Some(take_http(wanted, &buffer[length..]))),
            Ok(None) if read_more(stream, &mut buffer).await? => {}
            Ok(None) => return Ok(None),
            Err(Malformed) => {
                let reply = http_reply("400 Bad Request", "the request is not understood");
                stream.write_all(&reply).await?;
                return Ok(None);
            }
        }
    }
}

fn take_http(wanted: HttpRequest, rest: &[u8]) -> WantedConnection {
    let (target, speaks, mut early) = match wanted {
        HttpRequest::Connect(target) => (target, SpokenProtocol::Tunnel, Vec::new()),
        HttpRequest::Forward(target, head) => (target, SpokenProtocol::Forward, head),
    };
    early.extend_from_slice(rest);
    WantedConnection {
        target,
        speaks,
        early,
    }
}

async fn read_socks(
    stream: &mut TcpStream,
    mut buffer: Vec<u8>,
) -> io::Result<Option<WantedConnection>> {
    const NO_METHOD: u8 = 0xff;
    let length = loop {
        match request::parse_socks_methods(&buffer) {
            Ok(Some((true, length))) => break length,
            Ok(None) => {
                if !read_more(stream, &mut buffer).await? {
                    return Ok(None);
                }
            }
            Ok(Some((false, _))) | Err(Malformed) => {
                stream.write_all(&[SOCKS_VERSION, NO_METHOD]).await?;
                return Ok(None);
            }
        }
    };
    stream.write_all(&[SOCKS_VERSION, 0]).await?;
    buffer.drain(..length);
    loop {
        match request::parse_socks_request(&buffer) {
            Ok(Some((target, length))) => {
                return Ok(Some(WantedConnection {
                    target,
                    speaks: SpokenProtocol::Socks,
                    early: buffer.split_off(length),
                }));
            }
            Ok(None) if read_more(stream, &mut buffer).await? => {}
            Ok(None) => return Ok(None),
            Err(Malformed) => {
                stream.write_all(&socks_reply(7)).await?;
                return Ok(None);
            }
        }
    }
}

/// False at the end, or when more came than any head needs.
async fn read_more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<bool> {
    let room = NETWORK_HEAD_BYTES_MAX.saturating_sub(buffer.len());
    let limit = u64::try_from(room).unwrap_or_default();
    Ok(stream.take(limit).read_buf(buffer).await? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for public in ["8.8.8.8", "1.1.1.1", "2606:4700::1111"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for near in [
            "0.0.0.0",
            "10.0.0.5",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:0:1::",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!is_public(near.parse().unwrap()), "{near}");
        }
    }
}

//! The network namespace of an agent: nothing but loopback, and on it listeners, which are handed out to the runner.
//!
//! Invariant: whoever enters has no other network; if any step fails the program is not run.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use crate::descriptor_passing;
use crate::plan::PROXY_PORT;
use crate::system_calls::{self, NewNamespaces};

/// Variables by which programs find a proxy.
const PROXY_VARIABLES: [&str; 6] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
];

/// What the runner gets of a namespace that was made.
#[derive(Debug)]
pub struct AgentNetwork {
    /// Where programs of the agent connect.
    pub listener: TcpListener,
    /// Where they connect to ports of this machine, in the order of the plan.
    pub local: Vec<TcpListener>,
    pub namespaces: NetworkNamespaces,
}

/// What the other programs of an agent join.
#[derive(Debug)]
pub struct NetworkNamespaces {
    /// The user namespace that owns the network, if one had to be made for it.
    pub user: Option<OwnedFd>,
    pub network: OwnedFd,
}

/// Makes a network, and hands its listeners to whoever holds the other end of `runner`.
pub(crate) fn make(runner: &OwnedFd, local_ports: &[u16]) -> io::Result<()> {
    let has_user = make_namespaces()?;
    system_calls::raise_loopback()?;
    let ports = [PROXY_PORT].iter().chain(local_ports);
    let listeners = ports.map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)));
    let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
    let network = std::fs::File::open("/proc/self/ns/net")?;
    let user = has_user
        .then(|| std::fs::File::open("/proc/self/ns/user"))
        .transpose()?;
    let mut descriptors: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
    descriptors.push(network.as_fd());
    descriptors.extend(user.as_ref().map(AsFd::as_fd));
    descriptor_passing::send(runner, &descriptors)
}

/// Without privileges a network needs a user namespace that owns it.
fn make_namespaces() -> io::Result<bool> {
    match system_calls::make_namespaces(NewNamespaces::Network) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
        made => return made.map(|()| false),
    }
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    system_calls::make_namespaces(NewNamespaces::UserAndNetwork)?;
    // The same numbers inside as outside; without this no group can be mapped.
    std::fs::write("/proc/self/setgroups", "deny")?;
    let same = |number: u32| format!("{number} {number} 1");
    std::fs::write("/proc/self/uid_map", same(user.as_raw()))?;
    std::fs::write("/proc/self/gid_map", same(group.as_raw()))?;
    Ok(true)
}

/// Enters a network that another program of the same agent made.
pub(crate) fn join(namespaces: &NetworkNamespaces) -> io::Result<()> {
    // The owner first: entering the network needs its rights.
    if let Some(user) = &namespaces.user {
        system_calls::join_descriptor(user)?;
    }
    system_calls::join_descriptor(&namespaces.network)
}

/// Takes what [`make`] sent for a plan with that many local ports, without waiting.
pub fn receive_network(from: &OwnedFd, local_ports: usize) -> io::Result<AgentNetwork> {
    let mut descriptors = descriptor_passing::receive(from)?.into_iter();
    let listener = descriptors.next();
    let local: Vec<TcpListener> = descriptors
        .by_ref()
        .take(local_ports)
        .map(Into::into)
        .collect();
    match (listener, descriptors.next()) {
        (Some(listener), Some(network)) => Ok(AgentNetwork {
            listener: listener.into(),
            local,
            namespaces: NetworkNamespaces {
                network,
                user: descriptors.next(),
            },
        }),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// What tells programs to use the listener. Programs of the same agent reach each other without it.
pub(crate) fn proxy_environment() -> impl Iterator<Item = (&'static str, String)> {
    let proxy = PROXY_VARIABLES
        .into_iter()
        .map(|name| (name, format!("http://{}:{PROXY_PORT}", Ipv4Addr::LOCALHOST)));
    let none = ["NO_PROXY", "no_proxy"].map(|name| (name, "127.0.0.1,localhost,::1".to_owned()));
    // Node's own `fetch` looks at the variables only if it is told to.
    proxy
        .chain(none)
        .chain([("NODE_USE_ENV_PROXY", "1".to_owned())])
}

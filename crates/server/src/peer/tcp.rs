//! The processes at the client end of a TCP connection from this machine.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use super::holders::Holders;
use super::socket::SocketTable;

/// What is known of a connection's client end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// These processes hold it, in order of their numbers, at least one.
    Held(Vec<u32>),
    /// It exists, and no process whose descriptors we may read holds it.
    Hidden,
    /// Nobody holds it any more, or it never was on this machine.
    Closed,
}

/// Finds who holds the other end of connections, and remembers enough to do so cheaply for many at once.
///
/// Calls block on `/proc` for as long as reading all descriptors of all processes takes, so not on an async thread.
#[derive(Debug, Default)]
pub(crate) struct TcpPeers {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sockets: SocketTable,
    holders: Holders,
}

impl TcpPeers {
    /// The processes of [`Found::Held`], or none.
    #[cfg(test)]
    pub(crate) fn find(&self, peer: SocketAddr, local: SocketAddr) -> Vec<u32> {
        match self.look_up(peer, local) {
            Found::Held(pids) => pids,
            Found::Hidden | Found::Closed => Vec::new(),
        }
    }

    /// Who holds the socket bound to `peer` and connected to `local`, both as the accepting side sees them.
    ///
    /// Each process named held it during the call. Those that inherited it are named too; one that was handed it by an
    /// unrelated process may be missed.
    pub(crate) fn look_up(&self, peer: SocketAddr, local: SocketAddr) -> Found {
        // What a panicking thread left is still only a memory, and every answer from it is verified.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let inode = match state.sockets.find_inode(peer, local) {
            Ok(Some(inode)) => inode,
            Ok(None) => return Found::Closed,
            Err(_) => return Found::Hidden,
        };
        let pids = state.holders.find(inode);
        if !pids.is_empty() {
            return Found::Held(pids);
        }
        match state.sockets.find_inode(peer, local) {
            Ok(Some(same)) if same == inode => Found::Hidden,
            Err(_) => Found::Hidden,
            Ok(_) => Found::Closed,
        }
    }
}
